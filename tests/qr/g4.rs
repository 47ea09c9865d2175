//! Every style with the distortions of printers, messengers and cameras.

use deeplink_core::secret::Random;

use crate::cases::{Case, link, styles};
use crate::pictures::{Wear, seen};
use crate::readers::{each, reads, rxing};

const SEED: u64 = 20_260_703;

#[test]
fn g4_distorted_images_of_every_style_are_read() {
    let random = &mut Random::seeded(SEED);
    let mut worn = Vec::new();
    for options in styles() {
        let case = Case { options: options.size(600_u32), ..Case::new(link(31, random)) };
        worn.extend(Wear::ALL.map(|wear| (case.clone(), wear)));
    }
    assert_eq!(worn.len(), 72 * 5);
    let outcome = each(&worn, |(case, wear)| {
        let module = f32::from(u16::try_from(600 / case.modules()).expect("few"));
        let picture = seen(case).pop().expect("a picture");
        reads(rxing, &wear.on(&picture, module), &case.content).map_err(|why| format!("{case}, {wear:?}: {why}"))
    });
    outcome.is_at_least(99, "worn pictures");
}
