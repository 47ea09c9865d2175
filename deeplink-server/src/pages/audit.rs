//! The audit log, as part of the settings.

use askama::Template;
use axum::extract::State;
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
    fn of(entry: AuditEntry, frame: &Frame) -> Self {
        let by = who(entry.actor, &entry.actor_type);
        let target = entry.target.filter(|_| !is_named(&entry.action, entry.detail.is_some()));
        let action = match (&entry.action, &entry.detail) {
            (AuditAction::PlanGranted, None) => "Granted plan ended".to_owned(),
            (action, _) => words_of(action),
        };
        // The moment of a scheduled deletion.
        let moment = entry.detail.as_ref().and_then(|detail| detail.parse().ok()).map(|at| frame.second(&at));
        Self { at: entry.at, action, by, target, detail: moment.or(entry.detail) }
    }
}

/// Who did something.
pub(super) fn who(actor: Option<String>, kind: &AuditActor) -> String {
    match (actor, kind) {
        (Some(actor), _) => actor,
        (None, AuditActor::Operator) => "Operator of the service".to_owned(),
        (None, _) => "The service".to_owned(),
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
    let rows = found.entries.into_iter().map(|entry| Row::of(entry, &frame)).collect();
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
            (AuditAction::from("new.thing"), "New thing"),
        ] {
            assert_eq!(words_of(&action), words);
        }
    }
}
