//! `dl billing` and the plan in `dl whoami`: the requests, and the output for scripts and for people.

use deeplink_doubles::wait::{PATIENCE, eventually_blocking};
use deeplink_testing::dl::{Dl, KEY, chmod};
use deeplink_testing::double::{
    Answer, CHECKOUT_URL, Double, PERIOD_END, PORTAL_URL, Request, billing_status, of_billing, secret_key, whoami,
};
use serde_json::{Value, json};

use crate::screen::{Screen, plain};

fn service() -> Double {
    Double::new(|request| of_billing(request).unwrap_or_else(|| Answer::error(404, "not_found", "no")))
}

/// A service whose status has these members.
fn service_with(members: Value) -> Double {
    Double::new(move |request| {
        let mut status = billing_status();
        for (name, value) in members.as_object().expect("members") {
            status[name] = value.clone();
        }
        match request.line().as_str() {
            "GET /v1/billing/status" => Answer::json(200, &status),
            _ => of_billing(request).unwrap_or_else(|| Answer::error(404, "not_found", "no")),
        }
    })
}

#[test]
fn a_status_is_what_the_service_answered() {
    let double = service();
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("billing status -o json").json(), billing_status());
    insta::assert_snapshot!(dl.run("billing status"), @r"
    plan_tier	business
    effective_tier	business
    comp_active	false
    billing_method	stripe
    status	active
    current_period_end	2026-12-20T09:30:00.000Z
    cancel_scheduled	false
    quotas_enforced	true
    links	19204
    events_this_month	120400
    domains	5
    team_members	7
    webhooks	2
    max_links	20000
    max_events_per_month	500000
    max_domains	20
    max_team_members	
    max_webhooks	2
    analytics_retention_days	1095
    ");
    assert_eq!(dl.run("billing status -o id").ok(), "business\n");
    assert_eq!(
        dl.run("billing status -o csv --fields plan_tier,current_period_end,max_team_members").ok(),
        format!("plan_tier,current_period_end,max_team_members\r\nbusiness,{PERIOD_END},\r\n")
    );
    assert_eq!(dl.run("billing status --fields links,max_links").ok(), "19204\t20000\n");
    assert_eq!(dl.run("billing status -o jsonl").json(), billing_status());
    assert!(double.lines().iter().all(|line| line == "GET /v1/billing/status"));
    let before = double.requests().len();
    assert_eq!(dl.run("billing status --fields seats").code, Some(2));
    assert_eq!(double.requests().len(), before);
}

