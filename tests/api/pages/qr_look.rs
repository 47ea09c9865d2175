//! The design of a link's QR code, on its page.

use serde_json::{Value, json};

use super::{Visitor, went};
use crate::outbound::png;
use crate::qr_logos::upload;
use deeplink_testing::spawn;

const PAGE: &str = "/account/links/spring-42/qr";

#[tokio::test]
async fn a_design_is_previewed_saved_and_removed() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    upload(&world.a, "acme", png()).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let stored = async || world.a.get("/v1/links/spring-42").await.json()["qr"].clone();

    let link = visitor.get("/account/links/spring-42").await.text();
    assert!(link.contains("src=\"data:image/svg+xml,") && link.contains(&format!("href=\"{PAGE}\"")), "{link}");
    let empty = visitor.get(PAGE).await.text();
    assert!(
        empty.contains("an uploaded logo: name:acme.")
            && empty.contains("You can upload one below.")
            && empty.contains("name=\"qr.dotType\""),
        "{empty}"
    );

    // As a browser sends the form: with its empty fields.
    let preview = visitor.get(&format!("{PAGE}?qr.dotType=classy&qr.fgColor=0a3c8c&qr.size=&qr.logo=")).await.text();
    let expected = "/qr.svg?size=1024&#38;level=M&#38;dotType=classy&#38;fgColor=%230a3c8c\"";
    assert!(preview.contains(expected), "{preview}");
    assert!(preview.contains("<option value=\"classy\" selected>"), "{preview}");
    assert_eq!(stored().await, Value::Null, "a preview saves nothing");
    let image = visitor.get("/account/links/spring-42/qr.svg?dotType=classy&fgColor=%230a3c8c").await;
    let same = world.a.get("/v1/links/spring-42/qr.svg?dotType=classy&fgColor=0a3c8c").await;
    assert_eq!((image.status, &image.body), (200, &same.body));

    let fields = [
        ("qr.dotType", "classy"),
        ("qr.fgColor", "0a3c8c"),
        ("qr.size", "300"),
        ("qr.logo", "name:acme"),
        ("qr.level", ""),
    ];
    let saved = visitor.post(PAGE, &fields).await;
    assert_eq!(went(&saved), (303, &*format!("{PAGE}?done=qr-saved")));
    let look = json!({"size": 300, "dotType": "classy", "fgColor": "#0a3c8c", "logo": "name:acme"});
    assert_eq!(stored().await, look);
    let page = visitor.get(&format!("{PAGE}?done=qr-saved")).await.text();
    assert!(page.contains("QR code design saved.") && page.contains("value=\"name:acme\""), "{page}");
    let link = visitor.get("/account/links/spring-42").await.text();
    assert!(link.contains("src=\"/account/links/spring-42/qr.svg\""), "{link}");
    let download = visitor.get("/account/links/spring-42/qr.png").await;
    assert_eq!(download.body, world.a.get("/v1/links/spring-42/qr.png").await.body);
    assert!(download.header("content-disposition").starts_with("attachment"));
    assert_eq!(download.header("cache-control"), "private, no-cache");

    for (field, value) in [("qr.fgColor", "red"), ("qr.size", "3000"), ("qr.size", "x"), ("qr.logo", "name:nowhere")] {
        let refused = visitor.post(PAGE, &[(field, value)]).await;
        let text = refused.text();
        assert!(
            refused.status == 400 && text.contains("aria-invalid=\"true\"") && !text.contains("<figure>"),
            "{text}"
        );
        assert_eq!(stored().await, look);
    }
    let refused = visitor.get(&format!("{PAGE}?qr.fgColor=fff")).await;
    assert!(refused.status == 400 && refused.text().contains("too close to the background"), "{}", refused.text());
    // A preview refuses what Save refuses.
    let unknown = visitor.get(&format!("{PAGE}?qr.logo=name%3Anowhere")).await;
    let text = unknown.text();
    assert!(unknown.status == 400 && text.contains("named nowhere") && !text.contains("<figure>"), "{text}");
    assert!(text.contains("<option value=\"name:acme\"></option>"), "{text}");
    // Any option of a look leaves the size and the level of a poster.
    assert_eq!(went(&visitor.post(PAGE, &[("qr.fgColor", "0a3c8c")]).await).0, 303);
    let download = visitor.get("/account/links/spring-42/qr.png").await;
    let poster = world.a.get("/v1/links/spring-42/qr.png?fgColor=0a3c8c&size=1024&level=M").await;
    assert_eq!(download.body, poster.body);
    // Without options, a preview is of the default style, not of the link's.
    let plain = visitor.get(&format!("{PAGE}?qr.dotType=&qr.logo=")).await.text();
    assert!(plain.contains("/qr.svg?size=1024&#38;level=M\""), "{plain}");
    assert_eq!(went(&visitor.post(PAGE, &[("qr.dotType", "")]).await).0, 303);
    assert_eq!(stored().await, Value::Null);
    world.db.execute("UPDATE links SET status = 'flagged', taken_down = TRUE WHERE link_id = 'spring-42'").await;
    let taken_down = visitor.get(PAGE).await.text();
    assert!(taken_down.contains("name=\"qr.dotType\"") && !taken_down.contains("<figure>"), "{taken_down}");
    assert!(taken_down.contains("has taken this link down, so its QR code is not shown."), "{taken_down}");
    assert_eq!(visitor.get("/account/links/nowhere/qr").await.status, 404);
    assert_eq!(visitor.post("/account/links/nowhere/qr", &fields).await.status, 404);
}

