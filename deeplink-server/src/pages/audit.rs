//! The audit log, as part of the settings.

use askama::Template;
use axum::extract::State;
use deeplink_core::affiliate::AffiliateDetail;
use deeplink_core::audit::{AuditAction, AuditActor, AuditEntry};
use deeplink_core::time::Timestamp;
use http::StatusCode;

use super::PageResult;
use super::deliveries::capitalised;
use super::frame::{Frame, Pager, Section, answer};
use super::person::Person;
use crate::api;
use crate::http::extract::Query;
use crate::http::pages::PageRequest;
use crate::state::Shared;

struct Row {
    at: Timestamp,
    action: String,
    by: String,
    target: Option<String>,
    detail: Option<String>,
}

impl Row {
    /// An entry; that of a credential names its affiliate, unless that is deleted.
    fn of(entry: AuditEntry, affiliates: &[AffiliateDetail], frame: &Frame) -> Self {
        let by = who(entry.actor, &entry.actor_type);
        // An email address is written as it is.
        let by = if entry.actor_type == AuditActor::User { by } else { capitalised(&by) };
        let target = entry.target.filter(|_| !is_named(&entry.action, entry.detail.is_some()));
        let action = match (&entry.action, &entry.detail) {
            (AuditAction::PlanGranted, None) => "Granted plan ended".to_owned(),
            (action, _) => words_of(action),
        };
        let detail = entry.detail.map(|detail| {
            let affiliate = affiliates.iter().find(|affiliate| affiliate.id.as_str() == detail);
            // The moment of a scheduled deletion.
            let moment = detail.parse().ok().map(|at| frame.second(&at));
            affiliate.map(|affiliate| affiliate.name.clone()).or(moment).unwrap_or(detail)
        });
        Self { at: entry.at, action, by, target, detail }
    }
}

/// Who did something, as in the middle of a sentence.
pub(super) fn who(actor: Option<String>, kind: &AuditActor) -> String {
    match (kind, actor) {
        (AuditActor::SecretKey, Some(prefix)) => format!("secret key {prefix}"),
        (AuditActor::PublishableKey, Some(prefix)) => format!("publishable key {prefix}"),
        (AuditActor::Wallet, Some(address)) => format!("wallet {address}"),
        (_, Some(actor)) => actor,
        (AuditActor::Operator, None) => "the operator of this service".to_owned(),
        (_, None) => "the service".to_owned(),
    }
}

/// Whether an entry says without an id what it is about.
fn is_named(action: &AuditAction, has_detail: bool) -> bool {
    match action {
        AuditAction::AccountCreated
        | AuditAction::AccountUpdated
        | AuditAction::DeletionScheduled
        | AuditAction::DeletionCanceled
        | AuditAction::AccountSuspended
        | AuditAction::AccountResumed
        | AuditAction::UserSignedIn
        | AuditAction::UserJoined
        | AuditAction::AccessRevoked
        | AuditAction::PlanGranted => true,
        AuditAction::UserInvited
        | AuditAction::UserRemoved
        | AuditAction::SecretKeyCreated
        | AuditAction::SecretKeyDeleted
        | AuditAction::AffiliateCreated
        | AuditAction::AffiliateUpdated
        | AuditAction::AffiliateDeleted
        | AuditAction::AppSaved
        | AuditAction::AppDeleted
        | AuditAction::SourceCreated
        | AuditAction::SourceDeleted => has_detail,
        _ => false,
    }
}

/// An action as people read it, such as "Secret key created".
fn words_of(action: &AuditAction) -> String {
    match action {
        AuditAction::AppSaved => return "App added or changed".to_owned(),
        AuditAction::QrLogoSaved => return "QR logo uploaded".to_owned(),
        AuditAction::QrLogoDeleted => return "QR logo deleted".to_owned(),
        _ => {}
    }
    capitalised(&action.as_str().replace(['.', '_'], " ").replace("sign in link", "sign-in link"))
}

#[derive(Template)]
#[template(path = "pages/audit.html")]
struct AuditPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
    pager: Pager,
}

/// A page of the log, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    let cursor = query.one("cursor")?;
    let found = api::audit::list_for(&app, &person.caller, PageRequest::at(cursor)).await?;
    let frame = Frame::of(&app, &person, Section::SETTINGS, "Audit log");
    let is_of_credential =
        |entry: &AuditEntry| matches!(entry.action, AuditAction::CredentialCreated | AuditAction::CredentialDeleted);
    let affiliates = if found.entries.iter().any(is_of_credential) {
        api::affiliates::all_of(&app, &person.caller).await?
    } else {
        Vec::new()
    };
    let rows = found.entries.into_iter().map(|entry| Row::of(entry, &affiliates, &frame)).collect();
    let page = AuditPage { frame: &frame, rows, pager: Pager::new("/account/audit", cursor, found.next_cursor) };
    Ok(answer(&app, StatusCode::OK, &frame, &page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_as_words() {
        for (action, words) in [
            (AuditAction::SecretKeyCreated, "Secret key created"),
            (AuditAction::UserSignedIn, "User signed in"),
            (AuditAction::AppSaved, "App added or changed"),
            (AuditAction::QrLogoSaved, "QR logo uploaded"),
            (AuditAction::from("new.thing"), "New thing"),
        ] {
            assert_eq!(words_of(&action), words);
        }
    }

    #[test]
    fn an_actor_is_named_after_its_kind() {
        for (kind, actor, words) in [
            (AuditActor::SecretKey, Some("dl_live_0123456789"), "secret key dl_live_0123456789"),
            (AuditActor::User, Some("a@example.com"), "a@example.com"),
            (AuditActor::Operator, None, "the operator of this service"),
            (AuditActor::Service, None, "the service"),
        ] {
            assert_eq!(who(actor.map(str::to_owned), &kind), words);
        }
    }
}
