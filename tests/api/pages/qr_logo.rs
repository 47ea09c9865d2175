//! A logo for a link's QR code, uploaded on the page of its design.

use http::Method;
use serde_json::{Value, json};

use super::{Visitor, stored, went};
use crate::outbound::png;
use crate::qr_logos::upload;
use deeplink_testing::{Ask, Reply, spawn};

const PAGE: &str = "/account/links/spring-42/qr";
const FORM: &str = "/account/links/spring-42/qr/logo";
const BOUNDARY: &str = "----WebKitFormBoundaryAbCd";

/// The form as a browser sends it.
fn sent(fields: &[(&str, &str)], file: Option<&[u8]>) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        let part = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend(part.into_bytes());
    }
    // Without a file, browsers send an empty one.
    let name = if file.is_some() { "logo.png" } else { "" };
    let head = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: image/png");
    body.extend(format!("--{BOUNDARY}\r\n{head}\r\n\r\n").into_bytes());
    body.extend(file.unwrap_or_default());
    body.extend(format!("\r\n--{BOUNDARY}--\r\n").into_bytes());
    body
}

fn posting(visitor: &Visitor<'_>, path: &str, body: Vec<u8>) -> Ask {
    let ask = visitor.ask(Method::POST, path).header("sec-fetch-site", "same-origin");
    ask.body_as(&format!("multipart/form-data; boundary={BOUNDARY}"), body)
}

async fn post(visitor: &Visitor<'_>, fields: &[(&str, &str)], file: Option<&[u8]>) -> Reply {
    posting(visitor, FORM, sent(fields, file)).send().await
}

#[tokio::test]
async fn a_logo_is_uploaded_and_selected_in_the_design() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let page = visitor.get(PAGE).await.text();
    let form =
        format!("<form class=\"card\" method=\"post\" action=\"{FORM}\" enctype=\"multipart/form-data\" novalidate>");
    assert!(page.contains(&form) && page.contains("name=\"file\" type=\"file\" accept=\"image/png,"), "{page}");

    // What the page shows of the design is kept: it is in the form too.
    let preview = visitor.get(&format!("{PAGE}?qr.dotType=classy&qr.fgColor=%230a3c8c&qr.size=")).await.text();
    let upload_form = preview.split(&form).nth(1).expect("a form");
    assert!(upload_form.contains("type=\"hidden\" name=\"qr.dotType\" value=\"classy\""), "{upload_form}");
    let fields =
        [("qr.dotType", "classy"), ("qr.fgColor", "#0a3c8c"), ("qr.logo", "https://a.example/"), ("name", "acme")];
    let uploaded = post(&visitor, &fields, Some(&png())).await;
    let to = format!("{PAGE}?qr.dotType=classy&qr.fgColor=%230a3c8c&qr.logo=name%3Aacme&done=logo-uploaded");
    assert_eq!(went(&uploaded), (303, &*to), "{}", uploaded.text());
    let page = visitor.get(&to).await.text();
    for part in ["Logo uploaded.", "value=\"name:acme\"", "<option value=\"classy\" selected>", "logo=name%3Aacme\""] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let logo = world.a.get("/v1/qr-logos").await.json()["logos"][0].clone();
    assert_eq!((&logo["name"], &logo["width"], &logo["height"]), (&json!("acme"), &json!(60), &json!(40)));
    let look = async || world.a.get("/v1/links/spring-42").await.json()["qr"].clone();
    assert_eq!(look().await, Value::Null, "only Save keeps the design");
    let save = [("qr.dotType", "classy"), ("qr.fgColor", "#0a3c8c"), ("qr.logo", "name:acme")];
    assert_eq!(went(&visitor.post(PAGE, &save).await).0, 303);
    assert_eq!(look().await["logo"], "name:acme");

    // Sent again, it replaces the logo; the address alone is that of the page.
    assert_eq!(went(&post(&visitor, &[("name", "acme")], Some(&png())).await).0, 303);
    assert_eq!(world.a.get("/v1/qr-logos").await.json()["logos"].as_array().map(Vec::len), Some(1));
    assert_eq!(went(&visitor.get(FORM).await), (303, PAGE));
}

