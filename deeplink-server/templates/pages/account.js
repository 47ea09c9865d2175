// What the account pages gain from a script: buttons that copy, the values of charts under a pointer or the arrow keys, the
// preview of a link while it is written, and the names of countries. Everything else works without it.
(() => {
  // The buttons are part of the page and are shown before it is painted, so that nothing moves.
  document.documentElement.className = "js";

  const announce = (text) => {
    document.getElementById("said").textContent = text;
  };

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
    announce(label.data + subject.textContent);
    clearTimeout(timers.get(button));
    timers.set(button, setTimeout(() => { label.data = "Copy"; }, 2000));
  });

  const bring = (plot) => {
    const named = [...plot.querySelectorAll("g > title")];
    if (!named.length) return;
    const svg = plot.querySelector("svg");
    const columns = named.map((title) => title.parentNode);
    const texts = named.map((title) => title.textContent);
    // Browsers would show the titles as well, a moment later.
    for (const title of named) title.remove();
    const tip = document.createElement("p");
    tip.className = "tip";
    tip.hidden = true;
    tip.ariaHidden = "true";
    plot.append(tip);
    let at = -1;
    const show = (next) => {
      columns[at]?.classList.remove("at");
      at = next;
      tip.hidden = at < 0;
      if (at < 0) return;
      columns[at].classList.add("at");
      tip.textContent = texts[at];
      // At the left edge it is right of the column's middle, at the right edge left of it.
      const share = ((at + 0.5) / columns.length) * 100 + "%";
      tip.style.left = share;
      tip.style.translate = "-" + share;
    };
    const clamp = (index) => Math.max(0, Math.min(columns.length - 1, index));
    const point = ({ clientX }) => {
      const { left, width } = svg.getBoundingClientRect();
      show(clamp(Math.floor(((clientX - left) / width) * columns.length)));
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    // A finger that is lifted leaves too; the value stays until something else is tapped.
    svg.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && show(-1));
    plot.tabIndex = 0;
    plot.role = "group";
    plot.ariaLabel = "Chart. Use the arrow keys to read its values.";
    plot.addEventListener("blur", () => show(-1));
    plot.addEventListener("keydown", (event) => {
      const last = columns.length - 1;
      const ways = { ArrowLeft: at < 0 ? last : at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: -1 };
      if (!(event.key in ways)) return;
      event.preventDefault();
      show(event.key === "Escape" ? -1 : clamp(ways[event.key]));
      announce(at < 0 ? "" : texts[at]);
    });
  };

  // The preview of a link follows what is typed, by the rules of its landing page (sketch.rs).
  const follow = (preview) => {
    const form = preview.previousElementSibling;
    const { title, site, open, ios, android, web } = preview.dataset;
    const value = (name) => form.elements[name].value.trim();
    const hostOf = (name) => (URL.canParse(value(name)) ? new URL(value(name)).hostname : "");
    form.addEventListener("input", () => {
      const host = hostOf("web_url");
      let to = open;
      if (!value("ios_deep_link") && !value("android_deep_link")) {
        if (value("ios_store_url")) to = ios;
        else if (value("android_store_url")) to = android;
        else if (host) to = web.replace("*", host);
      }
      const lead = value("social_preview.description");
      const context = value("agent_context.description");
      const typed = value("agent_context.cta");
      const cta = typed === to ? "" : typed;
      // Wide letters take two columns.
      const isShort = cta && cta.replace(/[\u2e80-\u{10ffff}]/gu, "xx").length <= 48;
      const texts = {
        title: value("social_preview.title") || title || host || site,
        description: lead || context,
        lead,
        context,
        picture: hostOf("social_preview.image_url"),
        button: isShort ? cta : to,
        small: isShort ? to : "",
        cta: isShort ? "" : cta,
      };
      for (const place of preview.querySelectorAll("[data-live]")) place.textContent = texts[place.dataset.live];
    });
  };

  // Countries are two letters; the browser knows their names.
  const names = new Intl.DisplayNames("en", { type: "region" });
  const spellOut = (country) => {
    if (/^[A-Z]{2}$/.test(country.textContent)) country.textContent = names.of(country.textContent);
  };

  addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".plot").forEach(bring);
    document.querySelectorAll(".preview").forEach(follow);
    document.querySelectorAll("[data-countries] dt bdi").forEach(spellOut);
  });
})();
