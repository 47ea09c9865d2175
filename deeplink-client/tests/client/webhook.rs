//! Signed requests at the receiver's end: test vectors for every implementation, and deduplication.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use deeplink_client::Timestamp;
use deeplink_client::webhook::{
    Deduplicator, Duplicate, Error, Event, EventData, EventKind, NotASecret, Verifier, WebhookSecret,
};
use deeplink_core::event::sample::{in_earlier_form, sample};
use deeplink_core::signature::Signer;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

/// When the vectors were signed, in seconds since 1970.
const SIGNED: i64 = 1_795_167_000;
const ID: &str = "evt_019a1b2c3d4e5f6071829304";
const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn verifier(secrets: &[&str]) -> Verifier {
    Verifier::new(secrets.iter().map(|secret| WebhookSecret::new(*secret))).expect("secrets")
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

/// A valid request, as a vector: each variation states what it changes.
struct Vector {
    name: &'static str,
    /// The receiver's secrets.
    secrets: Vec<&'static str>,
    body: String,
    headers: Vec<(String, String)>,
    now: i64,
    tolerance: Option<u64>,
    expect: &'static str,
}

impl Vector {
    fn signed(name: &'static str, secrets: &[&'static str], body: &str) -> Self {
        let signed = verifier(secrets).sign(body.as_bytes(), ID, at(SIGNED)).expect("headers");
        let headers = signed.iter().filter(|(name, _)| *name != "content-type");
        Self {
            name,
            secrets: secrets.to_vec(),
            body: body.to_owned(),
            headers: headers
                .map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()))
                .collect(),
            now: SIGNED,
            tolerance: Some(300),
            expect: "valid",
        }
    }

    fn is(mut self, expect: &'static str) -> Self {
        self.expect = expect;
        self
    }

    fn for_secrets(mut self, secrets: &[&'static str]) -> Self {
        self.secrets = secrets.to_vec();
        self
    }

    fn without_tolerance(mut self) -> Self {
        self.tolerance = None;
        self
    }

    fn at(mut self, now: i64) -> Self {
        self.now = now;
        self
    }

    fn body(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    fn header(mut self, name: &str, change: impl Fn(&str) -> String) -> Self {
        let header = self.headers.iter_mut().find(|(header, _)| header == name).expect("a header");
        header.1 = change(&header.1);
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(header, _)| header != name);
        self
    }

    fn json(&self) -> Value {
        let headers: serde_json::Map<_, _> =
            self.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        json!({
            "name": self.name, "secrets": self.secrets, "body": self.body, "headers": headers,
            "now": self.now, "tolerance_seconds": self.tolerance, "expect": self.expect,
        })
    }
}

