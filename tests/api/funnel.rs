//! The report on links and its earlier form: their parameters, and what they must not disclose. The counts are tested
//! by the model.

use std::time::Duration;

use deeplink_core::funnel::{FunnelReport, GroupBy};
use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, World, eventually, spawn, spawn_with, told_countries};

const FUNNEL: &str = "/v1/analytics/stats";

async fn ask(caller: &Caller, query: &str) -> Reply {
    caller.get(&format!("{FUNNEL}?{query}")).await
}

/// The counts of the whole report.
async fn funnel(caller: &Caller, query: &str) -> Value {
    let reply = ask(caller, query).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["funnel"].clone()
}

async fn touch(caller: &Caller, link: &str, install: &str) {
    let body = json!({"link_id": link, "install_id": install, "app_version": "1"});
    assert_eq!(caller.post("/v1/lifecycle/attribute", &body).await.outcome(), "200");
}

async fn identify(caller: &Caller, install: &str, user: &str) {
    let body = json!({"install_id": install, "user_id": user});
    assert_eq!(caller.put("/v1/lifecycle/identify", &body).await.outcome(), "200");
}

async fn convert(caller: &Caller, user: &str, kind: &str, cents: i64) {
    let body = json!({"user_id": user, "type": kind, "amount_cents": cents, "currency": "EUR"});
    assert_eq!(caller.post("/v1/lifecycle/convert", &body).await.outcome(), "200");
}

/// A link with a click, an install, a user and a conversion.
async fn busy(world: &World, caller: &Caller, link: &str) {
    caller.make(link).await;
    caller.tap(link).await;
    touch(caller, link, link).await;
    identify(caller, link, link).await;
    convert(caller, link, "purchase", 500).await;
    let clicks =
        format!("SELECT COUNT(*) FROM clicks WHERE link = (SELECT position FROM links WHERE link_id = '{link}')");
    eventually("the click is stored", Duration::from_secs(15), || async { world.db.number(&*clicks).await == 1 }).await;
}

/// Counts with purchases of 5.00 EUR each.
fn counts(clicks: i64, installs: i64, conversions: &Value) -> Value {
    let sum = |count: i64| json!([{"currency": "EUR", "amount_cents": 500 * count}]);
    json!({
        "clicks": clicks,
        "new_users": {"installed": installs, "identified": installs},
        "returning_users": {"reinstalled": 0, "new_device": 0, "engaged": 0},
        "conversions": conversions,
        "revenue": conversions["purchase"].as_i64().map_or(json!([]), sum),
    })
}

/// Without ids a report is on the whole account: deleted links too, and apart from it what no link led to.
#[tokio::test]
async fn the_whole_account_is_reported_without_ids() {
    let world = spawn().await;
    assert_eq!(funnel(&world.a, "").await, counts(0, 0, &json!({})), "nothing yet");
    for link in ["stays-001", "goes-0001"] {
        busy(&world, &world.a, link).await;
    }
    busy(&world, &world.b, "yours-001").await;
    assert_eq!(world.a.delete("/v1/links/goes-0001").await.status, 204);
    // Somebody who came without a link.
    identify(&world.a, "their-phone", "walk-in").await;
    convert(&world.a, "walk-in", "purchase", 500).await;
    convert(&world.a, "nobody-knows", "purchase", 500).await;
    let told = ask(&world.a, "").await.json();
    assert_eq!((&told["link_ids"], &told["unattributed"]), (&json!([]), &json!({"purchase": 1})));
    assert_eq!(told["unattributed_revenue"], json!([{"currency": "EUR", "amount_cents": 500}]));
    assert_eq!(told["funnel"], counts(2, 2, &json!({"purchase": 2})));
    for credit in ["first_touch", "touched"] {
        assert_eq!(funnel(&world.a, &format!("credit={credit}")).await, told["funnel"], "{credit}");
    }
    let days = ask(&world.a, "group_by=day").await.json()["groups"].clone();
    let days = days.as_array().expect("days");
    assert_eq!((days.len(), &days[30]["clicks"], &days[30]["new_users"]["installed"]), (31, &json!(2), &json!(2)));
    // Noon of the day before is already this day on Kiribati.
    let line = ask(&world.a, "group_by=day&tz=pacific/kiritimati&from=2026-11-19T12:00:00Z").await.json();
    assert_eq!((&line["tz"], &line["groups"][0]["key"]), (&json!("Pacific/Kiritimati"), &json!("2026-11-20")));
    assert_eq!((&line["groups"][0]["clicks"], &line["groups"][1]["key"]), (&json!(2), &Value::Null));
    let hosts = ask(&world.a, "group_by=referer_host").await.json()["groups"].clone();
    assert_eq!(hosts, json!([{"key": "", "clicks": 2}]));
    touch(&world.a, "stays-001", "stays-001").await;
    world.clock.advance(Duration::from_hours(48));
    for from in ["2026-11-19T00:00:00Z", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"] {
        let counted = funnel(&world.a, &format!("from={from}")).await;
        assert_eq!((&counted["returning_users"]["engaged"], &counted["clicks"]), (&json!(1), &json!(2)), "{from}");
    }
    assert_eq!(days[30]["revenue"], told["funnel"]["revenue"]);
    for (by, key) in [("browser", "firefox"), ("os", "linux"), ("device", "desktop"), ("in_app", "none")] {
        let groups = ask(&world.a, &format!("group_by={by}")).await.json()["groups"].clone();
        assert_eq!(groups, json!([{"key": key, "clicks": 2}]), "{by}");
    }
    let sheet = ask(&world.a, "group_by=platform&format=csv").await;
    assert_eq!(sheet.text().lines().nth(1), Some("other,2,,,,,,"));
    assert!(ask(&world.b, "").await.json()["unattributed"] == json!({}));
}

