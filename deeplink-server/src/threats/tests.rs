use deeplink_core::link::{LinkPatch, NewLink};
use deeplink_core::patch::Patch;
use deeplink_core::secret::sha256_hex;

use super::*;

fn list(text: &str) -> ThreatList {
    ThreatList::parse(text.as_bytes()).0
}

#[test]
fn l19_hosts_cover_subdomains_and_urls_cover_themselves() {
    let list = list(
        "\u{feff}# known bad\r\n\
        bad.example.com\r\n\
        BÜCHER.example # kept since spring\n\
        8.8.8.8\n\
        2606:4700::1111\n\
        trailing.example.\n\
        \n\
        \thttps://example.com/Bad path?x=1\t# one page\n\
        http://Example.net:80\n\
        https://app.example.org/#/bad\n",
    );
    assert_eq!(list.counts(), (5, 3));
    for (url, entry) in [
        ("https://bad.example.com/", Some("bad.example.com")),
        ("http://bad.example.com:8080/x?y#z", Some("bad.example.com")),
        ("https://a.b.bad.example.com/", Some("bad.example.com")),
        ("https://BAD.example.com./x", Some("bad.example.com")),
        ("https://notbad.example.com/", None),
        ("https://bad.example.com.evil.example/", None),
        ("https://example.com/", None),
        ("https://com/", None),
        ("https://xn--bcher-kva.example/x", Some("xn--bcher-kva.example")),
        ("https://www.bücher.example/x", Some("xn--bcher-kva.example")),
        ("https://8.8.8.8/x", Some("8.8.8.8")),
        ("https://0x8080808/x", Some("8.8.8.8")),
        ("https://8.8.8.9/x", None),
        ("https://[2606:4700::1111]/x", Some("[2606:4700::1111]")),
        ("https://[2606:4700:0::1111]:8443/", Some("[2606:4700::1111]")),
        ("https://trailing.example/", Some("trailing.example")),
        ("https://example.com/Bad%20path?x=1", Some("https://example.com/Bad%20path?x=1")),
        ("https://example.com./Bad path?x=1#part", Some("https://example.com/Bad%20path?x=1")),
        ("https://example.com:443/a/../Bad path?x=1", Some("https://example.com/Bad%20path?x=1")),
        ("https://example.com/bad path?x=1", None),
        ("https://example.com/Bad path", None),
        ("http://example.com/Bad path?x=1", None),
        ("https://www.example.com/Bad path?x=1", None),
        ("http://example.net", Some("http://example.net/")),
        ("http://example.net/x", None),
        ("https://app.example.org/#/bad", Some("https://app.example.org/#/bad")),
        ("https://app.example.org/#/good", None),
        ("https://app.example.org/", None),
        ("myapp://bad.example.com/", None),
        ("mailto:a@bad.example.com", None),
        ("bad.example.com", None),
        ("", None),
    ] {
        assert_eq!(list.covers(url), entry, "{url}");
    }
}

#[test]
fn l19_invalid_lines_are_skipped_and_reported_by_number() {
    let text = b"good.example\nexample.com/path\n# fine\nexample.com:8080\nftp://example.com/\n*.example.com\n\
        .example.com\nhttps://user@example.com/\nhttps://\n<p>\n{\ntwo words\n\xff\xfe\na..b\n.\n\n[::1\n  \nlast.example";
    let (list, skipped) = ThreatList::parse(text);
    assert_eq!(list.counts(), (2, 0));
    assert_eq!(skipped.to_string(), "2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17");
    let (_, many) = ThreatList::parse("?\n".repeat(1_000).as_bytes());
    assert!(many.to_string().ends_with("19, 20 and 980 more"), "{many}");
    assert!(ThreatList::parse(b"").1.is_empty() && ThreatList::parse(b"\n#\n").1.is_empty());
}

/// A linear scan would need ten billion comparisons and never finish in a test.
#[test]
fn l19_lookups_in_a_long_list_do_not_scan_it() {
    let line = |n: usize| match n % 2 {
        0 => format!("host-{n}.example.com\n"),
        _ => format!("https://www.example.com/page/{n}\n"),
    };
    let list = list(&(0..100_000).map(line).collect::<String>());
    assert_eq!(list.counts(), (50_000, 50_000));
    for n in 0..100_000 {
        let listed = list.covers(&format!("https://www.host-{n}.example.com/x")).is_some();
        assert_eq!(listed, n % 2 == 0, "host {n}");
        let listed = list.covers(&format!("https://www.example.com/page/{n}#part")).is_some();
        assert_eq!(listed, n % 2 == 1, "page {n}");
    }
}

