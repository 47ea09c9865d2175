//! When a link expires, whether it works for everyone, and how often it was clicked.

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::{MAX_IMPORTED_CLICKS, check_end};
use deeplink_core::time::Timestamp;

use super::super::cells::Draft;
use super::super::fields::Field;
use super::row::RowCells;
use super::{Fault, Foreign, ForeignNotes, Role, moment, unplaced};

impl Foreign {
    /// Sets the expiry, and disables a link that does not redirect everyone to its destination.
    pub(super) fn state(
        &self,
        row: &RowCells<'_>,
        line: u64,
        draft: &mut Draft,
        notes: &mut ForeignNotes,
    ) -> Result<(), Fault> {
        if is_off(row, self.reading.now) {
            draft.enabled(Some(false));
        }
        mark_used(row, self.reading.now);
        if let Some(url) = row.text(&Role::ExpiredUrl) {
            draft.apply(&Field::ExpiredUrl, Some(url)).map_err(unplaced)?;
        }
        let Some(cell) = row.first(&Role::Expires).filter(|cell| !is_never(&cell.text)) else { return Ok(()) };
        let at_fault = |invalid| (Some(cell.column), invalid);
        let Some(end) = moment::parse(&cell.text) else {
            let text = cell.text.trim().escape_debug();
            let message = format!("\"{text}\" is not a date such as 2027-01-31 or 2027-01-31T12:00:00Z");
            return Err(at_fault(Invalid::field(ErrorCode::InvalidExpiresAt, "expires_at", message)));
        };
        match self.reading.now {
            // The account may have the link from an earlier import, so only the service can reject it.
            Some(now) if end <= now => notes.expired.add(line),
            Some(now) => check_end(Some(end), now).map_err(at_fault)?,
            None => {}
        }
        draft.apply(&Field::ExpiresAt, Some(&end.to_string())).map_err(at_fault)
    }
}

/// Whether the other service currently does not redirect everyone to the destination.
pub(super) fn is_off(row: &RowCells<'_>, now: Option<Timestamp>) -> bool {
    let has = |role| row.peek(&role).is_some_and(|text| !is_false(text));
    has(Role::Password) || has(Role::DisabledAt) || begins_later(row, now) || is_used_up(row) || has_other_status(row)
}

/// Marks what needs no note, because it disables the link or does not restrict it.
fn mark_used(row: &RowCells<'_>, now: Option<Timestamp>) {
    for role in [Role::Password, Role::DisabledAt] {
        row.all(&role).for_each(drop);
    }
    let begins = row.peek(&Role::Begins);
    if begins_later(row, now) || begins.is_some_and(|text| is_never(text) || moment::parse(text).is_some()) {
        row.text(&Role::Begins);
    }
    if is_used_up(row) {
        row.text(&Role::MaxClicks);
    }
    if row.peek(&Role::Status).is_some_and(|text| !is_archived(text)) {
        row.text(&Role::Status);
    }
}

fn begins_later(row: &RowCells<'_>, now: Option<Timestamp>) -> bool {
    let begins = row.peek(&Role::Begins).and_then(moment::parse);
    begins.zip(now).is_some_and(|(begins, now)| begins > now)
}

fn is_used_up(row: &RowCells<'_>) -> bool {
    let number = |role| row.peek(&role).and_then(count);
    number(Role::MaxClicks).zip(number(Role::Clicks)).is_some_and(|(most, clicks)| clicks >= most)
}

fn has_other_status(row: &RowCells<'_>) -> bool {
    row.peek(&Role::Status).is_some_and(|text| !text.eq_ignore_ascii_case("active") && !is_archived(text))
}

/// Whether a link is archived in the other service.
pub(super) fn is_kept_active(row: &RowCells<'_>) -> bool {
    [Role::Archived, Role::Status].into_iter().any(|role| row.peek(&role).is_some_and(is_archived))
}

/// Whether a link is archived, by a status or by yes and no.
pub(super) fn is_archived(text: &str) -> bool {
    is_true(text) || text.eq_ignore_ascii_case("archived")
}

pub(super) fn is_true(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "true" | "yes" | "1")
}

fn is_false(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "" | "false" | "no" | "0")
}

/// Whether a text means that there is no such time.
fn is_never(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "never" | "-" | "0000-00-00" | "0000-00-00 00:00:00")
}

/// The clicks that the other service counted. Anything else in that column is left to be noted.
pub(super) fn clicks(row: &RowCells<'_>) -> Option<i64> {
    let number = row.peek(&Role::Clicks).and_then(count).and_then(|count| i64::try_from(count).ok());
    let number = number.filter(|count| *count <= MAX_IMPORTED_CLICKS)?;
    row.text(&Role::Clicks);
    Some(number)
}

/// A number such as `1,204`.
pub(super) fn count(text: &str) -> Option<u64> {
    text.trim().replace([',', ' ', '\u{a0}', '\u{202f}'], "").parse().ok()
}
