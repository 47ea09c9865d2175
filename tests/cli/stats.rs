//! `dl stats` and `dl links stats`: the requests, and the output for scripts and for people.

use serde_json::json;

use crate::reports::{CSV, link_stats, report, service};
use crate::screen::{Screen, plain};
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double};

#[test]
fn a_report_is_what_the_service_answered() {
    let double = service();
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("stats spring-42 -o json").json(), report(&["spring-42"], None));
    insta::assert_snapshot!(dl.run("stats spring-42"), @"
    clicks	120
    installed	31
    identified	12
    reinstalled	2
    new_device	1
    engaged	9
    conversion.purchase	2
    conversion.signup	1
    revenue_cents.EUR	8400
    --- stderr
    from 2026-10-21T09:30:00.000Z to 2026-11-20T09:30:00.000Z, by last touch
    ");
    insta::assert_snapshot!(dl.run("stats spring-42 --group-by day -q"), @"
    2026-11-19	0	0	0	0	0	0	0	
    2026-11-20	120	31	12	2	1	9	3	84.00 EUR
    ");
    insta::assert_snapshot!(dl.run("stats spring-42 --group-by referer-host -q --fields key,clicks,installed"), @r"
    example.com	100	
    	20	
    ");
    assert_eq!(dl.run("stats spring-42 --group-by day -o csv").ok(), CSV, "the service's own");
    assert_eq!(
        dl.run("stats --top browser -o csv").ok(),
        "key,clicks\r\n2026-11-20,120\r\n",
        "groups of clicks have nothing in the other columns"
    );
    assert_eq!(
        dl.run("stats spring-42 -o csv --fields key,clicks,conversions").ok(),
        "key,clicks,conversions\r\ntotal,120,3\r\n"
    );
    assert_eq!(dl.run("stats spring-42 spring-43 -o id -q").ok(), "spring-42\nspring-43\n");
    assert_eq!(dl.run("stats --top link -o id -q").ok(), "spring-42\n", "the clicks of all others have no id");
    assert_eq!(dl.run("stats --top link -q --fields key,clicks").ok(), "spring-42\t120\nother\t20\n");
    assert_eq!(dl.run("stats spring-42 --group-by day -o id -q").ok(), "2026-11-19\n2026-11-20\n");
    let lines = dl.run("stats spring-42 --group-by day -o jsonl -q");
    assert_eq!(lines.ok().lines().count(), 2);
    assert!(lines.stdout.contains("\"conversions\":{\"purchase\":2,\"signup\":1}"), "{lines}");
    assert_eq!(dl.run("stats spring-42 -o jsonl -q").ok().lines().count(), 1);
    assert_eq!(dl.run("stats spring-42 -o json --fields clicks,engaged").ok(), "{\"clicks\":120,\"engaged\":9}\n");
    assert_eq!(
        dl.run("stats spring-42 -o json --group-by day --fields key,clicks").json(),
        json!([{"key": "2026-11-19", "clicks": 0}, {"key": "2026-11-20", "clicks": 120}])
    );
}

/// A breakdown by country that is not configured names the settings, for an operator and for a customer of one.
#[test]
fn countries_that_are_not_configured_name_the_settings() {
    let double = Double::new(|_| Answer::error(503, "geo_not_configured", "country data is not configured"));
    let ran = Dl::at(&double.url).env("DL_RETRIES", "0").run("stats --top country");
    let hint = "set DEEPLINK_COUNTRY_HEADER or DEEPLINK_GEO_DB on the server, or ask its operator to do so";
    assert!(ran.fails(9).contains(hint), "{ran}");
}

/// Output without dates in it gets a note of its period.
#[test]
fn the_window_is_said_with_every_form_that_leaves_it_out() {
    let double = service();
    let dl = Dl::at(&double.url);
    let window = "from 2026-10-21T09:30:00.000Z to 2026-11-20T09:30:00.000Z, by last touch\n";
    for form in ["-o csv --to 2026-11-20T09:30:00Z", "-o jsonl", "-o id", "-o csv --fields key,clicks", "--fields key"]
    {
        let ran = dl.run(&format!("stats spring-42 --group-by day {form}"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), window), "{form}: {ran}");
    }
    assert_eq!(dl.run("stats spring-42 -o json").stderr, "", "it is in the answer");
    let shown = Screen::open(dl, "stats spring-42 --group-by day --fields key,clicks").end().1;
    assert!(shown.contains(window), "{shown}");
}

#[test]
fn what_is_asked_is_what_was_said() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (line, target) in [
        ("stats", "credit=last_touch"),
        ("stats spring-42", "credit=last_touch&link_ids=spring-42"),
        (
            "stats spring-42 spring-43 --from 2026-11-01 --to 2026-11-20T02:00:00+02:00 --credit first-touch",
            "credit=first_touch&from=2026-11-01T00%3A00%3A00.000Z&link_ids=spring-42%2Cspring-43\
             &to=2026-11-20T00%3A00%3A00.000Z",
        ),
        ("stats a-1 --credit touched --group-by referer-host", "credit=touched&group_by=referer_host&link_ids=a-1"),
        (
            "stats a-1 --group-by day -o csv --to 2026-11-20",
            "credit=last_touch&from=2026-10-21T00%3A00%3A00.000Z&group_by=day&link_ids=a-1\
             &to=2026-11-20T00%3A00%3A00.000Z&format=csv",
        ),
        // A date is a day of the zone, a moment and a length of time are what they are.
        (
            "stats a-1 --group-by day --tz europe/berlin --from 2026-11-01 --to 2026-11-20T00:00:00Z",
            "credit=last_touch&from=2026-10-31T23%3A00%3A00.000Z&group_by=day&link_ids=a-1\
             &to=2026-11-20T00%3A00%3A00.000Z&tz=europe%2Fberlin",
        ),
        // In every other report the zone is that of the dates alone.
        (
            "stats a-1 --tz Europe/Berlin --from 2026-11-01 --to 2026-11-20",
            "credit=last_touch&from=2026-10-31T23%3A00%3A00.000Z&link_ids=a-1&to=2026-11-19T23%3A00%3A00.000Z",
        ),
        (
            "stats --top link --tz Europe/Berlin --to 2026-11-20",
            "credit=last_touch&group_by=link&limit=25&order=clicks&to=2026-11-19T23%3A00%3A00.000Z",
        ),
        ("stats --top link", "credit=last_touch&group_by=link&limit=25&order=clicks"),
        ("stats --top referer-host --limit 100", "credit=last_touch&group_by=referer_host&limit=100&order=clicks"),
        ("stats --top day", "credit=last_touch&group_by=day&order=clicks"),
        ("stats --group-by link --limit 5 --order -key", "credit=last_touch&group_by=link&limit=5&order=-key"),
    ] {
        dl.run(line).ok();
        let request = double.requests().pop().expect("a request");
        assert_eq!(request.target, format!("/v1/analytics/stats?{target}"), "{line}");
    }
    let ids = (0..100).map(|at| format!("link-{at}")).collect::<Vec<_>>().join("\n");
    dl.run_with("stats -", &ids).ok();
    let asked = double.requests().pop().expect("a request");
    assert_eq!(asked.query("link_ids").expect("ids").split("%2C").count(), 100);
    dl.run("stats a-1 --from 7d --to 1h").ok();
    let asked = double.requests().pop().expect("a request");
    assert!(asked.query("from").expect("a start") < asked.query("to").expect("an end"));
}

