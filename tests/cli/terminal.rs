//! What a person sees: the same commands with a terminal on every stream.

use std::time::Duration;

use deeplink_testing::dl::{Dl, KEY};
use deeplink_testing::double::{Answer, Double, domain, link, user, verification, with_links};

use crate::screen::{Screen, plain, shown};

/// P5: on a terminal, control and bidi characters in the service's texts become visible escapes: in every output
/// format, in errors, and in traced requests.
#[test]
fn p5_hostile_text_is_harmless() {
    const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}b\u{2066}\u{7f}\r";
    let double = Double::new(|request| match request.path() {
        "/v1/links/bad" => Answer::error(404, "not_found", HOSTILE),
        "/v1/links" => {
            let mut link = link("spring-42");
            link["agent_context"]["cta"] = HOSTILE.into();
            link["web_url"] = HOSTILE.into();
            link["status"] = HOSTILE.into();
            Answer::json(200, &serde_json::json!({"links": [link], "next_cursor": null}))
        }
        _ => {
            let mut link = link("spring-42");
            link["agent_context"]["cta"] = HOSTILE.into();
            link["link_id"] = HOSTILE.into();
            Answer::json(200, &link)
        }
    });
    let dl = || Dl::at(&double.url);
    let mut lines: Vec<String> = vec![
        "links get bad".into(),
        "links get bad -o json".into(),
        "api GET /v1/links".into(),
        "api GET /v1/links -i".into(),
        "links get bad -vv".into(),
        "links export".into(),
    ];
    for form in ["table", "json", "jsonl", "csv", "id"] {
        lines.push(format!("links list -o {form}"));
        lines.push(format!("links get spring-42 -o {form}"));
        lines.push(format!("links get spring-42 spring-43 -o {form}"));
    }
    for line in lines {
        let text = plain(&shown(dl(), &line));
        for c in ['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{7f}', '\r'] {
            assert!(!text.contains(c), "{line}: {c:?} in {text:?}");
        }
        let visible = ["\\u{1b}]0;owned", "\\u001b]0;owned"].iter().any(|escape| text.contains(escape));
        assert!(visible || line.ends_with("-o id") && line.contains("list"), "{line}: {text:?}");
    }
    assert!(
        Dl::at(&double.url).run("links get spring-42 -o csv").ok().contains(HOSTILE),
        "without a terminal nothing is changed"
    );
}

#[test]
fn a_table_has_headings_relative_times_and_whole_ids() {
    let double = Double::new(|_| {
        let mut one = link("spring-42");
        one["web_url"] = "https://shop.example.com/products/winter-jackets/size-xl/colour-dark-green".into();
        one["ios_deep_link"] = "shop://p/42".into();
        let mut two = link("a-longer-id-of-a-link");
        two["status"] = "expired".into();
        Answer::json(200, &serde_json::json!({"links": [one, two], "next_cursor": "more"}))
    });
    let dl = || Dl::at(&double.url).env("TERM", "xterm");
    let (code, text) = Screen::sized(dl(), "links list --limit 2", 120).end();
    assert_eq!(code, Some(0));
    let text = plain(&text);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines[0].contains("DESTINATION") && lines[0].ends_with("CREATED"), "{text}");
    assert!(
        lines[1].starts_with("spring-42 ")
            && lines[1].contains("https://go.example.com/spring-42 ")
            && lines[1].contains('…'),
        "{text}"
    );
    assert!(lines[2].starts_with("a-longer-id-of-a-link  https://go.example.com/a-longer-id-of-a-link  "), "{text}");
    assert!(
        !text.contains("2026-11-20T09:30:00.000Z") && text.contains("more are available: --all, or --cursor more"),
        "{text}"
    );
    assert!(lines[1].chars().count() <= 120, "{text}");
    let narrow = plain(&Screen::sized(dl(), "links list --limit 2", 40).end().1);
    assert!(narrow.contains("a-longer-id-of-a-link  https://go.example.com/a-longer-id-of-a-link"), "{narrow}");
}

#[test]
fn names_tags_and_aliases_are_columns_if_a_link_has_them() {
    let listed = |name: serde_json::Value, tags: serde_json::Value, aliases: serde_json::Value| {
        let double = Double::new(move |_| {
            let mut one = link("spring-42");
            (one["name"], one["tags"], one["aliases"]) = (name.clone(), tags.clone(), aliases.clone());
            Answer::json(200, &serde_json::json!({"links": [one, link("spring-43")], "next_cursor": null}))
        });
        let text = plain(&Screen::sized(Dl::at(&double.url).env("TERM", "xterm"), "links list", 160).end().1);
        let piped = Dl::at(&double.url).run("links list");
        assert!(piped.ok().lines().all(|line| line.split('\t').count() == 5), "{piped}");
        text.lines().next().unwrap_or_default().split("CREATED").nth(1).unwrap_or_default().trim().to_owned()
    };
    let (none, empty, some) = (serde_json::json!(null), serde_json::json!([]), serde_json::json!(["Spring sale"]));
    assert_eq!(
        listed("Poster".into(), some.clone(), serde_json::json!(["l/old"])).split_whitespace().collect::<Vec<_>>(),
        ["NAME", "TAGS", "ALIASES"]
    );
    assert_eq!(listed(none.clone(), some, empty.clone()), "TAGS");
    assert_eq!(listed(none, empty.clone(), empty), "");
}

