//! Hints: what to do next, by failure.

use std::io;
use std::iter::successors;

use deeplink_client::{Error, Kind};
use deeplink_core::error::ErrorCode;

/// The hint for something that was not found, which is a link unless the command says otherwise.
pub(crate) const LISTS_LINKS: &str = "dl links list shows the account's links";

type Cause = dyn std::error::Error + 'static;

/// The host that a request was sent to.
pub(crate) struct Asked {
    /// Whether it is not the service's, so that a hint about `--base-url` would not help.
    pub(crate) is_elsewhere: bool,
    /// Whether it is this machine.
    pub(crate) is_loopback: bool,
    /// The command that checks whether the service can be reached, unless the request was its own.
    pub(crate) ping: Option<String>,
}

/// The hint for an error.
pub(crate) fn of(error: &Error, asked: &Asked) -> Option<String> {
    let elsewhere = asked.is_elsewhere;
    let wait = || match error.retry_after() {
        Some(wait) => format!("try again in {} s", wait.as_secs().max(1)),
        None => "try again later".to_owned(),
    };
    let text = match error.code() {
        Some(ErrorCode::Unauthorized) => {
            "to see where the key comes from: dl whoami; to store a new one: dl login".to_owned()
        }
        Some(ErrorCode::InvalidKey) => {
            "to see where the key comes from: dl whoami; to store a new one: dl login. A key from dl signup stops \
             working once its email address is confirmed: store the key shown on that page with dl login --with-key"
                .to_owned()
        }
        Some(ErrorCode::ForbiddenScope) => "this key belongs to an affiliate; use an account key".to_owned(),
        Some(ErrorCode::NotFound) => LISTS_LINKS.to_owned(),
        Some(ErrorCode::AffiliateScopeMismatch) => {
            "omit --affiliate: this key always uses its own affiliate".to_owned()
        }
        Some(ErrorCode::DomainTaken) => {
            "dl domains list shows your domains; a domain that is verified by another account must first be removed \
             there"
                .to_owned()
        }
        Some(ErrorCode::AlternateLimit) => {
            "an account can have only one verified alternate domain: remove the other one with dl domains delete"
                .to_owned()
        }
        Some(ErrorCode::QuotaExceeded) => {
            "delete what you no longer need, or upgrade: dl billing status shows the plan, dl billing checkout \
             changes it"
                .to_owned()
        }
        Some(ErrorCode::InvalidTier) => "the plan must be pro, business or scale".to_owned(),
        Some(ErrorCode::NoSubscription) => "dl billing status shows the account's plan".to_owned(),
        Some(ErrorCode::NoCustomer) => "to subscribe: dl billing checkout".to_owned(),
        Some(ErrorCode::PaymentRequired) => {
            "dl cannot make per-request payments; sign in with dl login, so that no payment is needed".to_owned()
        }
        Some(ErrorCode::PaymentReplayed) => {
            "to repeat a paid request, send the same Idempotency-Key; only a different request needs a new payment"
                .to_owned()
        }
        Some(ErrorCode::ProcessorNotConfigured) => {
            "this service does not accept payments; its operator can grant a plan".to_owned()
        }
        Some(ErrorCode::InvalidCursor) => "start again without --cursor; a cursor includes its filters".to_owned(),
        Some(ErrorCode::EmailExists) => "to sign in with that address: dl login".to_owned(),
        Some(ErrorCode::AccountSuspended) => {
            "contact the operator of this service, who can resume the account".to_owned()
        }
        Some(ErrorCode::SignupClosed) => {
            "ask the operator of this service for a key, then run dl login --with-key".to_owned()
        }
        Some(ErrorCode::KeyLimit) => "delete one with dl keys delete ID; dl keys list shows the keys".to_owned(),
        Some(ErrorCode::KeyInUse) => "use another key to delete it, or replace it with dl keys rotate".to_owned(),
        Some(ErrorCode::LastKey) => "create another key first: dl keys request, dl keys confirm".to_owned(),
        Some(ErrorCode::RequestPending) => format!("with dl keys confirm, enter the code that {}", earlier_code(error)),
        Some(ErrorCode::InvalidCode) => {
            "use the code in the newest email; codes are valid for 10 minutes".to_owned()
        }
        Some(ErrorCode::TooManyAttempts) => {
            "this code no longer works; request another one later with dl keys request".to_owned()
        }
        Some(ErrorCode::NotAMember) => {
            "only confirmed team members can do this: see dl team list, or dl team invite ADDRESS".to_owned()
        }
        Some(ErrorCode::UserUnverified) => {
            "this address must first be confirmed through the link that was emailed to it; to send a new one: dl team \
             invite ADDRESS"
                .to_owned()
        }
        Some(ErrorCode::UserExists) => "dl team list shows the team members".to_owned(),
        Some(ErrorCode::LastUser) => "invite another member first: dl team invite ADDRESS".to_owned(),
        Some(ErrorCode::DomainNotFound) => "to add a domain: dl domains add".to_owned(),
        Some(ErrorCode::DomainNotVerified) => "dl domains verify shows what is missing".to_owned(),
        Some(ErrorCode::PartnerKeyTaken) => "dl affiliates list shows which affiliate has it".to_owned(),
        Some(ErrorCode::CredentialLimit) => "delete one with dl affiliates creds delete".to_owned(),
        Some(ErrorCode::NameTaken) => {
            "dl sources list shows the existing source; dl sources rotate replaces its URL".to_owned()
        }
        Some(ErrorCode::IdentifyConflict) => "an install remains bound to its first user".to_owned(),
        Some(
            ErrorCode::RateLimited
            | ErrorCode::Overloaded
            | ErrorCode::DatabaseUnavailable
            | ErrorCode::UpstreamUnavailable
            | ErrorCode::FacilitatorUnavailable
            | ErrorCode::PaymentInProgress,
        ) => wait(),
        // The reader may be the operator, or one of its customers.
        Some(ErrorCode::GeoNotConfigured) => {
            "to configure it, set DEEPLINK_COUNTRY_HEADER or DEEPLINK_GEO_DB on the server, or ask its operator to do so"
                .to_owned()
        }
        Some(code) if code.is_not_configured() => {
            "this feature is not configured on this service; ask its operator".to_owned()
        }
        _ => match error.kind() {
            Kind::Connect => unconnected(error, asked),
            Kind::Timeout if error.is_ambiguous() => {
                "the request may have been applied: check before you retry; increase --timeout to wait longer"
                    .to_owned()
            }
            Kind::Timeout => "increase --timeout to wait longer".to_owned(),
            _ if error.is_ambiguous() => "the request may have been applied: check before you retry".to_owned(),
            Kind::RateLimited | Kind::Unavailable | Kind::Server | Kind::Transport => wait(),
            _ if elsewhere => return None,
            _ if is_foreign(error) || is_unreadable(error) => {
                "this does not look like a deeplink service; check --base-url".to_owned()
            }
            Kind::Api if error.status().is_some_and(|status| status.is_redirection()) => {
                "dl does not follow redirects, so that the key is not sent elsewhere; check --base-url".to_owned()
            }
            _ => return None,
        },
    };
    Some(text)
}

