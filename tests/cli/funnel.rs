//! From click to conversion: `dl` against the real service.

use serde_json::{Value, json};

use crate::server::Server;
use deeplink_testing::dl::Dl;

/// The counts of `dl stats` as one record.
fn counts(dl: &Dl, line: &str) -> Value {
    dl.run(&format!(
        "stats {line} -o json --fields clicks,installed,identified,reinstalled,new_device,engaged,conversions"
    ))
    .json()
}

fn all(clicks: i64, [installed, identified, reinstalled, new_device, engaged]: [i64; 5], conversions: i64) -> Value {
    json!({
        "clicks": clicks, "installed": installed, "identified": identified, "reinstalled": reinstalled,
        "new_device": new_device, "engaged": engaged, "conversions": conversions,
    })
}

#[test]
fn what_is_reported_is_what_the_funnel_shows() {
    let server = Server::start();
    let dl = server.user("you");
    dl.run("links create https://example.com/p/42 --id spring-42").ok();
    dl.run("links create https://example.com/p/43 --id spring-43").ok();
    assert_eq!(counts(&dl, "spring-42"), all(0, [0; 5], 0));
    assert_eq!(dl.run("sdk click spring-42 --fields link_id,platform -o csv").ok().lines().count(), 2);
    // Early: credited once its user is known.
    let early = dl.run("sdk convert --user user-7 --type signup --amount-cents 0 --currency EUR");
    assert!(early.ok().starts_with("evt_") && early.says("user user-7 has no install yet"), "{early}");
    let attribute = "sdk attribute spring-42 --install install-1 --app-version 2.4.0 --device-model A1";
    assert_eq!(dl.run(attribute).ok(), "success\ttrue\n");
    dl.run("sdk identify --install install-1 --user user-7").ok();
    assert!(dl.run("sdk identify --install install-1 --user user-8").fails(6).contains("identify_conflict"));
    let sale = "sdk convert --user user-7 --type purchase --amount-cents 4200 --currency EUR --idempotency-key order-1";
    let first = dl.run(sale);
    let again = dl.run(sale);
    assert!(again.ok() == first.ok() && again.says("note: already recorded with this idempotency key"), "{again}");
    dl.run("sdk attribute spring-43 --install install-1 --app-version 2.4.1").ok();
    dl.run("sdk attribute spring-42 --install install-2 --app-version 2.4.0 --device-model B2").ok();
    dl.run("sdk identify --install install-2 --user user-7").ok();
    let conversions = dl.run("stats spring-42 -o json").json()["funnel"]["conversions"].clone();
    // The early one happened before the first touch, so it has no credit.
    assert_eq!(conversions, json!({"purchase": 1}));
    assert_eq!(counts(&dl, "spring-42"), all(1, [2, 1, 0, 1, 0], 1));
    assert_eq!(counts(&dl, "spring-43"), all(0, [0, 0, 0, 0, 1], 0));
    assert_eq!(counts(&dl, "spring-42 spring-43 --credit touched"), all(1, [2, 1, 0, 1, 1], 1));
    let by_link = dl.run("stats spring-42 spring-43 --group-by link");
    assert_eq!(by_link.ok(), "spring-42\t1\t2\t1\t0\t1\t0\t1\t42.00 EUR\nspring-43\t0\t0\t0\t0\t0\t1\t0\t\n");
    let csv = dl.run("stats spring-42 --group-by day --from 2d -o csv");
    let header = "key,clicks,installed,identified,reinstalled,new_device,engaged,conversions,conversion.purchase,\
        revenue_cents.EUR";
    assert!(csv.ok().starts_with(&format!("{header}\r\n")) && csv.stdout.lines().count() == 4, "{csv}");
    assert!(dl.run("stats spring-42 --group-by referer_host -o csv").ok().starts_with("key,clicks"));
    assert_eq!(counts(&dl, "nobody-has-this spring-43"), counts(&dl, "spring-43"), "among several, it counts as zero");
    for form in ["", " -o csv", " --group-by referer_host", " --group-by day -o csv"] {
        let missing = dl.run(&format!("stats nobody-has-this{form}"));
        assert!(missing.fails(5).contains("no link with ID nobody-has-this (HTTP 404)"), "{form}: {missing}");
        assert_eq!(missing.stdout, "", "{form}");
    }
    let stats = dl.run("links stats spring-42 -o json").json();
    assert_eq!((&stats["click_count"], &stats["convert_count"]), (&json!(1), &json!(1)));
    assert_eq!(stats["conversions"][0]["sum_cents"], 4200);
    dl.run("links timeseries spring-42 --hourly --from 3h").ok();
    assert_eq!(server.user("other").run("links stats spring-42").code, Some(5));
    // A deleted link is not an error.
    dl.run("links create https://example.com/p/44 --id spring-44").ok();
    dl.run("links delete spring-44 --yes").ok();
    assert_eq!(counts(&dl, "spring-44"), all(0, [0; 5], 0));
}

