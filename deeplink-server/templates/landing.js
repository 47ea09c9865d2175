(() => {
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("dl-data").textContent);
  let open = find("open");
  let { fallback, copy } = data;

  // An iPad in desktop mode sends a Mac's headers; only its fingers give it away.
  if (data.ios && navigator.maxTouchPoints > 1) {
    ({ fallback, copy } = data.ios);
    if (open) {
      // What the button led to so far stays within reach.
      const web = open.cloneNode(true);
      web.id = "web";
      if (data.ios.open !== open.getAttribute("href")) find("ways").append(web);
    } else {
      open = document.createElement("a");
      open.id = "open";
      open.append(document.createElement("span"));
      open.firstChild.dir = "auto";
      find("none").replaceWith(open);
    }
    open.href = data.ios.open;
    open.firstChild.textContent = data.ios.label;
    // It is the phone's part itself.
    const code = find("qr");
    if (code) code.parentNode.hidden = true;
  }

  // Now it is known, so the page shows itself.
  document.body.className = "";

  // Where nothing has opened, the page is still in view after a moment and goes on to the fallback.
  let timer;
  const stop = () => clearTimeout(timer);
  document.addEventListener("visibilitychange", () => document.hidden && stop());
  addEventListener("pagehide", stop);
  if (open && fallback) {
    open.addEventListener("click", () => {
      stop();
      timer = setTimeout(() => { location.href = fallback; }, 1500);
    });
  }

  const cover = document.querySelector(".cover img");
  if (cover) {
    cover.onerror = () => { cover.className = "gone"; };
    if (cover.complete && !cover.naturalWidth) cover.onerror();
  }

  // A store carries nothing to the app, so the link itself waits on the clipboard. The tap never waits for it.
  const note = find("copies");
  if (note) note.hidden = !copy || !navigator.clipboard;
  if (copy && navigator.clipboard) {
    note.className = "";
    for (const id of ["open", "store", "ios-store"]) {
      const way = find(id);
      if (way) way.addEventListener("click", () => navigator.clipboard.writeText(copy).catch(() => {}));
    }
  }
})();
