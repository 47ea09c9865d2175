//! Each check of the doctor in each of its outcomes, against the test's own servers.

mod account;
mod association;
mod double;
mod hosts;
mod links;
mod scene;

use deeplink_client::SocialPreview;
use deeplink_client::doctor::Status::{self, Fail, Skip, Warn};

use self::double::Request;
use self::scene::{ALTERNATE, PRIMARY, Scene};

/// What a check says in a scene: its id, how the scene is changed, the outcome, and a part of the message.
type Case = (&'static str, fn(&mut Scene), Status, &'static str);

async fn assert_cases(cases: &[Case]) {
    for (at, (id, change, status, message)) in cases.iter().enumerate() {
        let mut scene = Scene::default();
        change(&mut scene);
        let seen = scene.examine().await;
        let check = seen.check(id);
        assert_eq!(check.status, *status, "case {at}: {check:#?}");
        assert!(check.message.contains(message), "case {at}: {check:#?}");
        assert_eq!(check.fix.is_some(), matches!(status, Warn | Fail), "case {at}: {check:#?}");
        assert!(!check.message.contains('\n'), "case {at}: {check:#?}");
    }
}

fn at(request: &Request, host: &str, path: &str) -> bool {
    request.host == host && request.target == path
}

#[tokio::test]
async fn a_healthy_account_is_all_ok_and_nothing_is_counted_or_written() {
    let mut scene = Scene::default();
    scene.link(|link| {
        link.url = format!("https://{PRIMARY}/spring-42");
        link.ios_store_url = Some("https://apps.apple.com/app/id1".into());
        link.android_deep_link = Some("shop://p/42".into());
        link.android_store_url = Some("https://play.google.com/store/apps/details?id=com.example.app".into());
        link.social_preview = Some(serde_json::from_str::<SocialPreview>(r#"{"title":"T"}"#).expect("a preview"));
    });
    let seen = scene.examine().await;
    assert!(seen.of(Fail).is_empty() && seen.of(Warn).is_empty(), "{:#?}", seen.checks);
    let skipped: Vec<_> = seen.of(Skip).into_iter().map(|check| check.id).collect();
    assert_eq!(skipped, ["service.tls", "link.image"]);
    let ran: Vec<_> = seen.checks.iter().map(|check| (check.id.to_owned(), check.subject.clone())).collect();
    assert_eq!(ran, seen.planned, "they come in the planned order");
    for request in &seen.requests {
        let is_visit = request.host == PRIMARY || request.host == ALTERNATE;
        assert!(matches!(request.method.as_str(), "GET" | "HEAD"), "{request:?}");
        assert!(!(is_visit && request.authorized), "the key goes to the service alone: {request:?}");
        let counts = is_visit && request.target.ends_with("spring-42") && request.method == "GET";
        assert!(!counts || request.purpose == "prefetch", "{request:?}");
    }
    assert_eq!(
        seen.devices,
        [
            "adb shell pm get-app-links com.example.app",
            "adb shell pm verify-app-links --re-verify com.example.app",
            "sudo swcutil dl -d go.example.com",
            "sudo swcutil dl -d open.example.com",
            "iOS: Settings \u{2192} Developer \u{2192} Universal Links \u{2192} Diagnostics",
        ]
    );
}