#[test]
fn names_and_tags_are_cut_before_destinations() {
    let double = Double::new(|_| {
        let mut one = link("spring-42");
        one["web_url"] = "https://example.com/p/42".into();
        (one["name"], one["tags"]) = ("Poster in the shop window".into(), serde_json::json!(["2027", "Spring sale"]));
        let mut two = link("spring-43");
        two["web_url"] = serde_json::Value::Null;
        Answer::json(200, &serde_json::json!({"links": [one, two], "next_cursor": null}))
    });
    let text = plain(&Screen::sized(Dl::at(&double.url).env("TERM", "xterm"), "links list", 120).end().1);
    assert!(text.contains("spring-43  no destination "), "{text}");
    assert!(text.contains(" https://example.com/p/42 ") && text.contains(" Poster in") && text.contains('…'), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

/// A line of a table is not broken by a terminal: what does not fit is left out and named.
#[test]
fn a_wide_table_names_the_columns_that_it_leaves_out() {
    let double = Double::new(|_| {
        let one = user("a-rather-long-name@department.example.com");
        Answer::json(200, &serde_json::json!({"users": [one, user("b@example.com")], "next_cursor": null}))
    });
    let shown = |columns| plain(&Screen::sized(Dl::at(&double.url).env("TERM", "xterm"), "team list", columns).end().1);
    let text = shown(80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().next().is_some_and(|head| head.ends_with("STATUS")), "{text}");
    let note = "\nhidden columns: OWNER, SINCE; use a wider terminal or -o json";
    assert!(text.replace('\r', "").trim_end().ends_with(note), "{text}");
    let wide = shown(120);
    assert!(wide.contains("SINCE") && !wide.contains("hidden"), "{wide}");
}

#[test]
fn one_record_is_a_block() {
    let text = plain(&shown(Dl::at(&with_links(1).url), "links get link-0000"));
    assert!(
        text.starts_with("link id       link-0000\nurl           https://go.example.com/link-0000\nweb url       "),
        "{text}"
    );
    assert!(!text.contains("ios"), "a missing value has no line: {text}");
    let double = Double::new(|_| {
        let mut one = link("spring-42");
        one["tags"] = serde_json::json!(["2027", "Spring sale"]);
        Answer::json(200, &one)
    });
    let text = plain(&shown(Dl::at(&double.url), "links get spring-42"));
    assert!(text.contains("  2027, Spring sale\n"), "as in a list: {text}");
}

#[test]
fn json_is_indented_on_a_terminal() {
    let double = with_links(1);
    for line in [
        "links list -o json",
        "links get link-0000 -o json",
        "links get link-0000 link-0000 -o json",
        "api GET /v1/links",
    ] {
        let text = shown(Dl::at(&double.url), line);
        assert!(text.contains("\n  ") && serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{line}: {text}");
    }
}

#[test]
fn colour_follows_its_rules() {
    let double = with_links(1);
    let colored = |text: &str| text.contains("\u{1b}[");
    let dl = || Dl::at(&double.url);
    assert!(colored(&shown(dl(), "links list")));
    assert!(colored(&shown(dl(), "links get nope")));
    assert!(!colored(&shown(dl(), "links list --color never")));
    assert!(!colored(&shown(dl().env("NO_COLOR", "1"), "links list")));
    assert!(!colored(&shown(dl().env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1"), "links get nope")));
    assert!(colored(&shown(dl().env("NO_COLOR", "1"), "links list --color always")));
    assert!(!colored(&shown(dl().env("TERM", "dumb"), "links list")));
    assert!(colored(&shown(dl().env("TERM", "dumb").env("CLICOLOR_FORCE", "1"), "links list")));
    assert!(!colored(&dl().run("links get nope").stderr));
    assert!(colored(&dl().env("CLICOLOR_FORCE", "1").run("links get nope").stderr));
    assert!(colored(&dl().run("links get nope --color=always").stderr));
    assert!(colored(&dl().run("links --help --color always").stdout) && !colored(&dl().run("links --help").stdout));
}

#[test]
fn a_question_is_asked_and_answered() {
    let double = with_links(0);
    for (ids, question) in
        [("spring-1 spring-2", "Delete 2 links? [y/N] "), ("spring-1", "Delete link spring-1? [y/N] ")]
    {
        for (answer, code, sent) in [("y\n", 0, 1), ("yes\n", 0, 1), ("n\n", 2, 0), ("\n", 2, 0)] {
            let before = double.requests().len();
            let screen = Screen::open(Dl::at(&double.url), &format!("links delete {ids}"));
            screen.wait_for(question);
            screen.send(answer);
            assert_eq!(screen.end().0, Some(code), "{ids}: {answer:?}");
            assert_eq!(double.requests().len() - before, sent);
        }
    }
    for line in
        ["links delete spring-1 spring-2 --yes", "links delete spring-1 --yes", "links delete spring-1 --no-input"]
    {
        assert_eq!(Screen::open(Dl::at(&double.url), line).end().0, Some(0), "{line}");
    }
    for dl in [Dl::at(&double.url).env("DL_NO_INPUT", "yes"), Dl::at(&double.url)] {
        let flag = if dl.variables().iter().any(|(name, _)| name == "DL_NO_INPUT") { "" } else { " --no-input" };
        let (code, text) = Screen::open(dl, &format!("links delete spring-1 spring-2{flag}")).end();
        assert!(code == Some(2) && text.contains("use --yes to confirm"), "{text}");
    }
}

#[test]
fn what_would_be_lost_is_named_before_it_goes() {
    let double = Double::new(|request| match request.line().as_str() {
        "GET /v1/domains" => {
            let (mut waits, mut alternate) = (domain(false), domain(true));
            waits["domain"] = "new.example.com".into();
            (alternate["domain"], alternate["role"]) = ("alt.example.com".into(), "alternate".into());
            Answer::json(200, &serde_json::json!([domain(true), waits, alternate]))
        }
        _ => Answer::new(204, ""),
    });
    for (line, question, answer, code, sent) in [
        (
            "apps delete app_0123456789abcdef01234567",
            "Delete the app app_0123456789abcdef01234567? [y/N] ",
            "y\n",
            0,
            1,
        ),
        ("apps delete app_0123456789abcdef01234567", "[y/N] ", "\n", 2, 0),
        ("domains delete go.example.com", "Type go.example.com to continue: ", "go.example.com\n", 0, 2),
        ("domains delete GO.EXAMPLE.COM.", "Type go.example.com to continue: ", "go.example.com\n", 0, 2),
        ("domains delete go.example.com", "All URLs on go.example.com will stop working immediately.", "\n", 2, 1),
        ("domains delete new.example.com", "is not verified: it serves no links.", "\n", 2, 1),
        (
            "domains delete alt.example.com",
            "Taps on landing pages will no longer go through alt.example.com",
            "\n",
            2,
            1,
        ),
        ("domains delete go.example.com", "to continue: ", "yes\n", 2, 1),
    ] {
        let before = double.requests().len();
        let screen = Screen::open(Dl::at(&double.url), line);
        screen.wait_for(question);
        screen.send(answer);
        assert_eq!(screen.end().0, Some(code), "{line} {answer:?}");
        assert_eq!(double.requests().len() - before, sent, "{line} {answer:?}");
    }
}

#[test]
fn yes_and_no_are_words() {
    let double = Double::new(|_| Answer::json(200, &serde_json::json!([domain(true), domain(false)])));
    let text = plain(&shown(Dl::at(&double.url), "domains list"));
    let verified: Vec<_> = text.lines().skip(1).take(2).filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(verified, ["yes", "no"], "{text}");
    assert!(text.starts_with("DOMAIN          ROLE     VERIFIED  CREATED  ROOT URL"), "{text}");
}

#[test]
fn several_texts_have_a_line_each() {
    let double = Double::new(|_| {
        let mut found = verification(None);
        found["txt_found"] = serde_json::json!(["v=spf1 -all", "a\u{1b}b\nc"]);
        Answer::json(200, &found)
    });
    let text = plain(&shown(Dl::at(&double.url), "domains verify go.example.com"));
    assert!(text.contains("txt found   v=spf1 -all\n            a\\u{1b}b\\nc\n"), "{text}");
}

#[test]
fn a_visit_that_leads_nowhere_says_what_is_shown() {
    let double = Double::new(|request| match request.path() {
        "/r/gone" => Answer::new(410, "").header("content-type", "text/html"),
        path if request.method == "GET" => Answer::json(
            200,
            &serde_json::json!({"link_id": "x", "_service_meta": {
                "source": "tenant_asserted", "status": if path == "/r/page" { "active" } else { "flagged" },
                "tenant_domain": null, "tenant_verified": false,
            }}),
        ),
        _ => Answer::new(200, "").header("content-type", "text/html"),
    });
    for (id, text) in [
        ("gone", "410  (a notice: the link is expired or disabled)\n"),
        (
            "page",
            "200  (a landing page; it has no single destination)\n\
             \u{1b}[36mnote\u{1b}[0m: to see where the button on the landing page leads: dl links explain page --as desktop\n",
        ),
        ("flagged", "200  (a notice: the link was flagged as unsafe and does not redirect)\n"),
    ] {
        assert_eq!(shown(Dl::at(&double.url), &format!("links resolve {id}")), text);
    }
}

#[test]
fn a_doctor_groups_what_it_found_and_breaks_lines_between_words() {
    let double = Double::new(|_| Answer::error(401, "invalid_key", "the key\u{1b}[31m is not known"));
    let (code, text) = Screen::sized(Dl::at(&double.url).env("TERM", "xterm"), "doctor", 60).end();
    assert_eq!(code, Some(1));
    assert!(text.contains("\u{1b}[31mfail\u{1b}[0m  account.key"), "{text:?}");
    let text = plain(&text);
    assert!(text.starts_with("default\n  skip  config.files       no configuration file:"), "{text}");
    let group = format!("\n\n{}\n  fail  service.http       ", double.url);
    assert!(text.contains(&group) && text.contains("\n                           \u{2192} "), "{text}");
    assert!(text.contains("the key\\u{1b}[31m is not known"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    assert!(
        text.contains("\n2 ok, 0 warnings, 2 failed, ") || text.contains("\n1 ok, 0 warnings, 2 failed, "),
        "{text}"
    );
}

#[test]
fn ctrl_c_at_a_question_is_130() {
    let double = with_links(0);
    let screen = Screen::open(Dl::at(&double.url), "links delete spring-1 spring-2");
    screen.wait_for("[y/N] ");
    screen.send("\u{3}");
    assert_eq!(screen.end().0, Some(130));
    assert!(double.requests().is_empty());
}

#[test]
fn ctrl_c_ends_a_wait_with_130() {
    let double = Double::new(|_| Answer::json(200, &verification(Some("there is no TXT record"))));
    let screen = Screen::open(Dl::at(&double.url), "domains verify go.example.com --wait 10m");
    screen.wait_for("checking again in 15 s, for up to 10 min more");
    screen.send("\u{3}");
    assert_eq!(screen.end().0, Some(130));
    assert_eq!(double.lines(), ["POST /v1/domains/go.example.com/verify", "GET /v1/domains"]);
}

#[test]
fn the_key_is_shown_on_a_terminal_only_when_revealed() {
    let (code, text) = Screen::open(Dl::at("https://dl.example.com"), "token").end();
    assert!(code == Some(2) && !text.contains(&KEY[20..]) && text.contains("--reveal"), "{text}");
    assert_eq!(shown(Dl::at("https://dl.example.com"), "token --reveal"), format!("{KEY}\n"));
}

#[test]
fn binary_data_never_goes_to_a_terminal() {
    let double =
        Double::new(|_| Answer::new(200, [0x89, b'P', b'N', b'G', 0xff, 0x1b]).header("content-type", "image/png"));
    let (code, text) = Screen::open(Dl::at(&double.url), "api GET /v1/links/x/qr.png").end();
    assert!(code == Some(2) && text.contains("the response is binary (6 bytes)") && !text.contains("PNG"), "{text}");
}

#[test]
fn an_import_has_a_bar_where_one_can_be_drawn() {
    let double = Double::new(|request| match request.method.as_str() {
        "POST" => {
            let ids = request.json()["custom_ids"].as_array().cloned().unwrap_or_default();
            let links: Vec<_> =
                ids.iter().map(|id| serde_json::json!({"link_id": id, "url": "https://go.example.com/x"})).collect();
            Answer::json(201, &serde_json::json!({"links": links})).after(Duration::from_millis(300))
        }
        _ => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
    });
    let import = |dl: Dl, line: &str| {
        let rows: Vec<String> = (0..300).map(|at| format!("row-{at},https://example.com/\n")).collect();
        dl.file("links.csv", &format!("custom_id,web_url\n{}", rows.concat()));
        shown(dl, line)
    };
    let dl = || Dl::at(&double.url);
    let bar = import(dl(), "links import links.csv");
    let drawn = |text: &str| text.contains("\u{1b}[2K") || text.contains('─');
    assert!(drawn(&bar) && bar.contains("/300") && bar.contains("done: 300 rows of links.csv"), "{bar}");
    for (dl, line) in [
        (dl().env("NO_COLOR", "1"), "links import links.csv"),
        (dl().env("TERM", "dumb"), "links import links.csv"),
        (dl(), "links import links.csv --progress plain"),
        (dl(), "links import links.csv -v"),
    ] {
        let text = import(dl, line);
        assert!(!drawn(&text) && text.contains("importing links.csv: 300 rows"), "{line}: {text}");
    }
    let off = import(dl(), "links import links.csv --progress off");
    assert!(!drawn(&off) && !off.contains("importing"), "{off}");
}