#[test]
fn l19_a_file_without_valid_lines_is_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("threats");
    let read = |text: &str| {
        std::fs::write(&path, text).expect("written");
        LoadedList::from_file(&path).map(|(loaded, _)| loaded.list.counts()).map_err(|error| error.to_string())
    };
    assert_eq!(read(""), Ok((0, 0)));
    assert_eq!(read("# nothing yet\n"), Ok((0, 0)));
    assert_eq!(read("<html>\nbad.example"), Ok((1, 0)));
    assert_eq!(read("<html>\n</html>"), Err("no line contains a URL or a host".into()));
    std::fs::File::create(&path).and_then(|file| file.set_len(MAX_BYTES + 1)).expect("a large file");
    assert_eq!(LoadedList::from_file(&path).err().map(|error| error.to_string()), Some("larger than 64 MiB".into()));
    assert!(matches!(LoadedList::from_file(folder.path()), Err(LoadError::NotAFile)));
    assert!(matches!(LoadedList::from_file(&folder.path().join("none")), Err(LoadError::Unreadable(_))));
}

#[test]
fn l19_errors_name_the_first_listed_field() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("threats");
    std::fs::write(&path, "bad.example.com").expect("written");
    let file = ThreatFile::read(&path).expect("a list");
    let (threats, none) = (Threats::new(Some(&file)), Threats::new(None));
    let bad = Some("https://bad.example.com/x".to_owned());
    let mut link = NewLink::default();
    link.destinations.web_url = Some("https://example.com/".into());
    assert_eq!(threats.check(link.urls()), Ok(()));
    link.expired_url.clone_from(&bad);
    assert_eq!(threats.check(link.urls()).expect_err("a listed page").field.as_deref(), Some("expired_url"));
    link.destinations.web_url.clone_from(&bad);
    let refused = threats.check(link.urls()).expect_err("a listed page");
    assert_eq!((refused.code, refused.field.as_deref()), (ErrorCode::ThreatDetected, Some("web_url")));
    link.destinations.ios_deep_link.clone_from(&bad);
    assert_eq!(threats.check(link.urls()).expect_err("two").field.as_deref(), Some("ios_deep_link"));
    assert_eq!(none.check(link.urls()), Ok(()));
    let mut patch = LinkPatch::default();
    assert_eq!(threats.check(patch.urls()), Ok(()));
    patch.destinations.web_url = Patch::Clear;
    assert_eq!(threats.check(patch.urls()), Ok(()));
    patch.destinations.android_deep_link = bad.into();
    assert_eq!(threats.check(patch.urls()).expect_err("one").field.as_deref(), Some("android_deep_link"));
    assert_eq!(none.check(patch.urls()), Ok(()));
    threats.replace(Arc::default());
    assert_eq!(threats.check(link.urls()), Ok(()));
}

proptest::proptest! {
    /// Lookups agree with a linear scan of the list.
    #[test]
    fn l19_lookups_find_what_a_scan_finds(
        hosts in proptest::collection::vec("[ab](\\.[ab]){0,3}", 0..6),
        host in "[ab](\\.[ab]){0,4}",
        dot in "\\.?",
        path in "[ab]?",
        paths in proptest::collection::vec("[ab](\\.[ab])?/[ab]?", 0..4),
    ) {
        let urls = paths.iter().map(|path| format!("https://{path}"));
        let lines: Vec<_> = hosts.iter().cloned().chain(urls.clone()).collect();
        let url = format!("https://{host}{dot}/{path}");
        let by_host = hosts.iter().any(|listed| host == *listed || host.ends_with(&format!(".{listed}")));
        let by_url = urls.clone().any(|listed| listed == format!("https://{host}/{path}"));
        let found = list(&lines.join("\n")).covers(&url).is_some();
        proptest::prop_assert_eq!(found, by_host || by_url, "{} on {:?}", url, lines);
    }

    /// Any bytes can be parsed, and each line is blank, listed or reported as skipped.
    #[test]
    fn l19_any_bytes_can_be_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let (list, skipped) = ThreatList::parse(&bytes);
        let (hosts, urls) = list.counts();
        proptest::prop_assert!(hosts + urls + skipped.count <= bytes.split(|byte| *byte == b'\n').count());
    }
}

