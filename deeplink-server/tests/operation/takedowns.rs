//! Links that the operator takes down, beside a running server.

use deeplink_server::clock::Clock;
use serde_json::{Value, json};

use crate::process::{Home, PATIENCE, Server, ask};
use deeplink_doubles::wait::eventually_blocking;

const X: &str = "https://phish.example.com/login";

/// The outcome of a request: its status and its code.
fn outcome(server: &Server, method: &str, path: &str, key: &str, body: &Value) -> (u16, String) {
    let authorization = format!("Bearer {key}");
    let headers = [("Content-Type", "application/json"), ("Authorization", &*authorization)];
    let reply = ask(server.address, method, path, &headers, &body.to_string());
    let code = serde_json::from_str(&reply.body).ok().and_then(|body: Value| Some(body["code"].as_str()?.to_owned()));
    (reply.status, code.unwrap_or_default())
}

/// R12: whatever its tenant does to a link that the operator took down, the notice stays; the id cannot be taken, and
/// its destination is refused only to this tenant, on create, in a batch and on change. `enable` lifts all of this.
#[test]
fn r12_a_takedown_stays_whatever_its_tenant_does() {
    let home = Home::new();
    let server = home.serve();
    let (key, other) = (home.key("mallory@example.com"), home.key("other@example.com"));
    let does = |method: &str, path: &str, key: &str, body: &Value| outcome(&server, method, path, key, body);
    let create = |key: &str, body: &Value| does("POST", "/v1/links", key, body);
    let (made, gone, taken) = ((201, String::new()), (204, String::new()), (409, "link_id_taken".to_owned()));
    let refused = (400, "threat_detected".to_owned());
    for (word, status) in [("flag", 200), ("disable", 410)] {
        let bait = json!({"custom_id": word, "web_url": X});
        assert_eq!(create(&key, &bait), made);
        assert_eq!(server.tap(word), 302);
        home.ok(&["link", word, word, "--reason", "phishing"]);
        eventually_blocking("the notice shows", PATIENCE, || server.tap(word) == status);

        // Deleting it and creating it again.
        assert_eq!(does("DELETE", &format!("/v1/links/{word}"), &key, &Value::Null), gone);
        assert_eq!(does("GET", &format!("/v1/links/{word}"), &key, &Value::Null).0, 404);
        let id_alone = json!({"custom_id": word});
        assert_eq!((create(&key, &id_alone), create(&other, &id_alone)), (taken.clone(), taken.clone()));
        assert_eq!(server.tap(word), status, "the notice is still there");

        // Or creating another link to its destination.
        let there = json!({"web_url": X});
        assert_eq!((create(&key, &there), create(&other, &there)), (refused.clone(), made.clone()));
        let batch = json!({"template": {"ios_deep_link": X}, "count": 2});
        assert_eq!(does("POST", "/v1/links/bulk", &key, &batch), refused);
        let rows = json!({"links": [{"web_url": format!("{X}#top")}]});
        assert_eq!(does("POST", "/v1/links/bulk", &key, &rows), (400, "invalid_batch".to_owned()));
        let harmless = server.link(&key);
        assert_eq!(does("PUT", &format!("/v1/links/{harmless}"), &key, &there), refused);
        let many = json!({"link_ids": [harmless], "set": {"web_url": X}});
        assert_eq!(does("PATCH", "/v1/links/bulk", &key, &many), refused);
        assert_eq!(does("PUT", &format!("/v1/links/{harmless}"), &key, &json!({"metadata": {"a": 1}})).0, 200);
        assert_eq!(create(&key, &json!({"web_url": "https://phish.example.com/"})), made, "another page of that host");

        let told = home.ok(&["link", "enable", word, "--reason", "a mistake"]);
        assert!(told.contains("its ID and aliases are available again"), "{told}");
        eventually_blocking("the notice is gone", PATIENCE, || server.tap(word) == 404);
        assert_eq!((create(&key, &bait), server.tap(word)), (made.clone(), 302));
        assert_eq!(does("DELETE", &format!("/v1/links/{word}"), &key, &Value::Null), gone);
        assert_eq!(server.tap(word), 404);
    }
    server.stop();
}

