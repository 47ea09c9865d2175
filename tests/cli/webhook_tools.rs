//! `dl webhooks verify`, `sign` and `sample`: tools for authors of receivers. `trigger` and `listen` are tested in
//! `webhook_listen`.

use base64::Engine as _;
use deeplink_core::signature::{Signer, WebhookSecret};
use serde_json::Value;

use deeplink_testing::dl::{Dl, Ran};

pub(crate) const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub(crate) const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
/// The time of the signatures made here, in seconds since 1970.
const SIGNED_AT: i64 = 1_795_167_000;
/// A body that ends in a newline.
const SIGNED_BODY: &str = "{}\n";
const BODY: &str = r#"{"event":"refund","timestamp":"2026-11-20T09:30:00Z","data":{"n":1}}"#;

pub(crate) fn with_secret() -> Dl {
    let dl = Dl::new();
    dl.secret_file("s.txt", &format!("{SECRET}\n"));
    dl.file("b.json", BODY);
    dl
}

/// The headers that `sign` prints for the body.
fn signed(dl: &Dl, more: &str) -> Vec<(String, String)> {
    let ran = dl.run(&format!("webhooks sign --body b.json --secret-file s.txt {more}"));
    ran.ok()
        .lines()
        .map(|line| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

fn value<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    &headers.iter().find(|(header, _)| header == name).expect("a header").1
}

/// Each row of the documentation's table, with its exit code and message.
#[test]
fn a_signature_is_checked_and_a_wrong_one_explained() {
    let dl = with_secret();
    let headers = signed(&dl, "--id evt_1");
    let hex = value(&headers, "x-service-signature").to_owned();
    let bytes: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex")).collect();
    let base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
    let verify = |signature: &str, body: &str, secret: &str, more: &str| -> Ran {
        dl.file("body", body);
        dl.secret_file("secret", secret);
        dl.run(&format!("webhooks verify --signature '{signature}' --body body --secret-file secret {more}"))
    };
    verify(&hex, BODY, SECRET, "").ok();
    verify(&hex, BODY, &format!("{OTHER}\n{SECRET}\n"), "").ok();
    // Whitespace around one secret does not matter if another one matches.
    verify(&hex, BODY, &format!("{OTHER} \n{SECRET}\n"), "").ok();
    for (signature, body, secret, why) in [
        (hex.clone(), format!("{BODY}\n"), SECRET.to_owned(), "an extra newline"),
        (hex.clone(), format!("{BODY}\r\n"), SECRET.to_owned(), "an extra newline"),
        (hex.clone(), BODY.replace("\":", "\": "), SECRET.to_owned(), "parsed and serialized again"),
        (base64, BODY.to_owned(), SECRET.to_owned(), "in base64"),
        (hex.to_uppercase(), BODY.to_owned(), SECRET.to_owned(), "in uppercase hex"),
        (format!("sha256={hex}"), BODY.to_owned(), SECRET.to_owned(), "extra \"sha256=\" prefix"),
        (hex.clone(), BODY.to_owned(), format!("{SECRET} \n"), "whitespace around the secret"),
        (hex.clone(), BODY.to_owned(), format!("  {SECRET}"), "whitespace around the secret"),
        (hex.clone(), BODY.to_owned(), format!("{OTHER}\n{SECRET} \n"), "whitespace around the secret"),
        (hex_mac(format!("{SECRET}\n").as_bytes()), signed_text(), SECRET.to_owned(), "whitespace around the secret"),
        (hex_mac(&SECRET.as_bytes()[6..]), signed_text(), SECRET.to_owned(), "without the \"whsec_\" prefix"),
        (hex_mac(&base64_of(&SECRET[6..])), signed_text(), SECRET.to_owned(), "use the secret's text"),
        (hex_mac(SECRET.as_bytes()), signed_text().trim_end().to_owned(), SECRET.to_owned(), "missing the newline"),
    ] {
        let ran = verify(&signature, &body, &secret, "");
        assert!(ran.fails(11).starts_with("error[invalid_signature]: ") && ran.says(why), "{why}: {ran}");
        assert!(ran.stdout.is_empty() && !ran.stderr.contains(&SECRET[6..]), "{ran}");
    }
    let unexplained = verify(&hex, BODY, OTHER, "");
    assert!(unexplained.fails(11).contains("does not match") && !unexplained.stderr.contains("hint"), "{unexplained}");
    assert_eq!(verify(&hex, BODY, "secret", "").fails(3).lines().count(), 1);
    assert_eq!(verify(&hex, BODY, SECRET, "--print").ok(), BODY);
    assert_eq!(verify(&hex, BODY, SECRET, "-o json").json()["event"], "refund");
    assert!(verify(&hex, BODY, SECRET, "--event conversion").fails(3).contains("not conversion"));
    assert!(verify(&hex, BODY, SECRET, "--max-age 5m").fails(2).contains("webhook-timestamp"));
    dl.file("b.json", "[]");
    let odd = value(&signed(&dl, ""), "x-service-signature").to_owned();
    assert!(verify(&odd, "[]", SECRET, "").fails(3).contains("the signature is valid, but the body is not an event"));
    for (line, code) in [
        ("webhooks verify --signature aa --body b.json", 2),
        ("webhooks verify --body b.json --secret-file s.txt", 2),
        ("webhooks verify --headers none.txt --body b.json --secret-file s.txt", 2),
        ("webhooks verify --headers b.json --body b.json --secret-file s.txt", 3),
        ("webhooks verify --signature aa --raw b.json --secret-file s.txt", 2),
    ] {
        assert_eq!(dl.run(line).code, Some(code), "{line}");
    }
}

/// If `webhook-signature` is present, its signature of the id and the time must be valid: only the service signs the
/// body. The reverse case is a rotation seen by a receiver with only the old secret.
#[test]
fn headers_that_were_changed_are_noticed() {
    let dl = with_secret();
    let headers = signed(&dl, "--id evt_1");
    for (name, forged) in [
        ("webhook-id", "evt_forged"),
        ("webhook-timestamp", "1"),
        ("webhook-timestamp", "soon"),
        ("webhook-signature", "v1,AAAA"),
    ] {
        let lines = headers.iter().map(|(header, value)| (header, if header == name { forged } else { value }));
        let lines: Vec<String> = lines.map(|(header, value)| format!("{header}: {value}")).collect();
        dl.file("h.txt", &lines.join("\n"));
        let ran = dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt");
        assert!(ran.fails(11).contains("x-service-signature is valid, but webhook-signature is not"), "{name}: {ran}");
    }
    let service = value(&headers, "x-service-signature");
    dl.file("h.txt", &format!("x-service-signature: {service}\nwebhook-id: evt_1\n"));
    dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt").ok();
    let standard = value(&headers, "webhook-signature");
    let ran = dl.run(&format!("webhooks verify --signature '{standard}' --body b.json --secret-file s.txt"));
    assert!(ran.fails(11).contains("this is the value of webhook-signature"), "{ran}");
}

/// A time that is too far from now is reported, with its direction.
#[test]
fn signatures_out_of_their_time_say_so() {
    let dl = with_secret();
    for (at, why) in [
        ("2099-01-01T00:00:00Z", "from the future (2099-01-01T00:00:00.000Z)"),
        ("1764000000", "too old: it was made at 2025-11-24T16:00:00.000Z"),
        ("10m", "too old"),
    ] {
        let headers = signed(&dl, &format!("--id evt_1 --timestamp {at}"));
        let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        dl.file("h.txt", &lines.join("\n"));
        let ran = dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt --max-age 5m");
        assert!(ran.fails(11).contains(why), "{ran}");
    }
    assert_eq!(value(&signed(&dl, "--timestamp 1764000000"), "webhook-timestamp"), "1764000000");
}

/// A secret's prefix alone is not a secret, and the message that says so stays whole; a short one causes a warning.
#[test]
fn secrets_that_are_none_or_short_are_said_to_be() {
    let dl = with_secret();
    for none in ["whsec_", "whsec_\n"] {
        dl.secret_file("none", none);
        let ran = dl.run("webhooks sign --body b.json --secret-file none");
        assert!(ran.fails(3).contains("not a webhook secret: expected whsec_ followed by base64"), "{ran}");
    }
    dl.secret_file("short", "whsec_YWJj\n");
    let ran = dl.run("webhooks sign --body b.json --secret-file short");
    assert!(ran.code == Some(0) && ran.says("warning: the secret is only 3 bytes long"), "{ran}");
    assert!(!dl.run("webhooks sign --body b.json --secret-file s.txt").says("short"));
}

/// Wrong values that a receiver may have computed for `X-Service-Signature`, of [`signed_text`] with any key: the other
/// signature is over such a text, and its key is the base64-decoded one.
fn hex_mac(key: &[u8]) -> String {
    let mac = base64_of(standard(key, SIGNED_BODY).strip_prefix("v1,").expect("a version"));
    mac.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// `webhook-signature` of a body with any key.
fn standard(key: &[u8], body: &str) -> String {
    let secret = format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(key));
    let signer = Signer::new(&WebhookSecret::new(secret)).expect("a secret");
    signer.standard("evt_1", SIGNED_AT, body.as_bytes())
}

fn signed_text() -> String {
    format!("evt_1.{SIGNED_AT}.{SIGNED_BODY}")
}

fn base64_of(text: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
}

/// The same mistakes with `webhook-signature`, and missing headers of it.
#[test]
fn a_standard_signature_that_is_wrong_is_explained() {
    let dl = Dl::new();
    let key = base64_of(&SECRET[6..]);
    let good = standard(&key, BODY);
    let verify = |signature: &str, body: &str, secret: &str, more: &str| -> Ran {
        dl.file("body", body);
        dl.secret_file("secret", secret);
        let headers = ["webhook-id: evt_1", &format!("webhook-timestamp: {SIGNED_AT}")].join("\n");
        dl.file("h.txt", &format!("{headers}\nwebhook-signature: {signature}\n"));
        dl.run(&format!("webhooks verify --headers h.txt --body body --secret-file secret {more}"))
    };
    verify(&good, BODY, SECRET, "").ok();
    verify(&format!("v1,{} {good}", "A".repeat(44)), BODY, SECRET, "").ok();
    for (signature, body, secret, why) in [
        (good.clone(), format!("{BODY}\n"), SECRET.to_owned(), "an extra newline"),
        (good.clone(), BODY.replace("\":", "\": "), SECRET.to_owned(), "parsed and serialized again"),
        (good.clone(), BODY.to_owned(), format!("{SECRET} \n"), "whitespace around the secret"),
        (good[3..].to_owned(), BODY.to_owned(), SECRET.to_owned(), "missing its version"),
        (standard(SECRET.as_bytes(), BODY), BODY.to_owned(), SECRET.to_owned(), "computed with the text of the secret"),
    ] {
        let ran = verify(&signature, &body, &secret, "");
        assert!(ran.fails(11).starts_with("error[invalid_signature]: ") && ran.says(why), "{why}: {ran}");
    }
    assert!(verify(&good, BODY, OTHER, "").fails(11).contains("does not match"));
    assert!(verify(&good, BODY, SECRET, "--max-age 5m").fails(11).contains("too old"));
    // A missing header is named, whatever else is present.
    let service = format!("x-service-signature: {}\n", "0".repeat(64));
    for gone in ["webhook-signature", "webhook-id", "webhook-timestamp"] {
        let all = [
            format!("webhook-signature: {good}\n"),
            "webhook-id: evt_1\n".to_owned(),
            format!("webhook-timestamp: {SIGNED_AT}\n"),
        ];
        let rest: String = all.iter().filter(|line| !line.starts_with(gone)).map(String::as_str).collect();
        let line = "webhooks verify --headers h.txt --body body --secret-file secret";
        dl.file("h.txt", &format!("{service}{rest}"));
        let ran = dl.run(&format!("{line} --max-age 5m"));
        assert!(ran.fails(2).contains(&format!("requires the header {gone}, which is missing")), "{ran}");
        dl.file("h.txt", &rest);
        let ran = dl.run(line);
        let what = if gone == "webhook-signature" { "no signature in the headers" } else { gone };
        assert!(ran.fails(2).starts_with("error[no_signature]") && ran.says(what), "{ran}");
    }
}

#[test]
fn whole_requests_are_checked_as_they_came() {
    let dl = with_secret();
    let headers = signed(&dl, "--id evt_1");
    let lines = |headers: &[(String, String)]| -> String {
        let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        lines.concat()
    };
    dl.file("h.txt", &lines(&headers));
    dl.file("raw.txt", &format!("POST /hook HTTP/1.1\r\nHost: example.com\r\n{}\r\n{BODY}", lines(&headers)));
    let ran = dl.run("webhooks verify --raw raw.txt --secret-file s.txt --max-age 5m -o json");
    assert_eq!((ran.json()["id"].as_str(), ran.json()["valid"].as_bool()), (Some("evt_1"), Some(true)));
    let ran = dl.run_with("webhooks verify --headers h.txt --secret-file s.txt --max-age 5m", BODY);
    assert!(ran.ok().contains("evt_1"), "{ran}");
    dl.file("h.txt", &lines(&signed(&dl, "--id evt_1 --timestamp 10m")));
    let ran = dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt --max-age 5m");
    assert!(ran.fails(11).contains("too old"), "{ran}");
    dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt").ok();
    let spoilt: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.clone(), if name.starts_with('x') { "0".repeat(64) } else { value.clone() }))
        .collect();
    dl.file("h.txt", &lines(&spoilt));
    let ran = dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt");
    assert!(ran.code == Some(0) && ran.says("webhook-signature is valid, but x-service-signature is not"), "{ran}");
    dl.file("h.txt", "Content-Type: application/json\n");
    let ran = dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt");
    assert!(ran.fails(2).starts_with("error[no_signature]"), "{ran}");
}