/// The hint for a host that could not be connected to.
fn unconnected(error: &Error, asked: &Asked) -> String {
    let error: &Cause = error;
    let mut causes = successors(Some(error), |&cause| cause.source());
    let is_plain = causes.any(|cause| cause.to_string().contains("InvalidContentType"));
    let mut causes = successors(Some(error), |&cause| cause.source());
    let is_refused = causes.any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    });
    match &asked.ping {
        // Elsewhere, dl does not speak plain HTTP.
        _ if is_plain && asked.is_loopback => "the server may be using plain HTTP on this port: try http://".to_owned(),
        _ if asked.is_elsewhere => "check the URL, its DNS and the network".to_owned(),
        _ if is_refused && asked.is_loopback => "is the server running?".to_owned(),
        Some(ping) => format!("check --base-url and the network, then try again, for example with {ping}"),
        None => "check --base-url and the network".to_owned(),
    }
}

/// Whether a 404 is not the service's. An answer to `HEAD` has no body that could show it.
pub(crate) fn is_foreign(error: &Error) -> bool {
    let has_body = error.body().is_some_and(|body| !body.is_empty());
    error.kind() == Kind::NotFound && error.code().is_none() && has_body
}

/// Describes a code that was already mailed.
pub(crate) fn earlier_code(error: &Error) -> String {
    let again = match error.retry_after() {
        Some(wait) => format!("in {} min", wait.as_secs().div_ceil(60).max(1)),
        None => "later".to_owned(),
    };
    format!("was already emailed, unless five wrong attempts invalidated it; you can request another {again}")
}

/// Whether the answer was a success that is not the service's.
pub(crate) fn is_unreadable(error: &Error) -> bool {
    error.kind() == Kind::Decode || error.status().is_some_and(|status| status.is_success())
}
