//! What the other fields of a link may contain: ids, metadata, agent context, social preview; and control characters.

use deeplink_core::link::RESERVED_WORDS;
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::spawn;

/// L8: an id is 3 to 64 of `A-Z a-z 0-9 -`, and does not start or end with `-`.
#[tokio::test]
async fn l8_charset_and_length_of_custom_ids() {
    let world = spawn().await;
    let long = |length: usize| "a".repeat(length);
    let refused = [
        "",
        "a",
        "ab",
        "-ab",
        "ab-",
        "---",
        "a_b",
        "a.b",
        "a b",
        "a/b",
        "a%62c",
        "ａｂｃ",
        "аbc",
        "abć",
        "a\u{200d}bc",
        "abc\n",
        "abc\0",
        "../abc",
        "abc?x",
        "abc#x",
        &long(65),
        &long(10_000),
    ];
    for id in refused {
        let single = world.a.post("/v1/links", &json!({"custom_id": id})).await;
        assert_eq!(single.outcome(), "400 invalid_custom_id custom_id", "{id:?}");
        let bulk = world.a.post("/v1/links/bulk", &json!({"template": {}, "custom_ids": ["good", id]})).await;
        assert_eq!(bulk.outcome(), "400 invalid_batch", "{id:?}");
        assert_eq!(bulk.json()["errors"][0]["code"], "invalid_custom_id", "{id:?}");
        assert_eq!(
            (&bulk.json()["errors"][0]["index"], &bulk.json()["errors"][0]["custom_id"]),
            (&json!(1), &json!(id.get(..128).unwrap_or(id))),
            "only the beginning of a long text is repeated"
        );
    }
    let longest = long(64);
    for id in ["abc", "A-z", "0--0", "123", "rest", "healthy", &longest] {
        assert_eq!(world.a.make_of(&json!({"custom_id": id})).await, id);
    }
}

/// L7: first path segments that are served, and misleading words, are not ids, in any case; in bulk too.
#[tokio::test]
async fn l7_reserved_words_are_refused() {
    let world = spawn().await;
    for word in RESERVED_WORDS.iter().filter(|word| word.len() >= 3) {
        for id in [(*word).to_owned(), word.to_uppercase(), format!("{}{}", word[..1].to_uppercase(), &word[1..])] {
            let single = world.a.post("/v1/links", &json!({"custom_id": id})).await;
            assert_eq!(single.outcome(), "400 invalid_custom_id custom_id", "{id}");
            for body in [json!({"template": {}, "custom_ids": [id]}), json!({"links": [{"custom_id": id}]})] {
                let bulk = world.a.post("/v1/links/bulk", &body).await;
                assert_eq!(
                    (bulk.status, &bulk.json()["errors"][0]["code"]),
                    (400, &json!("invalid_custom_id")),
                    "{id}"
                );
            }
        }
    }
}

