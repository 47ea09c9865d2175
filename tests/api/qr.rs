//! Links as QR codes, over HTTP: who gets one, the order of checks, the headers. How a code looks and that it can be
//! read are separate suites.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use http::Method;

use deeplink_testing::{Caller, Reply, Role, World, spawn, spawn_nodes};

async fn qr(caller: &Caller, rest: &str) -> Reply {
    caller.get(&format!("/v1/links/spring-42/qr.{rest}")).await
}

/// The decoded picture, for styles that every reader supports.
fn read(reply: &Reply) -> String {
    let image = image::load_from_memory(&reply.body).expect("an image").into_luma8();
    let (width, height) = (image.width() as usize, image.height() as usize);
    let luma = |x: usize, y: usize| image.as_raw()[y * width + x];
    let mut prepared = rqrr::PreparedImage::prepare_from_greyscale(width, height, luma);
    let grids = prepared.detect_grids();
    assert_eq!(grids.len(), 1, "one code");
    grids[0].decode().expect("it can be read").1
}

/// Each check against a request that fails it and all later ones.
#[tokio::test]
async fn the_first_check_that_fails_answers() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let (unknown, bad) = ("/v1/links/nowhere-at-all", "level=X&fgColor=fff&size=20&logo=https://127.0.0.1/x");
    for (caller, path, expected) in [
        (&world.nobody, format!("{unknown}/qr.jpg?{bad}"), "401 unauthorized"),
        (&world.a, format!("{unknown}/qr.jpg?{bad}"), "400 invalid_qr_format"),
        (&world.a, format!("{unknown}/qr.?{bad}"), "400 invalid_qr_format"),
        (&world.nobody, format!("{unknown}/qr.?{bad}"), "401 unauthorized"),
        (&world.a, format!("{unknown}/qr.png?{bad}"), "404 not_found"),
        (&world.a, format!("/v1/links/spring-42/qr.png?{bad}"), "400 invalid_qr_options level"),
        (
            &world.a,
            "/v1/links/spring-42/qr.png?fgColor=fff&size=20&logo=https://127.0.0.1/x".to_owned(),
            "400 invalid_qr_options logo",
        ),
        (&world.a, "/v1/links/spring-42/qr.png?fgColor=fff&size=20".to_owned(), "400 invalid_qr_options fgColor"),
        (&world.a, "/v1/links/spring-42/qr.png?size=20".to_owned(), "400 invalid_qr_options size"),
        // With a logo, it is fetched before a 304 is answered.
        (
            &world.a,
            "/v1/links/spring-42/qr.png?size=20&logo=https://logo.example.com/x".to_owned(),
            "400 invalid_qr_options size",
        ),
        (
            &world.a,
            "/v1/links/spring-42/qr.png?logo=https://logo.example.com/x".to_owned(),
            "400 invalid_qr_options logo",
        ),
    ] {
        let ask = caller.ask(Method::GET, &path).header("if-none-match", "*");
        assert_eq!(ask.send().await.outcome(), expected, "{path}");
    }
    let known = world.a.ask(Method::GET, "/v1/links/spring-42/qr.png").header("if-none-match", "*").send().await;
    assert_eq!((known.status, known.body.len()), (304, 0));
}

#[tokio::test]
async fn formats_are_named_in_lowercase() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for format in ["PNG", "Svg", "jpg", "gif", "webp", "png.svg", "png%20", "%70n", ""] {
        let refused = qr(&world.a, format).await;
        assert_eq!(refused.outcome(), "400 invalid_qr_format", "{format}");
        assert_eq!(refused.header("cache-control"), "no-store");
    }
    // Decoded once, as everywhere: %70 is p.
    assert_eq!(qr(&world.a, "%70ng").await.status, 200);
}

