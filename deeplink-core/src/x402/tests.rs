use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::json;

use super::*;
use crate::routes::Credential;
use crate::time::Timestamp;

const FROM: &str = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

fn network() -> Network {
    "base".parse().expect("a chain")
}

fn required() -> Requirement {
    let usdc = network().usdc().expect("USDC");
    Requirement {
        scheme: EXACT.into(),
        network: network().to_string(),
        amount: "10000".into(),
        asset: usdc.asset.into(),
        pay_to: PAY_TO.into(),
        max_timeout_seconds: MAX_TIMEOUT_SECONDS,
        extra: Some(usdc.extra()),
    }
}

fn payload(change: impl FnOnce(&mut Value)) -> Value {
    let mut payload = json!({"signature": "0x00", "authorization": {
        "from": FROM, "to": PAY_TO, "value": "10000", "validAfter": "100", "validBefore": "200",
        "nonce": format!("0x{}", "Ab".repeat(32)),
    }});
    change(&mut payload["authorization"]);
    payload
}

fn authorization(change: impl FnOnce(&mut Value)) -> Result<Option<Authorization>, Unfit> {
    Authorization::of(&network(), &payload(change))
}

#[test]
fn a_payment_is_read_in_either_alphabet_and_with_or_without_padding() {
    let message = PaymentMessageV1 {
        version: 1,
        scheme: EXACT.into(),
        network: "base".into(),
        // Produces both characters in which the alphabets differ.
        payload: json!({"a": "???>>>~~~"}),
    };
    let json = serde_json::to_vec(&message).expect("JSON");
    let texts = [STANDARD.encode(&json), URL_SAFE.encode(&json), URL_SAFE_NO_PAD.encode(&json)];
    assert_ne!(texts[0], texts[1]);
    for text in texts {
        assert_eq!(Payment::read(Version::V1, text.as_bytes()), Ok(Payment::V1(message.clone())), "{text}");
    }
}

#[test]
fn no_signature_is_shown() {
    let challenge = |version| Challenge { version, resource: None, accepts: vec![required()] };
    for version in [Version::V1, Version::V2] {
        let payment = challenge(version).payment(&required(), json!({"signature": "0xabcdef"}));
        let shown = format!("{payment:?}");
        assert!(!shown.contains("abcdef") && shown.contains("network: \""), "{shown}");
    }
}