#[test]
fn a_destination_has_one_hash_however_it_is_spelled() {
    let hash = destination_hash("https://bad.example.com/login?next=%2Fa");
    for spelling in [
        "http://bad.example.com/login?next=%2Fa",
        "https://BAD.example.com.:443/login?next=%2fa",
        "https://bad.example.com/%6Cog%69n?next=%2Fa",
        "https://you@bad.example.com/login?next=%2Fa#top",
        "https://bad.example.com/./login?ne%78t=%2fa",
        "https://bad.example.com:80/login?next=%2Fa",
        "https://bad.example.com:8443/login?next=%2Fa",
        "https://www.bad.example.com/login?next=%2Fa",
        "https://bad.example.com//login/?next=%2Fa",
        "https://bad.example.com/LogIn?next=%2Fa",
        "https://bad.example.com/login?next=/a",
        "https://bad.example.com/login?n%65xt=/%61",
    ] {
        assert_eq!(destination_hash(spelling), hash, "{spelling}");
    }
    assert_eq!(destination_hash("http://bad.example.com"), destination_hash("https://bad.example.com/?"));
    for other in [
        "https://bad.example.com/login",
        "https://bad.example.com/login?next=%252Fa",
        "https://bad.example.com/login?next%3D/a",
        "https://bad.example.com/login%2F?next=/a",
        "https://bad.example.com/login?next=%2Fa%",
        "https://login.bad.example.com/login?next=%2Fa",
        "https://bad.example.com/log/in?next=%2Fa",
        "bad://bad.example.com/login?next=%2Fa",
    ] {
        assert_ne!(destination_hash(other), hash, "{other}");
    }
    assert_ne!(destination_hash("https://bad.example.com/%+f"), destination_hash("https://bad.example.com/%0F"));
    for (one, other) in [
        ("https://bad.example.com/@user/log,in(1)", "https://bad.example.com/%40user/log%2Cin%281)"),
        ("https://bad.example.com/?q=a+b", "https://bad.example.com/?q=a%20b"),
        (
            "https://bad.example.com/?to=https%3A%2F%2Fbank.example%2Fa",
            "https://bad.example.com/?to=https://bank.example/a",
        ),
    ] {
        assert_eq!(destination_hash(one), destination_hash(other), "{other}");
    }
    assert_ne!(
        destination_hash("https://bad.example.com/?q=a%2Bb"),
        destination_hash("https://bad.example.com/?q=a+b")
    );
    for browser in [
        "googlechromes://bad.example.com/login?next=%2Fa",
        "GoogleChrome://www.bad.example.com/login?next=%2Fa",
        "googlechrome://navigate?url=https%3A%2F%2Fbad.example.com%2Flogin%3Fnext%3D%252Fa",
        "googlechrome-x-callback://x-callback-url/open/?url=https%3A%2F%2Fbad.example.com%2Flogin%3Fnext%3D%252Fa",
        "x-safari-https://bad.example.com/login?next=%2Fa",
        "firefox://open-url?url=https%3A%2F%2Fbad.example.com%2Flogin%3Fnext%3D%252Fa",
        "microsoft-edge:https://bad.example.com/login?next=%2Fa",
        "microsoft-edge-https://bad.example.com/login?next=%2Fa",
    ] {
        assert_eq!(destination_hash(browser), hash, "{browser}");
        assert!(refusing_hashes(browser).contains(&sha256_hex(browser)), "what earlier versions refused: {browser}");
        assert_eq!(list("bad.example.com").covers(browser), Some("bad.example.com"), "{browser}");
    }
    for app in ["firefox://settings", "brave:about", "myapp://open?url=https://bad.example.com/login?next=%2Fa"] {
        assert_eq!(destination_hash(app), sha256_hex(app), "{app}");
    }
    assert_ne!(destination_hash("https://www.example/x"), destination_hash("https://example/x"));
}

/// R12: a page that was taken down is refused with any parameters, one with parameters also with more; what earlier versions
/// refused still is.
#[test]
fn r12_a_query_does_not_make_another_destination() {
    let refuses = |taken_down: &str, other: &str| {
        let [down, other] = [taken_down, other].map(|url| Page::of(url).unwrap());
        down.hash() == other.hash() && other.has(&down.parameters())
    };
    for other in ["https://bad.example.com/login?x=1", "https://www.bad.example.com/Login/?x=1&y#top"] {
        assert!(refuses("https://bad.example.com/login", other), "{other}");
    }
    for other in ["b=2&&a=1&", "a=1&b=2&utm_source=mail", "b=2&a=1&a=1", "a=1&b=2&=", "a=3&a=1&b=2"] {
        assert!(refuses("https://bad.example.com/?a=1&b=2", &format!("https://bad.example.com?{other}")), "{other}");
    }
    assert!(refuses("https://bad.example.com/?a=", "https://bad.example.com/?b&a"));
    for other in ["", "?a=2", "?a=11", "?b=1", "?A=1", "?a=1%26b"] {
        assert!(
            !refuses("https://bad.example.com/login?a=1", &format!("https://bad.example.com/login{other}")),
            "{other}"
        );
    }
    assert!(!refuses("https://bad.example.com/watch?v=abc", "https://bad.example.com/watch?v=ABC"));
    assert!(Page::of("myapp://home?a=1").is_none());
    let of_earlier = sha256_hex("//www.bad.example.com:8443/Login?a=%2F");
    assert!(refusing_hashes("http://www.bad.example.com:8443/Login?a=%2f#top").contains(&of_earlier));
}