fn vectors() -> Vec<Vector> {
    let body = sample(&EventKind::Conversion, 1).expect("a sample").raw;
    let good = |name| Vector::signed(name, &[NEW], &body);
    let mut all: Vec<Vector> = EventKind::ALL
        .iter()
        .zip(["a click", "an attribute", "an identify", "a conversion"])
        .map(|(kind, name)| Vector::signed(name, &[NEW], &sample(kind, 7).expect("a sample").raw))
        .collect();
    let earlier = in_earlier_form(&sample(&EventKind::Conversion, 7).expect("a sample")).expect("a body");
    let (service, id) = ("x-service-signature", "webhook-id");
    let (timestamp, standard) = ("webhook-timestamp", "webhook-signature");
    // Digits between two dots in the body, which must not be taken for the time.
    let dotted = r#"{"event":"refund","timestamp":"2026-11-20T09:30:00Z","data":{"v":"a.1795167000.b"}}"#;
    let moved = || {
        let (before, after) = dotted.split_once(".1795167000.").expect("it is there");
        let forged = format!("{ID}.{SIGNED}.{before}");
        let vector = Vector::signed("the body's own dots taken for the time", &[NEW], dotted);
        vector.body(after).header("webhook-id", move |_| forged.clone()).is("malformed")
    };
    all.extend([
        Vector::signed("an earlier conversion", &[NEW], &earlier),
        Vector::signed(
            "text of any script",
            &[NEW],
            "{\"event\":\"refund\",\"timestamp\":\"2026-11-20T09:30:00Z\",\"data\":{\"a\":\"Grüße 👋 \\u0000\"}}",
        ),
        Vector::signed(
            "white space and an unknown kind",
            &[NEW],
            "{ \"event\": \"refund\",\n\t\"timestamp\": \"2026-11-20T09:30:00Z\", \"data\": {} }\n",
        ),
        Vector::signed("an empty body", &[NEW], ""),
        Vector::signed("a secret of 24 bytes", &[OLD], &body),
        Vector::signed("both secrets after a rotation", &[NEW, OLD], &body),
        Vector::signed("a receiver that has the old secret alone", &[NEW, OLD], &body).for_secrets(&[OLD]),
        good("a receiver with several secrets").for_secrets(&[OTHER, NEW]),
        good("signatures of other versions beside ours").header(standard, |s| format!("v1a,AAAA v2,xyz {s}")),
        good("the last second of the tolerance").at(SIGNED + 300),
        good("a receiver whose clock is behind").at(SIGNED - 300),
        good("the first signature alone").without(standard).without(id).without(timestamp).without_tolerance(),
        good("the second signature alone").without(service),
        good("a bad first signature beside a good second one").header(service, |_| "0".repeat(64)),
        good("years later, where the time does not matter").at(SIGNED + 100_000_000).without_tolerance(),
    ]);
    all.extend([
        good("another secret").for_secrets(&[OTHER]).is("mismatch"),
        good("a flipped bit in the body").body(&body.replacen("conversion", "conversioo", 1)).is("mismatch"),
        good("an added newline").body(&format!("{body}\n")).is("mismatch"),
        good("an empty body in place of the body").body("").is("mismatch"),
        good("another id").header(id, |_| "evt_019a1b2c3d4e5f6071829305".into()).is("mismatch"),
        good("another time").header(timestamp, |_| (SIGNED + 1).to_string()).is("mismatch"),
        good("a flipped bit in the first signature")
            .without(standard)
            .without_tolerance()
            .header(service, |s| format!("{}{}", if s.starts_with('0') { "1" } else { "0" }, &s[1..]))
            .is("mismatch"),
        good("a flipped bit in the second signature")
            .header(standard, |s| format!("v1,{}{}", if s.starts_with("v1,A") { "B" } else { "A" }, &s[4..]))
            .is("mismatch"),
        good("the old secret's signature, long after").for_secrets(&[OLD]).is("mismatch"),
        moved(),
        good("no signature at all").without(service).without(standard).without_tolerance().is("missing"),
        good("no second signature where it is asked for").without(standard).is("missing"),
        good("no id where it is asked for").without(id).is("missing"),
        good("no time where it is asked for").without(timestamp).is("missing"),
        good("the first signature in upper case")
            .without(standard)
            .without_tolerance()
            .header(service, str::to_uppercase)
            .is("malformed"),
        good("the first signature with a prefix")
            .without(standard)
            .without_tolerance()
            .header(service, |s| format!("sha256={s}"))
            .is("malformed"),
        good("half of the first signature")
            .without(standard)
            .without_tolerance()
            .header(service, |s| s[..32].into())
            .is("malformed"),
        good("the second signature without its version").header(standard, |s| s.replace("v1,", "")).is("malformed"),
        good("the second signature of another version").header(standard, |s| s.replace("v1,", "v2,")).is("malformed"),
        good("an id with a dot").header(id, |id| format!("{id}.1")).is("malformed"),
        good("no id in the header").header(id, |_| String::new()).is("malformed"),
        good("a time in milliseconds and letters").header(timestamp, |t| format!("{t}000ms")).is("malformed"),
        good("a time before 1970").header(timestamp, |_| "-1".into()).is("malformed"),
        good("a second after the tolerance").at(SIGNED + 301).is("too_old"),
        good("a second too early").at(SIGNED - 301).is("too_old"),
        good("repeated years later").at(SIGNED + 100_000_000).is("too_old"),
    ]);
    all
}

