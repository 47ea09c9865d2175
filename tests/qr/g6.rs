//! Two pixels per module, the minimum of a PNG.

use deeplink_core::qr::QrLevel;
use deeplink_core::secret::Random;

use crate::cases::{Case, Edge, LENGTHS, MARGINS, link, spread, styles};
use crate::readers::{each_is_read, rxing};

const SEED: u64 = 20_260_706;

#[test]
fn g6_the_smallest_pngs_are_read() {
    let random = &mut Random::seeded(SEED);
    let mut cases = Vec::new();
    // Each style with four links, levels and margins.
    for options in styles() {
        let levels = spread(QrLevel::ALL, 4, random);
        let margins = spread(&MARGINS, 4, random);
        for ((length, level), margin) in LENGTHS.into_iter().zip(levels).zip(margins) {
            let options = options.clone().level(level).margin(margin);
            cases.push(Case { options, ..Case::new(link(length, random)) }.sized(Edge::Modules(2)));
        }
    }
    assert_eq!(cases.len(), 72 * 4);
    each_is_read(&cases, rxing).is_at_least(99, "two pixels for each module");
}
