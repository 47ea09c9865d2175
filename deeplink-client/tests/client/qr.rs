//! Drawing a link as a QR code: what is sent, what comes back, and what is refused.

use deeplink_client::mock::{MockTransport, fixtures};
use deeplink_client::{Client, ErrorCode, Kind, QrFormat, QrOptions, Rgb, SecretKey};
use http::Method;

const PNG: &str = "/v1/links/{link_id}/qr.png";

fn client(mock: &MockTransport) -> Client {
    let builder = Client::builder("https://api.example.com").secret_key(SecretKey::new("dl_live_x"));
    builder.transport(mock.clone()).build().unwrap()
}

fn drawn() -> MockTransport {
    MockTransport::new().on(Method::GET, PNG).bytes(200, "image/png", fixtures::qr_code(QrFormat::Png))
}

#[tokio::test]
async fn every_option_is_a_parameter_under_the_name_of_the_interface() {
    let mock = drawn();
    client(&mock).links().qr("spring-42", QrFormat::Png, &QrOptions::new()).await.unwrap();
    let all = "bgColor=%23fafbfc&cornerDotColor=%23090000&cornerDotType=square&cornerSquareColor=%23000900\
        &cornerSquareType=dot&dotColor=%23000009&dotType=classy-rounded&fgColor=%23010203&hideLogo=false&level=Q\
        &logo=https%3A%2F%2Fexample.com%2Fa.png%3Fb%3Dc%26d%3De&margin=0&shape=circle&size=300";
    let options = QrOptions::from_query(all, |_| false).unwrap();
    client(&mock).links().qr("a/b", QrFormat::Png, &options).await.unwrap();
    let calls = mock.calls();
    assert_eq!(calls[0].path(), "/v1/links/spring-42/qr.png", "the default look needs no parameter");
    let (path, query) = calls[1].path().split_once('?').unwrap();
    assert_eq!(path, "/v1/links/a%2Fb/qr.png");
    assert_eq!(query, all);
    assert_eq!(QrOptions::from_query(query, |_| false).unwrap(), options, "{query}");
}

#[tokio::test]
async fn the_file_comes_as_it_was_sent_with_its_tag_among_the_headers() {
    let png = fixtures::qr_code(QrFormat::Png);
    let mock = drawn().header("etag", "\"5f\"");
    let full = client(&mock).links().qr("spring-42", QrFormat::Png, &QrOptions::new()).full().await.unwrap();
    assert_eq!((&full.value, &full.raw, full.headers["etag"].to_str().unwrap()), (&png, &png, "\"5f\""));
    let mock = MockTransport::new().on(Method::GET, PNG).status(304);
    let call = client(&mock).links().qr("spring-42", QrFormat::Png, &QrOptions::new());
    let error = call.header("if-none-match", "\"5f\"").await.unwrap_err();
    assert_eq!((error.kind(), error.status().unwrap().as_u16()), (Kind::Api, 304));
}

#[tokio::test]
async fn options_that_break_a_rule_are_not_sent() {
    for (options, field) in [
        (QrOptions::new().size(0_u32), "size"),
        (QrOptions::new().size(2_049_u32), "size"),
        (QrOptions::new().margin(17_u32), "margin"),
        (QrOptions::new().logo("ftp://example.com/x.png"), "logo"),
        (QrOptions::new().fg_color(Rgb([200, 200, 200])), "fgColor"),
        (QrOptions::new().bg_color(Rgb::BLACK), "bgColor"),
    ] {
        let mock = drawn();
        let call = || client(&mock).links().qr("spring-42", QrFormat::Png, &options);
        let error = call().await.unwrap_err();
        assert_eq!((error.kind(), error.field()), (Kind::Validation, Some(field)), "{options:?}");
        assert_eq!(error.code(), Some(&ErrorCode::InvalidQrOptions));
        assert!(mock.calls().is_empty(), "{options:?}");
        call().unchecked().await.unwrap();
        assert_eq!(mock.calls().len(), 1);
    }
    assert_eq!(
        client(&drawn()).links().qr("", QrFormat::Png, &QrOptions::new()).await.unwrap_err().kind(),
        Kind::Validation
    );
}

#[tokio::test]
async fn refusals_are_typed_as_everywhere() {
    for (status, code, kind) in [
        (400, ErrorCode::InvalidQrOptions, Kind::BadRequest),
        (401, ErrorCode::InvalidKey, Kind::Auth),
        (404, ErrorCode::NotFound, Kind::NotFound),
    ] {
        let mock = MockTransport::new().on(Method::GET, PNG).json(status, fixtures::error(code.clone(), "no"));
        let error = client(&mock).links().qr("spring-42", QrFormat::Png, &QrOptions::new()).await.unwrap_err();
        assert_eq!((error.kind(), error.code(), error.message()), (kind, Some(&code), "no"));
    }
    // A busy renderer is asked again.
    let mock = MockTransport::new()
        .on(Method::GET, PNG)
        .json(503, fixtures::error(ErrorCode::Overloaded, "busy"))
        .retry_after(0)
        .bytes(200, "image/png", fixtures::qr_code(QrFormat::Png));
    client(&mock).links().qr("spring-42", QrFormat::Png, &QrOptions::new()).await.unwrap();
    assert_eq!(mock.calls().len(), 2);
}

#[tokio::test]
async fn what_is_no_image_or_has_no_end_is_an_error() {
    let png = fixtures::qr_code(QrFormat::Png);
    let pages = [("text/html", "<html>sign in</html>".into()), ("", png.clone()), ("image/png", bytes::Bytes::new())];
    for (kind, body) in pages {
        let mock = MockTransport::new().on(Method::GET, PNG).bytes(200, kind, body);
        let error = client(&mock).links().qr("spring-42", QrFormat::Png, &QrOptions::new()).await.unwrap_err();
        assert!(error.message().contains("it is not an image"), "{kind}: {error}");
    }
    let mock = MockTransport::new().on(Method::GET, PNG).bytes(200, "image/png", vec![0; 16 * 1024 * 1024 + 1]);
    let error = client(&mock).links().qr("spring-42", QrFormat::Png, &QrOptions::new()).await.unwrap_err();
    assert!(error.kind() == Kind::Decode && error.message().contains("larger than 16 MiB"), "{error}");
}

/// The mock's QR code contains the mock's link.
#[cfg(feature = "qr-reader")]
#[test]
fn the_fixture_can_be_read() {
    let text = deeplink_client::qr_reader::read_png(&fixtures::qr_code(QrFormat::Png)).unwrap();
    assert_eq!(text, fixtures::link_detail("spring-42").url);
}