fn file() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/webhooks.json")
}

/// The file is the output of this code. After a change that is meant to alter it: `INSTA_UPDATE=always`, and look at
/// the difference.
#[test]
fn the_vectors_are_what_the_code_makes() {
    let vectors: Vec<Value> = vectors().iter().map(Vector::json).collect();
    let text = serde_json::to_string_pretty(&json!({ "vectors": vectors })).expect("JSON") + "\n";
    #[expect(clippy::disallowed_methods, reason = "the switch of the snapshots is an environment variable")]
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(file(), &text).expect("a file");
    }
    assert_eq!(std::fs::read_to_string(file()).expect("the vectors"), text);
}

/// Where both signatures are verified, a `webhook-signature` that is present must be valid; a missing one, or a first
/// signature with another secret, does not count against the request.
#[test]
fn a_second_signature_that_is_wrong_is_refused_if_both_count() {
    let body = sample(&EventKind::Click, 1).expect("a sample").raw;
    let verifier = verifier(&[NEW]);
    let good = verifier.sign(body.as_bytes(), ID, at(SIGNED)).expect("headers");
    let with = |name: &'static str, value: Option<&'static str>| {
        let mut headers = good.clone();
        match value {
            Some(value) => drop(headers.insert(name, HeaderValue::from_static(value))),
            None => drop(headers.remove(name)),
        }
        let both = verifier.verify_both(&headers, body.as_bytes()).map(|verified| verified.id.is_some());
        (verifier.verify(&headers, body.as_bytes()).is_ok(), both)
    };
    assert!(matches!(with("webhook-id", Some("evt_forged")), (true, Err(Error::Mismatch))));
    assert!(matches!(with("webhook-timestamp", Some("1")), (true, Err(Error::Mismatch))));
    assert!(matches!(with("webhook-signature", Some("v1,AAAA")), (true, Err(Error::Malformed))));
    assert!(matches!(with("webhook-signature", None), (true, Ok(false))));
    assert!(matches!(with("x-service-signature", Some("00")), (true, Ok(true))));
    assert!(matches!(with("content-type", None), (true, Ok(true))));
}

/// The client's verifier and the core's signer both agree with the file.
#[test]
fn every_vector_gives_what_it_says() {
    let file: Value = serde_json::from_slice(&std::fs::read(file()).expect("the vectors")).expect("JSON");
    for vector in file["vectors"].as_array().expect("vectors") {
        let text = |name: &str| vector[name].as_str().expect("a string").to_owned();
        let secrets: Vec<&str> =
            vector["secrets"].as_array().expect("secrets").iter().map(|s| s.as_str().expect("text")).collect();
        let mut headers = HeaderMap::new();
        for (name, value) in vector["headers"].as_object().expect("headers") {
            let name: HeaderName = name.parse().expect("a name");
            headers.insert(name, HeaderValue::from_str(value.as_str().expect("text")).expect("a value"));
        }
        let now = at(vector["now"].as_i64().expect("seconds"));
        let mut verifier = verifier(&secrets).with_clock(move || now);
        if let Some(tolerance) = vector["tolerance_seconds"].as_u64() {
            verifier = verifier.require_timestamp(Duration::from_secs(tolerance));
        }
        let body = text("body");
        let found = match verifier.verify(&headers, body.as_bytes()) {
            Ok(verified) => {
                assert_eq!(verified.id, headers.get("webhook-id").map(|id| id.to_str().expect("text")));
                "valid"
            }
            Err(Error::Missing) => "missing",
            Err(Error::Malformed) => "malformed",
            Err(Error::Mismatch) => "mismatch",
            Err(Error::TooOld) => "too_old",
            Err(other) => panic!("{other}"),
        };
        assert_eq!(found, text("expect"), "{}", text("name"));
        let event = verifier.parse(&headers, body.as_bytes());
        match found {
            "valid" if body.is_empty() => assert!(matches!(event, Err(Error::Parse(_))), "{}", text("name")),
            "valid" => assert_eq!(event.expect("an event").raw, body),
            _ => assert!(event.is_err()),
        }
        if found == "valid" && secrets.len() == 1 {
            let signer = Signer::new(&WebhookSecret::new(secrets[0])).expect("a secret");
            let id = headers.get("webhook-id").and_then(|id| id.to_str().ok());
            if let (Some(id), Some(standard)) = (id, headers.get("webhook-signature")) {
                let ours = signer.standard(id, SIGNED, body.as_bytes());
                assert!(standard.to_str().expect("text").split(' ').any(|one| one == ours), "{}", text("name"));
            }
        }
    }
}