#[tokio::test]
async fn a_code_goes_out_with_its_name_its_kind_and_its_tag() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for (format, kind, policy) in
        [("png", "image/png", ""), ("svg", "image/svg+xml; charset=utf-8", "sandbox; default-src 'none'")]
    {
        let reply = qr(&world.a, format).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, kind));
        assert_eq!(reply.header("content-length"), reply.body.len().to_string());
        assert_eq!(reply.header("content-security-policy"), policy);
        assert_eq!(reply.header("content-disposition"), format!("inline; filename=\"spring-42.{format}\""));
        let tag = reply.header("etag");
        assert!(tag.len() == 34 && tag.starts_with('"') && tag.ends_with('"'), "{tag}");
        let path = format!("/v1/links/spring-42/qr.{format}");
        let head = world.a.ask(Method::HEAD, &path).send().await;
        let told = |reply: &Reply| {
            ["content-type", "content-length", "etag", "cache-control", "vary", "content-disposition"]
                .map(|name| reply.header(name).to_owned())
        };
        assert_eq!((head.status, told(&head)), (200, told(&reply)), "a HEAD answers the same");
        for known in [tag.to_owned(), format!("\"x\", W/{tag}")] {
            let again = world.a.ask(Method::GET, &path).header("if-none-match", known).send().await;
            assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, tag));
            assert_eq!(
                (again.header("cache-control"), again.header("vary")),
                ("private, max-age=300", "Authorization")
            );
        }
        assert_eq!((reply.header("cache-control"), reply.header("vary")), ("private, max-age=300", "Authorization"));
    }
}

#[tokio::test]
async fn all_spellings_of_one_picture_share_a_tag_and_no_others_do() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let tag = async |query: &str| {
        let reply = qr(&world.a, query).await;
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        reply.header("etag").to_owned()
    };
    for (one, other) in [
        ("png", "png?size=600&level=l&margin=2&dotType=ROUNDED&shape=square&hideLogo=true&unknown=1"),
        ("png", "png?fgColor=000&bgColor=%23FFFFFF&dotColor=%23000000"),
        ("png", "png?hideLogo=1&logo=https://example.com/logo.png"),
        ("svg?margin=0", "svg?includeMargin=false"),
        ("svg?dotColor=00f&cornerSquareColor=00f&cornerDotColor=0000FF", "svg?fgColor=00f"),
    ] {
        assert_eq!(tag(one).await, tag(other).await, "{one} and {other}");
    }
    let different = [
        "png",
        "svg",
        "png?size=601",
        "png?level=M",
        "png?margin=3",
        "png?dotType=dots",
        "png?cornerSquareType=dot",
        "png?cornerDotType=square",
        "png?shape=circle",
        "png?fgColor=001",
        "png?bgColor=fffffe",
        "png?dotColor=001",
        "png?cornerSquareColor=001",
        "png?cornerDotColor=001",
    ];
    let mut tags = BTreeSet::new();
    for query in different {
        assert!(tags.insert(tag(query).await), "{query}");
    }
}

#[tokio::test]
async fn a_code_says_what_the_link_detail_says() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let plain = "png?cornerSquareType=square&cornerDotType=square&dotType=square";
    let url = async || world.a.get("/v1/links/spring-42").await.member("url");
    let before = qr(&world.a, plain).await;
    assert_eq!(read(&before), url().await);
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let after = qr(&world.a, plain).await;
    assert_eq!(
        (read(&after), url().await),
        ("https://go.example.com/spring-42".into(), "https://go.example.com/spring-42".into())
    );
    assert_ne!(before.header("etag"), after.header("etag"), "a new URL is another picture");
    let rest = "png?cornerSquareType=square&cornerDotType=square&shape=circle&level=Q&fgColor=036&margin=4";
    assert_eq!(read(&qr(&world.a, rest).await), url().await);
}

/// A link of any status is drawn, until it is deleted; nothing is counted and nothing written.
#[tokio::test]
async fn drawing_is_only_looking() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let drawn = async |what: &str| {
        let before = world.db.dump().await;
        let reply = qr(&world.a, "svg").await;
        assert_eq!(reply.status, 200, "{what}");
        assert_eq!(world.db.dump().await, before, "{what}");
        reply.body
    };
    let image = drawn("active").await;
    for status in ["flagged", "disabled"] {
        let set = format!("UPDATE links SET status = '{status}' WHERE link_id = 'spring-42'");
        world.db.execute(&set).await;
        assert_eq!(drawn(status).await, image);
    }
    let set = format!("UPDATE links SET status = NULL, expires_at = {}", world.clock.now().as_millis());
    world.db.execute(&set).await;
    assert_eq!(world.a.get("/v1/links/spring-42").await.member("status"), "expired");
    assert_eq!(drawn("expired").await, image);
    assert_eq!(world.a.delete("/v1/links/spring-42").await.status, 204);
    assert_eq!(qr(&world.a, "svg").await.outcome(), "404 not_found");
}

