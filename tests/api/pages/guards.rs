//! What holds for every page and every form of the account.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{Visitor, all_forms, all_pages, form, secret_in, stored, text_of, went};
use crate::sessions::sign_up;
use crate::visit::landing::shape;
use deeplink_testing::{Reply, Role, spawn, spawn_with};

/// S9, S11: the headers of every page; nothing is loaded from elsewhere, and nothing but the page's own script runs.
#[tokio::test]
async fn every_page_is_private_and_runs_its_own_script_only() {
    let world = spawn().await;
    let pages = all_pages(&world, &world.b).await;
    let visitor = Visitor::signed_in(&world, &world.b).await;
    for path in &pages {
        let reply = visitor.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert!(reply.body.len() <= 60 * 1_024, "{path} has {} bytes", reply.body.len());
        check_page(path, &reply);
        let head = visitor.ask(Method::HEAD, path).send().await;
        assert_eq!(head.status, 200, "{path}");
        // X13: no other origin may read it.
        let asked = visitor.ask(Method::GET, path).header("origin", "https://other.example").send().await;
        let preflight = visitor.ask(Method::OPTIONS, path).header("origin", "https://other.example");
        let preflight = preflight.header("access-control-request-method", "GET").send().await;
        assert_eq!((asked.header("access-control-allow-origin"), preflight.status), ("", 405), "{path}");
        assert_eq!(preflight.header("access-control-allow-origin"), "", "{path}");
    }
    let stranger = Visitor::stranger(&world);
    for path in ["/signin", "/signin?sent=1", "/signin?error=link_expired", "/signin?error=once_invalid"] {
        check_page(path, &stranger.get(path).await);
    }
    let (_, token) = sign_up(&world, "new@example.org").await;
    check_page("a sign-up", &stranger.get(&format!("/account/confirm?token={token}")).await);
    check_page("already signed in", &visitor.get("/signin?error=link_expired").await);
    let missing = visitor.get("/account/links/nowhere").await;
    assert_eq!(missing.status, 404);
    check_page("a refusal", &missing);
}

fn check_page(path: &str, reply: &Reply) {
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8", "{path}");
    for (name, value) in
        [("cache-control", "no-store"), ("referrer-policy", "same-origin"), ("x-robots-tag", "noindex")]
    {
        assert_eq!(reply.header(name), value, "{path} {name}");
    }
    let policy = reply.header("content-security-policy");
    let nonce = policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).expect("a nonce");
    let page = reply.text();
    let scripts = page.matches("<script").count();
    let may_run = policy.contains(&format!("; script-src 'nonce-{nonce}'; "));
    assert!(policy.starts_with("default-src 'none'; "), "{path}: {policy}");
    assert_eq!((policy.contains("script-src"), scripts), (may_run, usize::from(may_run)), "{path}: {policy}");
    assert!(!may_run || page.contains(&format!("<script nonce=\"{nonce}\">")), "{path}");
    // Only the script of the list of links sends requests.
    let connects = policy.contains("connect-src");
    assert_eq!(connects, policy.contains("; connect-src 'self'; "), "{path}: {policy}");
    assert_eq!(connects, path == "/account/links", "{path}: {policy}");
    // Pages whose URL holds a token run nothing.
    assert!(!may_run || !path.starts_with("/signin") && path != "a sign-up", "{path}: {policy}");
    assert!(policy.contains("img-src 'self' data:; form-action 'self' "), "{path}: {policy}");
    assert!(page.contains(&format!("<style nonce=\"{nonce}\">")), "{path}");
    for never in [" onclick", " onload", " style=", "<iframe", "<link rel=\"stylesheet\"", "src=\"http"] {
        assert!(!page.contains(never), "{path} has {never}");
    }
    for once in ["<h1", "<main", "<title>"] {
        assert_eq!(page.matches(once).count(), 1, "{path}: {once}");
    }
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"), "{path}");
}