/// By link, a report on the account names the links with the most clicks, and all the other clicks together.
#[tokio::test]
async fn the_links_with_the_most_clicks_are_named() {
    let world = spawn().await;
    assert_eq!(ask(&world.a, "group_by=link").await.json()["groups"], json!([]), "nothing yet");
    for (link, clicks) in [("third-001", 2), ("busy-0001", 1), ("second-01", 3), ("goes-0001", 5), ("none-0001", 0)] {
        if link == "busy-0001" {
            busy(&world, &world.a, link).await;
        } else {
            world.a.make(link).await;
        }
        for _ in 0..clicks {
            world.a.tap(link).await;
        }
    }
    busy(&world, &world.b, "yours-001").await;
    assert_eq!(world.a.delete("/v1/links/goes-0001").await.status, 204);
    let named = async |query: &str| -> Vec<(String, i64, bool)> {
        let report: FunnelReport = serde_json::from_value(ask(&world.a, query).await.json()).expect("a report");
        assert_eq!(report.funnel.clicks, 12, "{query}");
        let groups = report.groups.expect("groups").into_iter();
        groups.map(|group| (group.key, group.clicks, group.new_users.is_some())).collect()
    };
    let all = [("second-01", 3, true), ("busy-0001", 2, true), ("third-001", 2, true), ("other", 5, false)];
    let all = all.map(|(key, clicks, is_whole)| (key.to_owned(), clicks, is_whole));
    assert_eq!(named("group_by=link").await, all, "the clicks of a deleted link are among the others");
    assert_eq!(named("group_by=link&limit=3").await, all);
    let two = [all[0].clone(), all[1].clone(), ("other".to_owned(), 7, false)];
    assert_eq!(named("group_by=link&limit=2").await, two);
    assert_eq!(named("group_by=link&limit=2&order=clicks").await, two, "the rest is last in any order");
    let by_key = named("group_by=link&order=-key").await;
    assert_eq!(
        by_key.iter().map(|(key, ..)| key.as_str()).collect::<Vec<_>>(),
        ["third-001", "second-01", "busy-0001", "other"]
    );
    let report = ask(&world.a, "group_by=link").await.json();
    assert_eq!(report["groups"][1]["conversions"], json!({"purchase": 1}));
    assert_eq!(report["groups"][1]["revenue"], json!([{"currency": "EUR", "amount_cents": 500}]));
    let asked = "link_ids=busy-0001,third-001,second-01&group_by=link";
    let own = |reply: Reply| {
        let groups = reply.json()["groups"].as_array().expect("groups").clone();
        groups.iter().map(|group| format!("{} {}", group["key"].as_str().expect("a key"), group["clicks"])).collect()
    };
    let keys: Vec<String> = own(ask(&world.a, asked).await);
    assert_eq!(keys, ["busy-0001 2", "third-001 2", "second-01 3"]);
    let keys: Vec<String> = own(ask(&world.a, &format!("{asked}&limit=2")).await);
    assert_eq!(keys, ["busy-0001 2", "second-01 3", "other 2"], "in the order asked");
    let years = "group_by=link&from=0001-01-01T00:00:00Z";
    assert_eq!(named(years).await, all);
    let sheet = ask(&world.a, "group_by=link&format=csv&limit=1").await.text();
    assert_eq!(
        sheet.lines().map(|line| line.split(',').take(3).collect::<Vec<_>>().join(",")).collect::<Vec<_>>(),
        ["key,clicks,installed", "second-01,3,0", "other,9,"]
    );
}

