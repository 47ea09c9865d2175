//! The association files as a host serves them.

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, FINGERPRINT, asset_links, association};

fn host() -> Double {
    Double::new(|request| match request.path() {
        "/.well-known/apple-app-site-association" => Answer::json(200, &association()),
        _ => Answer::json(200, &asset_links()),
    })
}

#[test]
fn the_file_is_printed_as_it_is_and_no_key_is_sent() {
    let double = host();
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("wellknown apple").json(), association());
    assert_eq!(dl.run("wellknown android --host go.example.com -o json").json(), asset_links());
    let requests = double.requests();
    assert_eq!(requests[1].header("host"), Some("go.example.com"));
    assert!(requests.iter().all(|request| request.header("authorization").is_none()));
    assert_eq!(double.lines(), ["GET /.well-known/apple-app-site-association", "GET /.well-known/assetlinks.json"]);
}

#[test]
fn other_forms_have_a_record_for_each_app() {
    let dl = Dl::at(&host().url);
    assert_eq!(dl.run("wellknown apple -o id").ok(), "ABCDE12345.com.example.app\n");
    assert_eq!(
        dl.run("wellknown android -o csv").ok(),
        format!("app,sha256_cert_fingerprints\r\ncom.example.app,\"[\"\"{FINGERPRINT}\"\"]\"\r\n")
    );
    assert_eq!(dl.run("wellknown android -o jsonl --fields app").ok(), "{\"app\":\"com.example.app\"}\n");
}

#[test]
fn a_host_without_a_file_is_5() {
    let double = Double::new(|_| Answer::error(404, "not_found", "not found"));
    let dl = Dl::at(&double.url);
    insta::with_settings!({filters => vec![("request id: .*", "request id: ID")]}, {
        insta::assert_snapshot!(dl.run("wellknown apple --host go.example.com"), @"
        --- stderr
        error[not_found]: go.example.com has no file for iOS: it requires a verified domain and an iOS app (HTTP 404)
          hint: dl domains list, dl apps add ios --help
          request id: ID
        --- exit 5
        ");
    });
    assert_eq!(dl.run("wellknown android -o json").error()["status"], 404);
    let away = Double::new(|_| Answer::error(500, "internal", "no"));
    Dl::at(&away.url).env("DL_RETRIES", "0").run("wellknown apple").fails(9);
}