/// S8: a form sent by another site redirects to the sign-in, and has no effect.
#[tokio::test]
async fn s8_forms_of_other_sites_do_nothing() {
    let world = spawn().await;
    let pages = all_pages(&world, &world.b).await;
    let visitor = Visitor::signed_in(&world, &world.b).await;
    world.mails(1).await;
    let before = stored(&world).await;
    let mut forms = all_forms(&pages);
    forms.push(("/signin".to_owned(), vec![("email", "b@example.com")]));
    assert!(forms.len() > 15, "{forms:?}");
    for (path, fields) in forms {
        for (name, value) in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "https://other.example"),
            ("origin", "null"),
        ] {
            let ask = visitor.ask(Method::POST, &path).header(name, value);
            let reply = ask.body_as("application/x-www-form-urlencoded", form(&fields)).send().await;
            assert_eq!(went(&reply), (303, "/signin?error=invalid_request"), "{path} {name}: {value}");
            assert_eq!(reply.header("set-cookie"), "");
        }
    }
    assert!(before == stored(&world).await, "something was done");
}

/// S19: a new secret is shown once: sending the form again shows and makes nothing.
#[tokio::test]
async fn s19_a_secret_is_shown_once() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    let affiliate = world.b.post("/v1/affiliates", &json!({"name": "P", "partner_key": "page"})).await.member("id");
    let visitor = Visitor::signed_in(&world, &world.b).await;
    let of_affiliate = format!("/account/affiliates/{affiliate}");
    let minting = format!("{of_affiliate}/credentials");
    for (page, path, listed, fields, prefix) in [
        ("/account/keys", "/account/keys", "secret_keys", vec![], "dl_live_"),
        (
            "/account/keys",
            "/account/keys/publishable",
            "publishable_keys",
            vec![("domain", "go.example.com")],
            "pk_live_",
        ),
        (&*of_affiliate, &*minting, "secret_keys", vec![], "dl_live_"),
    ] {
        let id = visitor.form_id(page).await;
        let mut fields = fields.clone();
        fields.push(("form", &id));
        let count = async || world.db.number(format!("SELECT COUNT(*) FROM {listed}")).await;
        let before = count().await;
        let shown = visitor.post(path, &fields).await;
        assert_eq!((shown.status, shown.header("cache-control")), (200, "no-store"), "{path}: {}", shown.text());
        let secret = secret_in(&shown);
        assert!(secret.starts_with(prefix) && secret.len() == prefix.len() + 48, "{path}");
        world.note_secret(&secret);
        if prefix == "dl_live_" {
            assert_eq!(world.somebody_with(&secret).get("/v1/links").await.status, 200, "it works");
        }
        // Every answer from here on is searched for it.
        for _ in 0..3 {
            assert_eq!(went(&visitor.post(path, &fields).await), (303, &*format!("{page}?done=key-shown")), "{path}");
        }
        assert_eq!(count().await, before + 1, "{path}");
        let list = visitor.get(page).await;
        assert!(list.text().contains(&secret[..18]), "the list shows how it begins");
    }
    // Another person's form with the same id is separate.
    let other = Visitor::signed_in(&world, &world.a).await;
    let reply = other.post("/account/keys", &[("form", "abc")]).await;
    let secret = secret_in(&reply);
    world.note_secret(&secret);
    assert_eq!(reply.status, 200);
}

/// The pages are only on the service's own host.
#[tokio::test]
async fn other_hosts_have_no_pages() {
    let world = spawn().await;
    let mut pages = all_pages(&world, &world.b).await;
    pages.push("/signin".to_owned());
    let visitor = Visitor::signed_in(&world, &world.b).await;
    for host in ["go.example.com", "unknown.example.com"] {
        for path in &pages {
            for method in [Method::GET, Method::POST] {
                let reply = visitor.ask(method, path).header("host", host).send().await;
                assert!(matches!(reply.status, 404 | 405), "{host} {path}: {}", reply.status);
                assert_eq!((reply.header("set-cookie"), reply.header("location")), ("", ""), "{host} {path}");
            }
        }
    }
}

