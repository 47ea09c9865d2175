//! The flags and their variables as text, and how one of them is parsed.

use clap::CommandFactory;

/// Where everything is stored unless the settings say otherwise.
pub(crate) const DEFAULT_DATA_DIR: &str = "./data";

/// What `--help` says about the variables that have no flag.
pub const SECRETS_HELP: &str = "\
Secrets (environment variables only; to read one from a file, set NAME_FILE to
the file's path instead):
  DEEPLINK_DATABASE_URL
          Database: sqlite://PATH or postgres://USER:PASSWORD@HOST/NAME
          [default: deeplink.db in the data directory]

  DEEPLINK_MASTER_KEY
          Master key, 32 bytes in base64. Several can be given, separated by
          commas: the first encrypts, all decrypt; every node must have a new
          key before any node lists it first
          [default: master.key in the data directory, created on first start]

  DEEPLINK_SMTP_URL
          SMTP server for outgoing mail: smtps://USER:PASSWORD@HOST[:PORT], or
          smtp://USER:PASSWORD@HOST[:PORT]?tls=required for STARTTLS
          [default: none; see --mail-dir]

  DEEPLINK_OAUTH_GOOGLE_CLIENT_SECRET, DEEPLINK_OAUTH_GITHUB_CLIENT_SECRET
          OAuth client secret for sign-in with that provider; needs its client
          ID [default: none]

  DEEPLINK_STRIPE_SECRET_KEY
          Key for Stripe's API, preferably a restricted key that can write
          Checkout Sessions, Customer portal and Subscriptions, and read Prices
          [default: none]

  DEEPLINK_STRIPE_WEBHOOK_SECRET
          Signing secret of the webhook endpoint in Stripe. Several can be
          given, separated by commas, while you rotate it [default: none]

  DEEPLINK_X402_FACILITATOR_TOKEN
          Bearer token for the x402 facilitator [default: none]";

