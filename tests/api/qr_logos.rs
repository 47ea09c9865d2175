//! Logos that an account uploads: what is stored, what is refused, how many, and whose.

use std::io::Cursor;

use futures_util::future::join_all;
use http::Method;
use image::{DynamicImage, ImageFormat, Rgba, RgbaImage};
use serde_json::json;

use crate::outbound::png;
use deeplink_testing::{Caller, Reply, spawn, spawn_nodes};

/// Uploads a file as a logo.
pub(crate) async fn put(caller: &Caller, name: &str, file: impl Into<Vec<u8>>) -> Reply {
    caller.ask(Method::PUT, &format!("/v1/qr-logos/{name}")).body_as("image/png", file.into()).send().await
}

/// The same for a file that is one.
pub(crate) async fn upload(caller: &Caller, name: &str, file: impl Into<Vec<u8>>) -> Reply {
    let reply = put(caller, name, file).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply
}

/// A picture of one color.
pub(crate) fn solid(width: u32, height: u32, colour: [u8; 4]) -> DynamicImage {
    RgbaImage::from_pixel(width, height, Rgba(colour)).into()
}

pub(crate) fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, format).expect("a file");
    file.into_inner()
}

#[tokio::test]
async fn every_kind_of_picture_is_stored_as_a_png() {
    let world = spawn().await;
    let red = solid(60, 40, [255, 0, 0, 255]);
    for (name, file, size) in [
        ("png", encoded(&red, ImageFormat::Png), (60, 40)),
        ("jpeg", encoded(&red.to_rgb8().into(), ImageFormat::Jpeg), (60, 40)),
        ("large", encoded(&solid(1_600, 1_600, [255, 0, 0, 255]), ImageFormat::Png), (512, 512)),
        ("transparent", encoded(&solid(8, 8, [255, 0, 0, 128]), ImageFormat::Png), (8, 8)),
    ] {
        let made = upload(&world.a, name, file).await;
        assert_eq!(made.header("cache-control"), "no-store");
        let logo = made.json();
        assert_eq!(
            (logo["name"].as_str(), &logo["width"], &logo["height"]),
            (Some(name), &json!(size.0), &json!(size.1))
        );
        assert_eq!(logo["created_at"], json!(world.clock.now()));
        let stored = world.a.get(&format!("/v1/qr-logos/{name}")).await;
        assert_eq!((stored.status, stored.header("content-type")), (200, "image/png"));
        assert_eq!(logo["bytes"], json!(stored.body.len()));
        assert_eq!(stored.header("content-disposition"), format!("inline; filename=\"{name}.png\""));
        assert_eq!((stored.header("cache-control"), stored.header("vary")), ("private, no-cache", "Authorization"));
        let picture = image::load_from_memory_with_format(&stored.body, ImageFormat::Png).expect("a PNG");
        assert_eq!((picture.width(), picture.height()), size);
        let [red, green, blue, _] = picture.to_rgba8().get_pixel(2, 2).0;
        assert!(red > 240 && green < 15 && blue < 15, "{name}");
        let tag = stored.header("etag").to_owned();
        let again =
            world.a.ask(Method::GET, &format!("/v1/qr-logos/{name}")).header("if-none-match", &tag).send().await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, &*tag));
    }
    let names: Vec<_> = world.a.client.qr_logos().list().await.expect("a list").logos;
    let names: Vec<_> = names.into_iter().map(|logo| logo.name).collect();
    assert_eq!(names, ["jpeg", "large", "png", "transparent"]);
}