#[tokio::test]
async fn what_is_no_logo_is_refused_beside_its_field() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    world.b.make("of-another").await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let (image, large) = (png(), vec![0; (512 << 10) + 1]);
    let huge = vec![0; 600 << 10];
    let before = stored(&world).await;
    for (name, file, status, field, text) in [
        ("acme", None, 400, "file", "Choose a file."),
        (
            "acme",
            Some(&b"<svg xmlns='http://www.w3.org/2000/svg'/>"[..]),
            400,
            "file",
            "This is not a PNG, JPEG or WebP image.",
        ),
        ("acme", Some(&image[..40]), 400, "file", "This is not a PNG, JPEG or WebP image."),
        ("acme", Some(&large[..]), 400, "file", "Must be at most 512 KiB."),
        ("acme", Some(&huge[..]), 400, "file", "Must be at most 512 KiB."),
        ("", Some(&image[..]), 400, "name", "This field is required."),
        (
            "Acme",
            Some(&image[..]),
            400,
            "name",
            "A logo&#39;s name must be 1 to 40 lowercase letters, digits and hyphens.",
        ),
    ] {
        let refused = post(&visitor, &[("qr.dotType", "classy"), ("name", name)], file).await;
        let page = refused.text();
        assert_eq!(refused.status, status, "{name} {text}: {page}");
        assert!(page.contains(&format!("id=\"{field}-error\">{text}</p>")), "{name} {text}: {page}");
        assert!(page.contains("<title>Error: ") && page.contains("aria-invalid=\"true\""), "{page}");
        let is_kept = page.contains("<option value=\"classy\" selected>");
        assert_eq!(is_kept, file.is_none_or(|file| file.len() < huge.len()), "the design stays: {page}");
    }
    let both = post(&visitor, &[("name", "a b")], None).await.text();
    assert!(both.contains("2 fields need your attention.") && both.contains("href=\"#file\">Image</a>"), "{both}");
    assert!(both.contains("value=\"a b\""), "what was typed stays: {both}");

    for (kind, body, status) in [
        ("application/x-www-form-urlencoded", b"name=acme".to_vec(), 415),
        ("multipart/form-data", sent(&[("name", "acme")], Some(&image)), 415),
        ("multipart/form-data; boundary=x", sent(&[("name", "acme")], Some(&image)), 400),
        ("multipart/form-data; boundary=----WebKitFormBoundaryAbCd", sent(&[("name", "a"), ("name", "b")], None), 400),
    ] {
        let refused = visitor.ask(Method::POST, FORM).body_as(kind, body).send().await;
        assert_eq!((refused.status, refused.header("content-type")), (status, "text/html; charset=utf-8"), "{kind}");
    }
    let body = || sent(&[("name", "acme")], Some(&image));
    for id in ["nowhere", "of-another"] {
        let reply = posting(&visitor, &format!("/account/links/{id}/qr/logo"), body()).send().await;
        assert_eq!(reply.status, 404, "{id}");
    }
    // S8.
    let ask = visitor.ask(Method::POST, FORM).header("sec-fetch-site", "cross-site");
    let other = ask.body_as(&format!("multipart/form-data; boundary={BOUNDARY}"), body()).send().await;
    assert_eq!(went(&other), (303, "/signin?error=invalid_request"));
    assert!(before == stored(&world).await, "something was stored");

    for number in 0..20 {
        upload(&world.a, &format!("logo-{number}"), png()).await;
    }
    let full = post(&visitor, &[("name", "acme")], Some(&image)).await;
    assert!(full.status == 402 && full.text().contains("id=\"file-error\">"), "{}", full.text());
}