/// The flags and their variables, as text; [`super::Config::read`] parses them. An empty one is the default.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Settings")]
pub struct Settings {
    /// Directory for the key file, the click journal, mail files and, by default, the database
    #[arg(long, global = true, env = "DEEPLINK_DATA_DIR", value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    pub(super) data_dir: String,
    /// Address to listen on; port 0 picks a free port
    #[arg(long, global = true, env = "DEEPLINK_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    pub(super) listen: String,
    /// Address for the admin endpoints /metrics, /health and /ready; keep it private [default: off]
    #[arg(long, global = true, env = "DEEPLINK_ADMIN_LISTEN", value_name = "IP:PORT")]
    pub(super) admin_listen: Option<String>,
    /// URL at which clients reach the service: https://HOST [default: http:// and the listen address]
    #[arg(long, global = true, env = "DEEPLINK_PUBLIC_URL", value_name = "URL")]
    pub(super) public_url: Option<String>,
    /// Address to listen on for HTTPS, with certificates from --acme-directory; port 0 picks a free port [default: off]
    #[arg(long, global = true, env = "DEEPLINK_TLS_LISTEN", value_name = "IP:PORT")]
    pub(super) tls_listen: Option<String>,
    /// Directory URL of the ACME server that issues certificates for verified custom domains and, if the public URL is
    /// https, for its host. Requests to each of them on port 80 must reach --listen. Setting this accepts the ACME server's terms of
    /// service [default: off]
    #[arg(long, global = true, env = "DEEPLINK_ACME_DIRECTORY", value_name = "URL")]
    pub(super) acme_directory: Option<String>,
    /// Contact email address for the ACME server, for example for expiry warnings [default: none]
    #[arg(long, global = true, env = "DEEPLINK_ACME_CONTACT", value_name = "ADDRESS")]
    pub(super) acme_contact: Option<String>,
    /// PEM file of CA certificates to trust for outgoing connections in addition to the system's, such as a private CA
    /// that issued a webhook endpoint's certificate [default: none]
    #[arg(long, global = true, env = "DEEPLINK_OUTBOUND_CA", value_name = "FILE")]
    pub(super) outbound_ca: Option<String>,
    /// Non-public networks that webhooks and logo downloads may connect to, on any port, separated by commas, such as
    /// 127.0.0.0/8 for an endpoint on this machine. For development only: rejected if the public URL is https, because
    /// any account could reach these networks through this service [default: none]
    #[arg(long, global = true, env = "DEEPLINK_OUTBOUND_ALLOW", value_name = "CIDRS")]
    pub(super) outbound_allow: Option<String>,
    /// DNS server for verifying custom domains and resolving the hosts of webhooks, logos, OAuth providers and the ACME
    /// server [default: the system's]
    #[arg(long, global = true, env = "DEEPLINK_DNS_SERVER", value_name = "IP:PORT")]
    pub(super) dns_server: Option<String>,
    /// Host that the CNAME records of custom domains must point to [default: the public URL's host]
    #[arg(long, global = true, env = "DEEPLINK_CNAME_TARGET", value_name = "HOST")]
    pub(super) cname_target: Option<String>,
    /// File of URLs and hosts that links must not point to, one per line, with # comments; a host covers its subdomains. It
    /// is reloaded when it changes, and existing links to a listed URL or host are flagged [default: none]
    #[arg(long, global = true, env = "DEEPLINK_THREAT_LIST", value_name = "FILE")]
    pub(super) threat_list: Option<String>,
    /// IDs of permanently lost master keys, separated by commas. The server starts even if stored values need them;
    /// these values remain unreadable, and certificates are reissued [default: none]
    #[arg(long, global = true, env = "DEEPLINK_LOST_MASTER_KEYS", value_name = "IDS")]
    pub(super) lost_master_keys: Option<String>,
    /// Networks of the proxies whose X-Forwarded-* headers are trusted, separated by commas; any other IP address can
    /// use at most one eighth of the connections [default: none]
    #[arg(long, global = true, env = "DEEPLINK_TRUSTED_PROXIES", value_name = "CIDRS")]
    pub(super) trusted_proxies: Option<String>,
    /// Header in which trusted proxies send the visitor's two-letter country code, such as CF-IPCountry, to count
    /// clicks by country [default: none]
    #[arg(long, global = true, env = "DEEPLINK_COUNTRY_HEADER", value_name = "NAME")]
    pub(super) country_header: Option<String>,
    /// IP-to-country database in MaxMind DB format, to count clicks by country; it is reloaded when it changes
    /// [default: none]
    #[arg(long, global = true, env = "DEEPLINK_GEO_DB", value_name = "FILE")]
    pub(super) geo_db: Option<String>,
    /// Whether anyone may create an account, by signing up or by signing in for the first time: open, closed
    #[arg(long, global = true, env = "DEEPLINK_SIGNUP", value_name = "WORD", default_value = "open")]
    pub(super) signup: String,
    /// Whether the first start creates an account and a sample link, and prints the account's secret key, if the database
    /// is SQLite and the public URL a loopback address: on, off
    #[arg(long, global = true, env = "DEEPLINK_FIRST_ACCOUNT", value_name = "WORD", default_value = "on")]
    pub(super) first_account: String,
    /// Whether people can sign up and sign in, by email or with an identity provider: on, off
    #[arg(long, global = true, env = "DEEPLINK_SESSIONS", value_name = "WORD", default_value = "on")]
    pub(super) sessions: String,
    /// Directory to write each email to as an .eml file instead of sending it [default: mail in the data directory if the
    /// public URL is a loopback address, else none]
    #[arg(long, global = true, env = "DEEPLINK_MAIL_DIR", value_name = "DIR")]
    pub(super) mail_dir: Option<String>,
    /// Sender of emails [default: no-reply@HOST, with the public URL's host]
    #[arg(long, global = true, env = "DEEPLINK_MAIL_FROM", value_name = "ADDRESS")]
    pub(super) mail_from: Option<String>,
    /// Website whose /signin page opens after an invitation is accepted or found invalid: https://HOST [default: the public URL]
    #[arg(long, global = true, env = "DEEPLINK_MARKETING_URL", value_name = "URL")]
    pub(super) marketing_url: Option<String>,
    /// URL that `/` redirects to [default: none; a small page about the service is shown]
    #[arg(long, global = true, env = "DEEPLINK_HOME_URL", value_name = "URL")]
    pub(super) home_url: Option<String>,
    /// OAuth client ID for sign-in with Google; the secret is DEEPLINK_OAUTH_GOOGLE_CLIENT_SECRET [default: off]
    #[arg(long, global = true, env = "DEEPLINK_OAUTH_GOOGLE_CLIENT_ID", value_name = "ID")]
    pub(super) oauth_google_client_id: Option<String>,
    /// Base URL of /authorize, /token and /userinfo, for testing without Google [default: Google's endpoints]
    #[arg(long, global = true, env = "DEEPLINK_OAUTH_GOOGLE_ISSUER_BASE", value_name = "URL")]
    pub(super) oauth_google_issuer_base: Option<String>,
    /// OAuth client ID for sign-in with GitHub; the secret is DEEPLINK_OAUTH_GITHUB_CLIENT_SECRET [default: off]
    #[arg(long, global = true, env = "DEEPLINK_OAUTH_GITHUB_CLIENT_ID", value_name = "ID")]
    pub(super) oauth_github_client_id: Option<String>,
    /// Base URL of /login/oauth/authorize, /login/oauth/access_token, /user and /user/emails, for testing without GitHub
    /// [default: GitHub's endpoints]
    #[arg(long, global = true, env = "DEEPLINK_OAUTH_GITHUB_ISSUER_BASE", value_name = "URL")]
    pub(super) oauth_github_issuer_base: Option<String>,
    /// Base URL of the x402 facilitator that verifies and settles per-request payments [default: off]
    #[arg(long, global = true, env = "DEEPLINK_X402_FACILITATOR_URL", value_name = "URL")]
    pub(super) x402_facilitator_url: Option<String>,
    /// Wallet address that receives per-request payments
    #[arg(long, global = true, env = "DEEPLINK_X402_PAY_TO", value_name = "ADDRESS")]
    pub(super) x402_pay_to: Option<String>,
    /// Chain on which payments are made: base, base-sepolia or a CAIP-2 name such as eip155:8453
    #[arg(long, global = true, env = "DEEPLINK_X402_NETWORK", value_name = "NAME")]
    pub(super) x402_network: Option<String>,
    /// Contract of the payment token: ADDRESS, or ADDRESS/NAME/VERSION with the name and version of its signing domain
    /// (EIP-712) [default: USDC on base and base-sepolia]
    #[arg(long, global = true, env = "DEEPLINK_X402_ASSET", value_name = "ASSET")]
    pub(super) x402_asset: Option<String>,
    /// Price of each request in the token's smallest unit, such as 10000 for 0.01 USDC. Variables such as
    /// DEEPLINK_X402_PRICE_LINKS_CREATE set the price of one operation; 0 = payment not accepted
    #[arg(long, global = true, env = "DEEPLINK_X402_PRICE", value_name = "AMOUNT")]
    pub(super) x402_price: Option<String>,
    /// Reason codes that the facilitator returns if an authorization was already used, separated by commas; a payment
    /// with an unknown outcome is then treated as settled, even without a transaction [default:
    /// invalid_transaction_state,duplicate_settlement,invalid_exact_evm_nonce_already_used]
    #[arg(long, global = true, env = "DEEPLINK_X402_USED_REASONS", value_name = "WORDS")]
    pub(super) x402_used_reasons: Option<String>,
    /// Whether accounts can see their plan and usage and, with Stripe, pay for another plan: on, off
    #[arg(long, global = true, env = "DEEPLINK_BILLING", value_name = "WORD", default_value = "on")]
    pub(super) billing: String,
    /// Stripe ID of the recurring price for the pro plan; with several, separated by commas, the first is for new
    /// subscriptions and the others are for existing ones. Stripe requires prices for all three plans and both secrets;
    /// it sends webhook events to /v1/billing/stripe/webhook [default: off]
    #[arg(long, global = true, env = "DEEPLINK_STRIPE_PRICE_PRO", value_name = "IDS")]
    pub(super) stripe_price_pro: Option<String>,
    /// Stripe IDs of the recurring prices for the business plan; see --stripe-price-pro [default: off]
    #[arg(long, global = true, env = "DEEPLINK_STRIPE_PRICE_BUSINESS", value_name = "IDS")]
    pub(super) stripe_price_business: Option<String>,
    /// Stripe IDs of the recurring prices for the scale plan; see --stripe-price-pro [default: off]
    #[arg(long, global = true, env = "DEEPLINK_STRIPE_PRICE_SCALE", value_name = "IDS")]
    pub(super) stripe_price_scale: Option<String>,
    /// Base URL of Stripe's API without /v1, for testing without Stripe [default: Stripe's own]
    #[arg(long, global = true, env = "DEEPLINK_STRIPE_API_BASE", value_name = "URL")]
    pub(super) stripe_api_base: Option<String>,
    /// Whether plan limits are enforced: enforce, off [default: enforce with Stripe, else off]
    #[arg(long, global = true, env = "DEEPLINK_QUOTAS", value_name = "WORD")]
    pub(super) quotas: Option<String>,
    /// Requests for nonexistent links, hosts and keys per minute for each IP address; 0 = unlimited
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_MISSES", value_name = "N", default_value = "600")]
    pub(super) limit_misses: String,
    /// Sign-in attempts per minute for each IP address; 0 = unlimited
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_SIGNIN", value_name = "N", default_value = "10")]
    pub(super) limit_signin: String,
    /// Sign-ups per hour for each IP address; 0 = unlimited
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_SIGNUP", value_name = "N", default_value = "5")]
    pub(super) limit_signup: String,
    /// Requests per second from each IP address for each publishable key, with bursts of five times that; 0 = unlimited
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_PK", value_name = "N", default_value = "20")]
    pub(super) limit_pk: String,
    /// Requests per second for each publishable key; 0 = unlimited
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_PK_KEY", value_name = "N", default_value = "2000")]
    pub(super) limit_pk_key: String,
    /// Conversions per second for each source, with bursts of four times that; 0 = unlimited
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_SOURCE", value_name = "N", default_value = "50")]
    pub(super) limit_source: String,
    /// Per-request payments per minute for each IP address; 0 = unlimited
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_PAYER", value_name = "N", default_value = "60")]
    pub(super) limit_payer: String,
    /// Maximum number of webhooks per account, 1 to 100
    #[arg(long, global = true, env = "DEEPLINK_WEBHOOK_LIMIT", value_name = "N", default_value = "2")]
    pub(super) webhook_limit: String,
    /// Memory for the link cache, in MiB
    #[arg(long, global = true, env = "DEEPLINK_LINK_CACHE_MB", value_name = "MIB", default_value = "32")]
    pub(super) link_cache_mb: String,
    /// Days after which links of an account without a verified primary domain expire; 0 = never
    #[arg(long, global = true, env = "DEEPLINK_UNVERIFIED_LINK_TTL_DAYS", value_name = "DAYS", default_value = "30")]
    pub(super) unverified_link_ttl_days: String,
    /// Days to keep individual clicks and other events; totals are kept indefinitely. 0 = indefinitely; with
    /// --quotas=enforce, the plan's value applies
    #[arg(long, global = true, env = "DEEPLINK_RETENTION_DAYS", value_name = "DAYS", default_value = "0")]
    pub(super) retention_days: String,
    /// Log level, or a filter such as info,deeplink_server=debug
    #[arg(long, global = true, env = "DEEPLINK_LOG", value_name = "FILTER", default_value = "info")]
    pub(super) log: String,
}