/// That service enforces no limits: the output says so, and shows none as if enforced.
#[test]
fn limits_that_do_not_hold_are_not_shown() {
    let double = service_with(json!({"quotas_enforced": false, "billing_method": "free", "current_period_end": null}));
    let ran = Dl::at(&double.url).run("billing status");
    assert!(ran.ok().contains("quotas_enforced\tfalse\n"), "{ran}");
    assert_eq!(ran.stderr, "this service has no plan limits\n");
    insta::assert_snapshot!(shown(&double, "billing status", 60, true), @r"
    plan                     business
    effective plan           business
    granted by the operator  no
    billing method           free
    status                   active
    cancel scheduled         no

    USAGE
    links         19204
    domains           5
    team members      7
    webhooks          2

    this service has no plan limits
    ");
}

fn shown(double: &Double, line: &str, columns: u16, utf8: bool) -> String {
    let dl = Dl::at(&double.url).env("TERM", "xterm-256color").env("NO_COLOR", "1");
    let dl = dl.env("LANG", if utf8 { "C.UTF-8" } else { "C" });
    Screen::sized(dl, line, columns).end().1
}

#[test]
fn people_see_bars_of_their_limits() {
    let double = service();
    insta::assert_snapshot!(shown(&double, "billing status", 80, true), @"
    plan                     business
    effective plan           business
    granted by the operator  no
    billing method           stripe
    status                   active
    period ends              2026-12-20
    cancel scheduled         no

    USAGE
    links               19204  █████████████████████████████████▌    96.0% of  20000
    events this month  120400  ████████▍                             24.1% of 500000
    domains                 5  ████████▊                             25.0% of     20
    team members            7                                              unlimited
    webhooks                2  ███████████████████████████████████  100.0% of      2

    individual clicks and other events are kept for 1095 days
    ");
    insta::assert_snapshot!(shown(&double, "billing status", 40, false), @r"
    plan                     business
    effective plan           business
    granted by the operator  no
    billing method           stripe
    status                   active
    period ends              2026-12-20
    cancel scheduled         no

    USAGE
    links      19204  ###########  of  20000
    events    120400  ###          of 500000
    domains        5  ###          of     20
    team           7               unlimited
    webhooks       2  ###########  of      2

    individual clicks and other events
    are kept for 1095 days
    ");
    let coloured = Dl::at(&double.url).env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let coloured = Screen::sized(coloured, "billing status", 80).end().1;
    assert!(coloured.contains("\u{1b}[36m█") && coloured.contains("\u{1b}[2mplan "), "{coloured:?}");
    assert_eq!(plain(&coloured), shown(&double, "billing status", 80, true), "the same but for colours");
}

/// A subscription on hold has not ended, and after a failed payment the plan may be lost already.
#[test]
fn people_see_how_the_subscription_stands() {
    for (members, status, note) in [
        (
            json!({"status": "canceled", "effective_tier": "free"}),
            "on hold",
            "the subscription is unpaid, paused, or for a price that this service does not recognize, so it grants no \
             plan; see dl billing portal",
        ),
        (json!({"status": "canceled", "billing_method": "free", "plan_tier": "free"}), "canceled", ""),
        (
            json!({"status": "past_due"}),
            "past_due",
            "the last payment failed; the plan ends within 7 days unless you pay at: dl billing portal",
        ),
        (
            json!({"status": "past_due", "effective_tier": "free"}),
            "past_due",
            "the last payment failed and the plan has ended; to restore it, pay at: dl billing portal",
        ),
    ] {
        let double = service_with(members);
        let screen = shown(&double, "billing status", 100, true);
        assert!(screen.contains(&format!("\nstatus                   {status}\n")), "{screen}");
        assert!(screen.contains(note) && screen.contains("dl billing portal") != note.is_empty(), "{screen}");
        // Scripts get the service's value.
        let word = if status == "on hold" { "canceled" } else { status };
        assert_eq!(Dl::at(&double.url).run("billing status --fields status").ok(), format!("{word}\n"));
    }
}

/// The URL is the only line of stdout; anyone who has it can use it, so no trace of the request shows it.
#[test]
fn an_address_goes_to_stdout_alone() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (line, url, member, target) in [
        ("billing checkout business", CHECKOUT_URL, "checkout_url", "/v1/billing/stripe/checkout?tier=business"),
        ("billing portal", PORTAL_URL, "portal_url", "/v1/billing/stripe/portal"),
    ] {
        assert_eq!(dl.run(line).ok(), format!("{url}\n"));
        let asked = double.requests().pop().expect("a request");
        assert_eq!((asked.method.as_str(), asked.target.as_str(), asked.body.as_str()), ("POST", target, ""));
        assert!(asked.header("idempotency-key").is_some(), "a repeated attempt makes no second page");
        assert_eq!(dl.run(&format!("{line} -o json")).json(), json!({member: url}));
        assert_eq!(dl.run(&format!("{line} -o id")).ok(), format!("{url}\n"));
        let traced = dl.run(&format!("{line} -vv"));
        assert!(traced.ok().contains(url) && !traced.stderr.contains("0123456789abcdef"), "{traced}");
    }
}

/// With `--open` the browser gets the URL; without a browser there is a warning, and the URL is printed all the same.
#[test]
fn a_page_is_opened_where_that_is_wanted() {
    let double = service();
    let dl = Dl::at(&double.url);
    let browser = dl.file("xdg-open", "#!/bin/sh\necho \"$1\" > opened.part && mv opened.part opened\n");
    chmod(&browser, 0o755);
    let path = dl.dir().to_string_lossy().into_owned();
    let dl = dl.env("PATH", &format!("{path}:/usr/bin:/bin"));
    for (line, url) in [("billing checkout pro", CHECKOUT_URL), ("billing portal", PORTAL_URL)] {
        assert_eq!(dl.run(line).ok(), format!("{url}\n"));
        assert!(!dl.dir().join("opened").exists(), "it was not asked for");
        let ran = dl.run(&format!("{line} --open"));
        assert_eq!((ran.ok(), ran.stderr.as_str()), (format!("{url}\n").as_str(), ""));
        let opened = dl.dir().join("opened");
        eventually_blocking("the browser starts", PATIENCE, || opened.exists());
        assert_eq!(dl.read("opened"), format!("{url}\n"));
        std::fs::remove_file(&opened).expect("it is there");
    }
    // A service may only name a web page, nothing else that would be opened.
    let odd = Double::new(|_| Answer::new(200, r#"{"portal_url":"file:///bin/true"}"#));
    let ran = dl.env("DL_BASE_URL", &odd.url).run("billing portal --open");
    assert_eq!(ran.ok(), "file:///bin/true\n");
    assert!(ran.stderr.contains("warning: could not open a browser (not an http(s) URL)"), "{ran}");
}

#[test]
fn a_plan_that_cannot_be_paid_for_is_3_and_nothing_is_sent() {
    let double = service();
    let dl = Dl::at(&double.url);
    for tier in ["free", "gold", "Pro", "''", "enterprise"] {
        let ran = dl.run(&format!("billing checkout {tier}"));
        assert_eq!(ran.fails(3), "error[invalid_tier]: tier must be pro, business or scale\n", "{tier}");
    }
    assert_eq!(dl.run("billing checkout").code, Some(2));
    assert!(double.requests().is_empty());
}

#[test]
fn a_cancellation_says_until_when_the_plan_stays() {
    let double = service();
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("billing cancel --yes"), @r"
    cancel_scheduled
    --- stderr
    the subscription will end on 2026-12-20
    ");
    assert_eq!(double.lines(), ["POST /v1/billing/cancel"]);
    let whole = json!({"status": "cancel_scheduled", "current_period_end": PERIOD_END});
    assert_eq!(dl.run("billing cancel --yes -o json").json(), whole);
    assert_eq!(dl.run("billing cancel --yes -o id").ok(), "cancel_scheduled\n");
    let unknown = Double::new(|_| Answer::new(200, r#"{"status":"cancel_scheduled","current_period_end":null}"#));
    let ran = dl.env("DL_BASE_URL", &unknown.url).run("billing cancel -y");
    assert_eq!((ran.ok(), ran.stderr.as_str()), ("cancel_scheduled\n", ""));
}

/// The plan's name has to be typed; without a terminal, `--yes` is needed.
#[test]
fn a_cancellation_is_confirmed() {
    let double = service();
    let ran = Dl::at(&double.url).run("billing cancel");
    assert!(
        ran.fails(2).starts_with(
            "error[needs_yes]: confirmation needed: the subscription will end at the end of the current billing period"
        ),
        "{ran}"
    );
    assert!(double.requests().is_empty(), "{:?}", double.lines());
    for (typed, code, lines) in [
        ("business\n", 0, vec!["GET /v1/billing/status", "POST /v1/billing/cancel"]),
        ("y\n", 2, vec!["GET /v1/billing/status"]),
    ] {
        let double = service();
        let screen = Screen::open(Dl::at(&double.url), "billing cancel");
        screen.wait_for("The business plan ends on 2026-12-20.");
        screen.wait_for("Type business to continue: ");
        screen.send(typed);
        let (ended, text) = screen.end();
        assert_eq!((ended, double.lines()), (Some(code), lines.into_iter().map(str::to_owned).collect()), "{text}");
    }
    // What the question says after a failed payment, and for a subscription that grants nothing.
    let held = "currently grants no plan. It will end at the end of the current billing period and cannot be resumed after that.";
    for (members, question) in [
        (json!({"status": "past_due"}), "The business plan ends on 2026-12-20 at the latest.".to_owned()),
        (
            json!({"status": "past_due", "current_period_end": null}),
            "The business plan ends at the end of the current billing period".to_owned(),
        ),
        (
            json!({"status": "past_due", "effective_tier": "free"}),
            format!("The business subscription is not paid and {held}"),
        ),
        (
            json!({"status": "canceled", "effective_tier": "free"}),
            format!("The business subscription is on hold and {held}"),
        ),
    ] {
        let double = service_with(members);
        let screen = Screen::sized(Dl::at(&double.url), "billing cancel", 250);
        screen.wait_for(&question);
        screen.wait_for("individual clicks and other events are kept for only 30 days.");
        screen.wait_for("Type business to continue: ");
        screen.send("n\n");
        assert_eq!((screen.end().0, double.lines()), (Some(2), vec!["GET /v1/billing/status".to_owned()]));
    }
    // Clicks are deleted only if limits are enforced, and a granted plan has its own limits.
    for members in [json!({"quotas_enforced": false}), json!({"comp_active": true})] {
        let screen = Screen::sized(Dl::at(&service_with(members).url), "billing cancel", 250);
        screen.wait_for("Links, domains, team members and webhooks are kept");
        screen.wait_for("to continue: ");
        screen.send("n\n");
        let text = screen.end().1;
        assert!(!text.contains("30 days") && !text.contains("free plan"), "{text}");
    }
    // For a subscription that is ending already or does not exist, the service answers.
    for members in [json!({"cancel_scheduled": true}), json!({"billing_method": "free", "plan_tier": "free"})] {
        let double = service_with(members);
        assert_eq!(Screen::open(Dl::at(&double.url), "billing cancel").end().0, Some(0));
        assert_eq!(double.lines(), ["GET /v1/billing/status", "POST /v1/billing/cancel"]);
    }
}

#[test]
fn refusals_say_what_to_do() {
    for (status, code, line, exit, hint) in [
        (400, "no_subscription", "billing cancel --yes", 3, "dl billing status shows"),
        (400, "no_customer", "billing portal", 3, "to subscribe: dl billing checkout"),
        (400, "invalid_tier", "billing checkout pro", 3, "pro, business or scale"),
        (402, "quota_exceeded", "domains add go.example.com", 7, "dl billing checkout"),
        (402, "payment_required", "links list", 7, "so that no payment is needed"),
        (409, "payment_replayed", "links list", 6, "send the same Idempotency-Key"),
        (503, "processor_not_configured", "billing checkout pro", 9, "this service does not accept payments"),
        (503, "billing_not_configured", "billing status", 9, "ask its operator"),
        (503, "upstream_unavailable", "billing portal", 9, "try again later"),
        (503, "facilitator_unavailable", "links list", 9, "try again later"),
    ] {
        let double = Double::new(move |_| Answer::error(status, code, "no"));
        let ran = Dl::at(&double.url).env("DL_RETRIES", "0").run(line);
        assert!(ran.fails(exit).starts_with(&format!("error[{code}]: no (HTTP {status})")), "{ran}");
        assert!(ran.stderr.contains("  hint: ") && ran.stderr.contains(hint), "{ran}");
    }
}

/// A service's answer about the plan.
type Billing = fn(&Request) -> Answer;

/// `whoami` shows the plan too, unless there are no plans; then everything else is printed all the same.
#[test]
fn whoami_shows_the_plan() {
    let with = |billing: Billing| {
        Double::new(move |request| match request.line().as_str() {
            "GET /v1/links" => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
            "GET /v1/billing/status" => billing(request),
            "GET /v1/auth/whoami" => Answer::json(200, &whoami("you@example.com", "tnt_0123456789abcdef01234567")),
            _ => Answer::json(200, &json!({"keys": [secret_key(KEY, 2)]})),
        })
    };
    let double = with(|request| of_billing(request).expect("a status"));
    let dl = Dl::at(&double.url);
    let who = dl.run("whoami -o json").json();
    assert_eq!((&who["plan"], &who["usage"]["links"]), (&"business".into(), &19_204.into()));
    assert_eq!(who["limits"]["max_links"], 20_000);
    let usage =
        "19204 of 20000 links, 120400 of 500000 events this month, 5 of 20 domains, 7 team members, 2 of 2 webhooks";
    assert!(dl.run("whoami").ok().ends_with(&format!("plan\tbusiness\nusage\t{usage}\n")), "{}", dl.run("whoami"));
    let screen = shown(&double, "whoami", 80, true);
    assert!(
        screen.contains("plan        business\nusage       19204 of 20000 links\n            120400 of"),
        "{screen}"
    );
    assert!(
        screen.contains("\nbase url ") && !screen.contains("\norigin") && !screen.contains("\naccepted"),
        "{screen}"
    );

    let free = with(|_| {
        let mut status = billing_status();
        (status["effective_tier"], status["quotas_enforced"]) = ("free".into(), false.into());
        Answer::json(200, &status)
    });
    let dl = Dl::at(&free.url);
    assert!(dl.run("whoami -o json").json().get("limits").is_none(), "none holds");
    assert!(dl.run("whoami").ok().ends_with("2 webhooks, this service has no plan limits\n"));

    let without_plans: [Billing; 2] = [
        |_| Answer::error(503, "billing_not_configured", "no plans"),
        |_| Answer::error(404, "not_found", "no such route"),
    ];
    for billing in without_plans {
        let double = with(billing);
        let ran = Dl::at(&double.url).run("whoami -o json");
        assert_eq!((&ran.json()["scope"], ran.json().get("plan")), (&"account".into(), None));
        assert_eq!(ran.stderr, "", "a service without plans is no failure");
    }
    let failing: [Billing; 3] =
        [|_| Answer::error(500, "internal", "no"), |_| Answer::new(200, r#"{"plan":"pro"}"#), |_| Answer::reset()];
    for billing in failing {
        let double = with(billing);
        let ran = Dl::at(&double.url).env("DL_RETRIES", "0").run("whoami");
        assert!(ran.ok().contains("scope\taccount\n"), "{ran}");
        assert!(ran.stderr.starts_with("warning: the service does not report the plan: "), "{ran}");
    }
}

/// P5: values that this build does not know are shown as sent, with control characters escaped.
#[test]
fn p5_words_of_others_are_harmless() {
    const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{202e}b";
    let members = ["plan_tier", "effective_tier", "billing_method", "status"];
    let members: serde_json::Map<_, _> = members.iter().map(|name| ((*name).to_owned(), HOSTILE.into())).collect();
    let double = service_with(members.into());
    for line in ["billing status", "billing status -o json", "billing status --fields status,plan_tier"] {
        let text = shown(&double, line, 80, true);
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']) && text.contains("1b"), "{text:?}");
    }
    let cancel = service_with(json!({"plan_tier": HOSTILE}));
    let screen = Screen::open(Dl::at(&cancel.url).env("NO_COLOR", "1"), "billing cancel");
    screen.wait_for("to continue: ");
    screen.send("n\n");
    let text = screen.end().1;
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
}
