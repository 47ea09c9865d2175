//! Logos as callers see them: what is drawn, what is refused with which message, and how often a logo is fetched.

use std::io::Cursor;
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use image::{DynamicImage, ImageFormat, Rgba, RgbaImage};

use super::outbound::{Receiver, ok, png, spawn, with_logo, with_logo_of};
use deeplink_testing::Caller;

fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, format).expect("a file");
    file.into_inner()
}

/// How many pixels of a QR code are close to this colour, and how often the logo was fetched.
async fn pixels_like(caller: &Caller, logo: &str, colour: [u8; 3]) -> (usize, usize) {
    let (reply, asked) = with_logo_of(caller, "png", logo).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let picture = image::load_from_memory(&reply.body).expect("a picture").into_rgb8();
    let like = |pixel: &&image::Rgb<u8>| pixel.0.iter().zip(colour).all(|(a, b)| a.abs_diff(b) < 25);
    (picture.pixels().filter(like).count(), asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_logo_is_drawn() {
    let world = spawn().await;
    let solid = DynamicImage::from(RgbaImage::from_pixel(64, 64, Rgba([255, 0, 0, 255])));
    let none = with_logo(&world.a, "png", "").await;
    assert_eq!(none.outcome(), "400 invalid_qr_options logo", "an empty value is none");
    let sixteen = image::ImageBuffer::from_pixel(64, 64, Rgba([0xffff_u16, 0, 0, 0xffff]));
    for (what, file) in [
        ("PNG", encoded(&solid, ImageFormat::Png)),
        ("JPEG", encoded(&solid.to_rgb8().into(), ImageFormat::Jpeg)),
        ("WebP", include_bytes!("../../deeplink-server/src/qr/picture/samples/lossy.webp").to_vec()),
        ("16 bits", encoded(&sixteen.into(), ImageFormat::Png)),
        ("large", encoded(&RgbaImage::from_pixel(1_500, 1_500, Rgba([255, 0, 0, 255])).into(), ImageFormat::Png)),
    ] {
        let receiver = Receiver::says(ok(&file)).await;
        let (pixels, asked) = pixels_like(&world.a, &receiver.url(), [255, 0, 0]).await;
        assert!(pixels > 2_000, "{what}");
        assert!((1..=asked).contains(&receiver.hits()), "{what}");
    }
    let grey = RgbaImage::from_pixel(64, 64, Rgba([120, 120, 120, 255]));
    let receiver = Receiver::says(ok(&encoded(&DynamicImage::from(grey).to_luma8().into(), ImageFormat::Png))).await;
    assert!(pixels_like(&world.a, &receiver.url(), [120; 3]).await.0 > 2_000);
}

/// Q4: a file that is not a logo and one that cannot be fetched have different messages; both name the parameter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q4_refusals_say_what_is_wrong_with_the_file() {
    const NOT_FETCHED: &str = "logo: could not be fetched";
    const NO_IMAGE: &str = "logo: not a PNG, JPEG or WebP image";
    const IMAGE_TOO_LARGE: &str = "logo: image too large";
    const FILE_TOO_LARGE: &str = "logo: larger than 512 KiB";
    const LOSSLESS: &str = "logo: lossless WebP and WebP with compressed transparency are not supported; use PNG";
    let world = spawn().await;
    let mut huge = png();
    // 30,000 × 30,000; sizes are read before checksums are.
    huge[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    let bomb = encoded(&RgbaImage::from_pixel(3_900, 3_900, Rgba([0; 4])).into(), ImageFormat::Png);
    let mut bomb_of_data = bomb.clone();
    bomb_of_data[16..24].copy_from_slice(&png()[16..24]);
    let head = |headers: &str| format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes();
    let chunks = [b"10000\r\n".to_vec(), vec![b'x'; 0x1_0000], b"\r\n".to_vec()].concat();
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("a huge size", ok(&huge), IMAGE_TOO_LARGE),
        ("too many pixels", ok(&encoded(&RgbaImage::new(4_001, 4_000).into(), ImageFormat::Png)), IMAGE_TOO_LARGE),
        ("an edge too long", ok(&encoded(&RgbaImage::new(4_097, 1).into(), ImageFormat::Png)), IMAGE_TOO_LARGE),
        ("more data than rows", ok(&bomb_of_data), NO_IMAGE),
        ("lossless WebP", ok(&encoded(&RgbaImage::new(8, 8).into(), ImageFormat::WebP)), LOSSLESS),
        ("SVG", ok(b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>"), NO_IMAGE),
        ("GIF", ok(b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;"), NO_IMAGE),
        ("two files in one", ok(&[&png()[..], b"<script>alert(1)</script>"].concat()), NO_IMAGE),
        ("another file in front", ok(&[&b"GIF89a"[..], &png()].concat()), NO_IMAGE),
        ("nothing", ok(b""), NO_IMAGE),
        ("HTML that says it is PNG", [&head("Content-Type: image/png\r\n")[..], b"<html>"].concat(), NO_IMAGE),
        ("an announced large file", head("Content-Length: 524289\r\n"), FILE_TOO_LARGE),
        ("a large file", [head(""), vec![b'x'; 524_289]].concat(), FILE_TOO_LARGE),
        ("chunks", [&head("Transfer-Encoding: chunked\r\n")[..], &chunks.repeat(9)].concat(), FILE_TOO_LARGE),
        ("gzip", [&head("Content-Encoding: gzip\r\n")[..], &png()].concat(), NOT_FETCHED),
        ("half a file", [&head("Content-Length: 5000\r\n")[..], &png()].concat(), NOT_FETCHED),
        ("a huge head", [&head(&format!("X: {}\r\n", "x".repeat(17_000)))[..], &png()].concat(), NOT_FETCHED),
        ("another status", b"HTTP/1.1 203 Changed\r\nContent-Length: 0\r\n\r\n".to_vec(), NOT_FETCHED),
    ];
    let replies = join_all(cases.iter().map(|(_, answer, message)| async {
        let receiver = Receiver::says(answer.clone()).await;
        let url = receiver.url();
        if *message == NOT_FETCHED {
            return with_logo(&world.a, "png", &url).await;
        }
        with_logo_of(&world.a, "png", &url).await.0
    }))
    .await;
    for ((what, _, message), reply) in cases.iter().zip(replies) {
        assert_eq!(reply.outcome(), "400 invalid_qr_options logo", "{what}");
        assert_eq!(reply.member("error"), *message, "{what}");
        assert_eq!(reply.header("cache-control"), "no-store", "{what}");
    }
    let fits = Receiver::says(ok(&[&png()[..], &vec![0; 524_288 - png().len()]].concat())).await;
    assert_eq!(with_logo_of(&world.a, "png", &fits.url()).await.0.status, 200, "512 KiB");
}

/// Only the pixels of a file are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_the_file_but_its_pixels_comes_out() {
    let world = spawn().await;
    let picture = DynamicImage::from(image::RgbImage::from_pixel(16, 16, image::Rgb([255, 0, 0])));
    let jpeg = encoded(&picture, ImageFormat::Jpeg);
    // A comment behind the first marker (ITU-T T.81, B.2.4.5).
    let file = [&jpeg[..2], b"\xff\xfe\0\x10marker-of-text", &jpeg[2..]].concat();
    let receiver = Receiver::says(ok(&file)).await;
    for format in ["png", "svg"] {
        let (reply, _) = with_logo_of(&world.a, format, &receiver.url()).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let mut bytes = reply.body.to_vec();
        if format == "svg" {
            assert_eq!(reply.header("content-security-policy"), "sandbox; default-src 'none'; img-src data:");
            let text = reply.text();
            let data =
                text.split("data:image/png;base64,").nth(1).expect("the logo").split('"').next().expect("its end");
            use base64::Engine;
            bytes.extend(base64::engine::general_purpose::STANDARD.decode(data).expect("base64"));
            assert!(!text.contains("127.0.0.2"), "where it came from is not said");
        }
        assert!(!bytes.windows(14).any(|bytes| bytes == b"marker-of-text"), "{format}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logo_is_fetched_once_for_a_tenant_and_never_where_it_is_hidden() {
    let mut world = spawn().await;
    world.b.make("spring-of-b").await;
    let receiver = Receiver::says(ok(&png())).await;
    let hidden = format!("/v1/links/spring-42/qr.png?hideLogo=true&logo={}", receiver.url());
    assert_eq!(world.a.get(&hidden).await.status, 200);
    let refused = format!("/v1/links/spring-42/qr.png?size=20&logo={}", receiver.url());
    assert_eq!(world.a.get(&refused).await.outcome(), "400 invalid_qr_options size");
    assert_eq!(receiver.hits(), 0, "every other check comes first");
    let url = receiver.url();
    // As many as are drawn or wait concurrently, on any machine.
    let codes = join_all((0..16).map(|_| with_logo(&world.a, "svg", &url))).await;
    assert!(codes.iter().all(|code| code.status == 200 && code.body == codes[0].body));
    assert_eq!(receiver.hits(), 1);
    assert_eq!(world.b.get(&format!("/v1/links/spring-of-b/qr.svg?logo={url}")).await.status, 200);
    assert_eq!(receiver.hits(), 2, "what a tenant fetched is cached for that tenant only");
    world.restart(|_| {}).await;
    assert_eq!(with_logo(&world.a, "svg", &receiver.url()).await.body, codes[0].body);
    assert_eq!(receiver.hits(), 3);
}

/// The ETag depends on the logo's bytes, which may change at its URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_logo_at_the_same_address_is_another_picture() {
    let world = spawn().await;
    let receiver = Receiver::says(ok(&png())).await;
    let path = format!("/v1/links/spring-42/qr.svg?logo={}", receiver.url());
    let tag = world.a.get(&path).await.header("etag").to_owned();
    let known = async || world.a.ask(Method::GET, &path).header("if-none-match", &tag).send().await;
    assert_eq!(known().await.status, 304);
    let any = world.a.ask(Method::GET, &path).header("if-none-match", "*").send().await;
    assert_eq!(any.status, 304);
    world.clock.advance(Duration::from_mins(10));
    assert_eq!(known().await.status, 304, "fetched anew, and the same");
    assert_eq!(receiver.hits(), 2);
    let other = RgbaImage::from_pixel(60, 40, Rgba([0, 0, 255, 255]));
    receiver.now_says(ok(&encoded(&other.into(), ImageFormat::Png)));
    assert_eq!(known().await.status, 304, "for ten minutes it is the one that was fetched");
    world.clock.advance(Duration::from_mins(10));
    let reply = known().await;
    assert_eq!(reply.status, 200);
    assert_ne!(reply.header("etag"), tag);
}
