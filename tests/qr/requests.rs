//! Every query gives an image or names the invalid parameter.

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::qr::{QrFormat, QrOptions, QrStyle};
use deeplink_core::secret::Random;
use deeplink_server::qr::{CannotDraw, Layout, draw};

use crate::cases::{below, colour, link};

const SEED: u64 = 20_260_709;
const REQUESTS: usize = 10_000;

/// The parameters that the service knows.
const KNOWN: &str = include_str!("../common/qr-parameters.txt");

/// Values, each valid for one parameter or for none.
const VALUES: [&str; 44] = [
    "",
    "0",
    "1",
    "2",
    "16",
    "17",
    "65",
    "66",
    "300",
    "2048",
    "2049",
    "999999999",
    "1000000000",
    "-1",
    "+5",
    "6e2",
    "0x10",
    "2.5",
    "٣",
    "true",
    "FALSE",
    "yes",
    "L",
    "h",
    "low",
    "dots",
    "Rounded",
    "classy-rounded",
    "classyrounded",
    "extra-rounded",
    "dot",
    "circle",
    "round",
    "%23000000",
    "000",
    "fff",
    "ffff",
    "12345g",
    "red",
    "https://example.com/a.png",
    "https://localhost/x.png",
    "ftp://example.com/x",
    "%ff%fe",
    "%",
];

/// A query like people's, with mistakes; one in ten is noise.
fn query(random: &mut Random) -> String {
    if random.below(10) == 0 {
        let noise: Vec<u8> = (0..below(60, random)).map(|_| random.bytes::<1>()[0]).collect();
        return String::from_utf8_lossy(&noise).into_owned();
    }
    let names: Vec<_> = KNOWN.lines().chain(["Size", "utm_source"]).collect();
    let pairs = (0..random.below(5)).map(|_| {
        let value = match random.below(4) {
            0 => VALUES[below(VALUES.len(), random)].to_owned(),
            1 => random.below(2_300).to_string(),
            2 => colour(random).to_string().replace('#', ["", "%23"][below(2, random)]),
            _ => ["square", "dot", "true", "M", "20", "classy"][below(6, random)].to_owned(),
        };
        format!("{}={value}", names[below(names.len(), random)])
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Checks a query as the service does before it draws. A refusal includes whether the link is too long, which names no
/// parameter.
fn laid_out(query: &str, format: QrFormat, content: &str) -> Result<(QrStyle, Layout), (Invalid, bool)> {
    let style =
        QrOptions::from_query(query, |_| false).and_then(|options| options.check()).map_err(|why| (why, false))?;
    let layout = Layout::of(&style, format, content).map_err(|why| (why.into(), why == CannotDraw::TooLong))?;
    Ok((style, layout))
}

#[test]
fn every_query_gives_an_image_or_names_the_parameter_at_fault() {
    let random = &mut Random::seeded(SEED);
    let (mut drawn, mut accepted, mut refused) = (0, 0, 0);
    for _ in 0..REQUESTS {
        let query = query(random);
        let length = [20, 31, 60, 150, 700, 1_500, 2_900, 3_100][below(8, random)];
        let format = QrFormat::ALL[below(2, random)];
        let content = link(length, random);
        match laid_out(&query, format, &content) {
            Ok((style, layout)) => {
                accepted += 1;
                if accepted % 30 == 0 {
                    let start: &[u8] = if format == QrFormat::Png { b"\x89PNG" } else { b"<svg" };
                    assert!(draw(&layout, &style, &content, None).starts_with(start), "{query}");
                    drawn += 1;
                }
            }
            Err((why, too_long)) => {
                refused += 1;
                assert_eq!(why.code, ErrorCode::InvalidQrOptions, "{query}: {why:?}");
                let named = why.field.as_deref();
                assert_eq!(named.is_none(), too_long, "{query}: {why:?}");
                assert!(named.is_none_or(|field| KNOWN.lines().any(|known| known == field)), "{query}: {why:?}");
                assert!(!why.message.is_empty(), "{query}: {why:?}");
            }
        }
    }
    assert!(drawn > 50 && accepted > 1_000 && refused > 1_000, "{drawn} drawn, {accepted} accepted, {refused} refused");
}
