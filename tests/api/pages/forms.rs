//! Domains, apps, keys, people and affiliates through their pages.

use serde_json::json;

use super::{Visitor, secret_in, text_of, went};
use deeplink_testing::dns::How;
use deeplink_testing::{Role, spawn};

/// A domain from its form to its deletion; the page shows the DNS result.
#[tokio::test]
async fn a_domain_is_added_verified_and_deleted() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for name in ["", "localhost", "go.example.com/x"] {
        let reply = visitor.post("/account/domains", &[("domain", name)]).await;
        assert_eq!(reply.status, 400, "{name}");
        let page = reply.text();
        let error = page.split("id=\"domain-error\">").nth(1).and_then(|rest| rest.split('<').next());
        let error = error.unwrap_or_else(|| panic!("{name} has no error"));
        assert!(error.len() > 15 && error.ends_with('.') && !error.ends_with(".."), "{name}: {error}");
    }
    let added = visitor.post("/account/domains", &[("domain", "GO.example.com."), ("role", "primary")]).await;
    assert_eq!(went(&added), (303, "/account/domains/go.example.com?done=domain-added"));
    let again = visitor.post("/account/domains", &[("domain", "go.example.com"), ("role", "primary")]).await;
    assert_eq!(went(&again), (303, "/account/domains/go.example.com?done=domain-there"), "a second press does no harm");
    let other = visitor.post("/account/domains", &[("domain", "go.example.com"), ("role", "alternate")]).await;
    assert_eq!(other.status, 409, "it does something else");
    let page = visitor.get("/account/domains/go.example.com").await.text();
    let token = page.split("<code class=\"take\">").nth(2).and_then(|rest| rest.split('<').next()).expect("a token");
    assert!(token.len() == 64 && page.contains("_deeplink-verify.go.example.com") && page.contains("Not verified"));
    let looked = visitor.post("/account/domains/go.example.com", &[]).await;
    assert_eq!(looked.status, 200);
    assert!(text_of(&looked).contains("Not verified yet"), "{}", looked.text());
    world.dns.txt("_deeplink-verify.go.example.com", &["<b>other</b>"]);
    let looked = visitor.post("/account/domains/go.example.com", &[]).await;
    assert!(looked.text().contains("&#60;b&#62;other&#60;/b&#62;"), "what others wrote is text: {}", looked.text());
    world.dns.txt("_deeplink-verify.go.example.com", &[token]);
    let verified = visitor.post("/account/domains/go.example.com", &[]).await;
    assert_eq!(went(&verified), (303, "/account/domains/go.example.com?done=domain-verified"));
    let told = text_of(&visitor.get("/account/domains/go.example.com?done=domain-verified").await);
    assert!(told.contains("Domain verified.") && !told.contains("Your links live there"), "{told}");
    assert!(visitor.get("/account/domains").await.text().contains("Verified"));
    assert!(visitor.get("/account/keys").await.text().contains("<option>go.example.com</option>"));
    let gone = visitor.post("/account/domains/go.example.com/delete", &[]).await;
    assert_eq!(went(&gone), (303, "/account/domains?done=domain-deleted"));
    assert_eq!(visitor.get("/account/domains/go.example.com").await.status, 404);
    let gone = visitor.post("/account/domains/go.example.com/delete", &[]).await;
    assert_eq!(went(&gone), (303, "/account/domains?done=gone"), "a second press does no harm");
}

/// Where a domain sends people who open no link: set, refused beside its field, and taken away.
#[tokio::test]
async fn a_domains_redirects_are_edited() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let edit = "/account/domains/go.example.com/edit";
    let stored = async || {
        let domain = world.a.get("/v1/domains").await.json()[0].clone();
        [&domain["root_url"], &domain["not_found_url"]].map(|url| url.as_str().map(str::to_owned))
    };
    let both = [("root_url", " https://www.example.com "), ("not_found_url", "https://www.example.com/help")];
    let saved = visitor.post(edit, &both).await;
    assert_eq!(went(&saved), (303, "/account/domains/go.example.com?done=domain-saved"));
    let set = [Some("https://www.example.com/".to_owned()), Some("https://www.example.com/help".to_owned())];
    assert_eq!(stored().await, set);
    let shown = visitor.get("/account/domains/go.example.com").await.text();
    assert!(shown.contains("value=\"https://www.example.com/\"") && shown.contains("/help\""), "{shown}");
    for (fields, text) in [
        ([("root_url", "example.com"), ("not_found_url", "")], "id=\"root-url-error\">Enter the full URL"),
        ([("root_url", ""), ("not_found_url", "myapp://x")], "id=\"not-found-url-error\">Must start with http"),
        (
            [("root_url", "https://go.example.com"), ("not_found_url", "")],
            "id=\"root-url-error\">Must not be the home page",
        ),
    ] {
        let refused = visitor.post(edit, &fields).await;
        assert!(refused.status == 400 && refused.text().contains(text), "{text}: {}", refused.text());
        assert_eq!(stored().await, set, "nothing is changed");
    }
    assert_eq!(went(&visitor.post(edit, &[]).await).0, 303);
    assert_eq!(stored().await, [None, None], "an empty field takes the URL away");
    assert_eq!(went(&visitor.get(edit).await), (303, "/account/domains/go.example.com"));
    assert_eq!(visitor.post("/account/domains/no.example.com/edit", &both).await.status, 404);
}