#[tokio::test]
async fn fields_of_text_have_their_limits() {
    let world = spawn().await;
    let of = |text: &str, count: usize| text.repeat(count);
    let keys = |count: usize| (0..count).map(|at| (format!("k{at}"), json!(1))).collect::<serde_json::Map<_, _>>();
    // `{"k":"…"}` has 8 bytes around the text.
    let bytes = |count: usize| json!({"k": of("x", count - 8)});
    let cases: Vec<(Value, &str)> = vec![
        (json!({"metadata": []}), "400 invalid_metadata metadata"),
        (json!({"metadata": "text"}), "400 invalid_metadata metadata"),
        (json!({"metadata": 1}), "400 invalid_metadata metadata"),
        (json!({"metadata": true}), "400 invalid_metadata metadata"),
        (json!({"metadata": null}), "201"),
        (json!({"metadata": {}}), "201"),
        (json!({"metadata": bytes(4_096)}), "201"),
        (json!({"metadata": bytes(4_097)}), "400 invalid_metadata metadata"),
        (json!({"metadata": keys(64)}), "201"),
        (json!({"metadata": keys(65)}), "400 invalid_metadata metadata"),
        (json!({"agent_context": {"action": "buy"}}), "400 invalid_agent_context agent_context.action"),
        (json!({"agent_context": {"action": "Purchase"}}), "400 invalid_agent_context agent_context.action"),
        (json!({"agent_context": {"action": ""}}), "400 invalid_agent_context agent_context.action"),
        (json!({"agent_context": {"action": 1}}), "400 bad_request agent_context.action"),
        (json!({"agent_context": {"cta": of("👋", 120)}}), "201"),
        (json!({"agent_context": {"cta": of("👋", 121)}}), "400 invalid_agent_context agent_context.cta"),
        (json!({"agent_context": {"cta": 1}}), "400 bad_request agent_context.cta"),
        (json!({"agent_context": {"description": of("ä", 500)}}), "201"),
        (
            json!({"agent_context": {"description": of("ä", 501)}}),
            "400 invalid_agent_context agent_context.description",
        ),
        (json!({"agent_context": "x"}), "400 bad_request agent_context"),
        (json!({"agent_context": []}), "400 bad_request agent_context"),
        (json!({"agent_context": {}}), "201"),
        (json!({"social_preview": {}}), "400 invalid_social_preview social_preview"),
        (json!({"social_preview": {"title": null}}), "400 invalid_social_preview social_preview"),
        (json!({"social_preview": {"title": " ", "description": "\n"}}), "400 invalid_social_preview social_preview"),
        (json!({"social_preview": {"title": of("👋", 120)}}), "201"),
        (json!({"social_preview": {"title": of("👋", 121)}}), "400 invalid_social_preview social_preview.title"),
        (json!({"social_preview": {"description": of("ä", 300)}}), "201"),
        (
            json!({"social_preview": {"description": of("ä", 301)}}),
            "400 invalid_social_preview social_preview.description",
        ),
        (json!({"social_preview": {"image_url": "/p.png"}}), "400 invalid_url social_preview.image_url"),
        (
            json!({"social_preview": {"title": "x", "image_url": "http://10.0.0.1/"}}),
            "400 invalid_url social_preview.image_url",
        ),
        (json!({"social_preview": [1]}), "400 bad_request social_preview"),
        (json!({"web_url": 1}), "400 bad_request web_url"),
        (json!({"web_url": ["https://example.com/"]}), "400 bad_request web_url"),
        (json!({"custom_id": 123}), "400 bad_request custom_id"),
        (json!({"affiliate_id": 1}), "400 bad_request affiliate_id"),
        (json!({"affiliate_id": "aff_1"}), "404 affiliate_not_found affiliate_id"),
        (json!({"affiliate_id": "aff_0123456789abcdef01234567"}), "404 affiliate_not_found affiliate_id"),
        (json!({"affiliate_id": "tnt_0123456789abcdef01234567"}), "404 affiliate_not_found affiliate_id"),
        (json!({"unknown": {"deep": [1, 2, 3]}, "web_url": null, "custom_id": null, "affiliate_id": null}), "201"),
    ];
    for (body, expected) in cases {
        assert_eq!(world.a.post("/v1/links", &body).await.outcome(), expected, "{body}");
        // A template has the same rules; its id is ignored but must still have the right type.
        let bulk = world.a.post("/v1/links/bulk", &json!({"template": body, "count": 1})).await;
        assert_eq!(bulk.outcome().replace("template.", ""), expected, "as a template: {body}");
    }
}

#[tokio::test]
async fn blank_agent_context_counts_as_none() {
    let world = spawn().await;
    for context in [json!({"cta": "  ", "description": ""}), json!({"action": null}), json!({})] {
        let id = world.a.make_of(&json!({"agent_context": context})).await;
        assert_eq!(world.a.get(&format!("/v1/links/{id}")).await.json()["agent_context"], Value::Null, "{context}");
    }
    let id = world.a.make_of(&json!({"agent_context": {"action": "open", "cta": " "}})).await;
    let shown = world.a.get(&format!("/v1/links/{id}")).await.json();
    assert_eq!(shown["agent_context"], json!({"action": "open", "cta": null, "description": null}));
}

