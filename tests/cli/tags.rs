//! Tags: what `dl tags` and `dl links tag` send and show.

use deeplink_client::{TagDetail, TagList};
use serde_json::{Value, json};

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, link, many_links};

/// A service with two tags, whose links have `Spring sale` and `draft`.
fn service() -> Double {
    Double::new(|request| match (request.method.as_str(), request.path()) {
        ("GET", "/v1/tags") => {
            let tag = |tag: &str, links| TagDetail::new(tag.to_owned(), links);
            Answer::json(200, &json!(TagList::new(vec![tag("draft", 1), tag("Spring sale", 12)])))
        }
        ("PUT", "/v1/tags/Spring%20sale") => {
            Answer::json(200, &json!(TagDetail::new(request.json()["tag"].as_str().expect("a tag").to_owned(), 12)))
        }
        ("DELETE", "/v1/tags/Spring%20sale") => Answer::new(204, ""),
        ("PATCH", _) => many_links(request, &["unknown"]).expect("a request for many links"),
        (_, "/v1/links/spring-1" | "/v1/links/spring-2") => {
            let mut link = link(request.path().rsplit('/').next().expect("an id"));
            link["tags"] = match request.method.as_str() {
                "PUT" => request.json()["tags"].clone(),
                _ => json!(["draft", "Spring sale"]),
            };
            Answer::json(200, &link)
        }
        _ => Answer::error(404, "not_found", "not found"),
    })
}

#[test]
fn tags_are_listed_in_every_form() {
    let double = service();
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("tags list -o id").ok(), "draft\nSpring sale\n");
    assert_eq!(dl.run("tags list -o csv").ok(), "tag,links\r\ndraft,1\r\nSpring sale,12\r\n");
    assert_eq!(
        dl.run("tags list -o json").ok(),
        "{\"tags\":[{\"tag\":\"draft\",\"links\":1},{\"tag\":\"Spring sale\",\"links\":12}]}\n"
    );
    assert_eq!(dl.run("tags list --fields links -o json").ok(), "{\"tags\":[{\"links\":1},{\"links\":12}]}\n");
    assert_eq!(dl.run("tags list -o jsonl --fields tag").ok(), "{\"tag\":\"draft\"}\n{\"tag\":\"Spring sale\"}\n");
    let empty = Double::new(|_| Answer::new(200, r#"{"tags":[]}"#));
    assert!(Dl::at(&empty.url).run("tags list").stderr.contains("no tags; dl links tag adds tags to links"));
}

#[test]
fn tags_are_renamed_and_deleted() {
    let double = service();
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("tags rename 'Spring sale' spring -o json").ok(), "{\"tag\":\"spring\",\"links\":12}\n");
    assert_eq!(double.requests().pop().expect("a request").json(), json!({"tag": "spring"}));
    assert!(dl.run("tags delete 'Spring sale'").fails(2).contains("--yes"));
    assert_eq!(dl.run("tags delete ' Spring sale ' --yes -o id").ok(), "Spring sale\n");
    assert_eq!(double.requests().pop().expect("a request").line(), "DELETE /v1/tags/Spring%20sale");
    for line in ["tags rename other new", "tags delete other --yes"] {
        assert!(dl.run(line).fails(5).contains("dl tags list shows the account's tags"), "{line}");
    }
    let before = double.requests().len();
    for line in ["tags rename spring a,b", "tags rename spring ' '", "tags rename a,b spring", "tags delete a,b --yes"]
    {
        assert!(dl.run(line).fails(3).contains("invalid_tag"), "{line}");
    }
    assert_eq!(double.requests().len(), before, "nothing is sent");
}

/// In CSV and text, tags are one cell with commas between them, as in an export, so that an import takes it.
#[test]
fn tags_of_a_link_are_one_cell() {
    let double = service();
    let dl = Dl::at(&double.url);
    assert_eq!(
        dl.run("links get spring-1 -o csv --fields link_id,tags").ok(),
        "link_id,tags\r\nspring-1,\"draft,Spring sale\"\r\n"
    );
    assert!(dl.run("links get spring-1").ok().contains("tags\tdraft,Spring sale\n"));
    assert_eq!(dl.run("links get spring-1 -o json --fields tags").ok(), "{\"tags\":[\"draft\",\"Spring sale\"]}\n");
}

