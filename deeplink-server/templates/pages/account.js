// What the account pages gain from a script: buttons that copy, and one checkbox for all. Everything else works without it.
// Pages with charts, the form of a link and the list of links have more (reports.js, link_form.js, link_list.js).
(() => {
  // The buttons are part of the page and are shown before it is painted, so that nothing moves.
  document.documentElement.className = "js";

  // A page that came over plain http has no clipboard: there the text is selected and copied as by hand.
  const copy = async (source) => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      return true;
    } catch {
      getSelection().selectAllChildren(source);
      return document.execCommand("copy");
    }
  };

  // A button copies what stands before it.
  const timers = new WeakMap();
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest(".copy");
    if (!button) return;
    const [label, subject] = button.childNodes;
    const copied = await copy(button.previousElementSibling);
    label.data = copied ? "Copied" : "Selected";
    document.getElementById("said").textContent = label.data + subject.textContent;
    clearTimeout(timers.get(button));
    timers.set(button, setTimeout(() => { label.data = "Copy"; }, 2000));
  });

  // A checkbox selects all rows of its form, and shows whether all of them are.
  const select = ({ target }) => {
    const all = document.getElementById("all");
    if (!all || (target.form ?? all.form) !== all.form) return;
    const rows = [...all.form.querySelectorAll("[name=link]")];
    if (target === all) for (const row of rows) row.checked = all.checked;
    const count = rows.filter((row) => row.checked).length;
    all.checked = count === rows.length;
    document.getElementById("count").value = count ? count + " selected" : "";
  };
  addEventListener("change", select);
  addEventListener("pageshow", select);
})();
