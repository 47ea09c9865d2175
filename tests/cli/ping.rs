//! `dl ping`.

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double};

#[test]
fn ping_says_what_the_service_says() {
    let double = Double::new(|request| match request.line().as_str() {
        "GET /health" => Answer::new(200, r#"{"status":"ok"}"#),
        _ => Answer::error(503, "database_unavailable", "the database does not respond"),
    });
    let dl = Dl::new().env("DL_BASE_URL", &double.url).env("DL_RETRIES", "0");
    let ran = dl.run("ping");
    assert_eq!(ran.ok(), "ok\n");
    assert!(ran.stderr.starts_with(&format!("{} responded in ", double.url)), "{ran}");
    assert_eq!(dl.run("ping -o json").ok(), "{\"status\":\"ok\"}\n");
    assert!(
        dl.run("ping --ready")
            .fails(9)
            .starts_with("error[database_unavailable]: the database does not respond (HTTP 503)")
    );
}
