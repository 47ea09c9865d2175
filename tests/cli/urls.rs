//! URLs as flags: one without its scheme gets the URL with it as a hint, whatever the command.

use deeplink_testing::dl::Dl;

#[test]
fn a_url_without_a_scheme_gets_a_suggestion() {
    let dl = Dl::at("http://127.0.0.1:1");
    for (line, hint) in [
        ("links create example.com", Some("https://example.com")),
        ("links create --web example.com/p?a=1", Some("https://example.com/p?a=1")),
        ("links update spring-42 --web example.com:8443", Some("https://example.com:8443")),
        ("links create nonsense", None),
        ("links create ftp://example.com", None),
        ("links create mailto:me@example.com", None),
        ("links create https://example.com --ios-store example.com", None),
        (
            "links create --ios-store apps.apple.com/app/id1 --web https://example.com",
            Some("https://apps.apple.com/app/id1"),
        ),
        ("links update spring-42 --android-store play.google.com/store", Some("https://play.google.com/store")),
        ("links create https://example.com --image img.example.com/a.png", Some("https://img.example.com/a.png")),
        ("links update spring-42 --expired-url example.com/gone", Some("https://example.com/gone")),
        ("links create 10.0.0.1", None),
        ("links qr spring-42 --out x.png --logo example.com/logo.png", Some("https://example.com/logo.png")),
        ("links qr spring-42 --out x.png --logo logo.png", None),
        ("domains update shop.localhost --root-url www.example.com", Some("https://www.example.com")),
        ("domains update go.example.com --not-found-url www.example.com/404", Some("https://www.example.com/404")),
        ("account update --icon example.com/i.png", Some("https://example.com/i.png")),
        ("account update --name example.com --time-zone example.com", None),
        (
            "apps add ios --bundle-id com.example.app --team-id ABCDE12345 --icon example.com/i.png",
            Some("https://example.com/i.png"),
        ),
        ("webhooks create --url hooks.example.com/in --all-events", Some("https://hooks.example.com/in")),
        ("webhooks update wh_0123456789abcdef01234567 --url hooks.example.com", Some("https://hooks.example.com")),
    ] {
        let ran = dl.run(line);
        let hints: Vec<_> =
            ran.fails(3).lines().filter_map(|line| line.strip_prefix("  hint: did you mean ")).collect();
        assert_eq!(hints, hint.map(|url| format!("{url}?")).into_iter().collect::<Vec<_>>(), "{line}: {ran}");
    }
    for (url, meant) in
        [("localhost:3000/hook", "http://localhost:3000/hook"), ("a.example.com", "https://a.example.com")]
    {
        let ran = dl.run(&format!("webhooks trigger click --to {url} --secret-file s.txt"));
        assert!(ran.code == Some(2) && ran.says(&format!("; did you mean {meant}?")), "{ran}");
        let ran = dl.run(&format!("webhooks listen --forward-to {url} --secret-file s.txt"));
        assert!(ran.code == Some(2) && ran.says(&format!("; did you mean {meant}?")), "{ran}");
    }
}