/// Single tags are added and removed by an update with all that remain.
#[test]
fn links_get_and_lose_tags() {
    let double = service();
    let dl = Dl::at(&double.url);
    let sent = |from: usize| -> Vec<(String, Value)> {
        let requests = double.requests().split_off(from);
        requests.iter().filter(|one| one.method == "PUT").map(|one| (one.line(), one.json()["tags"].clone())).collect()
    };
    for (line, expected) in [
        ("links tag spring-1 --add poster", vec![("spring-1", json!(["draft", "poster", "Spring sale"]))]),
        ("links tag spring-1 --add poster --remove DRAFT", vec![("spring-1", json!(["poster", "Spring sale"]))]),
        ("links tag spring-1 --remove draft --remove 'spring sale'", vec![("spring-1", json!([]))]),
        ("links tag spring-1 --add DRAFT --remove other", vec![]),
    ] {
        let before = double.requests().len();
        dl.run(line).ok();
        let expected: Vec<_> = expected.into_iter().map(|(id, tags)| (format!("PUT /v1/links/{id}"), tags)).collect();
        assert_eq!(sent(before), expected, "{line}");
    }
    dl.run("links tag spring-1 spring-2 --add poster --remove draft").ok();
    let sent = double.requests().pop().expect("a request");
    let body = json!({"link_ids": ["spring-1", "spring-2"], "add_tags": ["poster"], "remove_tags": ["draft"]});
    assert_eq!((sent.line(), sent.json()), ("PATCH /v1/links/bulk".to_owned(), body), "several are one request");
    assert_eq!(dl.run_with("links tag - --add poster -o id", "spring-1\nspring-2\n").ok(), "spring-1\nspring-2\n");
    dl.run("links tag unknown --add poster").fails(5);
    dl.run("links tag spring-1 unknown --add poster").fails(10);
    let before = double.requests().len();
    dl.run("links tag spring-1").fails(2);
    assert!(dl.run("links tag spring-1 --add a --remove A").fails(2).contains("both added and removed"));
    dl.run("links tag spring-1 --add a,b").fails(3);
    assert_eq!(double.requests().len(), before, "nothing is sent");
}

/// Free text may begin with `-`.
#[test]
fn text_may_begin_with_a_hyphen() {
    let double = crate::links::willing();
    let dl = Dl::at(&double.url);
    dl.run(
        "links create https://example.com/ --title '-20% off' --og-description '- a' --name -n --cta '-> go' --description -d \
         --tag -50 --meta -k=-v --utm-source -news",
    )
    .ok();
    let body = double.only().json();
    assert_eq!(body["social_preview"], json!({"title": "-20% off", "description": "- a", "image_url": null}));
    assert_eq!((&body["name"], &body["tags"]), (&json!("-n"), &json!(["-50"])));
    assert_eq!(body["agent_context"], json!({"action": null, "cta": "-> go", "description": "-d"}));
    assert_eq!(body["metadata"], json!({"-k": "-v"}));
    assert_eq!(body["web_url"], "https://example.com/?utm_source=-news");
}

/// Two tags that look the same must be the same.
#[test]
fn tags_have_no_invisible_characters() {
    let double = crate::links::willing();
    let dl = Dl::at(&double.url);
    for tag in ["a\u{200b}b", "\u{202e}gnirps", "a\u{200d}b"] {
        let ran = dl.run(&format!("links create https://example.com/ --tag '{tag}'"));
        assert!(ran.fails(3).contains("a tag contains an invisible character (U+20"), "{ran}");
    }
    assert!(double.requests().is_empty());
    dl.run("links create https://example.com/ --tag '👩\u{200d}👩\u{200d}👧'").ok();
    assert_eq!(double.only().json()["tags"], json!(["👩\u{200d}👩\u{200d}👧"]));
}