/// Nothing but the pixels is kept: no metadata, and no bytes after the picture.
#[tokio::test]
async fn only_the_pixels_are_kept() {
    let world = spawn().await;
    let comment = b"<script>alert(1)</script>";
    let length = u16::try_from(2 + comment.len()).expect("a short comment").to_be_bytes();
    let mut file = encoded(&solid(8, 8, [255, 0, 0, 255]).to_rgb8().into(), ImageFormat::Jpeg);
    file.splice(2..2, [&[0xff, 0xfe][..], &length, comment].concat());
    upload(&world.a, "acme", file).await;
    let stored = world.a.get("/v1/qr-logos/acme").await.body;
    let kinds: Vec<_> = ["IHDR", "IDAT", "IEND", "tEXt", "script"]
        .into_iter()
        .filter(|kind| stored.windows(kind.len()).any(|part| part == kind.as_bytes()))
        .collect();
    assert_eq!(kinds, ["IHDR", "IDAT", "IEND"]);
}

#[tokio::test]
async fn what_is_no_logo_is_refused_and_nothing_is_stored() {
    let world = spawn().await;
    let svg: &[u8] = b"<svg xmlns='http://www.w3.org/2000/svg'/>";
    let lossless: &[u8] = include_bytes!("../../deeplink-server/src/qr/picture/samples/lossless-alpha.webp");
    for (name, file, expected) in [
        ("acme", Vec::new(), "400 invalid_logo"),
        ("acme", svg.to_vec(), "400 invalid_logo"),
        ("acme", b"GIF89a".to_vec(), "400 invalid_logo"),
        ("acme", png()[..40].to_vec(), "400 invalid_logo"),
        ("acme", lossless.to_vec(), "400 invalid_logo"),
        ("acme", encoded(&solid(5_000, 1, [0, 0, 0, 255]), ImageFormat::Png), "400 invalid_logo"),
        ("acme", vec![0; (512 << 10) + 1], "413 payload_too_large"),
        ("Acme", png(), "400 invalid_name name"),
        ("a.png", png(), "400 invalid_name name"),
        ("a%20b", png(), "400 invalid_name name"),
        (&*"a".repeat(41), png(), "400 invalid_name name"),
    ] {
        assert_eq!(put(&world.a, name, file).await.outcome(), expected, "{name}");
    }
    let coded = world.a.ask(Method::PUT, "/v1/qr-logos/acme").header("content-encoding", "gzip");
    assert_eq!(coded.body_as("image/png", png()).send().await.outcome(), "415 unsupported_media_type");
    assert_eq!(world.a.get("/v1/qr-logos").await.json(), json!({"logos": []}));
    for name in ["acme", "Acme", "a%20b"] {
        assert_eq!(world.a.get(&format!("/v1/qr-logos/{name}")).await.outcome(), "404 not_found");
        assert_eq!(world.a.delete(&format!("/v1/qr-logos/{name}")).await.outcome(), "404 not_found");
    }
}

#[tokio::test]
async fn a_logo_is_replaced_under_its_name_and_deleted() {
    let world = spawn().await;
    let first = upload(&world.a, "acme", png()).await.json();
    world.clock.advance(std::time::Duration::from_mins(1));
    let second = upload(&world.a, "acme", encoded(&solid(10, 20, [0, 0, 255, 255]), ImageFormat::Png)).await.json();
    assert_eq!((&second["width"], &second["height"]), (&json!(10), &json!(20)));
    assert_eq!(second["created_at"], first["created_at"]);
    assert_eq!((&first["updated_at"], &second["updated_at"]), (&first["created_at"], &json!(world.clock.now())));
    assert_eq!(world.a.get("/v1/qr-logos").await.json(), json!({ "logos": [second] }));
    assert_eq!(world.a.delete("/v1/qr-logos/acme").await.status, 204);
    assert_eq!(world.a.delete("/v1/qr-logos/acme").await.outcome(), "404 not_found");
}

