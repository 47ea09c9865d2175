//! The design of a QR code in the form of a new link, and its preview.

use http::Method;
use serde_json::{Value, json};

use super::{Visitor, stored, went};
use crate::outbound::png;
use crate::qr_logos::upload;
use deeplink_testing::{Reply, Role, spawn};

const FORM: &str = "/account/new-link";
const IMAGE: &str = "/account/new-link/qr.svg";
const WEB: (&str, &str) = ("web_url", "https://shop.example.com/");
const PREVIEW: (&str, &str) = ("preview", "yes");

/// The address of the code that a page previews.
fn previewed(page: &Reply) -> Option<String> {
    let page = page.text();
    let (_, rest) = page.split_once("<img class=\"qr\" src=\"")?;
    Some(rest.split('"').next()?.replace("&#38;", "&"))
}

/// Whether the group of the design is open.
fn is_open(page: &Reply) -> bool {
    let page = page.text();
    let (before, _) = page.split_once("<b>QR code</b>").expect("a group");
    before.rsplit("<details").next().is_some_and(|group| group.starts_with(" class=\"fold\" open>"))
}

/// What is previewed is what the link gets, and a group that was not touched is no design.
#[tokio::test]
async fn a_new_link_gets_the_code_that_its_form_previews() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    upload(&world.a, "acme", png()).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let empty = visitor.get(FORM).await;
    assert!(!is_open(&empty) && previewed(&empty).is_none(), "{}", empty.text());
    let page = empty.text();
    assert!(page.contains("an uploaded logo: name:acme. To upload one, first create the link"), "{page}");
    world.at_rest().await;
    for (at, (fields, design)) in [
        // As a browser sends the form: with its empty fields.
        (vec![("qr.dotType", ""), ("qr.fgColor", ""), ("qr.logo", ""), ("qr.size", "")], Value::Null),
        (
            vec![("qr.dotType", "classy"), ("qr.fgColor", "0a3c8c"), ("qr.level", "")],
            json!({"dotType": "classy", "fgColor": "#0a3c8c"}),
        ),
        (vec![("qr.size", "300"), ("qr.margin", "0")], json!({"size": 300, "margin": 0})),
        (vec![("qr.shape", "circle"), ("qr.logo", "name:acme")], json!({"shape": "circle", "logo": "name:acme"})),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("spring-{at}");
        let mut sent = vec![("custom_id", &*id), WEB];
        sent.extend(fields.iter().copied());
        let before = stored(&world).await;
        let preview = visitor.post(FORM, &[&sent[..], &[PREVIEW]].concat()).await;
        let page = preview.text();
        assert!(preview.status == 200 && is_open(&preview) != design.is_null(), "{fields:?}: {page}");
        assert!(page.len() < 60 * 1_024, "{} bytes", page.len());
        let address = previewed(&preview).unwrap_or_else(|| panic!("no code: {page}"));
        assert!(address.starts_with(&format!("{IMAGE}?id={id}&")), "{address}");
        assert!(!page.contains("example ID") && page.contains("after you create the link"), "{page}");
        let drawn = visitor.get(&address).await;
        assert_eq!((drawn.status, drawn.header("content-type")), (200, "image/svg+xml; charset=utf-8"), "{address}");
        assert_eq!(drawn.header("cache-control"), "private, no-cache");
        assert!(before == stored(&world).await, "a preview saves nothing");

        let made = visitor.post(FORM, &sent).await;
        assert_eq!(went(&made), (303, &*format!("/account/links/{id}?done=link-made")), "{}", made.text());
        assert_eq!(world.a.get(&format!("/v1/links/{id}")).await.json()["qr"], design, "{fields:?}");
        let download = visitor.get(&format!("/account/links/{id}/qr.svg")).await;
        assert!(download.status == 200 && download.body == drawn.body, "{fields:?}");
        world.at_rest().await;
    }
    // The form of a link that exists leaves its design to another page.
    let edit = visitor.post("/account/links/spring-1/edit", &[WEB, PREVIEW]).await;
    assert!(edit.status == 200 && previewed(&edit).is_none() && !edit.text().contains("qr.dotType"));
}

/// Until it is created, a link may have no ID, or one that it cannot have.
#[tokio::test]
async fn without_an_id_a_code_has_an_example_of_the_same_length() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for id in ["", "-", "account", "a&level=H"] {
        let preview = visitor.post(FORM, &[("custom_id", id), WEB, PREVIEW]).await;
        let address = format!("{IMAGE}?size=1024&level=M");
        assert_eq!(previewed(&preview).as_deref(), Some(&*address), "{id}");
        assert!(preview.text().contains("This one contains an example ID."), "{}", preview.text());
    }
    let example = visitor.get(&format!("{IMAGE}?level=M")).await;
    let generated = world.a.make_of(&json!({})).await;
    let code = visitor.get(&format!("/account/links/{generated}/qr.svg?level=M")).await;
    let size = |reply: &Reply| reply.text().split("viewBox=").nth(1).map(|rest| rest[..12].to_owned());
    assert!(size(&example).is_some() && size(&example) == size(&code), "{:?}", size(&example));
    assert_ne!(example.body, code.body);
}

