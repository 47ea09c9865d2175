//! A sample of everything.

use std::collections::BTreeMap;

use deeplink_core::qr::QrFormat;
use deeplink_core::secret::Random;

use crate::cases::{Case, EDGES, sample};
use crate::logos::Artwork;
use crate::readers::{each_is_read, rxing};

/// Seed of the sample.
const SEED: u64 = 20_260_701;
const SAMPLES: usize = 600;

pub(crate) fn cases() -> Vec<Case> {
    sample(SAMPLES, &mut Random::seeded(SEED))
}

/// Every eighth of [`cases`], as SVG.
pub(crate) fn svg_cases() -> Vec<Case> {
    cases().into_iter().step_by(8).map(|case| Case { format: QrFormat::Svg, ..case }).collect()
}

#[test]
fn g1_every_style_is_read() {
    each_is_read(&cases(), rxing).is_perfect(&format!("the sample {SEED}"));
}

#[test]
fn g1_every_style_is_read_from_its_svg() {
    each_is_read(&svg_cases(), rxing).is_perfect(&format!("every eighth of the sample {SEED}"));
}

#[test]
fn g1_every_style_is_read_from_its_pdf_or_eps() {
    let formats = [QrFormat::Pdf, QrFormat::Eps].into_iter().cycle();
    let others = cases().into_iter().skip(4).step_by(8).zip(formats);
    let cases: Vec<_> = others.map(|(case, format)| Case { format, ..case }).collect();
    each_is_read(&cases, rxing).is_perfect(&format!("another eighth of the sample {SEED}"));
}

#[test]
fn g1_the_sample_has_each_value_of_each_parameter_thirty_times() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for case in cases() {
        let style = case.style();
        let edge = EDGES.iter().position(|&edge| case.clone().sized(edge).options.size == case.options.size);
        for value in [
            format!("{} dots", style.dot_type),
            format!("{} frames", style.corner_square_type),
            format!("{} pupils", style.corner_dot_type),
            format!("{} shape", style.shape),
            format!("level {}", style.level),
            format!("{} bytes", case.content.len()),
            format!("margin {}", style.margin),
            format!("size {}", edge.expect("one of the sizes")),
        ] {
            *seen.entry(value).or_default() += 1;
        }
    }
    assert_eq!(seen.len(), 6 + 3 + 2 + 2 + 4 + 4 + 3 + 4, "{seen:?}");
    assert!(seen.values().all(|&count| count >= 30), "{seen:?}");
}

#[test]
fn a_request_that_was_printed_can_be_repeated() {
    let artwork = Artwork::all()[3];
    for case in cases().into_iter().take(20).map(|case| case.with_artwork(artwork)) {
        let printed = case.to_string();
        let repeated: Case = printed.parse().expect("a request");
        assert_eq!(repeated.to_string(), printed);
        assert_eq!(repeated.draw(), case.draw(), "{printed}");
    }
}
