//! L14: links that do not work, in every form.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Role, World, spawn};

async fn with_status(world: &World, id: &str, status: &str) {
    world
        .b
        .make_of(&json!({
            "custom_id": id, "web_url": "https://example.com/target", "ios_deep_link": "myapp://target",
            "metadata": {"kept": "secret"}, "social_preview": {"title": "Tempting title"}, "agent_context": {"cta": "Tempting cta"},
        }))
        .await;
    let set = match status {
        "expired" => format!("expires_at = {}", world.clock.now().as_millis()),
        "active" => "status = NULL".to_owned(),
        other => format!("status = '{other}'"),
    };
    world.db.execute(format!("UPDATE links SET {set} WHERE link_id = '{id}'")).await;
}

/// L14: a program gets only the status; a person sees a page without a link to the target; nothing is counted.
#[tokio::test]
async fn l14_links_that_are_not_active() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.own_domain(&world.b, "open.example.com", Role::Alternate).await;
    for (status, page_status, says) in [
        ("expired", 410, "This link has expired"),
        ("disabled", 410, "This link is no longer available"),
        ("flagged", 200, "This link has been reported as unsafe"),
    ] {
        let id = format!("is-{status}");
        with_status(&world, &id, status).await;
        for (host, path) in [
            ("localhost", format!("/r/{id}")),
            ("go.example.com", format!("/{id}")),
            ("open.example.com", format!("/r/{id}")),
        ] {
            let json = world
                .nobody
                .ask(Method::GET, &path)
                .header("host", host)
                .header("accept", "application/json")
                .send()
                .await;
            let record = json.json();
            assert_eq!((json.status, &record["_service_meta"]["status"]), (200, &json!(status)), "{host}");
            let others: Vec<_> = record
                .as_object()
                .expect("an object")
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, _)| name.as_str())
                .collect();
            assert_eq!(others, ["link_id", "_service_meta"]);
            for query in ["", "?redirect=1", "?os=ios"] {
                for agent in [
                    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1",
                    "facebookexternalhit/1.1",
                    "curl/8.5.0",
                    "Mozilla/5.0 (compatible; Googlebot/2.1)",
                ] {
                    let ask = world.nobody.ask(Method::GET, &format!("{path}{query}")).header("host", host);
                    let page = ask.header("accept", "text/html").header("user-agent", agent).send().await;
                    let what = format!("{status} {host} {query} {agent} {}", page.text());
                    assert_eq!(
                        (page.status, page.header("content-type")),
                        (page_status, "text/html; charset=utf-8"),
                        "{what}"
                    );
                    assert!(page.text().contains(says), "{what}");
                    for forbidden in ["<a ", "<script", "og:", "example.com/target", "myapp", "Tempting", "secret"] {
                        assert!(!page.text().contains(forbidden), "{forbidden}: {what}");
                    }
                    assert!(
                        !page.header("content-security-policy").contains("script-src 'nonce-")
                            || !page.text().contains("<script"),
                        "{what}"
                    );
                }
            }
            let head = world.nobody.browse(Method::HEAD, &path).header("host", host).send().await;
            assert_eq!((head.status, head.body.len()), (page_status, 0));
            let ask = world.nobody.ask(Method::HEAD, &path).header("host", host);
            let head = ask.header("accept", "application/json").send().await;
            assert_eq!((head.status, head.header("content-type"), head.body.len()), (200, "application/json", 0));
        }
        let detail = world.b.get(&format!("/v1/links/{id}")).await.json();
        assert_eq!(
            (detail["status"].as_str(), detail["web_url"].as_str()),
            (Some(status), Some("https://example.com/target"))
        );
    }
    world.expect_clicks(&[]).await;
}

#[tokio::test]
async fn disabled_outranks_flagged_and_both_outrank_the_end_of_time() {
    let world = spawn().await;
    for status in ["flagged", "disabled"] {
        let id = format!("is-{status}");
        with_status(&world, &id, status).await;
        world.db.execute(format!("UPDATE links SET expires_at = 1 WHERE link_id = '{id}'")).await;
        assert_eq!(world.nobody.resolve(&id).await.json()["_service_meta"]["status"], status);
    }
}

#[tokio::test]
async fn a_link_that_works_again_works() {
    let world = spawn().await;
    with_status(&world, "spring-42", "disabled").await;
    assert_eq!(world.nobody.tap("spring-42").await.status, 410);
    world.db.execute("UPDATE links SET status = NULL WHERE link_id = 'spring-42'").await;
    deeplink_testing::eventually("it works", Duration::from_secs(5), || async {
        world.nobody.tap("spring-42").await.status == 200
    })
    .await;
    assert_ne!(world.nobody.resolve("spring-42").await.json()["web_url"], Value::Null);
}
