/*! deeplink web SDK: reports clicks, installs, users and conversions from a web page. MIT OR Apache-2.0 */
(() => {
  "use strict";

  const script = typeof document === "object" && document.currentScript;
  const STORED = "deeplink.install_id";
  const LINK_ID = /^[\da-z-]{3,64}$/i;
  let base = (/^([^?#]*)\/sdk\/deeplink\.js([?#]|$)/.exec((script && script.src) || "") || [])[1];
  let key, user, install;

  class DeeplinkError extends Error {
    constructor(message, facts) {
      super(message);
      this.name = "DeeplinkError";
      Object.assign(this, facts);
    }
  }
  const refuse = (code, message, field, cause) => {
    throw new DeeplinkError(message, { code, status: 0, field, cause });
  };
  const ready = () => key || refuse("not_initialized", "call deeplink.init({ key }) first");

  // randomUUID is not available on pages without TLS.
  const uuid = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

  const isId = (id) => typeof id === "string" && /^[^\x00-\x1f\x7f]{1,255}$/u.test(id);

  // Created once. If storage is denied, it lasts as long as the page.
  const installId = (given) => {
    install = given || install;
    try {
      const stored = localStorage.getItem(STORED);
      install = install || (isId(stored) ? stored : uuid());
      localStorage.setItem(STORED, install);
    } catch (denied) {
      install = install || uuid();
    }
    return install;
  };

  // The API uses snake_case. Only the outer names: metadata is the caller's own.
  const wire = (fields) => {
    const written = {};
    for (const name of Object.keys(fields)) {
      const value = fields[name], field = name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());
      // JSON would write null, which counts as absent.
      if ((typeof value === "number" || value instanceof Date) && !isFinite(value)) {
        refuse("invalid_input", field + " must be a valid number or date", field);
      }
      written[field] = value;
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
    // Without cookies, and completed even if the visitor leaves.
    const request = { method, headers, body, credentials: "omit", keepalive: true };
    // A request that may have been applied is retried only if it is idempotent.
    const countsOnce = method === "PUT" || headers["Idempotency-Key"];
    for (let tries = 1; ; tries++) {
      let reply, said = {}, retryAfter = 0;
      try {
        reply = await fetch(url, request);
        said = await reply.json() || said;
        if (reply.ok) return said;
      } catch (cause) {
        if (!reply || reply.ok) {
          reply = 0;
          if (tries > 1 || !countsOnce) refuse("network", "the service cannot be reached", undefined, cause);
        }
      }
      if (reply) {
        const { status } = reply, after = reply.headers.get("Retry-After");
        retryAfter = after ? +after : undefined;
        if (tries > 1 || !(retryAfter <= 5)) {
          throw new DeeplinkError(said.error || "HTTP " + status, {
            code: said.code || "unknown", status, field: said.field, requestId: said.request_id, retryAfter,
          });
        }
      }
      await new Promise((done) => setTimeout(done, (retryAfter + Math.random() / 2) * 1000));
    }
  };

  const report = async (method, name, fields) => {
    const headers = { Authorization: "Bearer " + ready(), "Content-Type": "application/json" };
    if (method === "POST" && name !== "click") headers["Idempotency-Key"] = uuid();
    return send(method, base + "/v1/lifecycle/" + name, headers, JSON.stringify(wire(fields)));
  };

  const deeplink = Object.freeze({
    DeeplinkError,

    init({ key: given, baseUrl } = {}) {
      if (!/^pk_live_[\da-f]{48}$/.test(given)) {
        refuse("invalid_key", "key is not a publishable key; never put a secret key in a page");
      }
      const at = baseUrl || base;
      if (!at) refuse("not_initialized", "baseUrl is required for a copy of the script");
      if (!/^https?:\/\/[^?#\s]+$/.test(at)) refuse("invalid_input", "baseUrl must be an http(s) URL", "baseUrl");
      base = at.replace(/\/+$/, "");
      key = given;
    },

    click: (linkId) => report("POST", "click", { linkId }),

    attribute: async ({ linkId, appVersion, installId: given, context } = {}) => {
      ready();
      if (given != null && !isId(given)) {
        refuse("invalid_input", "installId must be a string of 1 to 255 characters", "install_id");
      }
      return report("POST", "attribute", {
        linkId,
        installId: installId(given),
        appVersion: appVersion || "web",
        context: wire(Object.assign(known(), context)),
      });
    },

    identify: async (userId) => ready() && report("PUT", "identify", { installId: installId(), userId: (user = userId) }),

    convert: async (conversion = {}) =>
      report("POST", "convert", Object.assign({}, conversion, { userId: conversion.userId || user })),

    // Not counted as a click: the request is marked as a prefetch.
    getLink: async (link) => {
      const whole = /^https?:\/\/[^?#]+\/[\da-z-]{3,64}([?#]|$)/i.test(link);
      if (!whole && !LINK_ID.test(link)) refuse("invalid_input", "not a link ID or URL", "link_id");
      return send("GET", whole ? link : base + "/r/" + link, { Accept: "application/json", Purpose: "prefetch" });
    },

    // For store links: the app finds the link on the clipboard. The tap does not wait for it.
    handoff(target, linkUrl) {
      const within = typeof target === "string";
      const root = within ? document : target;
      if (within) document.querySelector(target); // An invalid selector throws now, not at each tap.
      const copy = (event) => {
        if (within && !(event.target.closest && event.target.closest(target))) return;
        try {
          navigator.clipboard.writeText(linkUrl).catch(() => {});
        } catch (denied) { /* The store opens without it. */ }
      };
      root.addEventListener("click", copy, true);
      return () => root.removeEventListener("click", copy, true);
    },

    linkFromUrl(url) {
      try {
        const { pathname, searchParams } = new URL(url || location.href), id = searchParams.get("dl_link");
        if (id) return LINK_ID.test(id) ? id : null;
        const path = (url ? /^\/(?:r\/)?([\w.~%-]+(\/[\w.~%-]+){0,2})\/?$/ : /^\/r\/([\da-z-]{3,64})$/i).exec(pathname);
        return path && path[1];
      } catch (malformed) {
        return null;
      }
    },

    installId: () => installId(),

    reset() {
      install = user = undefined;
      try {
        localStorage.removeItem(STORED);
      } catch (denied) { /* Nothing was stored. */ }
    },
  });

  // If loaded twice, the first is kept. An element with this id does not count.
  if (typeof self === "object" && !(self.deeplink || {}).linkFromUrl) self.deeplink = deeplink;
  if (typeof module === "object") module.exports = deeplink;
})();