#[test]
fn wrong_questions_are_3_and_nothing_is_sent() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (line, said) in [
        ("stats a-1 --credit linear", "credit must be one of last_touch, first_touch, touched"),
        (
            "stats a-1 --group-by week",
            "group_by must be one of day, hour, link, platform, kind, referer_host, country, browser, os, device, in_app",
        ),
        ("stats --group-by link --limit 101", "limit must be a number from 1 to 100"),
        ("stats --top day --limit 5", "limit requires a group_by other than hour or day"),
        ("stats --limit 5", "limit requires a group_by other than hour or day"),
        ("stats --group-by link --order key", "order must be one of clicks, -key"),
        ("stats --order clicks", "order requires group_by"),
        ("stats --tz Berlin", "tz must be an IANA time zone name, such as Europe/Berlin"),
        ("stats --tz Berlin --group-by day", "tz must be an IANA time zone name, such as Europe/Berlin"),
        ("stats a-1 --from 2026-11-20 --to 2026-11-01", "from must not be later than to"),
        ("stats a-1 --from 401d --group-by day", "the window must be at most 400 days"),
        ("stats a-1 --from 32d --group-by hour", "the window must be at most 31 days"),
        ("stats ab", "is not a link ID"),
        ("links stats ab", "is not a link ID"),
    ] {
        assert!(dl.run(line).fails(3).contains(said), "{line}: {}", dl.run(line));
    }
    let week = dl.run("stats --group-by week -o json").error();
    assert_eq!((&week["code"], &week["field"]), (&"invalid_group_by".into(), &"group_by".into()), "{week}");
    let ids = (0..101).map(|at| format!("link-{at}")).collect::<Vec<_>>().join("\n");
    let many = dl.run_with("stats - -o json", &ids);
    assert_eq!((many.code, many.error()["field"].as_str()), (Some(3), Some("link_ids")), "{many}");
    assert!(many.error()["message"].as_str().expect("a message").contains("at most 100"), "{many}");
    assert!(dl.run_with("stats -", "spring-42\nno id\n").fails(3).contains("line 2 of stdin"));
    assert_eq!(dl.run_with("stats -", "").code, Some(3), "no id at all");
    for line in [
        "stats a-1 --from yesterday",
        "stats a-1 --fields clicks,nothing",
        "stats --top link --group-by day",
        "stats --top link --limit many",
    ] {
        assert_eq!(dl.run(line).code, Some(2), "{line}");
    }
    assert!(double.requests().is_empty(), "{:?}", double.lines());
}