/// C7: Analytics: ≤ 100 ids, from ≤ to, an unknown credit is the last touch; each edge, offsets, the year 9999. A
/// malformed, missing or repeated parameter is 400 and named.
#[tokio::test]
async fn c7_questions_are_read_strictly() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let ids = |count: usize| (0..count).map(|n| format!("link-{n}")).collect::<Vec<_>>().join(",");
    let (hundred, more) = (ids(100), ids(101));
    for (query, expected) in [
        ("", "200"),
        ("group_by=link", "200"),
        ("group_by=link&limit=100&order=-key", "200"),
        ("link_ids=a&group_by=link&limit=1&order=clicks", "200"),
        ("group_by=link&limit=0", "400 bad_request limit"),
        ("group_by=link&limit=101", "400 bad_request limit"),
        ("group_by=link&limit=-1", "400 bad_request limit"),
        ("group_by=link&limit=ten", "400 bad_request limit"),
        ("group_by=link&limit=1&limit=1", "400 bad_request limit"),
        ("limit=1", "400 bad_request limit"),
        ("group_by=day&limit=1", "400 bad_request limit"),
        ("group_by=hour&limit=1", "400 bad_request limit"),
        ("order=clicks", "400 bad_request order"),
        ("group_by=day&order=clicks", "200"),
        ("group_by=day&order=key", "400 bad_request order"),
        ("group_by=day&order=", "400 bad_request order"),
        ("group_by=day&order=clicks&order=clicks", "400 bad_request order"),
        ("link_ids=", "400 bad_request link_ids"),
        ("link_ids=%20,,", "400 bad_request link_ids"),
        ("link_ids=a%00b", "400 bad_request link_ids"),
        ("link_ids=a&link_ids=b", "400 bad_request link_ids"),
        (&format!("link_ids={hundred}"), "200"),
        (&format!("link_ids={hundred},link-0,%20link-1"), "200"),
        (&format!("link_ids={more}"), "400 bad_request link_ids"),
        ("link_ids=a&from=yesterday", "400 bad_request from"),
        ("link_ids=a&from=2026-11-20", "400 bad_request from"),
        ("link_ids=a&to=2026-11-20T25:00:00Z", "400 bad_request to"),
        ("link_ids=a&to=10000-01-01T00:00:00Z", "400 bad_request to"),
        ("link_ids=a&from=2026-11-20T10:00:00Z&from=2026-11-20T10:00:00Z", "400 bad_request from"),
        ("link_ids=a&from=2026-11-20T10:00:00Z&to=2026-11-20T10:00:00Z", "200"),
        ("link_ids=a&from=2026-11-20T10:00:00.001Z&to=2026-11-20T10:00:00Z", "400 bad_request from"),
        ("link_ids=a&from=2026-11-20T10:00:00%2B02:00&to=2026-11-20T08:00:00Z", "200"),
        ("link_ids=a&from=2026-11-20T10:00:00-02:00&to=2026-11-20T10:00:00Z", "400 bad_request from"),
        ("link_ids=a&from=9999-12-30T00:00:00Z&to=9999-12-30T21:59:59Z", "200"),
        ("link_ids=a&from=0001-01-01T00:00:00Z&to=9999-12-30T21:59:59Z", "200"),
        ("link_ids=a&from=9999-12-30T00:00:00Z", "400 bad_request from"),
        ("link_ids=a&credit=linear", "200"),
        ("link_ids=a&group_by=day&tz=Europe/Berlin", "200"),
        ("tz=Europe/Berlin", "400 bad_request tz"),
        ("group_by=hour&tz=Europe/Berlin", "400 bad_request tz"),
        ("group_by=day&tz=Berlin", "400 bad_request tz"),
        ("group_by=day&tz=", "400 bad_request tz"),
        ("group_by=day&tz=UTC&tz=UTC", "400 bad_request tz"),
        ("group_by=day&tz=Europe/Berlin&from=9999-12-30T00:00:00Z&to=9999-12-30T21:59:59Z", "200"),
        ("group_by=day&tz=Asia/Kolkata&from=0001-01-01T00:00:00Z&to=0001-12-31T00:00:00Z", "200"),
        ("link_ids=a&credit=", "200"),
        ("link_ids=a&credit=touched&credit=touched", "400 bad_request credit"),
        ("link_ids=a&group_by=week", "400 invalid_group_by group_by"),
        ("link_ids=a&group_by=", "400 invalid_group_by group_by"),
        ("group_by=Day", "400 invalid_group_by group_by"),
        ("group_by=day&group_by=day", "400 bad_request group_by"),
        ("link_ids=a&group_by=day&from=2025-10-16T09:00:00Z&to=2026-11-20T09:00:00Z", "200"),
        ("link_ids=a&group_by=day&from=2025-10-16T08:59:59Z&to=2026-11-20T09:00:00Z", "400 bad_request from"),
        ("link_ids=a&group_by=hour&from=2026-10-20T09:00:00Z&to=2026-11-20T09:00:00Z", "200"),
        ("link_ids=a&group_by=hour&from=2026-10-20T08:59:59Z&to=2026-11-20T09:00:00Z", "400 bad_request from"),
        ("link_ids=a&group_by=kind&from=0001-01-01T00:00:00Z&to=2026-11-20T09:00:00Z", "200"),
        ("link_ids=a&format=csv", "200"),
        ("link_ids=a&format=xml", "400 bad_request format"),
        ("link_ids=a&format=json&format=csv", "400 bad_request format"),
    ] {
        assert_eq!(ask(&world.a, query).await.outcome(), expected, "{query}");
    }
    let told = ask(&world.a, "link_ids=spring-42,a,spring-42&credit=linear").await.json();
    assert_eq!((&told["credit"], &told["link_ids"]), (&json!("last_touch"), &json!(["spring-42", "a"])));
    assert_eq!(told["from"], "2026-10-21T09:30:00.010Z", "30 days before the end");
    let earlier =
        ask(&world.a, "link_ids=a&from=2026-11-20T10:00:00%2B02:00&to=2026-11-20T11:00:00%2B02:00").await.json();
    assert_eq!(
        (&earlier["from"], &earlier["to"]),
        (&json!("2026-11-20T08:00:00.000Z"), &json!("2026-11-20T09:00:00.000Z"))
    );
}