/// A source's URL accepts conversions without a key, and none once it is replaced.
#[test]
fn a_source_takes_conversions_until_its_address_is_dead() {
    let server = Server::start();
    let dl = server.user("you");
    dl.run("links create https://example.com/p/42 --id spring-42").ok();
    dl.run("sdk attribute spring-42 --install install-1 --app-version 2.4.0").ok();
    dl.run("sdk identify --install install-1 --user user-7").ok();
    dl.run("sources create Shop --out-file address.txt").ok();
    let address = dl.read("address.txt");
    assert!(dl.run("sources create Shop").fails(6).contains("name_taken"));
    let nobody = || Dl::new();
    let send = "sources send - --user user-7 --type purchase --amount-cents -4200 --currency EUR --idempotency-key 1";
    let sent = nobody().run_with(send, &address);
    assert!(sent.ok().starts_with("evt_"), "{sent}");
    assert_eq!(nobody().run_with(send, &address).ok(), sent.ok());
    let id = dl.run("sources list -o id").ok().trim_end().to_owned();
    dl.run(&format!("sources send {id} --user user-7 --type signup --occurred-at 1m")).ok();
    assert_eq!(dl.run("stats spring-42 -o json").json()["funnel"]["conversions"], json!({"purchase": 1}));
    let rotated = dl.run(&format!("sources rotate {id} --yes")).ok().to_owned();
    assert!(rotated != address && rotated.contains("/in/"), "{rotated}");
    assert!(nobody().run_with(send, &address).fails(5).contains("no longer works"));
    nobody().run_with(send, &rotated).ok();
    assert_eq!(
        dl.run("sources list --reveal --fields webhook_url -o csv").ok().lines().nth(1),
        Some(rotated.trim_end())
    );
    dl.run_with("sources delete - --yes", dl.run("sources list -o id").ok()).ok();
    assert_eq!(dl.run("sources list -o id").ok(), "");
    dl.run(&format!("sources get {id}")).fails(5);
}

/// A publishable key can only report; the earlier form accepts it too.
#[test]
fn an_app_reports_with_its_publishable_key() {
    let (server, dns) = Server::start_with_dns();
    let dl = server.user("you");
    let claim = dl.run("domains add go.example.com -o json").json();
    let text = |field: &str| claim[field].as_str().expect("a string").to_owned();
    dns.txt(&text("txt_record"), &[&text("verification_token")]);
    dl.run("domains verify go.example.com --wait 1m").ok();
    dl.run("links create https://example.com/p/42 --id spring-42").ok();
    let key = dl.run("pk create go.example.com").ok().trim_end().to_owned();
    let app = Dl::new().env("DL_BASE_URL", &server.url).env("DL_PUBLISHABLE_KEY", &key);
    app.run("sdk click spring-42").ok();
    app.run("sdk click spring-42 --legacy").ok();
    app.run("sdk attribute spring-42 --install install-1 --app-version 1").ok();
    app.run("sdk attribute spring-42 --install install-2 --app-version 1 --legacy").ok();
    app.run("sdk identify --install install-1 --user user-7").ok();
    app.run("sdk convert --user user-7 --type purchase").ok();
    let owner = dl.env("DL_PUBLISHABLE_KEY", &key);
    owner.run("sdk identify --install install-2 --user user-8 --legacy").ok();
    assert_eq!(counts(&owner, "spring-42"), all(2, [2, 2, 0, 0, 0], 1));
    app.run("stats spring-42").fails(4);
    app.run("sdk click nothing-there").fails(5);
    assert!(owner.run("doctor --host go.example.com").stdout.contains("ok\tconfig.pk"));
    assert_eq!(counts(&owner, "spring-42")["clicks"], 2, "a doctor counts nothing");
    owner.run_with("pk delete - --yes", owner.run("pk list -o id").ok()).ok();
    assert!(app.run("sdk click spring-42").fails(4).contains("dl pk list"));
}