#[test]
fn secrets_must_be_secrets() {
    for wrong in [vec![], vec!["whsec_"], vec![NEW, "secret"], vec![" whsec_AAAA"]] {
        let made = Verifier::new(wrong.iter().map(|secret| WebhookSecret::new(*secret)));
        assert_eq!(made.err(), Some(NotASecret), "{wrong:?}");
    }
    assert!(!format!("{:?}", verifier(&[NEW])).contains("AAECAw"));
}

#[test]
fn headers_that_come_twice_or_are_no_text_are_malformed() {
    let verifier = verifier(&[NEW]);
    let good = verifier.sign(b"{}", ID, at(SIGNED)).expect("headers");
    for name in ["x-service-signature", "webhook-signature", "webhook-id", "webhook-timestamp"] {
        let name: HeaderName = name.parse().expect("a name");
        let mut twice = good.clone();
        twice.remove(if name == "x-service-signature" { "webhook-signature" } else { "x-service-signature" });
        let value = twice[&name].clone();
        twice.append(name.clone(), value);
        assert!(matches!(verifier.verify(&twice, b"{}"), Err(Error::Malformed)), "{name}");
        twice.insert(name.clone(), HeaderValue::from_bytes(b"\xff").expect("a value"));
        assert!(matches!(verifier.verify(&twice, b"{}"), Err(Error::Malformed)), "{name}");
    }
    for id in ["", "a.b", "a b", "a\nb", &"x".repeat(257)] {
        assert!(verifier.sign(b"{}", id, at(SIGNED)).is_err(), "{id:?}");
    }
}

