//! The commands in the API reference: the service accepts every one of them.

use std::collections::BTreeSet;
use std::mem;

use deeplink_core::routes;
use deeplink_testing::{Role, World, spawn};
use http::Method;
use serde_json::json;

use crate::docs::pages;
use crate::outbound::png;
use crate::qr_logos::upload;

/// A request that a command sends.
#[derive(Default)]
struct Command {
    operation: String,
    method: Method,
    path: String,
    headers: Vec<String>,
    body: Option<Vec<u8>>,
}

impl Command {
    fn parse(operation: &str, text: &str) -> Self {
        let mut words = words(text).into_iter();
        assert_eq!(words.next().as_deref(), Some("curl"), "{operation}");
        let mut command = Self { operation: operation.to_owned(), ..Self::default() };
        while let Some(word) = words.next() {
            let mut value = || words.next().expect("a value");
            match &*word {
                "-X" => command.method = value().parse().expect("a method"),
                "-H" => command.headers.push(value()),
                "-d" => command.body = Some(value().into_bytes()),
                "--data-urlencode" => {
                    command.headers.push("Content-Type: application/x-www-form-urlencoded".to_owned());
                    command.body = Some(value().into_bytes());
                }
                "--data-binary" => {
                    assert_eq!(value(), "@FILE", "{operation}");
                    command.body = Some(png());
                }
                _ => command.path = word,
            }
        }
        command
    }

    /// What is deleted is no longer there for the others, and nobody is there after the account.
    fn rank(&self) -> u8 {
        match &*self.operation {
            "delete_account" | "signout" => 2,
            _ => u8::from(self.method == Method::DELETE),
        }
    }
}

/// The words of a command, as a shell splits them.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for character in command.replace("\\\n", " ").chars() {
        match quote {
            None if matches!(character, '\'' | '"') => quote = Some(character),
            None if character == ' ' => words.push(mem::take(&mut word)),
            Some(open) if open == character => quote = None,
            _ => word.push(character),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The commands of a page of the reference, with the operations that they are for.
fn commands(html: &str) -> impl Iterator<Item = (&str, String)> {
    html.split("<h2 id=\"").skip(1).filter_map(|section| {
        let (operation, rest) = section.split_once('"')?;
        let (_, rest) = rest.split_once("<code>curl ")?;
        let text = format!("curl {}", rest.split("</code>").next()?);
        let entities = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
        Some((operation, entities.iter().fold(text, |text, (entity, character)| text.replace(entity, character))))
    })
}

/// What the examples name, and what A has instead.
async fn things_of_a(world: &World) -> Vec<(&'static str, String)> {
    let a = &world.a;
    world.own_domain(a, "go.example.com", Role::Primary).await;
    a.make_of(&json!({"custom_id": "spring-42", "web_url": "https://example.com/", "tags": ["spring"]})).await;
    upload(a, "acme", png()).await;
    let publishable = a.post("/v1/auth/publishable-keys", &json!({"domain": "go.example.com"})).await;
    let affiliate = a.post("/v1/affiliates", &json!({"name": "Known", "partner_key": "known"})).await.member("id");
    let credential = a.post_nothing(&format!("/v1/affiliates/{affiliate}/credentials")).await;
    let app = json!({"platform": "ios", "bundle_id": "com.example.known", "team_id": "ABCDE12345"});
    let app = a.post("/v1/apps", &app).await;
    let source = a.post("/v1/sources", &json!({"name": "Known", "source_type": "custom"})).await;
    let webhook = json!({"url": "https://hooks.example.com/known", "events": ["click", "conversion"]});
    let webhook = a.post("/v1/webhooks", &webhook).await;
    let token = source.member("webhook_url");
    vec![
        ("$DL_BASE_URL", String::new()),
        ("$DL_API_KEY", a.key().expect("a key").to_owned()),
        ("$DL_PUBLISHABLE_KEY", publishable.member("key")),
        ("$SESSION_TOKEN", world.session_of(a).await),
        ("pkid_0123456789abcdef01234567", publishable.member("id")),
        ("aff_0123456789abcdef01234567", affiliate),
        ("skid_0123456789abcdef01234567", credential.member("id")),
        ("app_0123456789abcdef01234567", app.member("id")),
        ("src_0123456789abcdef01234567", source.member("id")),
        ("wh_0123456789abcdef01234567", webhook.member("id")),
        ("tnt_0123456789abcdef01234567", a.tenant.to_string()),
        (
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            token.rsplit('/').next().expect("a token").to_owned(),
        ),
    ]
}

#[tokio::test]
async fn the_service_accepts_every_example_of_the_reference() {
    let world = spawn().await;
    let known = things_of_a(&world).await;
    let pages = pages(&world).await;
    let pages = pages.iter().filter(|(path, _)| path.starts_with("/docs/reference/"));
    let mut all: Vec<_> = pages
        .flat_map(|(_, html)| commands(html))
        .map(|(operation, text)| {
            let text = known.iter().fold(text, |text, (example, real)| text.replace(example, real));
            Command::parse(operation, &text)
        })
        .collect();
    all.sort_by_key(Command::rank);

    let shown: BTreeSet<_> = all.iter().map(|command| command.operation.clone()).collect();
    let expected = routes::ALL.iter().filter(|route| route.credential.is_for_programs());
    let missing: Vec<_> = expected.map(|route| route.operation).filter(|id| !shown.contains(*id)).collect();
    assert!(missing.is_empty(), "{missing:?} have no example");

    for Command { operation, method, path, headers, body } in all {
        // One address may make five sign-ups an hour.
        world.db.execute("DELETE FROM mail_allowances").await;
        let ask = headers.iter().fold(world.nobody.ask(method, &path), |ask, header| {
            let (name, value) = header.split_once(": ").expect("a name and a value");
            ask.header(name, value)
        });
        let kind = headers.iter().find_map(|header| header.strip_prefix("Content-Type: "));
        let ask = match body {
            Some(body) => ask.body_as(kind.expect("a media type"), body),
            None => ask,
        };
        let reply = ask.send().await;
        let outcome = reply.outcome();
        // A code that was not sent.
        let is_known = operation == "confirm_secret_key" && outcome == "400 invalid_code token";
        // The link may already be disabled by another example.
        let is_accepted = matches!(reply.status, 200..=399 | 402 | 403 | 404 | 409 | 410 | 503);
        assert!(is_accepted || is_known, "{operation}: {path}: {}", reply.text());
    }
}
