/** The deeplink web SDK. A script of the service, or a copy of it, gives the global `deeplink`. */
export = deeplink;
export as namespace deeplink;

declare namespace deeplink {
  /** Sets the account's key. Throws a `DeeplinkError` for anything but a publishable key. */
  function init(options: InitOptions): void;
  /** Records a click on a link of yours, and resolves to the link. */
  function click(linkId: string): Promise<TrackedClick>;
  /** Records that a link led to this browser. */
  function attribute(options: AttributeOptions): Promise<Done>;
  /** Binds this browser to a user, once and for all; another user is refused with `identify_conflict`. */
  function identify(userId: string): Promise<Done>;
  /** Records a conversion. */
  function convert(options: ConvertOptions): Promise<Converted>;
  /**
   * Reads a link, by its id or its whole address. Counts no click. The address is requested as it is, so it must be one of
   * your own, not one that came with the page's address or from a visitor.
   */
  function getLink(link: string): Promise<Link>;
  /**
   * Writes a link's address to the clipboard when the element is tapped, for the app to find after its installation. A
   * selector also covers elements that are added later; one that cannot be read throws. Returns a function that undoes it.
   */
  function handoff(target: Element | string, linkUrl: string): () => void;
  /**
   * The id of the link that led here: `dl_link` in the query, else the id in `/r/{id}`. The service leads to a `web_url` as
   * it is, so that carries the id itself: `https://shop.example.com/sale?dl_link=spring-42`. An address that is given may
   * also be a link on a domain of yours, `/{id}`. Null where there is no id.
   */
  function linkFromUrl(url?: string): string | null;
  /** The id of this browser; made at the first call and kept in `localStorage`. */
  function installId(): string;
  /** Forgets this browser's id and user, for a sign-out: the next user is another install. */
  function reset(): void;

  interface InitOptions {
    /** A publishable key, `pk_live_` and 48 hex digits. */
    key: string;
    /** Where the service is, `https://…`. When absent, where the script came from, if that ends in `/sdk/deeplink.js`. */
    baseUrl?: string;
  }

  interface AttributeOptions {
    linkId: string;
    /** `web` when absent. */
    appVersion?: string;
    /** Your own id for this browser, 1 to 255 characters without control characters; kept from then on. */
    installId?: string;
    /** The device. Platform, system, locale and time zone default to what the browser reports. */
    context?: Context;
  }

  interface Context {
    appVersion?: string;
    deviceManufacturer?: string;
    deviceModel?: string;
    locale?: string;
    os?: string;
    osVersion?: string;
    platform?: string;
    region?: string;
    timezone?: string;
  }

  interface ConvertOptions {
    /** When absent, the user that `identify` was last asked for on this page. */
    userId?: string;
    /** What happened, such as `purchase`. */
    type: string;
    /** Revenue in the currency's hundredth, negative for a refund. Needs a currency. */
    amountCents?: number;
    /** ISO 4217, such as `EUR`. */
    currency?: string;
    /** An object of at most 1,024 bytes. */
    metadata?: Record<string, unknown>;
    /** The same key within 30 days is the same conversion. Keys that servers report are separate. */
    idempotencyKey?: string;
    /** When it happened; now when absent. */
    occurredAt?: Date | string;
  }

  interface Done {
    success: true;
  }

  /** Exactly one of the counts is 1. */
  interface Converted {
    accepted: number;
    deduped: number;
    unattributed: number;
    failed: number;
    event_id: string | null;
  }

  interface Link {
    link_id: string;
    ios_deep_link: string | null;
    ios_store_url: string | null;
    android_deep_link: string | null;
    android_store_url: string | null;
    web_url: string | null;
    metadata: Record<string, unknown> | null;
    agent_context: { action: string | null; cta: string | null; description: string | null } | null;
    social_preview: { title: string | null; description: string | null; image_url: string | null } | null;
    _service_meta: {
      source: string;
      status: "active" | "expired" | "flagged" | "disabled";
      tenant_domain: string | null;
      tenant_verified: boolean;
    };
  }

  interface TrackedClick extends Link {
    platform: string;
  }

  class DeeplinkError extends Error {
    /** The service's code, such as `not_found`; `network`, `not_initialized`, `invalid_key` or `invalid_input` from here. */
    readonly code: string;
    /** HTTP status; 0 without an answer. */
    readonly status: number;
    /** The field at fault, where there is one. */
    readonly field?: string;
    /** The request's id in the service's log. */
    readonly requestId?: string;
    /** Seconds after which it may be tried again. */
    readonly retryAfter?: number;
  }
}

declare global {
  interface Window {
    /** There after the script's tag, or after `import "./deeplink.js"`. */
    readonly deeplink: typeof deeplink;
  }
}
