// Charts: their values under a pointer or the arrow keys, and the names of countries.
(() => {
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
      document.getElementById("said").textContent = at < 0 ? "" : texts[at];
    });
  };

  // Countries are two letters; the browser knows their names.
  const names = new Intl.DisplayNames("en", { type: "region" });
  const spellOut = (country) => {
    if (/^[A-Z]{2}$/.test(country.textContent)) country.textContent = names.of(country.textContent);
  };

  addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".plot").forEach(bring);
    document.querySelectorAll("[data-countries] dt bdi").forEach(spellOut);
  });
})();