/// An invalid setting; the message begins with its flag, if it has one, and its variable.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", names(variable))]
pub struct BadSetting {
    /// The variable's name.
    pub variable: String,
    pub(super) problem: String,
}

impl BadSetting {
    /// A variable that is set without another that it needs.
    pub(super) fn alone(variable: &str, other: &str) -> Self {
        Self { variable: variable.to_owned(), problem: format!("requires {other}, which is not set") }
    }
}

/// The settings alone, for clap's metadata; the real command line is in `admin`.
#[derive(clap::Parser)]
pub(super) struct Bare {
    #[command(flatten)]
    pub(super) settings: Settings,
}

/// The flag of a variable.
fn flag(variable: &str) -> Option<clap::Arg> {
    let command = Bare::command();
    command.get_arguments().find(|arg| arg.get_env().is_some_and(|env| env == variable)).cloned()
}

/// The names of a setting: its flag, if it has one, and its variable.
fn names(variable: &str) -> String {
    match flag(variable).as_ref().and_then(clap::Arg::get_long) {
        Some(flag) => format!("--{flag} ({variable})"),
        None => variable.to_owned(),
    }
}

/// The given value, or the flag's default if it is empty.
pub(super) fn or_default(variable: &str, given: &str) -> String {
    if !given.is_empty() {
        return given.to_owned();
    }
    let arg = flag(variable);
    let default = arg.and_then(|arg| arg.get_default_values().first()?.to_str().map(str::to_owned));
    default.unwrap_or_default()
}

pub(super) fn setting<T>(
    variable: &str,
    given: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, BadSetting> {
    parse(or_default(variable, given).trim()).map_err(|problem| BadSetting { variable: variable.into(), problem })
}

pub(super) fn optional<T>(
    variable: &str,
    given: Option<&str>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, BadSetting> {
    given.filter(|text| !text.trim().is_empty()).map(|text| setting(variable, text, parse)).transpose()
}
