//! Hints: what to do next, by failure.

use deeplink_client::{Error, Kind};
use deeplink_core::error::ErrorCode;

/// The hint for an error; `elsewhere` when the requested host is not the service's.
pub(crate) fn of(error: &Error, elsewhere: bool) -> Option<String> {
    let wait = || match error.retry_after() {
        Some(wait) => format!("try again in {} s", wait.as_secs().max(1)),
        None => "try again later".to_owned(),
    };
    let text = match error.code() {
        Some(ErrorCode::Unauthorized) => {
            "dl whoami shows where the key comes from; dl login stores a new one".to_owned()
        }
        Some(ErrorCode::InvalidKey) => {
            "dl whoami shows where the key comes from; dl login stores a new one. A key from dl signup stops working once its \
             email address is confirmed: store the key shown on that page with dl login --with-key"
                .to_owned()
        }
        Some(ErrorCode::ForbiddenScope) => {
            "this key belongs to an affiliate; use a key of the account itself".to_owned()
        }
        Some(ErrorCode::NotFound) => "dl links list shows the account's links".to_owned(),
        Some(ErrorCode::AffiliateScopeMismatch) => "leave --affiliate out: this key always uses its own".to_owned(),
        Some(ErrorCode::DomainTaken) => {
            "dl domains list shows yours; a domain that another account verified must be removed there first".to_owned()
        }
        Some(ErrorCode::AlternateLimit) => {
            "an account has one verified alternate domain: dl domains delete removes the other one".to_owned()
        }
        Some(ErrorCode::QuotaExceeded) => {
            "delete what you no longer need, or upgrade: dl billing status shows the plan, dl billing checkout changes it"
                .to_owned()
        }
        Some(ErrorCode::InvalidTier) => "dl billing checkout takes pro, business or scale".to_owned(),
        Some(ErrorCode::NoSubscription) => "dl billing status shows the account's plan".to_owned(),
        Some(ErrorCode::NoCustomer) => "dl billing checkout subscribes".to_owned(),
        Some(ErrorCode::PaymentRequired) => "dl cannot pay per request; log in with dl login, and no payment is needed".to_owned(),
        Some(ErrorCode::PaymentReplayed) => {
            "to repeat a paid request, send the same Idempotency-Key; only a different request needs a new payment"
                .to_owned()
        }
        Some(ErrorCode::ProcessorNotConfigured) => {
            "this service takes no payments; its operator can grant a plan".to_owned()
        }
        Some(ErrorCode::InvalidCursor) => "start again without --cursor; a cursor carries its own filters".to_owned(),
        Some(ErrorCode::EmailExists) => "dl login signs in with that address".to_owned(),
        Some(ErrorCode::AccountSuspended) => {
            "contact the operator of this service, who can resume the account".to_owned()
        }
        Some(ErrorCode::SignupClosed) => {
            "ask the operator of this service for a key, then dl login --with-key".to_owned()
        }
        Some(ErrorCode::KeyLimit) => "dl keys list shows them; dl keys delete ID makes room".to_owned(),
        Some(ErrorCode::KeyInUse) => "another key can delete it; dl keys rotate replaces it".to_owned(),
        Some(ErrorCode::LastKey) => "make another key first: dl keys request, dl keys confirm".to_owned(),
        Some(ErrorCode::RequestPending) => format!("dl keys confirm takes the code that {}", earlier_code(error)),
        Some(ErrorCode::InvalidCode) => "the newest mail has the code; it works for 10 minutes".to_owned(),
        Some(ErrorCode::TooManyAttempts) => {
            "this code no longer works; dl keys request mails another one later".to_owned()
        }
        Some(ErrorCode::NotAMember) => "only confirmed team members can do this: see dl team list, or dl team invite ADDRESS".to_owned(),
        Some(ErrorCode::UserUnverified) => {
            "the link that was mailed to this address must be confirmed first; dl team invite ADDRESS sends a new one"
                .to_owned()
        }
        Some(ErrorCode::UserExists) => "dl team list shows the people of the team".to_owned(),
        Some(ErrorCode::LastUser) => "invite another person first: dl team invite ADDRESS".to_owned(),
        Some(ErrorCode::DomainNotFound) => "dl domains add claims a domain".to_owned(),
        Some(ErrorCode::DomainNotVerified) => "dl domains verify says what is missing".to_owned(),
        Some(ErrorCode::PartnerKeyTaken) => "dl affiliates list shows who has it".to_owned(),
        Some(ErrorCode::CredentialLimit) => "dl affiliates creds delete makes room".to_owned(),
        Some(ErrorCode::NameTaken) => {
            "dl sources list shows the existing source; dl sources rotate replaces its URL".to_owned()
        }
        Some(ErrorCode::IdentifyConflict) => "an install stays with the user it was first bound to".to_owned(),
        Some(
            ErrorCode::RateLimited
            | ErrorCode::Overloaded
            | ErrorCode::DatabaseUnavailable
            | ErrorCode::UpstreamUnavailable
            | ErrorCode::FacilitatorUnavailable
            | ErrorCode::PaymentInProgress,
        ) => wait(),
        Some(code) if code.is_not_configured() => "this service has not set that up; ask its operator".to_owned(),
        _ => match error.kind() {
            Kind::Connect if elsewhere => "check the address, its DNS and the network".to_owned(),
            Kind::Connect => "check --base-url and the network; dl ping tries again".to_owned(),
            Kind::Timeout if error.is_ambiguous() => {
                "the request may have been applied: check before you retry; --timeout waits longer".to_owned()
            }
            Kind::Timeout => "--timeout waits longer".to_owned(),
            _ if error.is_ambiguous() => "the request may have been applied: check before you retry".to_owned(),
            Kind::RateLimited | Kind::Unavailable | Kind::Server | Kind::Transport => wait(),
            _ if elsewhere => return None,
            _ if is_unreadable(error) => "check --base-url: the response is not from this service".to_owned(),
            Kind::Api if error.status().is_some_and(|status| status.is_redirection()) => {
                "dl does not follow redirects, so that the key is not sent elsewhere; check --base-url".to_owned()
            }
            _ => return None,
        },
    };
    Some(text)
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