/// The long links of a domain: a form without these fields keeps them.
#[tokio::test]
async fn a_domains_long_links_are_edited() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let edit = "/account/domains/go.example.com/edit";
    let stored = async || {
        let domain = world.a.get("/v1/domains").await.json()[0].clone();
        (domain["long_links"] == true, domain["allowed_hosts"].to_string())
    };
    let hosts = "www.example.com\r\n apps.apple.com, www.example.com\r\n";
    let saved = visitor.post(edit, &[("long_links", "true"), ("allowed_hosts", hosts)]).await;
    assert_eq!(went(&saved), (303, "/account/domains/go.example.com?done=domain-saved"));
    let set = (true, r#"["apps.apple.com","www.example.com"]"#.to_owned());
    assert_eq!(stored().await, set);
    let shown = visitor.get("/account/domains/go.example.com").await.text();
    assert!(shown.contains("apps.apple.com\nwww.example.com"), "{shown}");
    let refused = visitor.post(edit, &[("long_links", ""), ("allowed_hosts", "https://www.example.com/")]).await;
    assert!(refused.status == 400 && refused.text().contains("id=\"allowed-hosts-error\""), "{}", refused.text());
    assert_eq!(went(&visitor.post(edit, &[("root_url", "https://www.example.com")]).await).0, 303);
    assert_eq!(stored().await, set);
    assert_eq!(went(&visitor.post(edit, &[("long_links", ""), ("allowed_hosts", "")]).await).0, 303);
    assert_eq!(stored().await, (false, "[]".to_owned()));
}

/// On a service that is on this machine only, the page asks for no record that cannot work, and a name under .localhost
/// needs none.
#[tokio::test]
async fn a_local_service_asks_for_no_record_in_vain() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let added = visitor.post("/account/domains", &[("domain", "shop.localhost"), ("role", "primary")]).await;
    assert_eq!(went(&added), (303, "/account/domains/shop.localhost?done=domain-verified"));
    let local = text_of(&visitor.get("/account/domains/shop.localhost").await);
    assert!(local.contains("No DNS records needed") && !local.contains("TXT") && local.contains("Verified"), "{local}");
    visitor.post("/account/domains", &[("domain", "go.example.com"), ("role", "primary")]).await;
    let public = text_of(&visitor.get("/account/domains/go.example.com").await);
    assert!(public.contains("TXT") && !public.contains("<dd>CNAME</dd>"), "{public}");
    assert!(public.contains("No DNS record can route visitors to <code>127.0.0.1</code>"), "{public}");
    assert!(visitor.get("/account/domains").await.text().contains("shop.localhost"));
}

/// Checking a verified domain again shows whether its record is there now.
#[tokio::test]
async fn a_verified_domain_is_looked_at_again() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let stands = visitor.post("/account/domains/go.example.com", &[]).await;
    assert_eq!(went(&stands), (303, "/account/domains/go.example.com?done=domain-stands"));
    world.dns.txt("_deeplink-verify.go.example.com", &["other"]);
    let missing = visitor.post("/account/domains/go.example.com", &[]).await;
    let text = text_of(&missing);
    assert_eq!(missing.status, 200);
    assert!(text.contains("The TXT record is missing.") && text.contains("<li><code>other</code></li>"), "{text}");
    assert!(!text.contains("Not verified yet") && text.contains(">Verified<"), "{text}");
    world.dns.answer("_deeplink-verify.go.example.com", How::Refused);
    let unasked = text_of(&visitor.post("/account/domains/go.example.com", &[]).await);
    assert!(unasked.contains("The DNS lookup failed") && !unasked.contains("Not verified yet"), "{unasked}");
    // What can never be verified is explained in whole sentences.
    world.claim_domain(&world.a, "second.example.com", Role::Alternate).await;
    world.own_domain(&world.a, "alt.example.com", Role::Alternate).await;
    let refused = visitor.post("/account/domains/second.example.com", &[]).await;
    assert_eq!(refused.status, 409);
    assert!(text_of(&refused).contains("<p>You already have a verified alternate domain. Only one is allowed.</p>"));
}

