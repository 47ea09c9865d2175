//! QR codes for print, over HTTP: PDF and EPS.

use crate::outbound::png;
use crate::qr_logos::upload;
use deeplink_testing::spawn;

/// Part of the image of the uploaded logo, in both formats.
const LOGO: &[u8] = b"/Width 60 /Height 40 ";

#[tokio::test]
async fn codes_come_as_pdf_and_eps() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    upload(&world.a, "acme", png()).await;
    for (format, kind, start, end) in [
        ("pdf", "application/pdf", "%PDF-1.4\n", "%%EOF\n"),
        ("eps", "application/postscript", "%!PS-Adobe-3.0 EPSF-3.0\n", "%%EOF\n"),
    ] {
        for query in ["", "?logo=name:acme&shape=circle&fgColor=036&size=13", "?size=2048&dotType=classy-rounded"] {
            let path = format!("/v1/links/spring-42/qr.{format}{query}");
            let reply = world.a.get(&path).await;
            assert_eq!((reply.status, reply.header("content-type")), (200, kind), "{path}");
            assert_eq!(reply.header("content-disposition"), format!("inline; filename=\"spring-42.{format}\""));
            assert_eq!(
                (reply.header("cache-control"), reply.header("vary")),
                ("private, max-age=300", "Authorization")
            );
            assert!(reply.body.starts_with(start.as_bytes()) && reply.body.ends_with(end.as_bytes()), "{path}");
            assert_eq!(world.a.get(&path).await.body, reply.body, "{path}");
            let has_logo = reply.body.windows(LOGO.len()).any(|part| part == LOGO);
            assert_eq!(has_logo, query.contains("logo"), "{path}");
        }
    }
    let small = world.a.get("/v1/links/spring-42/qr.pdf?size=12").await;
    assert_eq!(small.outcome(), "400 invalid_qr_options size");
    assert_eq!(world.a.get("/v1/links/spring-42/qr.eps?size=1").await.status, 200);
    let tag = async |rest: &str| world.a.get(&format!("/v1/links/spring-42/qr.{rest}")).await.header("etag").to_owned();
    let tags = [tag("svg").await, tag("pdf").await, tag("eps").await, tag("pdf?size=601").await];
    for (at, one) in tags.iter().enumerate() {
        assert!(!tags[..at].contains(one));
    }
}
