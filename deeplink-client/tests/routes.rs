//! Each operation of the route table has exactly one method, and each method asks what its route says.
#![cfg(feature = "mock")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use deeplink_client::deeplink_core::routes::{self, Credential};
use deeplink_client::mock::fixtures;
use deeplink_client::{
    Client, CreateApp, CreateDomain, CreateLink, LinkFilter, Patch, QrFormat, QrOptions, SecretKey, Signup,
    TimeseriesQuery, UpdateLink,
};

/// Calls the method of an operation; `false` for an operation that has none.
async fn call(dl: &Client, operation: &str) -> bool {
    let mut update = UpdateLink::new();
    update.web_url = Patch::Clear;
    let links = dl.links();
    match operation {
        "health" => drop(dl.public().health().await.unwrap()),
        "ready" => drop(dl.public().ready().await.unwrap()),
        "openapi" => drop(dl.public().openapi().await.unwrap()),
        "llms" => drop(dl.public().llms().await.unwrap()),
        "resolve" => drop(dl.public().resolve("spring-42").await.unwrap()),
        "apple_association" => drop(dl.public().apple_association().await.unwrap()),
        "asset_links" => drop(dl.public().asset_links().await.unwrap()),
        "signup" => drop(dl.sessions().signup(&Signup::new("you@example.com")).await.unwrap()),
        "list_links" => drop(links.list(&LinkFilter::new()).first_page().await.unwrap()),
        "create_link" => drop(links.create(&CreateLink::new()).await.unwrap()),
        // The operation has two forms of body, and a method for each.
        "bulk_create_links" => {
            drop(links.bulk_create(&CreateLink::new(), ["abc"]).await.unwrap());
            drop(links.bulk_create_links(&[CreateLink::new()]).await.unwrap());
        }
        "get_link" => drop(links.get("spring-42").await.unwrap()),
        "update_link" => drop(links.update("spring-42", &update).await.unwrap()),
        "delete_link" => links.delete("spring-42").await.unwrap(),
        "link_qr" => drop(links.qr("spring-42", QrFormat::Svg, &QrOptions::new()).await.unwrap()),
        "link_timeseries" => drop(links.timeseries("spring-42", &TimeseriesQuery::new()).await.unwrap()),
        "list_apps" => drop(dl.apps().list().await.unwrap()),
        "create_app" => drop(dl.apps().create(&CreateApp::ios("com.example.app", "ABCDE12345")).await.unwrap()),
        "delete_app" => dl.apps().delete("app_0123456789abcdef01234567").await.unwrap(),
        "list_domains" => drop(dl.domains().list().await.unwrap()),
        "create_domain" => drop(dl.domains().create(&CreateDomain::new("go.example.com")).await.unwrap()),
        "delete_domain" => dl.domains().delete("go.example.com").await.unwrap(),
        "verify_domain" => drop(dl.domains().verify("go.example.com").await.unwrap()),
        _ => return false,
    }
    true
}

#[tokio::test]
async fn every_operation_has_its_method() {
    for route in routes::ALL {
        let mock = fixtures::every_operation();
        let dl = Client::builder("https://api.example.com")
            .secret_key(SecretKey::new("dl_live_x"))
            .transport(mock.clone())
            .build()
            .unwrap();
        assert!(call(&dl, route.operation).await, "{} has no method", route.operation);
        let calls = mock.calls();
        assert!(!calls.is_empty());
        for call in calls {
            assert_eq!(call.method, route.method, "{}", route.operation);
            let path = call.uri.path().split('/');
            let fits = |(part, asked): (&str, &str)| match part.split_once('{') {
                Some((fixed, _)) => asked.len() > fixed.len() && asked.starts_with(fixed),
                None => part == asked,
            };
            assert_eq!(route.path.split('/').count(), path.clone().count(), "{}: {}", route.operation, call.uri);
            assert!(route.path.split('/').zip(path).all(fits), "{}: {}", route.operation, call.uri);
            let is_public = route.credential == Credential::Public;
            assert_eq!(call.header("authorization").is_empty(), is_public, "{}", route.operation);
        }
    }
}

/// Wire types live in core: this crate reads and writes them, and defines none outside of its own journal.
#[test]
fn no_wire_type_is_defined_here() {
    fn look(dir: &std::path::Path) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("bulk") {
                    look(&path);
                }
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let own = text.lines().any(|line| line.contains("derive(") && line.contains("Deserialize"));
                assert!(!own, "{} defines a wire type", path.display());
            }
        }
    }
    look(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
}

/// The table of methods on the front page is the route table.
#[test]
fn the_front_page_lists_every_operation() {
    let page = include_str!("../README.md");
    for route in routes::ALL {
        let place = format!("`{} {}`", route.method, route.path);
        let row = page.lines().find(|line| line.starts_with('|') && line.contains(&place)).expect(&place);
        let credential = if route.credential == Credential::Public { "| – |" } else { "| secret key |" };
        assert!(row.ends_with(credential), "{row}");
    }
}