/// I4: Analytics: foreign ids count like unknown ids. A mixed set is the sum of the caller's own, and the answers for a
/// foreign and for a random id are the same bytes.
#[tokio::test]
async fn i4_foreign_links_count_as_unknown_ones_do() {
    let world = spawn_with(told_countries).await;
    busy(&world, &world.a, "mine-0001").await;
    busy(&world, &world.b, "yours-001").await;
    let own = counts(1, 1, &json!({"purchase": 1}));
    assert_eq!(funnel(&world.a, "").await, own, "the whole account");
    assert_eq!(funnel(&world.a, "link_ids=mine-0001").await, own);
    assert_eq!(funnel(&world.a, "link_ids=yours-001,mine-0001,nobody-01").await, own);
    let groups = GroupBy::ALL.iter().map(|by| format!("&group_by={by}"));
    for rest in groups.chain([String::new(), "&credit=touched".into(), "&format=csv&group_by=link".into()]) {
        let told = async |id: &str| {
            let reply = ask(&world.a, &format!("link_ids={id}{rest}")).await;
            assert_eq!(reply.status, 200, "{rest}");
            let mut headers = reply.headers.clone();
            headers.remove("x-request-id");
            headers.remove("date");
            (headers, reply.text())
        };
        let (foreign, random) = (told("yours-001").await, told("nobody-01").await);
        assert_eq!(foreign.1.replace("yours-001", "nobody-01"), random.1, "{rest}");
        assert_eq!(foreign.0, random.0, "{rest}");
        assert!(!foreign.1.contains("purchase"), "{}", foreign.1);
    }
    let stats = async |id: &str| world.a.get(&format!("/v1/links/{id}/stats")).await;
    let (foreign, random) = (stats("yours-001").await, stats("nobody-01").await);
    assert_eq!(foreign.outcome(), "404 not_found");
    assert_eq!(foreign.without_ids(["yours-001"]), random.without_ids(["nobody-01"]));
}

