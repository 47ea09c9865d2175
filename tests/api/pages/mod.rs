//! The sign-in and account pages, over HTTP: who gets in, what each form does, and how it is refused.

mod details;
mod faults;
mod forms;
mod guards;
mod link_form;
mod links;
mod lists;
mod numbers;
mod plan;
mod qr_draft;
mod qr_logo;
mod qr_look;
mod selected_links;
mod signin;
mod suspended;
mod tags;
mod webhooks;

use std::collections::BTreeMap;

use http::Method;
use serde_json::json;

use crate::webhooks::settled_delivery;
use deeplink_testing::{Ask, Caller, Reply, Role, World};

/// A person's browser.
struct Visitor<'a> {
    caller: &'a Caller,
    cookie: Option<String>,
}

impl<'a> Visitor<'a> {
    async fn signed_in(world: &World, caller: &'a Caller) -> Self {
        Self { caller, cookie: Some(world.session_of(caller).await) }
    }

    fn stranger(world: &'a World) -> Self {
        Self { caller: &world.nobody, cookie: None }
    }

    fn ask(&self, method: Method, path: &str) -> Ask {
        let ask = self.caller.browse(method, path);
        match &self.cookie {
            Some(token) => ask.header("cookie", format!("session_token={token}")),
            None => ask,
        }
    }

    async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path).send().await
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.posting(path, fields).send().await
    }

    /// A form as a current browser sends it.
    fn posting(&self, path: &str, fields: &[(&str, &str)]) -> Ask {
        let origin = self.caller.base().to_owned();
        let ask = self.ask(Method::POST, path).header("origin", origin).header("sec-fetch-site", "same-origin");
        ask.body_as("application/x-www-form-urlencoded", form(fields))
    }

    /// The id that a page gives its forms.
    async fn form_id(&self, path: &str) -> String {
        let page = self.get(path).await.text();
        let after = page.split("name=\"form\" value=\"").nth(1).unwrap_or_else(|| panic!("{path} has no form id"));
        after.split('"').next().expect("a value").to_owned()
    }
}

fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

fn went(reply: &Reply) -> (u16, &str) {
    (reply.status, reply.header("location"))
}

/// The visible text of a page.
fn text_of(reply: &Reply) -> String {
    let page = reply.text().replace("&#39;", "'").replace("&quot;", "\"").replace("&#x27;", "'");
    page.split("<main").nth(1).unwrap_or_default().to_owned()
}

/// Everything that is stored, except the mails that are sent meanwhile.
async fn stored(world: &World) -> BTreeMap<String, Vec<String>> {
    let mut tables = world.db.dump_without_clicks().await;
    tables.remove("mails").expect("a table of mails");
    tables
}

/// The new secret that a page shows.
fn secret_in(page: &Reply) -> String {
    let page = page.text();
    let after = page.split("<code id=\"secret\">").nth(1).unwrap_or_else(|| panic!("no secret: {page}"));
    after.split('<').next().expect("a secret").to_owned()
}