fn shown(line: &str, columns: u16, utf8: bool, color: bool) -> String {
    let double = service();
    let dl = Dl::at(&double.url).env("TERM", "xterm-256color").env("LANG", if utf8 { "C.UTF-8" } else { "C" });
    let dl = if color { dl } else { dl.env("NO_COLOR", "1") };
    Screen::sized(dl, line, columns).end().1
}

#[test]
fn people_see_bars_and_shares() {
    insta::assert_snapshot!(shown("stats spring-42", 80, true, false), @"
    spring-42, by last touch
    2026-10-21 09:30 to 2026-11-20 09:30 UTC

    clicks       120  ███████████████████████████████████████████████████████
    installed     31  ██████████████▏                                          25.8%
    identified    12  █████▌                                                   38.7%
    conversions    3  █▍                                                       25.0%

    RETURNING
    reinstalled    2  ████████████▏
    new device     1  ██████
    engaged        9  ███████████████████████████████████████████████████████

    CONVERSIONS
    purchase       2  ███████████████████████████████████████████████████████
    signup         1  ███████████████████████████▌

    REVENUE
    84.00 EUR
    ");
    insta::assert_snapshot!(shown("stats spring-42", 40, true, false), @"
    spring-42, by last touch
    2026-10-21 09:30 to 2026-11-20 09:30 UTC

    clicks       120  ███████████████
    installed     31  ███▉             25.8%
    identified    12  █▌               38.7%
    conversions    3  ▍                25.0%

    RETURNING
    reinstalled    2  ███▎
    new device     1  █▋
    engaged        9  ███████████████

    CONVERSIONS
    purchase       2  ███████████████
    signup         1  ███████▌

    REVENUE
    84.00 EUR
    ");
    insta::assert_snapshot!(shown("stats spring-42", 40, false, false), @"
    spring-42, by last touch
    2026-10-21 09:30 to 2026-11-20 09:30 UTC

    clicks       120  ###############
    installed     31  ####             25.8%
    identified    12  ##               38.7%
    conversions    3  #                25.0%

    RETURNING
    reinstalled    2  ###
    new device     1  ##
    engaged        9  ###############

    CONVERSIONS
    purchase       2  ###############
    signup         1  ########

    REVENUE
    84.00 EUR
    ");
    insta::assert_snapshot!(shown("stats spring-42 spring-43 --group-by link", 80, true, false), @"
    2 links, by last touch
    2026-10-21 09:30 to 2026-11-20 09:30 UTC

    LINK       CLICKS  INSTALLED  IDENTIFIED  CONVERSIONS    REVENUE
    spring-42     120         31          12            3  84.00 EUR  ██████████████
    spring-43     120         31          12            3  84.00 EUR  ██████████████

    hidden columns: ENGAGED, REINSTALLED, NEW DEVICE; use a wider terminal or -o csv
    ");
    insta::assert_snapshot!(shown("stats spring-42 --group-by day", 40, true, false), @r"
    spring-42, by last touch
    2026-10-21 09:30 to 2026-11-20 09:30 UTC

    DAY         CLICKS  INSTALLED    REVENUE
    2026-11-19       0          0
    2026-11-20     120         31  84.00 EUR

    hidden columns: IDENTIFIED, CONVERSIONS,
    ENGAGED, REINSTALLED, NEW DEVICE; use a
    wider terminal or -o csv
    ");
    insta::assert_snapshot!(shown("stats spring-42 --group-by referer_host", 40, false, false), @r"
    spring-42, by last touch
    2026-10-21 09:30 to 2026-11-20 09:30 UTC

    REFERER HOST  CLICKS
    example.com      100  ##################
    (none)            20  ####
    ");
    insta::assert_snapshot!(shown("links stats spring-42", 80, true, false), @"
    clicks       120  ███████████████████████████████████████████████████
    installed     31  █████████████▏                                           25.8%
    identified    12  █████                                                    38.7%
    conversions    3  █▎                                                       25.0%

    CONVERSIONS
    purchase       2  ███████████████████████████████████████████████████  84.00 EUR
    signup         1  █████████████████████████▌
    ");
    insta::assert_snapshot!(shown("links stats spring-42", 40, false, false), @"
    clicks       120  ###########
    installed     31  ###              25.8%
    identified    12  #                38.7%
    conversions    3  #                25.0%

    CONVERSIONS
    purchase       2  ###########  84.00 EUR
    signup         1  ######
    ");
}

/// Clicks that a previous service counted are on a line apart, and in no sum.
#[test]
fn imported_clicks_are_shown_apart() {
    let double = Double::new(|request| {
        let mut body = match request.line().as_str() {
            "GET /v1/links/spring-42/stats" => link_stats(),
            _ => report(&["spring-42"], request.query("group_by")),
        };
        body["imported_clicks"] = 1_234.into();
        Answer::json(200, &body)
    });
    let dl = || Dl::at(&double.url).env("TERM", "xterm-256color").env("LANG", "C").env("NO_COLOR", "1");
    let said = "\nImported clicks  1,234 (counted before the import; not included above)\n";
    for line in ["stats spring-42", "stats spring-42 --group-by day", "links stats spring-42"] {
        let shown = Screen::sized(dl(), line, 80).end().1.replace('\r', "");
        assert!(shown.contains(said) && !shown.contains("1354"), "{line}: {shown}");
    }
    let narrow = Screen::sized(dl(), "stats spring-42", 40).end().1.replace('\r', "");
    assert!(narrow.lines().all(|line| line.len() <= 40) && narrow.contains("Imported clicks  1,234"), "{narrow}");
    let lines = dl().run("stats spring-42 -q");
    assert!(lines.ok().starts_with("clicks\t120\n") && lines.stdout.contains("\nimported_clicks\t1234\n"), "{lines}");
    assert!(dl().run("links stats spring-42").ok().contains("\nimported_clicks\t1234\n"));
    assert_eq!(dl().run("stats spring-42 -o json").json()["imported_clicks"], 1_234);
    assert_eq!(dl().run("stats spring-42 -o json --fields clicks").json(), json!({"clicks": 120}));
}

#[test]
fn colours_are_left_out_where_nobody_wants_them() {
    for line in ["stats spring-42", "stats spring-42 --group-by day", "links stats spring-42"] {
        let coloured = shown(line, 80, true, true);
        assert!(coloured.contains("\u{1b}[36m█"), "{coloured:?}");
        assert_eq!(plain(&coloured), shown(line, 80, true, false), "the same but for colours");
        assert!(shown(line, 80, false, false).is_ascii());
    }
}

#[test]
fn a_link_has_its_sums() {
    let double = service();
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("links stats spring-42 -o json").json()["conversions"][0]["sum_cents"], 8400);
    insta::assert_snapshot!(dl.run("links stats spring-42"), @r#"
    link_id	spring-42
    click_count	120
    install_count	31
    identify_count	12
    convert_count	3
    conversion_rate	0.025
    imported_clicks	
    conversions	[{"conversion_type":"purchase","count":2,"currency":"EUR","sum_cents":8400},{"conversion_type":"signup","count":1,"currency":null,"sum_cents":null}]
    "#);
    assert!(dl.run("links stats gone-1").fails(5).contains("dl links list --search gone-1 looks for it"));
}

#[test]
fn clicks_over_time_have_a_sparkline() {
    let double = Double::new(|request| {
        let days: Vec<_> =
            (1..=9).map(|day| json!({"date": format!("2026-11-0{day}"), "clicks": day * (day % 3)})).collect();
        assert!(request.query("granularity").is_some());
        Answer::json(
            200,
            &json!({
                "link_id": "spring-42", "granularity": "daily", "from": "2026-11-01T00:00:00.000Z",
                "to": "2026-11-09T12:00:00.000Z", "data": days,
            }),
        )
    });
    let dl = || Dl::at(&double.url).env("TERM", "xterm").env("LANG", "C.UTF-8").env("NO_COLOR", "1");
    let text = Screen::sized(dl(), "links timeseries spring-42", 40).end().1;
    assert!(text.starts_with("spring-42, clicks\n▂▃▁▃▅▁▄█▁\n\nDATE        CLICKS\n2026-11-01       1\n"), "{text}");
    assert!(text.ends_with("42 clicks from 2026-11-01T00:00:00.000Z to 2026-11-09T12:00:00.000Z\n"), "{text}");
    dl().run("links timeseries spring-42 --hourly").ok();
    assert_eq!(double.requests().pop().expect("a request").query("granularity"), Some("hourly"));
    assert_eq!(dl().run("links timeseries spring-42 --hourly --granularity daily").code, Some(2));
}

/// P5: names that other people chose are harmless on a terminal.
#[test]
fn p5_names_of_others_are_harmless() {
    const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{202e}b";
    let double = Double::new(|request| {
        let mut body = report(&["spring-42"], request.query("group_by"));
        body["funnel"]["conversions"] = json!({HOSTILE: 1});
        body["credit"] = HOSTILE.into();
        if request.query("group_by").is_some() {
            body["groups"][0]["key"] = HOSTILE.into();
        }
        Answer::json(200, &body)
    });
    for line in
        ["stats spring-42", "stats spring-42 --group-by kind", "stats spring-42 -o json", "stats spring-42 -o jsonl"]
    {
        let text = Screen::open(Dl::at(&double.url).env("NO_COLOR", "1"), line).end().1;
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']) && text.contains("1b"), "{text:?}");
    }
}