#[tokio::test]
async fn a_wrong_option_is_named_beside_its_field() {
    let world = spawn().await;
    upload(&world.b, "acme", png()).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    world.at_rest().await;
    let before = stored(&world).await;
    for (field, value, text) in [
        ("qr.fgColor", "red", "Must be 3 or 6 hex digits, such as 0a7cff."),
        ("qr.bgColor", "000", "The dots (#000000) are too close to the background (#000000)"),
        ("qr.size", "3000", "Must be a whole number from 1 to 2048."),
        ("qr.margin", "x", "Must be a whole number from 0 to 16."),
        ("qr.dotType", "stars", ""),
        ("qr.logo", "ftp://example.com/a.png", ""),
        // Of another account.
        ("qr.logo", "name:acme", "This account has no uploaded logo named acme."),
    ] {
        let sent = [("custom_id", "spring-42"), WEB, (field, value)];
        for fields in [sent.to_vec(), [&sent[..], &[PREVIEW]].concat()] {
            let refused = visitor.post(FORM, &fields).await;
            let (page, at) = (refused.text(), field.replace('.', "-"));
            assert_eq!(refused.status, 400, "{fields:?}: {page}");
            assert!(page.contains(&format!("id=\"{at}-error\">{text}")), "{at} {text}: {page}");
            assert!(is_open(&refused) && page.matches("<details class=\"fold\" open>").count() == 1, "{page}");
            let input = page.split(&format!(" id=\"{at}\" ")).nth(1).and_then(|rest| rest.split('>').next());
            assert!(input.is_some_and(|input| input.contains(" autofocus")), "{at}: {page}");
            assert!(previewed(&refused).is_none() && page.contains("class=\"card preview\""), "{page}");
            // Nothing takes the focus from the field.
            assert!(!page.contains("id=\"preview\""), "{page}");
        }
    }
    let wrong = [WEB, ("qr.size", "x"), ("qr.cornerDotColor", "red"), PREVIEW];
    let page = visitor.post(FORM, &wrong).await.text();
    assert!(page.contains("2 fields need your attention.") && page.contains("href=\"#qr-cornerDotColor\""), "{page}");
    assert!(before == stored(&world).await, "something was stored");
}

#[tokio::test]
async fn the_image_of_a_preview_is_drawn_for_the_account_alone() {
    let world = spawn().await;
    upload(&world.b, "acme", png()).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let plain = visitor.get(IMAGE).await;
    for (query, status) in [
        ("?id=spring-42&dotType=classy", 200),
        ("?id=%3Csvg%3E&shape=circle", 200),
        ("?fgColor=red", 400),
        ("?fgColor=fff", 400),
        ("?level=H&level=L", 400),
        ("?id=spring-42&id=spring-43", 400),
        ("?logo=name%3Aacme", 400),
        ("?logo=https%3A%2F%2Fno-such-host.example.com%2Fx.png", 400),
    ] {
        let reply = visitor.get(&format!("{IMAGE}{query}")).await;
        let kind = if status == 200 { "image/svg+xml; charset=utf-8" } else { "text/html; charset=utf-8" };
        assert_eq!((reply.status, reply.header("content-type")), (status, kind), "{query}: {}", reply.text());
        assert_ne!(reply.body, plain.body, "{query}");
    }
    let head = visitor.ask(Method::HEAD, IMAGE).send().await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    let stranger = Visitor::stranger(&world).get(IMAGE).await;
    assert_eq!((stranger.status, stranger.header("location").starts_with("/signin?")), (303, true));
}

/// The page does not wait for the logo's server; the image does.
#[tokio::test]
async fn a_code_with_a_fetched_logo_says_why_it_may_be_missing() {
    const WHY: &str = "If the code is missing, its logo could not be fetched.";
    let world = spawn().await;
    upload(&world.a, "acme", png()).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (logo, may_be_missing) in [("", false), ("name:acme", false), ("https://no-such-host.example.com/x.png", true)]
    {
        let preview = visitor.post(FORM, &[WEB, ("qr.logo", logo), PREVIEW]).await;
        assert_eq!(preview.text().contains(WHY), may_be_missing, "{logo}: {}", preview.text());
        let address = previewed(&preview).unwrap_or_else(|| panic!("no code: {}", preview.text()));
        assert_eq!(visitor.get(&address).await.status, if may_be_missing { 400 } else { 200 }, "{address}");
    }
}
