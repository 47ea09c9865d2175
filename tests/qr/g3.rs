//! Logos, which hide a part of the code.

use std::collections::BTreeMap;

use deeplink_core::qr::{CornerSquareType, QrFormat, QrLevel};
use deeplink_core::secret::Random;

use crate::cases::{Case, EDGES, LENGTHS, sample, spread};
use crate::logos::Artwork;
use crate::readers::{each_is_read, rqrr, rxing};

/// Seed of the sample.
const SEED: u64 = 20_260_702;
const SAMPLES: usize = 240;

/// Samples with each logo, at each level and with the default, which is then H.
fn cases() -> Vec<Case> {
    let random = &mut Random::seeded(SEED);
    let levels = [None, Some(QrLevel::L), Some(QrLevel::M), Some(QrLevel::Q), Some(QrLevel::H)];
    let levels = spread(&levels, SAMPLES, random);
    let artworks = spread(&Artwork::all(), SAMPLES, random);
    let edges = spread(&EDGES, SAMPLES, random);
    let plain = sample(SAMPLES, random).into_iter();
    let logos = plain.zip(artworks).zip(levels).zip(edges).map(|(((mut case, artwork), level), edge)| {
        case.options.level = level;
        case.with_artwork(artwork).sized(edge)
    });
    logos.collect()
}

#[test]
fn g3_codes_with_a_logo_are_read() {
    each_is_read(&cases(), rxing).is_perfect(&format!("the sample {SEED}"));
}

#[test]
fn g3_codes_with_a_logo_are_read_from_their_svg() {
    let cases: Vec<_> = cases().into_iter().step_by(8).map(|case| Case { format: QrFormat::Svg, ..case }).collect();
    each_is_read(&cases, rxing).is_perfect(&format!("every eighth of the sample {SEED}"));
}

#[test]
fn g3_codes_with_a_logo_are_read_from_their_pdf_or_eps() {
    let formats = [QrFormat::Pdf, QrFormat::Eps].into_iter().cycle();
    let others = cases().into_iter().skip(4).step_by(8).zip(formats);
    let cases: Vec<_> = others.map(|(case, format)| Case { format, ..case }).collect();
    each_is_read(&cases, rxing).is_perfect(&format!("another eighth of the sample {SEED}"));
}

#[test]
fn g3_square_frames_around_a_logo_are_read_by_the_second_reader() {
    let mut cases = cases();
    cases.retain(|case| case.style().corner_square_type == CornerSquareType::Square);
    assert!(cases.len() >= 60, "{}", cases.len());
    each_is_read(&cases, rqrr).is_perfect(&format!("square frames of the sample {SEED}"));
}

#[test]
fn g3_the_sample_has_each_logo_at_each_level() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for case in cases() {
        let artwork = case.artwork.expect("a logo");
        // From version 7 on a logo hides an alignment pattern.
        let hides = case.version() >= 7;
        for value in [
            artwork.to_string(),
            format!("{:?}", case.options.level),
            format!("{} bytes", case.content.len()),
            format!("hides an alignment pattern: {hides}"),
        ] {
            *seen.entry(value).or_default() += 1;
        }
    }
    assert_eq!(seen.len(), Artwork::all().len() + 5 + LENGTHS.len() + 2, "{seen:?}");
    assert!(seen.values().all(|&count| count >= 15), "{seen:?}");
}