/// An account has at most 20, also if they are uploaded at once; one that is replaced is no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_has_at_most_twenty() {
    let world = spawn().await;
    for number in 0..17 {
        upload(&world.a, &format!("logo-{number}"), png()).await;
    }
    let at_once: Vec<_> = (0..4).map(|number| format!("late-{number}")).collect();
    let replies = join_all(at_once.iter().map(|name| put(&world.a, name, png()))).await;
    let mut outcomes: Vec<_> = replies.iter().map(Reply::outcome).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["200", "200", "200", "402 quota_exceeded"]);
    let refused = put(&world.a, "another", png()).await.json();
    assert_eq!(
        (&refused["resource"], &refused["limit"], &refused["current"]),
        (&json!("logos"), &json!(20), &json!(20))
    );
    // Before the file is decoded.
    assert_eq!(put(&world.a, "another", b"no image".to_vec()).await.outcome(), "402 quota_exceeded");
    upload(&world.a, "logo-3", png()).await;
    upload(&world.b, "another", png()).await;
    assert_eq!(world.a.delete("/v1/qr-logos/logo-3").await.status, 204);
    upload(&world.a, "another", png()).await;
}

/// I1: the same name is another logo in another account; affiliates can only draw with their account's logos.
#[tokio::test]
async fn i1_logos_are_an_accounts_own() {
    let world = spawn().await;
    upload(&world.a, "acme", encoded(&solid(40, 40, [255, 0, 0, 255]), ImageFormat::Png)).await;
    upload(&world.b, "acme", encoded(&solid(40, 40, [0, 0, 255, 255]), ImageFormat::Png)).await;
    upload(&world.b, "of-b", png()).await;
    assert_eq!(world.a.delete("/v1/qr-logos/of-b").await.outcome(), "404 not_found");
    world.a.make("of-a").await;
    world.b.make("of-b").await;
    let drawn = async |caller: &Caller, name: &str| {
        let link = if caller.tenant == world.b.tenant { "of-b" } else { "of-a" };
        caller.get(&format!("/v1/links/{link}/qr.png?logo=name:{name}")).await
    };
    let pixels = |reply: &Reply, colour: [u8; 3]| {
        let picture = image::load_from_memory(&reply.body).expect("a picture").into_rgb8();
        picture.pixels().filter(|pixel| pixel.0 == colour).count()
    };
    let (of_a, of_b) = (drawn(&world.a, "acme").await, drawn(&world.b, "acme").await);
    assert!(pixels(&of_a, [255, 0, 0]) > 1_000 && pixels(&of_a, [0, 0, 255]) == 0);
    assert!(pixels(&of_b, [0, 0, 255]) > 1_000 && pixels(&of_b, [255, 0, 0]) == 0);
    assert_eq!(drawn(&world.a, "of-b").await.outcome(), "400 invalid_qr_options logo");
    assert_eq!(drawn(&world.a2, "acme").await.outcome(), "404 not_found");
    for path in ["/v1/qr-logos", "/v1/qr-logos/acme"] {
        assert_eq!(world.a1.get(path).await.outcome(), "403 forbidden_scope");
    }
    assert_eq!(put(&world.a1, "acme", png()).await.outcome(), "403 forbidden_scope");
}

/// A logo that is replaced on one node is drawn on the others at once.
#[tokio::test]
async fn a_replaced_logo_is_drawn_on_every_node() {
    let world = spawn_nodes(2).await;
    world.a.make("spring-42").await;
    upload(&world.a, "acme", png()).await;
    let other = world.at(1, &world.a);
    let path = "/v1/links/spring-42/qr.png?logo=name:acme";
    let (here, there) = (world.a.get(path).await, other.get(path).await);
    assert_eq!((here.status, here.header("etag"), &here.body), (200, there.header("etag"), &there.body));
    upload(&world.a, "acme", encoded(&solid(30, 30, [0, 128, 0, 255]), ImageFormat::Png)).await;
    let (new, there) = (world.a.get(path).await, other.get(path).await);
    assert_ne!(new.header("etag"), here.header("etag"));
    assert_eq!(new.body, there.body);
    let known = other.ask(Method::GET, path).header("if-none-match", new.header("etag")).send().await;
    assert_eq!((known.status, known.body.len()), (304, 0));
}