/// I1: another account's objects look missing, for pages and forms alike.
#[tokio::test]
async fn i1_pages_show_and_change_the_own_account_only() {
    let world = spawn().await;
    let pages = all_pages(&world, &world.b).await;
    world.mails(1).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let foreign: Vec<_> = pages.iter().filter(|path| path.matches('/').count() > 2).cloned().collect();
    assert!(foreign.len() > 10);
    let before = stored(&world).await;
    for path in &foreign {
        assert_eq!(visitor.get(path).await.status, 404, "{path}");
    }
    for (path, fields) in all_forms(&foreign) {
        if foreign.iter().any(|page| path.starts_with(page.as_str())) {
            let reply = visitor.post(&path, &fields).await;
            // A deletion answers as for something already deleted.
            let is_gone = reply.status == 303 && reply.header("location").ends_with("?done=gone");
            assert!(reply.status == 404 || is_gone, "{path}: {}", reply.status);
            assert_eq!(
                is_gone,
                matches!(path.rsplit('/').next(), Some("delete" | "remove")) && !path.contains("/credentials/"),
                "{path}"
            );
        }
    }
    assert_eq!(visitor.get("/account/links/spring-42/qr.png").await.status, 404);
    let wrong = visitor.post("/account/links/spring-42/edit", &[("web_url", "no address")]).await;
    assert_eq!(wrong.status, 404, "an invalid form does not reveal what exists");
    assert!(before == stored(&world).await, "something was done");
    let own = visitor.get("/account/links").await.text();
    assert!(!own.contains("spring-42"));
}

/// X20: looking at pages changes nothing.
#[tokio::test]
async fn x20_looking_at_pages_changes_nothing() {
    let world = spawn().await;
    let pages = all_pages(&world, &world.b).await;
    world.mails(1).await;
    let visitor = Visitor::signed_in(&world, &world.b).await;
    let before = stored(&world).await;
    for path in pages.iter().map(String::as_str).chain([
        "/signin",
        "/account/links/spring-42/qr.svg",
        "/account/new-link/qr.svg",
    ]) {
        for method in [Method::GET, Method::HEAD] {
            visitor.ask(method, path).send().await;
        }
    }
    assert!(before == stored(&world).await, "something was written");
}

/// Every path under `/account` answers with a page, even a mistyped one.
#[tokio::test]
async fn what_is_no_page_is_refused_with_one() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for who in [&visitor, &Visitor::stranger(&world)] {
        for (path, to) in [
            ("/account/", "/account"),
            ("/signin/", "/signin"),
            ("/signin/?next=%2Faccount%2Fkeys", "/signin?next=%2Faccount%2Fkeys"),
            ("/account/links/", "/account/links"),
            ("/account//other.example/", "/account//other.example"),
        ] {
            assert_eq!(went(&who.get(path).await), (303, to), "{path}");
        }
        for path in ["/account/key", "/account/links/a/b/c", "/account//other.example"] {
            let reply = who.get(path).await;
            assert_eq!(reply.status, 404, "{path}");
            check_page(path, &reply);
            assert_eq!(who.post(path, &[]).await.status, 404, "{path}");
        }
    }
    for path in ["/account/", "/signin/"] {
        let elsewhere = visitor.ask(Method::GET, path).header("host", "go.example.com").send().await;
        assert_eq!((elsewhere.status, elsewhere.header("location")), (404, ""), "{path}");
    }
}

/// Input is not lost while the database is unavailable: the form is shown again with it, and says when to try again.
#[tokio::test]
async fn what_was_typed_outlives_an_outage() {
    let world = spawn_with(|config| config.database_timeout = Duration::from_secs(2)).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    visitor.get("/account").await;
    let away = world.db.take_away().await;
    let reply = visitor.post("/account/new-link", &[("web_url", "https://example.com/typed")]).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{}", reply.text());
    assert!(text_of(&reply).contains("Nothing was saved."), "{}", reply.text());
    // If sessions cannot be looked up either, the owner of the form is unknown.
    let is_shown = reply.text().contains("value=\"https://example.com/typed\"");
    assert_eq!(is_shown, !world.db.is_postgres(), "{}", reply.text());
    away.give_back().await;
}

