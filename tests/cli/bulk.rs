//! `dl links bulk`: many links of one template.

use deeplink_testing::dl::Dl;
use serde_json::json;

use crate::links::willing;

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
    assert!(one.ok().lines().all(|id| id.len() == 8 && !two.ok().contains(id)), "each run generates its own ids");
}
