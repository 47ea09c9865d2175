// The list of links follows its search. Without a script, the form is submitted.
(() => {
  // What is below the form: the list, or why it is empty, and the links to other pages and lists.
  const PARTS = ".search ~ *";

  const follow = (form) => {
    const said = document.getElementById("said");
    // The form for the selected links. An empty list has none: then it is kept, with its fields as they are, for the next one.
    let many = document.querySelector(".many");
    // Links that are no longer selected because they left the list, since the last change of the selection.
    let dropped = 0;
    let request = new AbortController();
    let timer;
    // Browsers end the requests of a page that is left: that is no failure.
    let isLeaving = false;

    const adopt = (fresh) => {
      if (!fresh.matches(".many")) return fresh;
      if (many) {
        // Its property "action" is a field.
        many.setAttribute("action", fresh.getAttribute("action"));
        many.querySelector(".list").replaceWith(fresh.querySelector(".list"));
      }
      return (many ??= fresh);
    };

    // Links that stay in the list stay selected. Others are deselected: nothing is done to a link that is not shown.
    const reselect = (list, selected) => {
      const rows = list.querySelectorAll("[name=link]");
      for (const row of rows) row.checked = selected.delete(row.value);
      dropped += selected.size;
      dispatchEvent(new Event("change"));
      const count = document.getElementById("count");
      if (count && dropped) count.value = (count.value && count.value + ", ") + dropped + " deselected";
      return rows.length;
    };

    const show = (page) => {
      const { activeElement } = document;
      const selected = new Set([...document.querySelectorAll(".many [name=link]:checked")].map(({ value }) => value));
      const [old, ...others] = document.querySelectorAll(PARTS);
      const [fresh, ...rest] = page.querySelectorAll(PARTS);
      const list = adopt(fresh);
      if (list !== old) old.replaceWith(list);
      for (const other of others) other.remove();
      // What was said of the list before.
      for (const news of document.querySelectorAll("main > .notice, main > [role=alert]")) news.remove();
      document.title = document.title.replace("Error: ", "");
      form.parentNode.append(...rest);
      const all = page.querySelector(".search a");
      if (!all) form.querySelector("a")?.remove();
      else if (!form.querySelector("a")) form.append(all);

      const count = reselect(list, selected);
      const counted = count + (count === 1 ? " link" : " links");
      const more = document.querySelector(".pages") ? " on the first page" : "";
      said.textContent = count ? counted + more : list.textContent.trim();

      if (activeElement.isConnected) return;
      const isTwin = ({ value, href }) => value === activeElement.value && href === activeElement.href;
      const twin = [...list.querySelectorAll(".list :is(a, input)")].find(isTwin);
      (twin ?? document.getElementById("content")).focus({ preventScroll: true });
    };

    const stop = () => {
      clearTimeout(timer);
      request.abort();
      isLeaving = false;
    };

    const load = async () => {
      const query = [...new FormData(form)].filter(([, value]) => value.trim());
      const url = form.action + (query.length ? "?" : "") + new URLSearchParams(query);
      request = new AbortController();
      const { signal } = request;
      said.textContent = "";
      for (const part of document.querySelectorAll(".many > .list, .search ~ .empty")) part.ariaBusy = "true";
      const page = await fetch(url, { signal, redirect: "manual" })
        .then((answer) => (answer.ok ? answer.text() : ""))
        // Without its style sheet, which the policy of this page would report as refused.
        .then((text) => new DOMParser().parseFromString(text.slice(text.indexOf("\x3cmain")), "text/html"))
        .catch(() => {});
      if (signal.aborted) return;
      if (page?.querySelector(PARTS)) {
        history.replaceState(null, "", url);
        show(page);
      } else if (!isLeaving) {
        // The service says what is wrong, or asks to sign in.
        location.assign(url);
      }
    };

    // A composed text is searched for once it is complete.
    const schedule = ({ isComposing }) => {
      stop();
      if (!isComposing) timer = setTimeout(load, 300);
    };
    form.addEventListener("input", schedule);
    form.addEventListener("compositionstart", stop);
    form.addEventListener("compositionend", schedule);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      stop();
      load();
    });
    form.parentNode.addEventListener("change", ({ target }) => {
      if (target.form !== form) dropped = 0;
    });
    addEventListener("beforeunload", () => { isLeaving = true; });
  };

  addEventListener("DOMContentLoaded", () => document.querySelectorAll(".search").forEach(follow));
})();