/// An unknown form is refused with a page, and a plan's limit is explained in words.
#[tokio::test]
async fn refusals_are_pages() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let large = format!("a={}", "x".repeat(70_000));
    for (kind, body, status) in [
        ("application/json", "{}", 415),
        ("text/plain", "a=b", 415),
        ("application/x-www-form-urlencoded", "web_url=a&web_url=b", 400),
        ("application/x-www-form-urlencoded", &*large, 413),
    ] {
        let reply = visitor.ask(Method::POST, "/account/new-link").body_as(kind, body.to_owned()).send().await;
        assert_eq!((reply.status, reply.header("content-type")), (status, "text/html; charset=utf-8"), "{kind}");
    }
    for number in 0..50 {
        world.a.make(&format!("link-{number}")).await;
    }
    let full = visitor.post("/account/new-link", &[("web_url", "https://example.com/")]).await;
    assert_eq!(full.status, 402);
    assert!(text_of(&full).contains("The plan includes 50 links; the account has 50."), "{}", full.text());
    let overview = visitor.get("/account").await.text();
    assert!(overview.contains("Your plan: Free") && overview.contains("<b>50</b> <span class=\"option\">of 50</span>"));
}

/// L4: hostile texts stay text: a page has the same elements and attributes as with plain ones.
#[tokio::test]
async fn l4_hostile_texts_change_no_page() {
    let world = spawn().await;
    let mut shapes = Vec::new();
    for (at, text) in [
        "plain",
        "<svg onload=alert(1)>",
        "\"><img src=x onerror=alert(1)>",
        "'-alert(1)-'",
        "</title></style></textarea><script>alert(1)</script>",
        "{{7*7}}${7*7}",
        "&lt;b&gt;&amp;",
        "\u{202e}\u{2028}javascript:alert(1)//",
    ]
    .iter()
    .enumerate()
    {
        let id = format!("link-{at}");
        world
            .a
            .make_of(&json!({
                "custom_id": id, "web_url": "https://example.com/?q=<script>", "metadata": {"a": text},
                "social_preview": {"title": text, "description": text},
                "agent_context": {"cta": text, "description": text},
            }))
            .await;
        let app = json!({"platform": "ios", "bundle_id": format!("com.example.a{at}"), "team_id": "ABCDE12345", "app_name": text});
        let app = world.a.post("/v1/apps", &app).await.member("id");
        let affiliate = json!({"name": text, "partner_key": format!("p-{at}")});
        let affiliate = world.a.post("/v1/affiliates", &affiliate).await.member("id");
        let visitor = Visitor::signed_in(&world, &world.a).await;
        let mut found = Vec::new();
        for path in [
            format!("/account/links/{id}"),
            format!("/account/links/{id}/edit"),
            format!("/account/apps/{app}/delete"),
            format!("/account/affiliates/{affiliate}"),
            format!("/account/affiliates/{affiliate}/delete"),
        ] {
            let reply = visitor.get(&path).await;
            assert_eq!(reply.status, 200);
            found.push(shape(&reply.text()));
        }
        // A form that is shown again with what was sent.
        let again = visitor
            .post(
                "/account/new-link",
                &[
                    ("web_url", text),
                    ("custom_id", &format!("-{text}")),
                    ("social_preview.title", text),
                    ("social_preview.description", text),
                ],
            )
            .await;
        assert_eq!(again.status, 400);
        found.push(shape(&again.text()));
        shapes.push(found);
    }
    for shape in &shapes {
        for (page, plain) in shape.iter().zip(&shapes[0]) {
            assert_eq!(page, plain);
        }
    }
}