/// R12: what people report is the address that they saw, so a link can be named by any of its aliases.
#[test]
fn r12_a_link_is_taken_down_by_its_alias() {
    let home = Home::new();
    let server = home.serve();
    let (key, other) = (home.key("mallory@example.com"), home.key("other@example.com"));
    let does = |path: &str, key: &str, body: &Value| outcome(&server, "POST", path, key, body);
    for (key, domain) in [(&key, "shop.localhost"), (&other, "other.localhost")] {
        assert_eq!(does("/v1/domains", key, &json!({"domain": domain})), (201, String::new()));
    }
    let bait = json!({"custom_id": "bait", "web_url": X, "aliases": ["l/old_bait", "OldBait", "caf%C3%A9"]});
    assert_eq!(does("/v1/links", &key, &bait), (201, String::new()));
    let names = ["l/old_bait", "/OldBait", "caf%C3%A9", "café"];
    for (name, (word, status)) in
        names.into_iter().zip([("flag", 200), ("enable", 302), ("disable", 410), ("enable", 302)])
    {
        let told = home.ok(&["link", word, name, "--reason", "phishing"]);
        assert!(told.starts_with("link bait in account "), "{name}: {told}");
        eventually_blocking("the link has its status", PATIENCE, || server.tap("bait") == status);
    }
    // Of two accounts with this alias, the operator chooses one.
    let shop = json!({"custom_id": "shop", "web_url": "https://shop.example.com/", "aliases": ["OldBait"]});
    assert_eq!(does("/v1/links", &other, &shop), (201, String::new()));
    let several = home.run(&["link", "flag", "OldBait", "--reason", "phishing"]);
    assert!(several.code == Some(1) && several.stderr.contains("choose one with --tenant"), "{several:?}");
    let tenants: Vec<&str> = several.stderr.lines().map(str::trim).filter(|line| line.starts_with("tnt")).collect();
    assert_eq!(tenants.len(), 2, "{several:?}");
    let told: Vec<String> = tenants
        .iter()
        .map(|tenant| home.ok(&["link", "flag", "OldBait", "--reason", "x", "--tenant", tenant]))
        .collect();
    assert!(["link bait ", "link shop "].iter().all(|link| told.iter().any(|told| told.starts_with(link))), "{told:?}");
    eventually_blocking("the notices show", PATIENCE, || server.tap("bait") == 200 && server.tap("shop") == 200);
    server.stop();
}

/// R12: the owner's switch is another one. It does not lift a takedown, and works again as it was set once that is lifted.
#[test]
fn r12_the_owners_switch_does_not_lift_a_takedown() {
    let home = Home::new();
    let server = home.serve();
    let key = home.key("mallory@example.com");
    let put = |body: &Value| outcome(&server, "PUT", "/v1/links/bait", &key, body);
    assert_eq!(outcome(&server, "POST", "/v1/links", &key, &json!({"custom_id": "bait", "web_url": X})).0, 201);
    home.ok(&["link", "disable", "bait", "--reason", "phishing"]);
    eventually_blocking("the notice shows", PATIENCE, || server.tap("bait") == 410);
    let held = (409, "disabled_by_operator".to_owned());
    assert_eq!((put(&json!({"enabled": true})), put(&json!({"enabled": false})).0), (held.clone(), 200));
    assert_eq!((put(&json!({"enabled": true, "name": "x"})), put(&json!({"name": "x"})).0), (held, 200));
    let told = home.ok(&["link", "enable", "bait", "--reason", "a mistake"]);
    assert!(told.contains("is still disabled by its owner"), "{told}");
    assert_eq!(server.tap("bait"), 410);
    assert_eq!(put(&json!({"enabled": true})).0, 200);
    assert_eq!(server.tap("bait"), 302);

    // What is switched off or has expired while its destination is taken down cannot be opened again.
    for id in ["off", "over"] {
        let link = json!({"custom_id": id, "web_url": X, "enabled": id == "over"});
        assert_eq!(outcome(&server, "POST", "/v1/links", &key, &link).0, 201);
    }
    home.ok(&["link", "flag", "bait", "--reason", "phishing"]);
    let refused = (400, "threat_detected".to_owned());
    assert_eq!(outcome(&server, "PUT", "/v1/links/off", &key, &json!({"enabled": true})), refused);
    assert_eq!(outcome(&server, "PUT", "/v1/links/over", &key, &json!({"expires_at": null})), refused);
    assert_eq!(outcome(&server, "PUT", "/v1/links/off", &key, &json!({"expired_url": X})), refused);
    for set in [json!({"enabled": true}), json!({"expires_at": null})] {
        let many = json!({"link_ids": ["off", "over"], "set": set});
        assert_eq!(outcome(&server, "PATCH", "/v1/links/bulk", &key, &many), (400, "invalid_batch".to_owned()));
    }

    // Where a link leads once it expired is refused with its destination.
    let (fine, later) = ("https://fine.example.com/", "https://later.example.com/x");
    let link = json!({"custom_id": "later", "web_url": fine, "expired_url": later});
    assert_eq!(outcome(&server, "POST", "/v1/links", &key, &link).0, 201);
    home.ok(&["link", "disable", "later", "--reason", "abuse"]);
    for url in [fine, later] {
        assert_eq!(outcome(&server, "POST", "/v1/links", &key, &json!({"web_url": url})), refused, "{url}");
    }
    server.stop();
}

