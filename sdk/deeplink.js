/*! deeplink web SDK: reports clicks, installs, users and conversions from a web page. MIT OR Apache-2.0 */
(() => {
  "use strict";

  const script = typeof document === "object" && document.currentScript;
  const STORED = "deeplink.install_id";
  let base = script && script.src ? new URL(script.src).origin : "";
  let key, user, install;

  class DeeplinkError extends Error {
    constructor(message, facts) {
      super(message);
      this.name = "DeeplinkError";
      Object.assign(this, facts);
    }
  }
  const refuse = (code, message) => {
    throw new DeeplinkError(message, { code, status: 0 });
  };

  const uuid = () => crypto.randomUUID ? crypto.randomUUID()
    // A page without TLS has no randomUUID.
    : Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

  // Made once. Where storage is denied, it lives as long as the page.
  const installId = (given) => {
    install = given || install;
    try {
      install = install || localStorage.getItem(STORED) || uuid();
      localStorage.setItem(STORED, install);
    } catch (denied) {
      install = install || uuid();
    }
    return install;
  };

  // The wire writes names_like_this. Only the outer names: metadata is the caller's own.
  const wire = (fields) => {
    const written = {};
    for (const name of Object.keys(fields)) {
      written[name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase())] = fields[name];
    }
    return written;
  };

  const known = () => ({
    platform: "web",
    os: (navigator.userAgentData || {}).platform,
    locale: navigator.language,
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  });

  const send = async (method, url, headers, body) => {
    // Without cookies, and on its way also when the page is left. A repeat is the same request: one effect.
    const request = { method, headers, body, credentials: "omit", keepalive: true };
    for (let tries = 1; ; tries++) {
      let reply, said;
      try {
        reply = await fetch(url, request);
        said = await reply.json();
      } catch (cause) {
        const status = reply ? reply.status : 0;
        if (!reply || reply.ok) throw new DeeplinkError("the service cannot be reached", { code: "network", status, cause });
        said = {};
      }
      if (reply.ok) return said;
      const { status } = reply;
      const retryAfter = Number(reply.headers.get("Retry-After")) || undefined;
      if (tries > 1 || !(retryAfter <= 5)) {
        throw new DeeplinkError(said.error || "HTTP " + status, {
          code: said.code || "unknown", status, field: said.field, requestId: said.request_id, retryAfter,
        });
      }
      await new Promise((done) => setTimeout(done, retryAfter * 1000));
    }
  };

  const report = async (method, name, fields) => {
    if (!key) refuse("not_initialized", "call deeplink.init({ key }) first");
    const headers = { Authorization: "Bearer " + key, "Content-Type": "application/json" };
    if (method === "POST") headers["Idempotency-Key"] = uuid();
    return send(method, base + "/v1/lifecycle/" + name, headers, JSON.stringify(wire(fields)));
  };

  const deeplink = Object.freeze({
    DeeplinkError,

    init({ key: given, baseUrl }) {
      if (!/^pk_live_/.test(given)) {
        refuse("invalid_key", "key is a publishable key, pk_live_…; a secret key never belongs in a page");
      }
      if (baseUrl) base = baseUrl.replace(/\/+$/, "");
      if (!base) refuse("not_initialized", "baseUrl is needed where the script was not loaded from the service");
      key = given;
    },

    click: (linkId) => report("POST", "click", { linkId }),

    attribute: async ({ linkId, appVersion, installId: given, context }) => report("POST", "attribute", {
      linkId,
      installId: installId(given),
      appVersion: appVersion || "web",
      context: wire(Object.assign(known(), context)),
    }),

    identify: async (userId) => report("PUT", "identify", { installId: installId(), userId: (user = userId) }),

    convert: async (conversion) =>
      report("POST", "convert", Object.assign({}, conversion, { userId: conversion.userId || user })),

    // Reading is no click: the request says that nobody has come yet.
    getLink: async (link) => {
      const url = /^https?:/.test(link) ? link : base + "/r/" + encodeURIComponent(link);
      return send("GET", url, { Accept: "application/json", Purpose: "prefetch" });
    },

    // For a way to a store: the link waits on the clipboard for the app. The tap never waits for it.
    handoff(target, linkUrl) {
      const within = typeof target === "string";
      const root = within ? document : target;
      const copy = (event) => {
        if (within && !(event.target.closest && event.target.closest(target))) return;
        try {
          navigator.clipboard.writeText(linkUrl).catch(() => {});
        } catch (denied) { /* The way works without it. */ }
      };
      root.addEventListener("click", copy, true);
      return () => root.removeEventListener("click", copy, true);
    },

    linkFromUrl(url) {
      try {
        const { pathname, searchParams } = new URL(url || location.href);
        const named = (url ? /^\/(?:r\/)?([\da-z-]{3,64})$/i : /^\/r\/([\da-z-]{3,64})$/i).exec(pathname);
        return searchParams.get("dl_link") || (named && named[1]);
      } catch (malformed) {
        return null;
      }
    },

    installId: () => installId(),
  });

  if (typeof self === "object") self.deeplink = deeplink;
  if (typeof module === "object") module.exports = deeplink;
})();