#[test]
fn what_is_no_payment_is_refused() {
    let base64 = |text: &str| STANDARD.encode(text);
    let v1 = r#"{"x402Version":1,"scheme":"exact","network":"base","payload":{}}"#;
    let deep =
        format!(r#"{{"x402Version":1,"scheme":"","network":"","payload":{}{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
    let long = format!(r#"{{"x402Version":1,"scheme":"{}","network":"","payload":1}}"#, "x".repeat(MAX_HEADER));
    assert!(Payment::read(Version::V1, base64(v1).as_bytes()).is_ok());
    for (text, why) in [
        (base64(&deep), NotAHeader::Deep),
        (base64(&long), NotAHeader::TooLong),
        ("%%%".into(), NotAHeader::Base64),
        (base64(&v1.replace(":1,", ":2,")), NotAHeader::Version(Version::V1)),
    ] {
        assert_eq!(Payment::read(Version::V1, text.as_bytes()), Err(why));
    }
    for text in ["", "null", "[]", "{", "{}", r#"{"x402Version":1,"x402Version":1}"#] {
        let read = Payment::read(Version::V1, base64(text).as_bytes());
        assert!(matches!(read, Err(NotAHeader::Json(_))), "{text}: {read:?}");
    }
    let read = Payment::read(Version::V2, base64(v1).as_bytes());
    assert!(matches!(read, Err(NotAHeader::Json(_))), "{read:?}");
}

#[test]
fn a_requirement_is_met_field_by_field() {
    let with = |change: &dyn Fn(&mut Requirement)| {
        let mut accepted = required();
        change(&mut accepted);
        let payload = json!({});
        let message = PaymentMessageV2 { version: 2, resource: None, accepted, payload, extensions: None };
        Payment::V2(Box::new(message)).meets(&network(), &required())
    };
    assert!(with(&|_| {}));
    assert!(with(&|accepted| accepted.pay_to = PAY_TO.to_ascii_lowercase()));
    assert!(with(&|accepted| accepted.asset.make_ascii_uppercase()));
    let changes: [&dyn Fn(&mut Requirement); 7] = [
        &|accepted| accepted.scheme = "upto".into(),
        &|accepted| accepted.network = "eip155:84532".into(),
        &|accepted| accepted.amount = "9999".into(),
        &|accepted| accepted.asset = FROM.into(),
        &|accepted| accepted.pay_to = FROM.into(),
        &|accepted| accepted.max_timeout_seconds = 601,
        &|accepted| accepted.extra = None,
    ];
    for (at, change) in changes.iter().enumerate() {
        assert!(!with(change), "{at}");
    }
    let v1 = |scheme: &str, name: &str| {
        let payment = PaymentMessageV1 { version: 1, scheme: scheme.into(), network: name.into(), payload: json!({}) };
        Payment::V1(payment).meets(&network(), &required())
    };
    assert!(v1("exact", "base"));
    assert!(!v1("upto", "base") && !v1("exact", "base-sepolia") && !v1("exact", "eip155:8453"));
}

#[test]
fn an_authorization_pays_the_right_amount_to_the_right_account() {
    let pays = |change: &dyn Fn(&mut Value), version| {
        authorization(change).expect("an authorization").expect("one").pays(&network(), &required(), version)
    };
    for (value, v1, v2) in [
        ("10000", Ok(()), Ok(())),
        ("0010000", Ok(()), Ok(())),
        ("10001", Ok(()), Err(Unfit::Amount)),
        ("9999", Err(Unfit::Amount), Err(Unfit::Amount)),
        ("99999999999999999999999999999999", Ok(()), Err(Unfit::Amount)),
        ("0", Err(Unfit::Amount), Err(Unfit::Amount)),
    ] {
        let change = |authorization: &mut Value| authorization["value"] = json!(value);
        assert_eq!(pays(&change, Version::V1), v1, "{value}");
        assert_eq!(pays(&change, Version::V2), v2, "{value}");
    }
    assert_eq!(pays(&|it| it["to"] = json!(PAY_TO.to_ascii_lowercase()), Version::V2), Ok(()));
    assert_eq!(pays(&|it| it["to"] = json!(FROM), Version::V2), Err(Unfit::Recipient));
}

#[test]
fn an_authorization_must_be_good_for_six_more_seconds() {
    for (after, before, millis, expected) in [
        ("100", "200", 100_000, Ok(())),
        ("100", "200", 99_999, Err(Unfit::Early)),
        ("100", "200", 194_000, Ok(())),
        ("100", "200", 194_001, Err(Unfit::Late)),
        ("0", "115792089237316195423570985008687907853269984665640564039457584007913129639935", 100_000, Ok(())),
        ("99999999999999999999", "999999999999999999999", 100_000, Err(Unfit::Early)),
    ] {
        let made = authorization(|it| {
            it["validAfter"] = json!(after);
            it["validBefore"] = json!(before);
        });
        let made = made.expect("an authorization").expect("one");
        assert_eq!(made.is_timely(Timestamp::from_millis(millis)), expected, "{after} {before} {millis}");
    }
}

#[test]
fn what_is_only_half_an_authorization_is_malformed_and_other_shapes_are_not_looked_at() {
    for (field, value) in [
        ("from", json!("0x12")),
        ("to", json!(null)),
        ("value", json!(10000)),
        ("value", json!("-1")),
        ("value", json!("1e4")),
        ("validAfter", json!("")),
        ("validBefore", json!("later")),
        ("nonce", json!("0x12")),
        ("nonce", json!("x".repeat(66))),
    ] {
        assert_eq!(authorization(|it| it[field] = value.clone()), Err(Unfit::Malformed), "{field} {value}");
    }
    assert_eq!(Authorization::of(&network(), &json!({"permit2Authorization": {}})), Ok(None));
    let mut both = payload(|_| {});
    both["permit2Authorization"] = json!({});
    assert_eq!(Authorization::of(&network(), &both), Err(Unfit::Ambiguous));
    let solana: Network = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp".parse().expect("a chain");
    assert_eq!(Authorization::of(&solana, &payload(|_| {})), Ok(None));
    let made = authorization(|_| {}).expect("an authorization").expect("one");
    assert_eq!((made.from, made.nonce), (FROM.to_ascii_lowercase(), format!("0x{}", "ab".repeat(32))));
}

#[test]
fn chains_have_two_names() {
    for (text, name) in [("base", "eip155:8453"), ("base-sepolia", "eip155:84532"), ("eip155:8453", "eip155:8453")] {
        let network: Network = text.parse().expect("a chain");
        assert_eq!(network.as_str(), name);
        assert!(network.is(name) && network.is(network.v1().expect("a name")) && !network.is("polygon"));
    }
    for text in ["", "polygon", "eip155", "eip155:", "EIP155:1", "eip155:8453:1", "a:1"] {
        assert!(text.parse::<Network>().is_err(), "{text}");
    }
    assert_eq!("eip155:137".parse::<Network>().expect("a chain").v1(), None);
}

#[test]
fn only_what_takes_a_secret_key_can_be_paid_for() {
    let mut names = std::collections::HashSet::new();
    for paid in PAID {
        assert!(matches!(paid.route.credential, Credential::SecretKey | Credential::LinkWriter), "{}", paid.name);
        assert!(names.insert(paid.name), "{}", paid.name);
        assert!(super::paid(paid.route.method, paid.route.path).is_some_and(|found| found.name == paid.name));
    }
    assert!(super::paid("GET", "/v1/affiliates").is_none());
}
