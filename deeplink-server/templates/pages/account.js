// What the account pages gain from a script: buttons that copy, one checkbox for all, and a list of links that follows its
// search. Everything else works without it.
// Pages with charts and the form of a link have more (reports.js, link_form.js).
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
    if (!all) return;
    const rows = [...all.form.querySelectorAll("[name=link]")];
    if (target === all) for (const row of rows) row.checked = all.checked;
    const count = rows.filter((row) => row.checked).length;
    all.checked = count === rows.length;
    document.getElementById("count").value = count ? count + " selected" : "";
  };
  addEventListener("change", select);
  addEventListener("pageshow", select);

  // The list follows its search: what is below the form is taken from the page that the form asks for.
  let timer;
  let latest;
  const follow = async (form) => {
    const query = [...new FormData(form)].filter(([, value]) => value);
    const url = form.action + (query.length ? "?" : "") + new URLSearchParams(query);
    latest = url;
    const answer = await fetch(url).catch(() => {});
    if (latest !== url || !answer?.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector(".search");
    if (latest !== url || !fresh) return;
    form.querySelector("a")?.remove();
    form.append(...fresh.querySelectorAll("a"));
    while (form.nextSibling) form.nextSibling.remove();
    while (fresh.nextSibling) form.parentNode.append(fresh.nextSibling);
    history.replaceState(null, "", url);
    document.getElementById("said").textContent = document.querySelector("caption, .empty").textContent;
    select({});
  };
  addEventListener("input", ({ target }) => {
    const form = target.closest(".search");
    if (!form) return;
    clearTimeout(timer);
    timer = setTimeout(follow, 300, form);
  });
})();