/// The output of `sign` matches the vectors.
#[test]
fn signatures_are_those_of_the_vectors() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/webhooks.json");
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(file).expect("the vectors")).expect("JSON");
    let mut signed = 0;
    for vector in vectors["vectors"].as_array().expect("vectors").iter().take(10) {
        let texts: Vec<&str> =
            vector["secrets"].as_array().expect("secrets").iter().filter_map(Value::as_str).collect();
        let dl = Dl::new().env("DL_WEBHOOK_SECRET", &texts.join("\n"));
        let at = jiff(vector["headers"]["webhook-timestamp"].as_str().expect("text"));
        let line = format!("webhooks sign --id evt_019a1b2c3d4e5f6071829304 --timestamp {at} -o json");
        let ran = dl.run_with(&line, vector["body"].as_str().expect("text"));
        assert_eq!(ran.json(), vector["headers"], "{}", vector["name"]);
        signed += 1;
    }
    assert_eq!(signed, 10);
}

fn jiff(seconds: &str) -> String {
    let seconds: i64 = seconds.parse().expect("seconds");
    deeplink_core::time::Timestamp::from_millis(seconds * 1_000).to_string()
}

#[test]
fn samples_of_a_seed_are_the_same_bytes() {
    let dl = Dl::new();
    for kind in ["click", "attribute", "identify", "conversion", "attribution"] {
        let line = format!("webhooks sample {kind} --seed 7");
        let body = dl.run(&line).ok().to_owned();
        assert!(body == dl.run(&line).ok() && !body.ends_with('\n'), "{kind}");
        assert_ne!(body, dl.run(&format!("webhooks sample {kind}")).ok(), "{kind}: another seed");
    }
    let set = "--set data.amount_cents=500 --set data.user_id=42 --set data.metadata.a=true --set data.currency=EUR";
    let sale = dl.run(&format!("webhooks sample conversion {set}")).json();
    assert_eq!((&sale["data"]["amount_cents"], &sale["data"]["user_id"]), (&500.into(), &"42".into()));
    assert_eq!(sale["data"]["metadata"]["a"], true);
    let sale = dl.run("webhooks sample conversion");
    assert_eq!(
        (&sale.json()["data"]["amount_cents"], &sale.json()["data"]["currency"]),
        (&1_999.into(), &"EUR".into())
    );
    for known in
        ["conversion --set data.metadata.a.b=1", "attribute --set data.user_id=u", "click --set data.platform=web"]
    {
        assert!(dl.run(&format!("webhooks sample {known}")).stderr.is_empty(), "{known}");
    }
    for unknown in ["data.userid", "type", "data.amount_cents"] {
        let ran = dl.run(&format!("webhooks sample click --set {unknown}=5"));
        assert!(
            ran.code == Some(0) && ran.says(&format!("--set {unknown}: the service never sends a click event with")),
            "{ran}"
        );
    }
    assert!(dl.run("webhooks sample click --set =5").fails(2).contains("\"\" is not a field"));
    assert_eq!(dl.run("webhooks sample attribute --legacy").json()["event"], "attribution");
    assert!(dl.run("webhooks sample conversion --legacy").json()["data"]["link_id"].is_string());
    for (line, code) in
        [("sale", 3), ("click --set data", 2), ("click --set data.link_id.x=1", 2), ("click --set data=1", 3)]
    {
        assert_eq!(dl.run(&format!("webhooks sample {line}")).code, Some(code), "{line}");
    }
}