#[tokio::test]
async fn an_app_is_saved_and_deleted() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let fingerprints = format!("{}\n{}", "ab".repeat(32), "cd".repeat(32));
    let android = [
        ("platform", "android"),
        ("package_name", "com.example.app"),
        ("sha256_fingerprints", &*fingerprints),
        ("app_name", "Greenhouse"),
    ];
    assert_eq!(went(&visitor.post("/account/new-app", &android).await), (303, "/account/apps?done=app-saved"));
    let stored = world.a.get("/v1/apps").await.json();
    assert_eq!(stored[0]["sha256_fingerprints"].as_array().expect("a list").len(), 2);
    for (fields, at) in [
        (vec![("platform", "ios"), ("bundle_id", "com.example.app")], "team-id"),
        (vec![("platform", "ios"), ("bundle_id", "x"), ("team_id", "ABCDE12345")], "bundle-id"),
        (
            vec![("platform", "android"), ("package_name", "com.example.app"), ("sha256_fingerprints", "x")],
            "sha256-fingerprints",
        ),
    ] {
        let reply = visitor.post("/account/new-app", &fields).await;
        assert_eq!(reply.status, 400);
        assert!(reply.text().contains(&format!("id=\"{at}-error\">")), "{at}: {}", reply.text());
    }
    let id = stored[0]["id"].as_str().expect("an id");
    assert!(text_of(&visitor.get("/account/apps").await).contains("Greenhouse"));
    let gone = visitor.post(&format!("/account/apps/{id}/delete"), &[]).await;
    assert_eq!(went(&gone), (303, "/account/apps?done=app-deleted"));
    assert_eq!(world.a.get("/v1/apps").await.json(), json!([]));
    let gone = visitor.post(&format!("/account/apps/{id}/delete"), &[]).await;
    assert_eq!(went(&gone), (303, "/account/apps?done=gone"));
}

#[tokio::test]
async fn keys_end_at_their_limits() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for _ in 0..4 {
        let id = visitor.form_id("/account/keys").await;
        let shown = visitor.post("/account/keys", &[("form", &id)]).await;
        let secret = secret_in(&shown);
        world.note_secret(&secret);
    }
    for _ in 0..2 {
        let full = visitor.post("/account/keys", &[("form", "one-more")]).await;
        assert_eq!(full.status, 409);
        assert!(text_of(&full).contains("the maximum number of keys"));
    }
    let keys = world.a.get("/v1/auth/secret-keys").await.json();
    let ids: Vec<_> =
        keys["keys"].as_array().expect("keys").iter().map(|key| key["id"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), 5);
    let gone = visitor.post(&format!("/account/keys/{}/delete", ids[0]), &[]).await;
    assert_eq!(went(&gone), (303, "/account/keys?done=key-deleted"));
    let gone = visitor.post(&format!("/account/keys/{}/delete", ids[0]), &[]).await;
    assert_eq!(went(&gone), (303, "/account/keys?done=gone"));
    // A refused form has made no key, so it can still make one.
    let shown = visitor.post("/account/keys", &[("form", "one-more")]).await;
    let secret = secret_in(&shown);
    world.note_secret(&secret);
    let base = world.a.base().to_owned();
    let page = shown.text();
    assert!(page.contains(&format!("<span class=\"option\">--base-url</span> {base}</code>")), "{page}");
    assert_eq!(
        went(&visitor.post("/account/keys", &[("form", "one-more")]).await),
        (303, "/account/keys?done=key-shown")
    );
    let keys = world.a.get("/v1/auth/secret-keys").await.json();
    let listed = keys["keys"].as_array().expect("keys").iter();
    let made: Vec<_> = listed.filter_map(|key| key["id"].as_str()).filter(|id| !ids.contains(id)).collect();
    assert_eq!(made.len(), 1, "and it makes one");
    for id in ids[1..4].iter().chain(&made) {
        let gone = visitor.post(&format!("/account/keys/{id}/delete"), &[]).await;
        assert_eq!(went(&gone), (303, "/account/keys?done=key-deleted"));
    }
    let last = visitor.post(&format!("/account/keys/{}/delete", ids[4]), &[]).await;
    assert_eq!(last.status, 409);
    assert!(text_of(&last).contains("This is your last key"));
    let fields = [("domain", "go.example.com"), ("form", "x")];
    for _ in 0..2 {
        let refused = visitor.post("/account/keys/publishable", &fields).await;
        assert_eq!(refused.status, 400);
        assert!(text_of(&refused).contains("This account has no such domain."), "{}", refused.text());
    }
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let secret = secret_in(&visitor.post("/account/keys/publishable", &fields).await);
    world.note_secret(&secret);
}

