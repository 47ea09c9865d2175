//! What each command on links sends.

use serde_json::json;

use crate::dl::Dl;
use crate::double::{Answer, Double, link};

/// A service that makes and changes whatever it is asked to.
fn willing() -> Double {
    Double::new(|request| match request.method.as_str() {
        "POST" if request.path() == "/v1/links/bulk" => {
            let ids = match &request.json()["custom_ids"] {
                serde_json::Value::Array(ids) => ids.clone(),
                _ => vec![
                    json!("AAAA0000");
                    usize::try_from(request.json()["count"].as_u64().expect("a count")).expect("small")
                ],
            };
            let links: Vec<_> = ids.iter().map(|id| json!({"link_id": id, "url": format!("https://go.example.com/{}", id.as_str().expect("an id"))})).collect();
            Answer::json(201, &json!({"links": links}))
        }
        "POST" => Answer::json(
            201,
            &json!({"link_id": "spring-42", "url": "https://go.example.com/spring-42", "expires_at": null}),
        ),
        "DELETE" => Answer::new(204, ""),
        _ => Answer::json(200, &link("spring-42")),
    })
}

#[test]
fn create_sends_what_the_flags_say() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.run(
        "links create https://example.com/p/42 --id spring-42 --ios shop://p/42 --ios-store https://apps.apple.com/app/id1 \
         --android shop://p/42 --android-store https://play.google.com/store/apps/details?id=a --meta season=spring --meta n=1 \
         --action purchase --cta 'Buy now' --description why --title T --og-description D --image https://example.com/i.png \
         --affiliate aff_0123456789abcdef01234567",
    )
    .ok();
    let request = double.only();
    assert_eq!(request.line(), "POST /v1/links");
    assert!(request.header("idempotency-key").is_some());
    assert_eq!(request.header("user-agent").map(|agent| agent.starts_with("dl/")), Some(true));
    assert_eq!(
        request.json(),
        json!({
            "custom_id": "spring-42", "web_url": "https://example.com/p/42", "ios_deep_link": "shop://p/42",
            "ios_store_url": "https://apps.apple.com/app/id1", "android_deep_link": "shop://p/42",
            "android_store_url": "https://play.google.com/store/apps/details?id=a", "metadata": {"season": "spring", "n": "1"},
            "agent_context": {"action": "purchase", "cta": "Buy now", "description": "why"},
            "social_preview": {"title": "T", "description": "D", "image_url": "https://example.com/i.png"},
            "affiliate_id": "aff_0123456789abcdef01234567",
        })
    );
}

