//! One attempt: sign, post, and say what became of it.

use std::time::Duration;

use bytes::Bytes;
use deeplink_core::signature::{SERVICE_SIGNATURE, SERVICE_TEST, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{ATTEMPT_MILLIS, MAX_ANSWER, WAITS_MILLIS};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::time::Instant;

use super::target::Target;
use crate::db::deliveries::{Due, Settled, Tried};
use crate::http::metrics::Sent;
use crate::outbound::http::{Failed, Post, Terms};
use crate::state::App;

/// What the log says of an attempt that nobody answered: the same for every reason, so that nobody learns by it what is
/// where in somebody's network.
const NO_ANSWER: &str = "there was no valid answer";
/// What it says when the attempt's time was over. Only the time decides that, which stands beside it, and a connection has
/// less: so this tells no closed port from a filtered one.
const LATE: &str = "there was no answer within 10 seconds";
const NOT_TAKEN: &str = "the answer's status is not one from 200 to 299";
const NOT_SIGNED: &str = "the webhook's secret cannot be opened";

/// Makes an attempt.
pub(super) async fn attempt(app: &App, target: &Target, due: &Due, body: &str) -> Tried {
    let (at, began) = (app.clock.now(), Instant::now());
    let Some(headers) = headers(target, due, body, at) else {
        return Tried {
            at: at.as_millis(),
            ms: 0,
            status: None,
            error: Some(NOT_SIGNED.into()),
            answer: String::new(),
        };
    };
    let terms = Terms { began, total: Duration::from_millis(ATTEMPT_MILLIS), largest: MAX_ANSWER };
    let body = Bytes::copy_from_slice(body.as_bytes());
    let outcome = app.http.post(Post { url: target.url(), headers, body, terms }).await;
    let ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
    let (status, error, answer, sent) = match outcome {
        Ok(answer) if answer.status.is_success() => (Some(answer.status), None, text(&answer.begin), Sent::Taken),
        Ok(answer) => (Some(answer.status), Some(NOT_TAKEN), text(&answer.begin), Sent::Refused),
        Err(failed) => {
            tracing::debug!(delivery = due.id, error = failed.in_short(), "a delivery was not answered");
            let why = if matches!(failed, Failed::Late(_)) { LATE } else { NO_ANSWER };
            (None, Some(why), String::new(), Sent::Unanswered)
        }
    };
    app.metrics.sent(sent);
    Tried {
        at: at.as_millis(),
        ms,
        status: status.map(|status| status.as_u16()),
        error: error.map(str::to_owned),
        answer,
    }
}

/// The headers of an attempt at this moment: what is signed and what is said are one reading of the clock.
fn headers(target: &Target, due: &Due, body: &str, at: Timestamp) -> Option<HeaderMap> {
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

/// What is kept of an answer: text without control characters, at most 1,024 bytes of it.
fn text(begin: &[u8]) -> String {
    let mut text: String = String::from_utf8_lossy(begin).chars().filter(|char| !char.is_control()).collect();
    text.truncate(text.floor_char_boundary(MAX_ANSWER));
    text
}

/// What is to be stored of an attempt that ended at `now`: when the next one is due, if there is one.
pub(super) fn settled(due: &Due, tried: &Tried, now: i64) -> Settled {
    let tries = due.tries + 1;
    let wait = usize::try_from(tries).ok().and_then(|next| WAITS_MILLIS.get(next));
    let (state, due_at) = match (&tried.error, wait) {
        (None, _) => (1, now),
        (Some(_), Some(wait)) => (0, now + wait),
        (Some(_), None) => (2, now),
    };
    Settled { id: due.id.clone(), before: due.tries, tries, state, due_at, log: tried.behind(&due.log) }
}

/// What is to be stored of a delivery whose event is not kept any more: there is nothing to send.
pub(super) fn void(due: &Due, now: i64) -> Settled {
    Settled { id: due.id.clone(), before: due.tries, tries: due.tries, state: 3, due_at: now, log: due.log.clone() }
}

#[cfg(test)]
mod tests {
    use deeplink_core::signature::{Signer, WebhookSecret};

    use super::super::target::tests::{SECRET, stored, vault};
    use super::*;

    fn due() -> Due {
        let (id, event_id, log) = ("dlv".into(), "evt".into(), "[]".into());
        Due { id, event_id, tries: 0, log, turn: 0, body: None, is_test: false }
    }

    /// A receiver must not take what was made up for what happened, and the bytes are those of an event.
    #[test]
    fn made_up_events_say_so_in_a_header() {
        let vault = vault();
        let target = Target::open(stored(&vault), &vault);
        for is_test in [false, true] {
            let headers =
                headers(&target, &Due { is_test, ..due() }, "{}", Timestamp::from_millis(0)).expect("headers");
            assert_eq!(headers.get(SERVICE_TEST).map(HeaderValue::as_bytes), is_test.then_some(&b"true"[..]));
        }
    }

    /// Whatever the moment within a second, the signature is over the time that the header says.
    #[test]
    fn the_time_that_is_said_is_the_time_that_is_signed() {
        let vault = vault();
        let target = Target::open(stored(&vault), &vault);
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
        let failed =
            |at| Tried { at, ms: 10, status: Some(500), error: Some(NOT_TAKEN.into()), answer: "\"oh\"".into() };
        let mut now = 1_000;
        let mut dues = Vec::new();
        for _ in 0..5 {
            let settled = settled(&due, &failed(now), now);
            assert_eq!((settled.before, settled.tries), (due.tries, due.tries + 1));
            dues.push((settled.state, settled.due_at - now));
            now = settled.due_at;
            due = Due { tries: settled.tries, log: settled.log, ..due };
        }
        assert_eq!(dues, [(0, 0), (0, 1_000), (0, 5_000), (0, 25_000), (2, 0)]);
        let log: Vec<Tried> = serde_json::from_str(&due.log).expect("a list");
        assert_eq!(log.iter().map(|tried| tried.at).collect::<Vec<_>>(), [1_000, 1_000, 2_000, 7_000, 32_000]);
        assert_eq!(log[0], failed(1_000));
        let fine = Tried { at: 1, ms: 2, status: Some(204), error: None, answer: String::new() };
        let settled = settled(&Due { tries: 3, log: "[]".into(), ..due }, &fine, 9);
        assert_eq!((settled.state, settled.tries, settled.log.as_str()), (1, 4, r#"[{"at":1,"ms":2,"status":204}]"#));
    }

    #[test]
    fn answers_are_kept_short_and_without_control_characters() {
        assert_eq!(text(b"fine\r\n\0\x1b[2J\xc2\x9b\tnow"), "fine[2Jnow");
        assert_eq!(text(&[0xff; MAX_ANSWER]).len(), MAX_ANSWER - 1, "each of them is replaced by three bytes");
        assert_eq!(text("ä".repeat(MAX_ANSWER).as_bytes()).len(), MAX_ANSWER);
    }
}