/// R12: of two links to one destination that are taken down, enabling one leaves the destination refused; a link that
/// only opens apps is matched by what it opens there; one that its tenant has not deleted works again.
#[test]
fn r12_each_takedown_refuses_and_is_lifted_by_itself() {
    let home = Home::new();
    let server = home.serve();
    let key = home.key("mallory@example.com");
    let create = |body: &Value| outcome(&server, "POST", "/v1/links", &key, body);
    let status = |id: &str| server.get(&format!("/r/{id}")).status;
    for link in [
        json!({"custom_id": "one", "web_url": X, "ios_deep_link": "myapp://login"}),
        json!({"custom_id": "two", "web_url": X}),
        json!({"custom_id": "in-apps", "ios_deep_link": "evil://x", "android_deep_link": "evil://y"}),
    ] {
        assert_eq!(create(&link), (201, String::new()), "{link}");
    }
    let soon = Clock::system().now().plus_millis(2_000);
    let ended = json!({"custom_id": "ended", "ios_deep_link": "other://x", "expires_at": soon, "expired_url": X});
    assert_eq!(create(&ended), (201, String::new()));
    eventually_blocking("it sends people on", PATIENCE, || status("ended") == 302);
    for id in ["one", "two", "in-apps"] {
        home.ok(&["link", "disable", id, "--reason", "phishing"]);
        eventually_blocking("the notice shows", PATIENCE, || status(id) == 410);
    }
    eventually_blocking("it sends nobody there", PATIENCE, || status("ended") == 410);
    assert_eq!(create(&json!({"android_deep_link": "evil://x"})), (400, "threat_detected".to_owned()));
    assert_eq!(create(&json!({"web_url": X})), (400, "threat_detected".to_owned()));
    assert_eq!(create(&json!({"ios_deep_link": "myapp://login"})).0, 201, "the app is not what was reported");
    let told = home.ok(&["link", "enable", "one", "--reason", "a mistake"]);
    assert!(told.starts_with("link one in account tnt_") && told.ends_with("is active\n"), "{told}");
    eventually_blocking("it works again", PATIENCE, || status("one") == 200);
    assert_eq!(create(&json!({"web_url": X})), (400, "threat_detected".to_owned()), "the other one is still down");
    home.ok(&["link", "enable", "two", "--reason", "a mistake"]);
    assert_eq!(create(&json!({"web_url": X})).0, 201);
    eventually_blocking("it sends people there again", PATIENCE, || status("ended") == 302);
    server.stop();
}

/// R12: a takedown says which other links of the account lead to the same destination, and takes them down too if asked;
/// further parameters do not make another destination.
#[test]
fn r12_other_links_to_the_same_destination() {
    let home = Home::new();
    let server = home.serve();
    let (key, other) = (home.key("mallory@example.com"), home.key("other@example.com"));
    let create = |key: &str, body: &Value| outcome(&server, "POST", "/v1/links", key, body);
    for (key, id, query) in [
        (&key, "first", "?id=1"),
        (&key, "second", "?id=1&utm_source=mail"),
        (&key, "third", "?x&id=1"),
        (&key, "fine", "?id=2"),
        (&other, "others", "?id=1"),
    ] {
        let made = create(key, &json!({"custom_id": id, "web_url": format!("{X}{query}")}));
        assert_eq!(made, (201, String::new()), "{id}");
    }
    let told = home.ok(&["link", "flag", "first", "--reason", "phishing"]);
    assert!(
        told.contains("2 other links of this account to the same destination still redirect: second, third"),
        "{told}"
    );
    assert_eq!(server.tap("second"), 302);
    for query in ["?id=1", "?id=1&y=2", "?id=1&id=1", "?y&id=1&="] {
        let made = create(&key, &json!({"web_url": format!("{X}{query}")}));
        assert_eq!(made, (400, "threat_detected".to_owned()), "{query}");
    }
    let told = home.ok(&["link", "disable", "first", "--reason", "phishing", "--same-destination"]);
    assert!(told.contains("2 other links to the same destination also taken down: second, third"), "{told}");
    for id in ["first", "second", "third"] {
        eventually_blocking("the notice shows", PATIENCE, || server.tap(id) == 410);
    }
    assert_eq!((server.tap("fine"), server.tap("others")), (302, 302));
    let told = home.ok(&["link", "disable", "first", "--reason", "phishing", "--same-destination"]);
    assert!(told.contains(" is disabled\nthe account can still link to other URLs"), "no other link is left: {told}");
    let suspend = told.lines().find_map(|line| line.strip_prefix("  deeplink-server ")).expect("a command");
    let suspend: Vec<_> = suspend.split(' ').collect();
    home.ok(&suspend);
    let third = json!({"web_url": format!("{X}?id=3")});
    eventually_blocking("the whole account is stopped", PATIENCE, || create(&key, &third).0 == 403);
    server.stop();
}