#[test]
fn create_reads_a_file_and_flags_outrank_it() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.file(
        "link.json",
        r#"{"custom_id": "from-file", "web_url": "https://example.com/file", "metadata": {"big": 1e400}}"#,
    );
    dl.run("links create --from-file link.json --id from-flag").ok();
    dl.run_with("links create https://example.com/flag --from-file -", r#"{"web_url": "https://example.com/file"}"#)
        .ok();
    dl.file("meta.json", r#"{"n": 1.50}"#);
    dl.run("links create --meta-json @meta.json").ok();
    let bodies: Vec<String> = double.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(
        bodies,
        [
            r#"{"custom_id":"from-flag","web_url":"https://example.com/file","metadata":{"big":1e400}}"#,
            r#"{"web_url":"https://example.com/flag"}"#,
            r#"{"metadata":{"n":1.50}}"#,
        ]
    );
}

#[test]
fn an_existing_link_with_the_same_content_will_do() {
    let double = Double::new(|request| match request.line().as_str() {
        "POST /v1/links" => Answer::error(409, "link_id_taken", "the id is in use"),
        "GET /v1/links/spring-42" => Answer::json(200, &link("spring-42")),
        _ => Answer::error(404, "not_found", "there is no such link"),
    });
    let dl = Dl::at(&double.url);
    let same = "--meta season=spring --action purchase --cta 'Buy now' --if-not-exists";
    let ran = dl.run(&format!("links create https://example.com/p/spring-42 --id spring-42 {same}"));
    assert_eq!(ran.ok(), "https://go.example.com/spring-42\n");
    insta::assert_snapshot!(dl.run("links create https://example.com/other --id spring-42 --meta season=spring --if-not-exists"), @r#"
    --- stderr
      web_url: there https://example.com/p/spring-42, asked for https://example.com/other
      agent_context: there {"action":"purchase","cta":"Buy now","description":null}, asked for nothing
    error[link_id_taken]: the id "spring-42" is already in use by a link with other content
      hint: dl links update spring-42 changes it
      request id: req-1
    --- exit 6
    "#);
    let foreign = dl.run("links create https://example.com --id theirs --if-not-exists");
    assert!(foreign.fails(6).contains("it belongs to somebody else"), "{foreign}");
}

#[test]
fn update_sends_only_what_is_named() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.run("links update spring-42 --web https://example.com/new --unset metadata --unset agent_context").ok();
    dl.run("links update spring-42 --cta Now --unset ios").ok();
    let requests = double.requests();
    assert_eq!(requests[0].line(), "PUT /v1/links/spring-42");
    assert_eq!(
        requests[0].json(),
        json!({"web_url": "https://example.com/new", "metadata": null, "agent_context": null})
    );
    assert_eq!(
        requests[1].json(),
        json!({"agent_context": {"action": null, "cta": "Now", "description": null}, "ios_deep_link": null})
    );
}

#[test]
fn list_sends_its_filters() {
    let double = Double::new(|_| Answer::new(200, r#"{"links":[],"next_cursor":null}"#));
    let dl = Dl::at(&double.url);
    dl.run("links list --affiliate aff_0123456789abcdef01234567 --status expired --created-after 2026-11-01 --created-before 2026-11-02T10:00:00+02:00 --q spring- --limit 7").ok();
    assert_eq!(
        double.only().target,
        "/v1/links?affiliate_id=aff_0123456789abcdef01234567&created_after=2026-11-01T00%3A00%3A00.000Z\
         &created_before=2026-11-02T08%3A00%3A00.000Z&q=spring-&status=expired&limit=7"
    );
    dl.run("links list --status resting").fails(3);
}

#[test]
fn ids_are_one_segment_whatever_they_hold() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.run("links get a/../b?c=d%2F#e").ok();
    assert_eq!(double.only().target, "/v1/links/a%2F..%2Fb%3Fc=d%252F%23e".replace("c=d", "c%3Dd"));
    assert_eq!(dl.run("links get ..").code, Some(3));
}

#[test]
fn bulk_uses_the_form_of_the_interface() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.file("t.json", r#"{"web_url": "https://example.com/", "custom_id": "ignored-1"}"#);
    dl.file("ids.txt", "spring-3\n\nspring-4\r\n");
    let ran = dl.run("links bulk --template t.json --ids spring-1,spring-2");
    assert_eq!(ran.ok(), "spring-1\thttps://go.example.com/spring-1\nspring-2\thttps://go.example.com/spring-2\n");
    assert_eq!(dl.run("links bulk --template t.json --ids @ids.txt -o id").ok(), "spring-3\nspring-4\n");
    assert_eq!(dl.run_with("links bulk --template t.json --ids - -o id", "spring-5\n").ok(), "spring-5\n");
    assert_eq!(
        dl.run("links bulk --template t.json --count 3 -o json").json()["links"].as_array().map(Vec::len),
        Some(3)
    );
    let requests = double.requests();
    assert!(requests.iter().all(|request| request.line() == "POST /v1/links/bulk"));
    assert_eq!(
        requests[0].json(),
        json!({"template": {"web_url": "https://example.com/"}, "custom_ids": ["spring-1", "spring-2"]})
    );
    assert_eq!(requests[3].json(), json!({"template": {"web_url": "https://example.com/"}, "count": 3}));
}

#[test]
fn bulk_of_more_than_a_request_holds_goes_in_batches() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.file("t.json", r#"{"web_url": "https://example.com/"}"#);
    let ids: Vec<String> = (0..250).map(|at| format!("many-{at:03}")).collect();
    let ran = dl.run_with("links bulk --template t.json --ids - -o id", &ids.join("\n"));
    let mut made: Vec<&str> = ran.ok().lines().collect();
    made.sort_unstable();
    assert_eq!(made, ids);
    let sizes: usize =
        double.requests().iter().map(|request| request.json()["custom_ids"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!(sizes, 250);
    let one = dl.run("links bulk --template t.json --count 150 -o id");
    let two = dl.run("links bulk --template t.json --count 150 -o id");
    assert_eq!(one.ok().lines().count(), 150);
    assert!(one.ok().lines().all(|id| id.len() == 8 && !two.ok().contains(id)), "each run makes ids of its own");
}

#[test]
fn resolve_asks_with_head_and_follows_nothing() {
    let double = Double::new(|request| match request.path() {
        "/r/gone" => Answer::new(410, "").header("content-type", "text/html"),
        "/r/page" => Answer::new(200, "").header("content-type", "text/html"),
        "/r/nope" => Answer::error(404, "not_found", "there is no such link"),
        _ if request.header("accept") == Some("application/json") => Answer::json(
            200,
            &json!({"link_id": "spring-42", "web_url": "https://example.com/p/42", "_service_meta": {"source": "tenant_asserted", "status": "active", "tenant_domain": null, "tenant_verified": false}}),
        ),
        _ => Answer::new(302, "").header("location", "https://example.com/p/42"),
    });
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("links resolve spring-42").ok(), "302\thttps://example.com/p/42\n");
    assert_eq!(
        dl.run("links resolve spring-42 --as ios -o json").ok(),
        "{\"link_id\":\"spring-42\",\"status\":302,\"location\":\"https://example.com/p/42\"}\n"
    );
    assert_eq!(dl.run("links resolve gone").ok(), "410\t\n");
    assert_eq!(dl.run("links resolve page --as android").ok(), "200\t\n");
    dl.run("links resolve nope").fails(5);
    let counted = dl.run("links resolve spring-42 --as json");
    assert!(counted.ok().contains("status\tactive\n") && counted.stderr.contains("counted as a click"), "{counted}");
    dl.run("links resolve spring-42 --host go.example.com").ok();
    let requests = double.requests();
    let methods: Vec<&str> = requests.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["HEAD", "HEAD", "HEAD", "HEAD", "HEAD", "GET", "HEAD"]);
    let agent = |at: usize| requests[at].header("user-agent").unwrap_or_default();
    assert!(
        agent(0).contains("X11; Linux")
            && agent(1).contains("iPhone")
            && agent(3).contains("Android")
            && agent(5).starts_with("dl/")
    );
    assert_eq!((requests[6].path(), requests[6].header("host")), ("/spring-42", Some("go.example.com")));
    assert!(requests.iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn resolve_of_an_address_goes_there_and_nowhere_else() {
    let (service, elsewhere) =
        (willing(), Double::new(|_| Answer::new(302, "").header("location", "https://example.com/")));
    let dl = Dl::at(&service.url);
    dl.run(&format!("links resolve {}/spring-42", elsewhere.url)).ok();
    assert_eq!(elsewhere.only().line(), "HEAD /spring-42");
    assert!(service.requests().is_empty());
    dl.run("links resolve http://example.com/r/spring-42").fails(3);
    dl.run(&format!("links resolve {}/spring-42 --host go.example.com", elsewhere.url)).fails(2);
}

#[test]
fn timeseries_shows_buckets_and_their_sum() {
    let double = Double::new(|_| {
        Answer::json(
            200,
            &json!({
                "link_id": "spring-42", "granularity": "daily", "from": "2026-11-01T00:00:00.000Z", "to": "2026-11-02T12:00:00.000Z",
                "data": [{"date": "2026-11-01", "clicks": 40}, {"date": "2026-11-02", "clicks": 2}],
            }),
        )
    });
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("links timeseries spring-42 --from 2026-11-01 --to 2026-11-02T12:00:00Z"), @r"
    2026-11-01	40
    2026-11-02	2
    --- stderr
    42 clicks from 2026-11-01T00:00:00.000Z to 2026-11-02T12:00:00.000Z
    ");
    dl.run("links timeseries spring-42 --from 2026-11-01 --to 2026-11-02T12:00:00Z --kind preview").ok();
    assert_eq!(
        double.requests()[1].target,
        "/v1/links/spring-42/timeseries?from=2026-11-01T00%3A00%3A00.000Z&granularity=daily&kind=preview&to=2026-11-02T12%3A00%3A00.000Z"
    );
    assert_eq!(dl.run("links timeseries spring-42 -o csv").ok(), "date,clicks\r\n2026-11-01,40\r\n2026-11-02,2\r\n");
    assert_eq!(dl.run("links timeseries spring-42 -o json").json()["data"][0]["clicks"], 40);
}