/// The addresses in the figure of a page: the image and the downloads.
fn pictures(page: &str) -> Vec<String> {
    let figure = page.split_once("<figure>").and_then(|(_, rest)| rest.split_once("</figure>")).expect("a figure").0;
    let attributes = figure.split(' ').filter_map(|part| {
        let address = part.strip_prefix("src=\"").or_else(|| part.strip_prefix("href=\""))?;
        Some(address.split('"').next()?.replace("&#38;", "&"))
    });
    attributes.collect()
}

/// What is previewed is what is downloaded, then and once it is saved.
#[tokio::test]
async fn a_preview_is_what_is_downloaded_after_it_is_saved() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    upload(&world.a, "acme", png()).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let drawn = async |page: String| {
        let mut bodies = Vec::new();
        for address in pictures(&page) {
            let reply = visitor.get(&address).await;
            assert_eq!(reply.status, 200, "{address}: {}", reply.text());
            bodies.push(reply.body.to_vec());
        }
        assert_eq!(bodies.len(), 5, "an image, PNG, SVG, PDF and EPS");
        bodies
    };
    for (fields, logo_is_gone) in [
        (&[("qr.dotType", "")][..], false),
        (&[("qr.dotType", "classy")], false),
        (&[("qr.size", "300")], false),
        (&[("qr.level", "L"), ("qr.margin", "4")], false),
        (&[("qr.logo", "name:acme")], false),
        // The link keeps its logo, and its code is drawn without it.
        (&[("qr.logo", "name:acme")], true),
    ] {
        if logo_is_gone {
            assert_eq!(world.a.delete("/v1/qr-logos/acme").await.status, 204);
        }
        let query: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let previewed = drawn(visitor.get(&format!("{PAGE}?{}", query.join("&"))).await.text()).await;
        assert_eq!(previewed[0], previewed[2], "the image is the SVG: {fields:?}");
        assert_eq!(went(&visitor.post(PAGE, fields).await).0, 303, "{fields:?}");
        let saved = drawn(visitor.get(PAGE).await.text()).await;
        assert!(previewed == saved, "{fields:?}");
        for (format, at) in [("png", 1), ("svg", 2)] {
            let download = visitor.get(&format!("/account/links/spring-42/qr.{format}")).await;
            assert!(download.body == previewed[at], "{format} of {fields:?}");
        }
    }
}

/// A code whose logo cannot be fetched is a broken image, with downloads that fail.
#[tokio::test]
async fn a_code_with_a_fetched_logo_says_why_it_may_be_missing() {
    const WHY: &str = "If the code is missing, its logo could not be fetched.";
    const LINK: &str = "/account/links/spring-42";
    let world = spawn().await;
    world.a.make("spring-42").await;
    upload(&world.a, "acme", png()).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (logo, may_be_missing) in [("", false), ("name:acme", false), ("https://no-such-host.example.com/x.png", true)]
    {
        assert_eq!(went(&visitor.post(PAGE, &[("qr.logo", logo), ("qr.level", "H")]).await).0, 303, "{logo}");
        for address in [PAGE.to_owned(), LINK.to_owned(), format!("{PAGE}?qr.level=H&qr.logo={logo}")] {
            let text = visitor.get(&address).await.text();
            assert_eq!(text.contains(WHY), may_be_missing, "{address}: {text}");
            assert!(text.contains("<figure>"), "{address}: {text}");
        }
    }
}