#[tokio::test]
async fn the_team_grows_and_shrinks() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    assert_eq!(visitor.post("/account/team", &[("email", "x")]).await.status, 400);
    let taken = visitor.post("/account/team", &[("email", "a@example.com")]).await;
    assert_eq!(taken.status, 409);
    assert!(text_of(&taken).contains("This person is already on your team."));
    let invited = visitor.post("/account/team", &[("email", "New@example.com")]).await;
    assert_eq!(went(&invited), (303, "/account/team?done=invited"));
    let users = world.a.get("/v1/auth/users").await.json();
    let (own, new): (Vec<_>, Vec<_>) =
        users["users"].as_array().expect("people").iter().partition(|user| user["email"] == "a@example.com");
    let page = visitor.get("/account/team").await.text();
    assert!(page.contains("Cancel invitation<span class=\"unseen\"> for new@example.com<") && page.contains("Invited"));
    let own = own[0]["id"].as_str().expect("an id");
    assert!(!page.contains(&format!("/account/team/{own}/remove")), "people cannot remove themselves here");
    assert_eq!(visitor.post(&format!("/account/team/{own}/remove"), &[]).await.status, 404);
    let new = new[0]["id"].as_str().expect("an id");
    let removed = visitor.post(&format!("/account/team/{new}/remove"), &[]).await;
    assert_eq!(went(&removed), (303, "/account/team?done=person-removed"));
    let removed = visitor.post(&format!("/account/team/{new}/remove"), &[]).await;
    assert_eq!(went(&removed), (303, "/account/team?done=gone"));
    assert!(!visitor.get("/account/team").await.text().contains("new@example.com"));
}

#[tokio::test]
async fn an_affiliate_is_added_changed_and_deleted() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (fields, status, at) in [
        (vec![("name", ""), ("partner_key", "ok")], 400, "name"),
        (vec![("name", "P"), ("partner_key", "NO")], 400, "partner-key"),
        (vec![("name", "P"), ("partner_key", "partner-1")], 409, "partner-key"),
    ] {
        let reply = visitor.post("/account/affiliates", &fields).await;
        assert_eq!(reply.status, status);
        assert!(reply.text().contains(&format!("id=\"{at}-error\">")), "{at}: {}", reply.text());
    }
    let added = visitor.post("/account/affiliates", &[("name", "Spring"), ("partner_key", "spring")]).await;
    let path = added.header("location").split('?').next().expect("a path").to_owned();
    assert!(added.status == 303 && path.starts_with("/account/affiliates/aff_"));
    let shown = visitor.post(&format!("{path}/credentials"), &[("form", "1")]).await;
    let secret = secret_in(&shown);
    let partner = world.somebody_with(&secret);
    assert_eq!(partner.get("/v1/links").await.status, 200);
    let saved = visitor.post(&path, &[("name", "Summer"), ("status", "disabled")]).await;
    assert_eq!(went(&saved), (303, &*format!("{path}?done=affiliate-saved")));
    assert_eq!(partner.get("/v1/links").await.status, 401, "disabled affiliates cannot call");
    assert!(text_of(&visitor.get(&path).await).contains("Summer"));
    assert_eq!(visitor.post(&path, &[("name", ""), ("status", "active")]).await.status, 400);
    let gone = visitor.post(&format!("{path}/delete"), &[]).await;
    assert_eq!(went(&gone), (303, "/account/affiliates?done=affiliate-deleted"));
    assert_eq!(visitor.get(&path).await.status, 404);
}