/// Every page that a GET answers, for an account that has one of everything.
async fn all_pages(world: &World, caller: &Caller) -> Vec<String> {
    let link = caller.make("spring-42").await;
    let app = caller
        .post("/v1/apps", &json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"}))
        .await;
    let (app, affiliate) = (
        app.member("id"),
        caller.post("/v1/affiliates", &json!({"name": "P", "partner_key": "page"})).await.member("id"),
    );
    let credential = caller.post_nothing(&format!("/v1/affiliates/{affiliate}/credentials")).await;
    world.note_secret(&credential.member("api_key"));
    let credential = credential.member("id");
    world.own_domain(caller, "go.example.com", Role::Primary).await;
    let publishable = caller.post("/v1/auth/publishable-keys", &json!({"domain": "go.example.com"})).await;
    world.note_secret(&publishable.member("key"));
    let publishable = publishable.member("id");
    let keys = caller.get("/v1/auth/secret-keys").await.json();
    let key = keys["keys"][0]["id"].as_str().expect("a key").to_owned();
    let user = caller.post("/v1/auth/users", &json!({"email": "new@example.com"})).await.member("id");
    let source = caller.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await.member("id");
    let webhook = json!({"url": "https://hooks.example.com/", "events": ["conversion"]});
    let webhook = caller.post("/v1/webhooks", &webhook).await.member("id");
    let delivery = settled_delivery(world, caller, &webhook).await;
    let mut pages: Vec<String> = [
        "",
        "/links",
        "/new-link",
        "/domains",
        "/apps",
        "/new-app",
        "/keys",
        "/sources",
        "/webhooks",
        "/affiliates",
        "/team",
        "/plan",
        "/settings",
    ]
    .iter()
    .map(|path| format!("/account{path}"))
    .collect();
    pages.extend([
        format!("/account/links/{link}"),
        format!("/account/links/{link}/edit"),
        format!("/account/links/{link}/qr"),
        format!("/account/links/{link}/delete"),
        "/account/domains/go.example.com".to_owned(),
        "/account/domains/go.example.com/delete".to_owned(),
        format!("/account/apps/{app}"),
        format!("/account/apps/{app}/delete"),
        format!("/account/keys/{key}/delete"),
        format!("/account/keys/publishable/{publishable}/delete"),
        format!("/account/sources/{source}/delete"),
        format!("/account/webhooks/{webhook}"),
        format!("/account/webhooks/{webhook}/delete"),
        format!("/account/webhooks/{webhook}/deliveries"),
        format!("/account/webhooks/{webhook}/deliveries/{delivery}"),
        format!("/account/affiliates/{affiliate}"),
        format!("/account/affiliates/{affiliate}/delete"),
        format!("/account/affiliates/{affiliate}/credentials/{credential}/delete"),
        format!("/account/team/{user}/remove"),
    ]);
    pages
}

/// Every form with valid input, and the page that shows it.
fn all_forms(pages: &[String]) -> Vec<(String, Vec<(&'static str, &'static str)>)> {
    let mut forms = vec![
        ("/account/signout".to_owned(), vec![]),
        ("/account/new-link".to_owned(), vec![("web_url", "https://example.com/")]),
        ("/account/selected-links".to_owned(), vec![("link", "spring-42"), ("action", "disable")]),
        ("/account/domains".to_owned(), vec![("domain", "other.example.com")]),
        (
            "/account/new-app".to_owned(),
            vec![("platform", "ios"), ("bundle_id", "com.example.b"), ("team_id", "ABCDE12345")],
        ),
        ("/account/keys".to_owned(), vec![("form", "1")]),
        ("/account/keys/publishable".to_owned(), vec![("form", "2"), ("domain", "go.example.com")]),
        ("/account/sources".to_owned(), vec![("form", "3"), ("name", "Other")]),
        (
            "/account/webhooks".to_owned(),
            vec![("form", "4"), ("url", "https://hooks.example.com/b"), ("event_click", "yes")],
        ),
        ("/account/affiliates".to_owned(), vec![("name", "Q"), ("partner_key", "qq")]),
        ("/account/team".to_owned(), vec![("email", "other@example.com")]),
        ("/account/plan/checkout".to_owned(), vec![("tier", "pro")]),
        ("/account/plan/portal".to_owned(), vec![]),
        ("/account/plan/cancel".to_owned(), vec![]),
    ];
    for page in pages {
        let fields = if page.ends_with("/edit") {
            vec![("web_url", "https://example.com/elsewhere")]
        } else if page.ends_with("/qr") {
            vec![("qr.level", "M")]
        } else if page.ends_with("/delete") || page.ends_with("/remove") || page.starts_with("/account/domains/") {
            vec![]
        } else if page.contains("/deliveries/") {
            vec![("form", "5")]
        } else if page.ends_with("/deliveries") {
            continue;
        } else if page.starts_with("/account/webhooks/") {
            vec![("active", "no")]
        } else if page.starts_with("/account/apps/") {
            vec![("team_id", "ABCDE12345"), ("app_name", "Renamed")]
        } else if page.starts_with("/account/affiliates/") {
            vec![("name", "R"), ("status", "disabled")]
        } else {
            continue;
        };
        forms.push((page.clone(), fields));
        if page.ends_with("/qr") {
            forms.push((format!("{page}/logo"), vec![("name", "acme")]));
        }
        if page.starts_with("/account/webhooks/") && page.matches('/').count() == 3 {
            forms.push((format!("{page}/replay"), vec![("form", "6"), ("hours", "24")]));
        }
        if page.starts_with("/account/affiliates/") && !page.contains("/credentials/") && !page.ends_with("/delete") {
            forms.push((format!("{page}/credentials"), vec![("form", "3")]));
        }
    }
    forms
}
