//! One attempt: sign, post, and describe the result.

use std::time::Duration;

use bytes::Bytes;
use deeplink_core::signature::{SERVICE_SIGNATURE, SERVICE_TEST, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{ATTEMPT_TIMEOUT_MILLIS, MAX_RESPONSE_BYTES, next_attempt};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::time::Instant;

use super::target::Target;
use crate::db::deliveries::{AttemptRecord, DeliveryState, DeliveryUpdate, DueDelivery};
use crate::metrics::Sent;
use crate::outbound::http::{CallError, Post, Terms};
use crate::state::App;

/// The recorded error of an attempt without an answer: the same for every reason, so that it reveals nothing about the
/// network behind the webhook's URL.
const NO_ANSWER: &str = "there was no valid response";
/// The recorded error of a timeout. Connecting has a shorter limit, so this tells no closed port from a filtered one.
const TIMED_OUT: &str = "there was no response within 10 seconds";
const NOT_SUCCESS: &str = "the response status is not 2xx";
/// Attempts that are kept of a delivery: the first and the latest.
const MAX_KEPT_ATTEMPTS: usize = 12;
const NOT_SIGNED: &str = "the webhook's secret cannot be decrypted";

/// Makes an attempt.
pub(super) async fn make(app: &App, target: &Target, due: &DueDelivery, body: &str) -> AttemptRecord {
    let (at, began) = (app.clock.now(), Instant::now());
    let Some(headers) = headers(target, due, body, at) else {
        return AttemptRecord {
            at: at.as_millis(),
            ms: 0,
            status: None,
            error: Some(NOT_SIGNED.into()),
            answer: String::new(),
        };
    };
    let terms = Terms { began, total: Duration::from_millis(ATTEMPT_TIMEOUT_MILLIS), largest: MAX_RESPONSE_BYTES };
    let body = Bytes::copy_from_slice(body.as_bytes());
    let outcome = app.http.post(Post { url: target.url(), headers, body, terms }).await;
    let ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
    let (status, error, answer, sent) = match outcome {
        Ok(answer) if answer.status.is_success() => (Some(answer.status), None, text(&answer.body_start), Sent::Taken),
        Ok(answer) => (Some(answer.status), Some(NOT_SUCCESS), text(&answer.body_start), Sent::Refused),
        Err(failed) => {
            tracing::debug!(delivery = due.id, error = failed.in_short(), "delivery attempt got no valid response");
            let why = if matches!(failed, CallError::Late(_)) { TIMED_OUT } else { NO_ANSWER };
            (None, Some(why), String::new(), Sent::Unanswered)
        }
    };
    app.metrics.sent(sent);
    AttemptRecord {
        at: at.as_millis(),
        ms,
        status: status.map(|status| status.as_u16()),
        error: error.map(str::to_owned),
        answer,
    }
}

/// The headers of an attempt. The signed time and the one in the header are the same.
fn headers(target: &Target, due: &DueDelivery, body: &str, at: Timestamp) -> Option<HeaderMap> {
    const SERVICE: HeaderName = HeaderName::from_static(SERVICE_SIGNATURE);
    const ID: HeaderName = HeaderName::from_static(WEBHOOK_ID);
    const TIMESTAMP: HeaderName = HeaderName::from_static(WEBHOOK_TIMESTAMP);
    const SIGNATURE: HeaderName = HeaderName::from_static(WEBHOOK_SIGNATURE);
    const TEST: HeaderName = HeaderName::from_static(SERVICE_TEST);
    let signed = target.sign(&due.event_id, at, body.as_bytes())?;
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(SERVICE, signed.service.try_into().ok()?);
    headers.insert(ID, HeaderValue::from_str(&due.event_id).ok()?);
    headers.insert(TIMESTAMP, HeaderValue::from(signed.seconds));
    headers.insert(SIGNATURE, signed.standard.try_into().ok()?);
    if due.is_test {
        headers.insert(TEST, HeaderValue::from_static("true"));
    }
    Some(headers)
}

/// The part of an answer that is kept: text without control characters, at most 1,024 bytes.
fn text(begin: &[u8]) -> String {
    let mut text: String = String::from_utf8_lossy(begin).chars().filter(|char| !char.is_control()).collect();
    text.truncate(text.floor_char_boundary(MAX_RESPONSE_BYTES));
    text
}

/// The update of a delivery after an attempt that ended at `now`: when the next one is due, if there is one within the
/// webhook's time for retries, in seconds.
pub(super) fn update(due: &DueDelivery, record: &AttemptRecord, now: i64, retry_for: i64) -> DeliveryUpdate {
    let mut log = due.log_records();
    log.push(record.clone());
    let tries = due.tries + 1;
    let first_at = log.first().map_or(record.at, |first| first.at);
    let (state, due_at) = match (&record.error, next_attempt(tries, first_at, now, retry_for)) {
        (None, _) => (DeliveryState::Delivered, now),
        (Some(_), Some(due_at)) => (DeliveryState::Pending, due_at),
        (Some(_), None) => (DeliveryState::Failed, now),
    };
    if log.len() > MAX_KEPT_ATTEMPTS {
        log.remove(1);
    }
    let log = serde_json::to_string(&log).unwrap_or_else(|_| "[]".to_owned());
    DeliveryUpdate { id: due.id.clone(), expected_attempts: due.tries, tries, state, due_at, log }
}

/// The update of a delivery that is not sent: its event is no longer kept, or it was created before its webhook was
/// re-enabled.
pub(super) fn canceled_update(due: &DueDelivery, now: i64) -> DeliveryUpdate {
    DeliveryUpdate {
        id: due.id.clone(),
        expected_attempts: due.tries,
        tries: due.tries,
        state: DeliveryState::Canceled,
        due_at: now,
        log: due.log.clone(),
    }
}

#[cfg(test)]
mod tests {
    use deeplink_core::signature::{Signer, WebhookSecret};
    use deeplink_core::webhook::{DEFAULT_RETRY_SECS, MAX_RETRY_SECS};

    use super::super::target::tests::{SECRET, active_webhook, vault};
    use super::*;

    fn due() -> DueDelivery {
        let (id, event_id, log) = ("dlv".into(), "evt".into(), "[]".into());
        DueDelivery { id, event_id, tries: 0, log, turn: 0, body: None, is_test: false }
    }

    /// A receiver must not take a test event for a real one, and the bytes are those of an event.
    #[test]
    fn made_up_events_say_so_in_a_header() {
        let vault = vault();
        let target = Target::open(active_webhook(&vault), &vault);
        for is_test in [false, true] {
            let headers =
                headers(&target, &DueDelivery { is_test, ..due() }, "{}", Timestamp::from_millis(0)).expect("headers");
            assert_eq!(headers.get(SERVICE_TEST).map(HeaderValue::as_bytes), is_test.then_some(&b"true"[..]));
        }
    }

    /// At any point within a second, the signature covers the time in the header.
    #[test]
    fn the_time_that_is_said_is_the_time_that_is_signed() {
        let vault = vault();
        let target = Target::open(active_webhook(&vault), &vault);
        let signer = Signer::new(&WebhookSecret::new(SECRET)).expect("a secret");
        for millis in [0, 1, 999, 1_000, 1_999, 1_700_000_000_999] {
            let headers = headers(&target, &due(), "{}", Timestamp::from_millis(millis)).expect("headers");
            let said = |name: &str| headers[name].to_str().expect("text");
            assert_eq!(said(WEBHOOK_TIMESTAMP), (millis / 1_000).to_string());
            assert!(signer.is_standard(said(WEBHOOK_SIGNATURE), "evt", said(WEBHOOK_TIMESTAMP), b"{}"), "{millis}");
        }
    }

    #[test]
    fn five_attempts_after_the_documented_waits() {
        let mut due = due();
        let failed = |at| AttemptRecord {
            at,
            ms: 10,
            status: Some(500),
            error: Some(NOT_SUCCESS.into()),
            answer: "\"oh\"".into(),
        };
        let mut now = 1_000;
        let mut dues = Vec::new();
        for _ in 0..5 {
            let update = update(&due, &failed(now), now, DEFAULT_RETRY_SECS);
            assert_eq!((update.expected_attempts, update.tries), (due.tries, due.tries + 1));
            dues.push((update.state as i64, update.due_at - now));
            now = update.due_at;
            due = DueDelivery { tries: update.tries, log: update.log, ..due };
        }
        assert_eq!(dues, [(0, 0), (0, 1_000), (0, 5_000), (0, 25_000), (2, 0)]);
        let log: Vec<AttemptRecord> = serde_json::from_str(&due.log).expect("a list");
        assert_eq!(log.iter().map(|record| record.at).collect::<Vec<_>>(), [1_000, 1_000, 2_000, 7_000, 32_000]);
        assert_eq!(log[0], failed(1_000));
        let fine = AttemptRecord { at: 1, ms: 2, status: Some(204), error: None, answer: String::new() };
        let update = update(&DueDelivery { tries: 3, log: "[]".into(), ..due.clone() }, &fine, 9, DEFAULT_RETRY_SECS);
        assert_eq!(
            (update.state as i64, update.tries, update.log.as_str()),
            (1, 4, r#"[{"at":1,"ms":2,"status":204}]"#)
        );

        // Of many attempts, the first and the latest are kept.
        due = DueDelivery { tries: 0, log: "[]".into(), ..due };
        let mut at = 1_000;
        while let (DeliveryState::Pending, next) = {
            let update = super::update(&due, &failed(at), at, MAX_RETRY_SECS);
            due = DueDelivery { tries: update.tries, log: update.log, ..due };
            (update.state, update.due_at)
        } {
            at = next;
        }
        assert_eq!((due.tries, due.log_records().len()), (32, MAX_KEPT_ATTEMPTS));
        assert_eq!([0, MAX_KEPT_ATTEMPTS - 1].map(|nth| due.log_records()[nth].at), [1_000, at]);
    }

    #[test]
    fn answers_are_kept_short_and_without_control_characters() {
        assert_eq!(text(b"fine\r\n\0\x1b[2J\xc2\x9b\tnow"), "fine[2Jnow");
        assert_eq!(
            text(&[0xff; MAX_RESPONSE_BYTES]).len(),
            MAX_RESPONSE_BYTES - 1,
            "each of them is replaced by three bytes"
        );
        assert_eq!(text("ä".repeat(MAX_RESPONSE_BYTES).as_bytes()).len(), MAX_RESPONSE_BYTES);
    }
}