/// I1: an affiliate draws its own links and no others; another tenant none.
#[tokio::test]
async fn i1_whose_codes_one_can_draw() {
    let world = spawn().await;
    world.a1.make("spring-42").await;
    world.a.make("of-a").await;
    for (caller, own, of_a) in [
        (&world.a, "200", "200"),
        (&world.a1, "200", "404 not_found"),
        (&world.a2, "404 not_found", "404 not_found"),
        (&world.b, "404 not_found", "404 not_found"),
        (&world.b1, "404 not_found", "404 not_found"),
        (&world.nobody, "401 unauthorized", "401 unauthorized"),
    ] {
        assert_eq!(qr(caller, "svg").await.outcome(), own);
        assert_eq!(caller.get("/v1/links/of-a/qr.svg").await.outcome(), of_a);
    }
}

/// Q1: sizes from 1 to 2048 and, for PNG, two pixels for each module, margin included; margins up to 16.
#[tokio::test]
async fn q1_sizes_and_margins_have_limits() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for (query, expected) in [
        ("size=0", "size"),
        ("size=2049", "size"),
        ("size=4294967296", "size"),
        ("size=1e9", "size"),
        ("size=-1", "size"),
        ("size=abc", "size"),
        ("margin=17", "margin"),
        ("margin=-1", "margin"),
    ] {
        for format in ["png", "svg"] {
            let refused = qr(&world.a, &format!("{format}?{query}")).await;
            assert_eq!(refused.outcome(), format!("400 invalid_qr_options {expected}"), "{format} {query}");
        }
    }
    assert_eq!(qr(&world.a, "png?size=1").await.outcome(), "400 invalid_qr_options size");
    assert_eq!(qr(&world.a, "svg?size=1").await.status, 200);
    // The refusal names the least size, and that one is enough.
    for query in ["", "&shape=circle", "&margin=16&level=H"] {
        let refused = qr(&world.a, &format!("png?size=1{query}")).await.member("error");
        let least: u32 = refused.split(' ').find_map(|word| word.parse().ok()).expect("a number");
        let too_small = qr(&world.a, &format!("png?size={}{query}", least - 1)).await;
        assert_eq!(too_small.outcome(), "400 invalid_qr_options size", "{refused}");
        let image = qr(&world.a, &format!("png?size={least}{query}")).await;
        let size = image::load_from_memory(&image.body).expect("an image");
        assert_eq!((size.width(), size.height()), (least, least));
    }
}

/// Q2: drawing has a bounded queue; beyond it is 503, at once. Links are followed meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q2_too_many_codes_are_refused_and_links_lead_on() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    // More than are drawn and wait concurrently, on any machine.
    let crowd = 2 * u32::try_from(std::thread::available_parallelism().map_or(1, usize::from)).expect("few") + 16 + 44;
    let large = |n: u32| format!("png?size=2048&level=H&dotType=dots&shape=circle&fgColor={n:06x}");
    let asked: Vec<_> = (0..crowd).map(large).collect();
    let drawing = join_all(asked.iter().map(|rest| qr(&world.a, rest)));
    let (drawn, ()) = tokio::join!(drawing, async {
        for _ in 0..20 {
            assert_eq!(world.nobody.tap("spring-42").await.status, 302);
        }
    });
    let outcomes: Vec<_> = drawn.iter().map(Reply::outcome).collect();
    assert!(outcomes.iter().all(|outcome| matches!(outcome.as_str(), "200" | "503 overloaded")), "{outcomes:?}");
    assert!(outcomes.iter().any(|outcome| outcome == "503 overloaded"), "this many are too many");
    assert!(outcomes.iter().filter(|outcome| *outcome == "200").count() >= 16, "{outcomes:?}");
    assert_eq!(qr(&world.a, &large(1_000)).await.status, 200, "afterwards there is room");
}

/// The same request gets the same bytes on every node and after a restart.
#[tokio::test]
async fn the_same_picture_is_the_same_bytes() {
    let mut world = spawn_nodes(2).await;
    world.a.make("spring-42").await;
    let asked = ["png?shape=circle&dotType=classy-rounded&level=Q", "svg?shape=circle&dotType=dots"];
    let other = world.at(1, &world.a);
    let mut images = Vec::new();
    for rest in asked {
        let image = qr(&world.a, rest).await;
        let there = qr(&other, rest).await;
        assert_eq!((image.header("etag"), &image.body), (there.header("etag"), &there.body));
        assert_eq!(image.body, qr(&world.a, rest).await.body, "the cached one is the drawn one");
        images.push(image.body);
    }
    restart(&mut world).await;
    for (rest, image) in asked.into_iter().zip(images) {
        assert_eq!(qr(&world.a, rest).await.body, image);
    }
}

async fn restart(world: &mut World) {
    world.restart(|_| {}).await;
}