#[tokio::test]
async fn a_next_link_of_the_same_id_counts_from_zero() {
    let world = spawn().await;
    busy(&world, &world.a, "spring-42").await;
    let stats = world.a.get("/v1/links/spring-42/stats").await.json();
    assert_eq!((&stats["click_count"], &stats["install_count"]), (&json!(1), &json!(1)));
    assert_eq!(world.a.delete("/v1/links/spring-42").await.status, 204);
    assert_eq!(funnel(&world.a, "link_ids=spring-42").await, counts(0, 0, &json!({})));
    world.a.make("spring-42").await;
    assert_eq!(funnel(&world.a, "link_ids=spring-42&credit=touched").await, counts(0, 0, &json!({})));
    let stats = world.a.get("/v1/links/spring-42/stats").await.json();
    let zero = json!({
        "link_id": "spring-42", "click_count": 0, "install_count": 0, "identify_count": 0, "convert_count": 0,
        "conversion_rate": 0.0, "conversions": [],
    });
    assert_eq!(stats, zero);
}

#[tokio::test]
async fn the_earlier_form_sums_up_a_link_and_names_its_successor() {
    let world = spawn().await;
    busy(&world, &world.a, "spring-42").await;
    convert(&world.a, "spring-42", "purchase", -200).await;
    let most = 9_007_199_254_740_991;
    for _ in 0..3 {
        convert(&world.a, "spring-42", "sale", most).await;
    }
    assert_eq!(
        world.a.post("/v1/lifecycle/convert", &json!({"user_id": "spring-42", "type": "purchase"})).await.outcome(),
        "200"
    );
    let reply = world.a.get("/v1/links/spring-42/stats").await;
    assert_eq!(
        reply.json(),
        json!({
            "link_id": "spring-42", "click_count": 1, "install_count": 1, "identify_count": 1, "convert_count": 6,
            "conversion_rate": 6.0,
            "conversions": [
                {"conversion_type": "purchase", "count": 1, "sum_cents": null, "currency": null},
                {"conversion_type": "purchase", "count": 2, "sum_cents": 300, "currency": "EUR"},
                {"conversion_type": "sale", "count": 3, "sum_cents": most * 3, "currency": "EUR"},
            ],
        })
    );
    assert_eq!(reply.header("deprecation"), "@1795132800");
    assert_eq!(reply.header("link"), r#"</v1/analytics/stats?link_ids=spring-42>; rel="successor-version""#);
    // Sums beyond 64 bits saturate and do not fail.
    let sql = "INSERT INTO conversion_credits (link, at, conversion_type, is_first, is_last, conversion, amount_cents, currency)
         SELECT k.link, k.at, k.conversion_type, k.is_first, k.is_last, -v.position, 9223372036854775807, 'EUR'
         FROM conversion_credits k
             JOIN conversions v ON v.position = k.conversion WHERE v.conversion_type = 'sale';
         INSERT INTO conversions (position, id, tenant_id, app_user, conversion_type, amount_cents, currency, at, received_at)
         SELECT -position, '-' || id, tenant_id, app_user, conversion_type, 9223372036854775807, currency, at, received_at
         FROM conversions WHERE conversion_type = 'sale'";
    world.db.execute(sql).await;
    let sums = world.a.get("/v1/links/spring-42/stats").await.json();
    assert_eq!(sums["conversions"][2]["sum_cents"], json!(i64::MAX));
    for query in ["link_ids=spring-42", "link_ids=spring-42,nobody-01&credit=touched&group_by=link", ""] {
        let revenue = funnel(&world.a, query).await["revenue"].clone();
        assert_eq!(revenue, json!([{"currency": "EUR", "amount_cents": i64::MAX}]), "{query}");
    }
}

#[tokio::test]
async fn a_report_is_a_sheet_where_that_is_asked_for() {
    let world = spawn().await;
    busy(&world, &world.a, "spring-42").await;
    convert(&world.a, "spring-42", "=SUM(1,2) \"x\"", 1).await;
    let reply = ask(&world.a, "link_ids=spring-42,nobody-01&format=csv").await;
    assert_eq!(reply.header("content-type"), "text/csv; charset=utf-8");
    let header = "key,clicks,installed,identified,reinstalled,new_device,engaged,conversions,\
        \"conversion.=SUM(1,2) \"\"x\"\"\",conversion.purchase,revenue_cents.EUR\r\n";
    assert_eq!(reply.text(), format!("{header}total,1,1,1,0,0,0,2,1,1,501\r\n"));
    let by_link = ask(&world.a, "link_ids=spring-42,nobody-01&format=csv&group_by=link").await.text();
    assert_eq!(by_link, format!("{header}spring-42,1,1,1,0,0,0,2,1,1,501\r\nnobody-01,0,0,0,0,0,0,0,0,0,0\r\n"));
    let day = "from=2026-11-19T00:00:00Z&to=2026-11-20T23:00:00Z&group_by=day";
    let by_day = ask(&world.a, &format!("link_ids=spring-42&format=csv&{day}")).await.text();
    assert_eq!(by_day, format!("{header}2026-11-19,0,0,0,0,0,0,0,0,0,0\r\n2026-11-20,1,1,1,0,0,0,2,1,1,501\r\n"));
    let by_kind = ask(&world.a, "link_ids=spring-42&format=csv&group_by=kind").await.text();
    assert_eq!(
        by_kind,
        "key,clicks,installed,identified,reinstalled,new_device,engaged,conversions\r\nhuman,1,,,,,,\r\n"
    );
    let json = ask(&world.a, "link_ids=spring-42&format=json").await;
    assert_eq!(json.header("content-type"), "application/json");
    let report: FunnelReport = serde_json::from_slice(&json.body).expect("a report");
    assert_eq!((report.funnel.clicks, report.groups), (1, None));
}

/// Types of conversions are free text of the reporter: a report names the 200 largest and sums up the rest.
#[tokio::test]
async fn a_report_names_so_many_types_and_sums_up_the_rest() {
    let world = spawn().await;
    busy(&world, &world.a, "spring-42").await;
    // 260 types more: the first 100 twice, the others once.
    let more = |first: i64, count: i64| {
        format!(
            "WITH RECURSIVE n (i) AS (SELECT CAST({first} AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {first} + {count})
             INSERT INTO conversions (position, id, tenant_id, app_user, conversion_type, amount_cents, currency, at, received_at)
             SELECT -1 - i, 'more-' || CAST(i AS TEXT), v.tenant_id, v.app_user, 'type-' || CAST(i % 260 AS TEXT), 1, 'EUR', v.at, v.at
             FROM n, (SELECT * FROM conversions WHERE position > 0) AS v"
        )
    };
    world.db.execute(more(0, 360)).await;
    let credits = "INSERT INTO conversion_credits (link, at, conversion_type, is_first, is_last, conversion)
         SELECT k.link, k.at, v.conversion_type, TRUE, TRUE, v.position FROM conversion_credits k, conversions v
         WHERE v.position < 0";
    world.db.execute(credits).await;
    let day = "from=2026-11-19T00:00:00Z&to=2026-11-20T23:00:00Z";
    for rest in ["", "&credit=touched", "&group_by=link", "&credit=touched&group_by=day"] {
        for ids in ["spring-42", "spring-42,nobody-01"] {
            let told = ask(&world.a, &format!("link_ids={ids}&{day}{rest}")).await.json();
            let groups = told["groups"].as_array().into_iter().flatten().map(|group| group["conversions"].clone());
            let counts = [told["funnel"]["conversions"].clone()].into_iter().chain(groups);
            for counts in counts.filter(|counts| counts != &json!({})) {
                let counts = counts.as_object().expect("counts");
                assert_eq!(counts.len(), 201, "{ids} {rest}");
                assert_eq!(
                    (&counts["type-0"], &counts["other"], &counts["purchase"]),
                    (&json!(2), &json!(61), &json!(1))
                );
                assert_eq!(counts.values().filter_map(Value::as_i64).sum::<i64>(), 361);
            }
        }
    }
    let sheet = ask(&world.a, &format!("link_ids=spring-42&{day}&format=csv")).await.text();
    assert_eq!(sheet.lines().next().map(|line| line.split(',').count()), Some(8 + 201 + 1));
    let stats = world.a.get("/v1/links/spring-42/stats").await.json();
    assert_eq!(stats["convert_count"], json!(361));
    let sums = stats["conversions"].as_array().expect("sums");
    let other = sums.iter().find(|sum| sum["conversion_type"] == "other").expect("the rest");
    assert_eq!((sums.len(), &other["count"], &other["sum_cents"]), (201, &json!(61), &json!(61)));
}

/// Only a tenant's own secret key may ask.
#[tokio::test]
async fn nobody_else_is_told() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for path in [&format!("{FUNNEL}?link_ids=spring-42"), "/v1/links/spring-42/stats"] {
        assert_eq!(world.nobody.get(path).await.outcome(), "401 unauthorized", "{path}");
        assert_eq!(world.a1.get(path).await.outcome(), "403 forbidden_scope", "{path}");
        assert_eq!(world.a.get(path).await.outcome(), "200", "{path}");
    }
}
