// The preview of a link while it is written.
(() => {
  // The preview of a link follows what is typed, by the rules of its landing page (sketch.rs).
  const follow = (preview) => {
    const form = preview.previousElementSibling;
    const { title, site, open, ios, android, web } = preview.dataset;
    const value = (name) => form.elements[name].value.trim();
    const hostOf = (name) => (URL.canParse(value(name)) ? new URL(value(name)).hostname : "");
    form.addEventListener("input", ({ target }) => {
      // The service draws the code: what is shown is of an earlier form.
      const code = preview.querySelector(".qr");
      if (code && (target.name === "custom_id" || target.name.startsWith("qr."))) {
        code.parentNode.classList.add("stale");
        const hint = "Select Preview to see the code.";
        code.nextElementSibling.textContent = document.getElementById("said").textContent = hint;
        code.remove();
      }
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

  addEventListener("DOMContentLoaded", () => document.querySelectorAll(".preview").forEach(follow));
})();