#[test]
fn events_are_read_as_they_are_and_as_they_were() {
    let verifier = verifier(&[NEW]);
    let read = |body: &str| {
        let headers = verifier.sign(body.as_bytes(), ID, at(SIGNED)).expect("headers");
        verifier.parse(&headers, body.as_bytes())
    };
    for kind in EventKind::ALL {
        let event = sample(kind, 3).expect("a sample");
        assert_eq!(read(&event.raw).expect("an event"), event);
        let earlier = read(&in_earlier_form(&event).expect("a body")).expect("an event");
        assert_eq!(&earlier.kind, kind);
    }
    let unknown: Event =
        read(r#"{"event":"refund","timestamp":"2026-11-20T09:30:00Z","data":{"n":1}}"#).expect("an event");
    assert_eq!(unknown.data, EventData::Unknown(json!({"n": 1})));
    assert!(matches!(read("no event"), Err(Error::Parse(_))));
}

/// W4: a processed request is recognised for as long as it would be accepted; one that failed is accepted again. An
/// event in progress is not reported as processed: if acknowledged, it would be lost if the attempt in progress failed.
#[test]
fn w4_repeats_are_known() {
    let now = Arc::new(AtomicI64::new(SIGNED * 1_000));
    let clock = Arc::clone(&now);
    let clock = move || Timestamp::from_millis(clock.load(Ordering::Relaxed));
    let tolerance = Duration::from_mins(5);
    let verifier = verifier(&[NEW]).require_timestamp(tolerance).with_clock(clock.clone());
    let seen = Deduplicator::new(tolerance).with_clock(clock);
    let headers = verifier.sign(b"{}", ID, at(SIGNED)).expect("headers");
    let id =
        |verifier: &Verifier| verifier.verify(&headers, b"{}").map(|verified| verified.id.expect("an id").to_owned());

    let first = seen.claim(&id(&verifier).expect("signed")).expect("new");
    assert_eq!(seen.claim(ID).err(), Some(Duplicate::InProgress));
    drop(first);
    seen.claim(ID).expect("its next attempt").keep();
    for later in [0, 150_000, 300_000] {
        now.store(SIGNED * 1_000 + later, Ordering::Relaxed);
        assert_eq!(seen.claim(&id(&verifier).expect("believed")).err(), Some(Duplicate::Processed), "{later}");
    }
    now.store(SIGNED * 1_000 + 600_001, Ordering::Relaxed);
    assert!(matches!(id(&verifier), Err(Error::TooOld)));
    drop(seen.claim(ID).expect("forgotten, because it would no longer be accepted"));
}

#[test]
fn what_is_remembered_is_bounded() {
    let seen = Deduplicator::new(Duration::from_mins(5)).at_most(3);
    for id in ["a", "b", "c", "d"] {
        seen.claim(id).expect("new").keep();
    }
    assert!(seen.claim("d").is_err() && seen.claim("b").is_err());
    seen.claim("a").expect("the oldest is forgotten").keep();
    assert!(seen.claim("b").is_ok(), "and then the next one");
    let clone = seen.clone();
    clone.claim("x").expect("new").keep();
    assert!(seen.claim("x").is_err(), "clones share what they remember");
}

#[cfg(feature = "axum")]
mod extractor {
    use axum_core::body::Body;
    use axum_core::extract::{FromRequest, Request};
    use axum_core::response::IntoResponse;
    use deeplink_client::webhook::{Refused, SignedEvent};
    use http_body_util::BodyExt;

    use super::*;

    async fn extract(headers: &HeaderMap, body: impl Into<Body>) -> Result<SignedEvent, (u16, Value)> {
        let verifier = verifier(&[NEW]).require_timestamp(Duration::from_mins(5)).with_clock(|| at(SIGNED));
        let mut request = Request::new(body.into());
        request.headers_mut().clone_from(headers);
        match SignedEvent::from_request(request, &verifier).await {
            Ok(event) => Ok(event),
            Err(refused) => {
                let response = refused.into_response();
                assert_eq!(response.headers()["content-type"], "application/json");
                let status = response.status().as_u16();
                let body = response.into_body().collect().await.expect("a body").to_bytes();
                Err((status, serde_json::from_slice(&body).expect("JSON")))
            }
        }
    }

    #[tokio::test]
    async fn handlers_get_what_is_signed_and_nothing_else() {
        let sign = |body: &str| verifier(&[NEW]).sign(body.as_bytes(), ID, at(SIGNED)).expect("headers");
        let event = sample(&EventKind::Click, 1).expect("a sample");
        let good = sign(&event.raw);
        let got = extract(&good, event.raw.clone()).await.expect("an event");
        assert_eq!((&got.event, got.id.as_deref()), (&event, Some(ID)));
        let refused = |status: u16, code: &str, error: &str| (status, json!({"error": error, "code": code}));
        let mismatch = refused(401, "invalid_signature", "the signature does not match");
        assert_eq!(extract(&good, "not even JSON").await.err(), Some(mismatch));
        let missing = refused(401, "invalid_signature", "the signature is missing");
        assert_eq!(extract(&HeaderMap::new(), event.raw.clone()).await.err(), Some(missing));
        let unreadable = refused(400, "invalid_event", "the body is not an event");
        assert_eq!(extract(&sign("[]"), "[]").await.err(), Some(unreadable));
        let most = " ".repeat(1 << 20);
        assert_eq!(extract(&sign(&most), most.clone()).await.expect_err("no event").0, 400, "it was read and trusted");
        let large = refused(413, "payload_too_large", "the body is longer than 1 MiB");
        assert_eq!(extract(&good, format!("{most} ")).await.err(), Some(large));
        assert_eq!(Refused::Broken.status(), 400);
    }
}
