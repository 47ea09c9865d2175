(() => {
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("dl-data").textContent);
  let open = find("open");
  let { fallback, copy } = data;

  // An iPad in desktop mode sends a Mac's headers; only its touch screen tells it apart.
  if (data.ios && navigator.maxTouchPoints > 1) {
    ({ fallback, copy } = data.ios);
    if (open) {
      // Keep the button's previous target as a second button.
      const web = open.cloneNode();
      web.id = "web";
      web.textContent = open.lastElementChild.textContent;
      if (data.ios.open !== open.getAttribute("href")) find("ways").append(web);
    } else {
      open = document.createElement("a");
      open.id = "open";
      open.append(document.createElement("span"));
      find("none").replaceWith(open);
    }
    open.href = data.ios.open;
    // Below the creator's call to action, if there is one.
    open.lastElementChild.textContent = data.ios.label;
    // An iPad needs no second App Store, no Google Play (android-store), and no code for another phone.
    for (const a of document.querySelectorAll("[id$=-store]")) if (a.id < "b" || a.href === open.href) a.remove();
    const code = find("qr");
    if (code) code.parentNode.hidden = true;
  }

  // The page is correct now, so show it.
  document.body.className = "";

  // If nothing opened, the page is still visible after a moment and goes to the fallback.
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
    // A picture that is shown whole has itself as a background.
    cover.decode().then(() => {
      if (cover.naturalWidth >= 1.25 * cover.naturalHeight) return;
      cover.className = "behind";
      cover.before(cover.cloneNode());
      cover.className = "tall";
    }, () => { cover.className = "gone"; });
  }

  // A store passes nothing on to the app, so the link is copied to the clipboard. The tap never waits for it.
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
