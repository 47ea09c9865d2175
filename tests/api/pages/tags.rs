//! Tags on the pages of links.

use serde_json::json;

use super::{Visitor, text_of, went};
use deeplink_testing::{Role, spawn};

#[tokio::test]
async fn links_are_tagged_and_listed_by_tag() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    assert!(!visitor.get("/account/links").await.text().contains("<select"), "there is nothing to choose");
    let id = visitor.form_id("/account/new-link").await;
    let fields = [
        ("form", &*id),
        ("custom_id", "tagged"),
        ("web_url", "https://example.com/"),
        ("tags", " Spring sale,, poster & flyer ,SPRING SALE "),
    ];
    assert_eq!(went(&visitor.post("/account/new-link", &fields).await).0, 303);
    let stored = async || world.a.get("/v1/links/tagged").await.json()["tags"].clone();
    assert_eq!(stored().await, json!(["poster & flyer", "Spring sale"]));
    world.a.make("plain").await;

    let page = visitor.get("/account/links/tagged").await.text();
    for href in ["/account/links?tag=Spring+sale", "/account/links?tag=poster+%26+flyer"] {
        assert!(page.contains(&format!("href=\"{href}\"")), "{page}");
        let list = visitor.get(href).await.text();
        assert!(list.contains(">tagged</a>") && !list.contains(">plain</a>"), "{list}");
    }
    let list = visitor.get("/account/links?tag=SPRING+sale&q=tag").await.text();
    assert!(
        list.contains("<option value=\"Spring sale\" selected>Spring sale</option>") && list.contains("value=\"tag\""),
        "{list}"
    );
    let all = visitor.get("/account/links?tag=&q=").await.text();
    assert!(all.contains(">plain</a>") && all.contains("href=\"/account/links?tag=Spring+sale\""), "{all}");
    for (query, text) in [
        ("tag=other", "No links with the tag “<bdi>other</bdi>”."),
        ("tag=spring+sale&q=nothing", "No links with the tag “<bdi>spring sale</bdi>” contain “<bdi>nothing</bdi>”."),
        ("q=nothing", "No links contain “<bdi>nothing</bdi>”."),
    ] {
        let page = text_of(&visitor.get(&format!("/account/links?{query}")).await);
        assert!(page.contains(text), "{query} {page}");
    }
    assert_eq!(visitor.get("/account/links?tag=a%2Cb").await.status, 400);

    let edit = "/account/links/tagged/edit";
    let form = visitor.get(edit).await.text();
    assert!(form.contains("name=\"tags\"") && form.contains("value=\"poster &#38; flyer, Spring sale\""), "{form}");
    assert_eq!(visitor.post(edit, &[("tags", "poster & flyer, Spring sale")]).await.status, 303);
    let many = (0..21).map(|at| format!("tag {at}")).collect::<Vec<_>>().join(",");
    for (tags, text) in [
        (&*many, "Must contain at most 20 tags."),
        (&*"x".repeat(41), "A tag must be at most 40 characters (currently 41)."),
    ] {
        let refused = visitor.post(edit, &[("tags", tags)]).await;
        assert_eq!(refused.status, 400);
        let page = refused.text();
        assert!(page.contains(&format!("id=\"tags-error\">{text}<")) && page.contains(tags), "{page}");
    }
    assert_eq!(visitor.post(edit, &[("name", "Named")]).await.status, 303);
    assert_eq!(stored().await, json!(["poster & flyer", "Spring sale"]), "a form without the field keeps them");
    assert_eq!(visitor.post(edit, &[("tags", "")]).await.status, 303);
    assert_eq!(stored().await, json!([]));
}

#[tokio::test]
async fn imported_clicks_are_shown_apart_and_edited() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let id = visitor.form_id("/account/new-link").await;
    let fields =
        [("form", &*id), ("custom_id", "spring"), ("web_url", "https://example.com/"), ("imported_clicks", " 1,234 ")];
    assert_eq!(went(&visitor.post("/account/new-link", &fields).await).0, 303);
    let stored = async || world.a.get("/v1/links/spring").await.json()["imported_clicks"].clone();
    assert_eq!(stored().await, 1_234);
    let page = visitor.get("/account/links/spring").await.text();
    assert!(page.contains("<dt>Imported clicks</dt><dd>1,234, not included in the numbers below</dd>"), "{page}");

    let edit = "/account/links/spring/edit";
    let form = visitor.get(edit).await.text();
    assert!(form.contains("name=\"imported_clicks\"") && form.contains("value=\"1234\""), "{form}");
    for text in ["many", "-1", "1.5", "9007199254740992", "99999999999999999999"] {
        let refused = visitor.post(edit, &[("imported_clicks", text)]).await;
        let page = refused.text();
        let error = "id=\"imported-clicks-error\">Must be a whole number between 0 and 9,007,199,254,740,991.<";
        assert!(refused.status == 400 && page.contains(error) && page.contains(text), "{text}: {page}");
    }
    assert_eq!(visitor.post(edit, &[("name", "Named")]).await.status, 303);
    assert_eq!(stored().await, 1_234, "a form without the field keeps it");
    assert_eq!(visitor.post(edit, &[("imported_clicks", "")]).await.status, 303);
    assert_eq!(stored().await, json!(null));
    let page = visitor.get("/account/links/spring").await.text();
    assert!(!page.contains("Imported clicks"), "{page}");
    let history = text_of(&visitor.get("/account/links/spring/history").await);
    assert!(history.contains("Imported clicks changed"), "{history}");
}

#[tokio::test]
async fn aliases_of_links_are_shown_and_edited() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let id = visitor.form_id("/account/new-link").await;
    let fields = [
        ("form", &*id),
        ("custom_id", "spring"),
        ("web_url", "https://example.com/"),
        ("aliases", " Spring_Sale,, /l/2024/spring "),
    ];
    assert_eq!(went(&visitor.post("/account/new-link", &fields).await).0, 303);
    let stored = async || world.a.get("/v1/links/spring").await.json()["aliases"].clone();
    assert_eq!(stored().await, json!(["Spring_Sale", "l/2024/spring"]));
    let page = visitor.get("/account/links/spring").await.text();
    assert!(page.contains("<code>Spring_Sale</code>, <code>l/2024/spring</code>"), "{page}");

    let edit = "/account/links/spring/edit";
    let form = visitor.get(edit).await.text();
    assert!(form.contains("name=\"aliases\"") && form.contains("value=\"Spring_Sale, l/2024/spring\""), "{form}");
    world.a.make("taken").await;
    for (aliases, status, text) in [
        ("ok, a b", 400, "Use an ID, or up to 3 path segments"),
        ("docs", 400, "This path is reserved."),
        ("spring", 400, "This is the link&#39;s own ID."),
        ("a,b,c,d,e,f", 400, "Must contain at most 5 aliases."),
        ("taken", 409, "The alias &#34;taken&#34; is the ID of a link."),
    ] {
        let refused = visitor.post(edit, &[("aliases", aliases)]).await;
        let page = refused.text();
        assert!(
            refused.status == status && page.contains(&format!("id=\"aliases-error\">{text}")),
            "{aliases}: {page}"
        );
    }
    assert_eq!(visitor.post(edit, &[("name", "Named")]).await.status, 303);
    assert_eq!(stored().await, json!(["Spring_Sale", "l/2024/spring"]), "a form without the field keeps them");
    assert_eq!(visitor.post(edit, &[("aliases", "")]).await.status, 303);
    assert_eq!(stored().await, json!([]));
    let history = text_of(&visitor.get("/account/links/spring/history").await);
    assert!(history.contains("Aliases changed"), "{history}");
}