#[tokio::test]
async fn bodies_that_json_could_read_in_two_ways_are_refused() {
    let world = spawn().await;
    let nested = |levels: usize| format!(r#"{{"metadata":{}1{}}}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels));
    for (body, expected) in [
        (r#"{"metadata":{"a":1,"a":2}}"#.to_owned(), "400 bad_request metadata"),
        (r#"{"metadata":{"a":{"b":1,"\u0062":2}}}"#.to_owned(), "400 bad_request metadata"),
        (r#"{"metadata":{"a":"\ud800"}}"#.to_owned(), "400 invalid_metadata metadata"),
        (nested(31), "201"),
        (nested(32), "400 bad_request"),
    ] {
        let outcome = world.a.ask(Method::POST, "/v1/links").body(body.clone()).send().await.outcome();
        assert!(outcome == expected, "{outcome}, not {expected}: {body}");
    }
}

/// X9: no control character is stored; TAB, LF and CR are allowed in descriptions and metadata values only.
#[tokio::test]
async fn x9_control_characters_are_refused() {
    let world = spawn().await;
    for control in ["\u{0}", "\u{1b}", "\u{85}", "\u{7f}", "\u{9f}"] {
        let text = format!("a{control}b");
        for (body, expected) in [
            (json!({"custom_id": format!("abc{control}")}), "400 invalid_custom_id custom_id"),
            (json!({"web_url": format!("https://example.com/{control}")}), "400 invalid_url web_url"),
            (json!({"ios_deep_link": format!("myapp://{control}")}), "400 invalid_url ios_deep_link"),
            (json!({"ios_store_url": format!("https://apps.apple.com/{control}")}), "400 invalid_url ios_store_url"),
            (json!({"android_deep_link": format!("myapp://{control}")}), "400 invalid_url android_deep_link"),
            (
                json!({"android_store_url": format!("https://play.google.com/{control}")}),
                "400 invalid_url android_store_url",
            ),
            (json!({"metadata": {"k": text}}), "400 invalid_metadata metadata"),
            (json!({"metadata": {text.as_str(): 1}}), "400 invalid_metadata metadata"),
            (json!({"metadata": {"k": [{"deep": text}]}}), "400 invalid_metadata metadata"),
            (json!({"agent_context": {"action": text}}), "400 invalid_agent_context agent_context.action"),
            (json!({"agent_context": {"cta": text}}), "400 invalid_agent_context agent_context.cta"),
            (json!({"agent_context": {"description": text}}), "400 invalid_agent_context agent_context.description"),
            (json!({"social_preview": {"title": text}}), "400 invalid_social_preview social_preview.title"),
            (json!({"social_preview": {"description": text}}), "400 invalid_social_preview social_preview.description"),
            (
                json!({"social_preview": {"image_url": format!("https://example.com/{control}")}}),
                "400 invalid_url social_preview.image_url",
            ),
            (json!({"affiliate_id": text}), "404 affiliate_not_found affiliate_id"),
        ] {
            assert_eq!(world.a.post("/v1/links", &body).await.outcome(), expected, "{body}");
        }
        let email = json!({"email": format!("a{control}b@example.com")});
        assert_eq!(world.nobody.post("/v1/auth/signup", &email).await.outcome(), "400 invalid_email email");
        let q = urlencoded(&text);
        assert_eq!(world.a.get(&format!("/v1/links?q={q}")).await.outcome(), "400 bad_request q");
    }
    for prose in ["a\tb", "a\nb", "a\r\nb"] {
        for (body, expected) in [
            (json!({"agent_context": {"description": prose}}), "201"),
            (json!({"social_preview": {"description": prose}}), "201"),
            (json!({"metadata": {"k": prose}}), "201"),
            (json!({"metadata": {prose: 1}}), "400 invalid_metadata metadata"),
            (json!({"agent_context": {"cta": prose}}), "400 invalid_agent_context agent_context.cta"),
            (json!({"social_preview": {"title": prose}}), "400 invalid_social_preview social_preview.title"),
        ] {
            assert_eq!(world.a.post("/v1/links", &body).await.outcome(), expected, "{body}");
        }
    }
    // None of it is stored, in any form.
    let dump = world.db.dump().await;
    assert!(dump["links"].iter().all(|row| !row.contains(['\u{0}', '\u{1b}', '\u{85}', '\u{7f}', '\u{9f}'])));
}

fn urlencoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat()
}
