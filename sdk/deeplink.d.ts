/** The deeplink web SDK. The service's script, or a copy of it, defines the global `deeplink`. */
export = deeplink;
export as namespace deeplink;

declare namespace deeplink {
  /** Sets the publishable key. Throws a `DeeplinkError` for anything else. */
  function init(options: InitOptions): void;
  /** Records a click on one of your links, and resolves to the link. */
  function click(linkId: string): Promise<TrackedClick>;
  /** Records that the visitor came from a link. */
  function attribute(options: AttributeOptions): Promise<Done>;
  /** Binds this browser to a user permanently; a different user is rejected with `identify_conflict`. */
  function identify(userId: string): Promise<Done>;
  /** Records a conversion. */
  function convert(options: ConvertOptions): Promise<Converted>;
  /**
   * Returns a link's data, by its ID or its full URL; no click is counted. The URL is requested unchanged, so never pass a
   * URL that comes from the page's own URL or from a visitor.
   */
  function getLink(link: string): Promise<Link>;
  /**
   * Copies a link's URL to the clipboard when the element is tapped, so that the app finds it after it is installed. A
   * selector also applies to elements that are added later; an invalid one throws. Returns a function that undoes this.
   */
  function handoff(target: Element | string, linkUrl: string): () => void;
  /**
   * The ID of the link that the visitor came from: `dl_link` in the query, or else the ID in `/r/{id}`. The service does not
   * change a `web_url` when it redirects, so include the ID in it: `https://shop.example.com/sale?dl_link=spring-42`. A `url`
   * that is passed can also be a link on one of your domains, `/{id}` or the path of an alias. Null if there is neither.
   */
  function linkFromUrl(url?: string): string | null;
  /** The ID of this browser; created by the first call and kept in `localStorage`. */
  function installId(): string;
  /** Clears this browser's ID and user, for example on sign-out; the next user counts as a new install. */
  function reset(): void;

  interface InitOptions {
    /** A publishable key: `pk_live_` followed by 48 hex digits. */
    key: string;
    /** Base URL of the service, `https://…`. Default: taken from the script's URL, if that ends in `/sdk/deeplink.js`. */
    baseUrl?: string;
  }

  interface AttributeOptions {
    linkId: string;
    /** Default: `web`. */
    appVersion?: string;
    /** Your own ID for this browser, 1 to 255 characters without control characters; stored and used from then on. */
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
    /** Default: the user of the last `identify` call on this page. */
    userId?: string;
    /** Type of conversion, such as `purchase`. */
    type: string;
    /** Revenue in hundredths of the currency unit, negative for a refund. Requires a currency. */
    amountCents?: number;
    /** An ISO 4217 code, such as `EUR`. */
    currency?: string;
    /** An object of at most 1,024 bytes. */
    metadata?: Record<string, unknown>;
    /** The same key within 30 days means the same conversion. Keys used by servers are separate. */
    idempotencyKey?: string;
    /** Time of the conversion. Default: now. */
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
    /** The service's code, such as `not_found`; the SDK's are `network`, `not_initialized`, `invalid_key` and `invalid_input`. */
    readonly code: string;
    /** HTTP status; 0 if there was no response. */
    readonly status: number;
    /** The invalid field, if there is one. */
    readonly field?: string;
    /** The request's ID, to find it in the service's logs. */
    readonly requestId?: string;
    /** Seconds to wait before a retry. */
    readonly retryAfter?: number;
  }
}

declare global {
  interface Window {
    /** Available after the script tag, or after `import "./deeplink.js"`. */
    readonly deeplink: typeof deeplink;
  }
}