/// Two accounts can have one name, each on its own host: the URL that was reported says whose link is meant, and the output
/// says whose was taken down.
#[test]
fn a_link_is_taken_down_by_the_url_that_was_reported() {
    let home = Home::new();
    let server = home.serve();
    let (holder, other) = (home.key("holder@example.com"), home.key("other@example.com"));
    let make = |key: &str, body: &Value| assert_eq!(outcome(&server, "POST", "/v1/links", key, body).0, 201, "{body}");
    make(&holder, &json!({"custom_id": "promo", "web_url": "https://example.com/holder"}));
    let domain = json!({"domain": "shop.localhost"});
    assert_eq!(outcome(&server, "POST", "/v1/domains", &other, &domain).0, 201);
    make(&other, &json!({"custom_id": "promo", "web_url": "https://example.com/other"}));
    make(&other, &json!({"custom_id": "sale", "web_url": "https://example.com/sale", "aliases": ["l/old", "spring"]}));
    make(&holder, &json!({"custom_id": "spring", "web_url": "https://example.com/spring"}));
    let status = |key: &str, id: &str| {
        let authorization = format!("Bearer {key}");
        let reply = ask(server.address, "GET", &format!("/v1/links/{id}"), &[("Authorization", &authorization)], "");
        reply.json()["status"].as_str().expect("a status").to_owned()
    };
    for (named, key, id, url) in [
        ("promo", &holder, "promo", "/r/promo)"),
        ("/r/promo", &holder, "promo", "/r/promo)"),
        ("r/promo", &holder, "promo", "/r/promo)"),
        ("http://localhost:8080/r/promo?utm_source=x", &holder, "promo", "/r/promo)"),
        ("http://shop.localhost:8080/promo", &other, "promo", "/promo)"),
        ("HTTPS://Shop.Localhost/r/promo#top", &other, "promo", "/promo)"),
        ("http://shop.localhost/l/old/", &other, "sale", "/sale)"),
        ("http://shop.localhost/spring", &other, "sale", "/sale)"),
        ("spring", &holder, "spring", "/r/spring)"),
    ] {
        let told = home.ok(&["link", "flag", named, "--reason", "phishing"]);
        assert!(told.starts_with(&format!("link {id} in account tnt_")) && told.contains(url), "{named}: {told}");
        assert_eq!(told.contains("http://shop.localhost"), *key == other, "{named}: {told}");
        assert_eq!(status(key, id), "flagged", "{named}");
        let others = [(&holder, "promo"), (&other, "promo"), (&other, "sale"), (&holder, "spring")];
        for (key, id) in others.into_iter().filter(|one| *one != (key, id)) {
            assert_eq!(status(key, id), "active", "{named}: {id}");
        }
        home.ok(&["link", "enable", named, "--reason", "a mistake"]);
    }
    for (named, says) in [
        ("http://localhost/r/l/old", "no link with ID"),
        ("http://shop.localhost/nowhere", "no link with ID"),
        ("http://shop.localhost/", "no link with ID"),
        ("http://elsewhere.example.com/promo", "no account has verified the domain elsewhere.example.com"),
    ] {
        let ended = home.run(&["link", "flag", named, "--reason", "phishing"]);
        assert!(ended.code == Some(1) && ended.stderr.contains(says), "{named}: {ended:?}");
    }
    // An account that the URL does not belong to is a mistake.
    let told = home.ok(&["link", "flag", "promo", "--reason", "phishing"]);
    let account = told.split_whitespace().find(|word| word.starts_with("tnt_")).expect("an account");
    let line = ["link", "flag", "http://shop.localhost/promo", "--tenant", account, "--reason", "phishing"];
    let ended = home.run(&line);
    assert!(ended.code == Some(1) && ended.stderr.contains(&format!("not of {account}")), "{ended:?}");
    assert_eq!(status(&other, "promo"), "active");
    server.stop();
}
