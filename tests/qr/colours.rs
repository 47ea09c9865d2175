//! Colours that codes are drawn in: dark on light, light on dark, and close to each other.

use deeplink_core::colour::Rgb;
use deeplink_core::qr::{MIN_CONTRAST, MIN_LUMA};
use deeplink_core::secret::Random;

use crate::cases::{Case, below, colour, link, styles};

const SEED: u64 = 20_260_705;
const SAMPLES: usize = 80;

/// Pairs of brands and other likely ones, foreground and background.
const PAIRS: [(&str, &str); 12] = [
    ("#000000", "#ffffff"),
    ("#949494", "#ffffff"),
    ("#0a7cff", "#ffffff"),
    ("#dd2222", "#ffffff"),
    ("#7a1fa2", "#fff8e1"),
    ("#0000ff", "#ffff00"),
    ("#0000ff", "#00ff00"),
    ("#000000", "#ff0000"),
    ("#003300", "#7fb77e"),
    ("#1a1a1a", "#777777"),
    ("#000000", "#5f5f5f"),
    ("#550000", "#ffcc00"),
];

/// Colours of the background and of the three parts.
#[derive(Clone, Copy)]
struct Colours {
    background: Rgb,
    parts: [Rgb; 3],
}

impl Colours {
    /// Random colours, with a contrast of at least `least` and, for one part, below `most`.
    fn random(least: f64, most: f64, light_on_dark: bool, random: &mut Random) -> Self {
        loop {
            let background = colour(random);
            let fits = |part: Rgb| {
                let lighter = part.luminance() > background.luminance();
                let (seen, behind) = (part.luma(), background.luma());
                let apart = seen.abs_diff(behind) >= MIN_LUMA && (seen > behind) == light_on_dark;
                background.contrast(part) >= least && lighter == light_on_dark && apart
            };
            // Many backgrounds have no such part.
            let parts: Vec<_> = (0..60).map(|_| colour(random)).filter(|&part| fits(part)).take(3).collect();
            if let [dots, frames, pupils] = parts[..]
                && parts.iter().any(|&part| background.contrast(part) < most)
            {
                return Self { background, parts: [dots, frames, pupils] };
            }
        }
    }

    fn case(self, random: &mut Random) -> Case {
        let [dots, frames, pupils] = self.parts;
        let styles = styles();
        let options = styles[below(styles.len(), random)].clone().bg_color(self.background).dot_color(dots);
        let options = options.corner_square_color(frames).corner_dot_color(pupils);
        Case { options, ..Case::new(link(31, random)) }
    }
}

fn pairs() -> impl Iterator<Item = (Rgb, Rgb)> {
    PAIRS.iter().map(|(one, other)| (Rgb::parse(one).expect("a colour"), Rgb::parse(other).expect("a colour")))
}

fn cases(named: impl Iterator<Item = (Rgb, Rgb)>, least: f64, most: f64, light_on_dark: bool) -> Vec<Case> {
    let random = &mut Random::seeded(SEED);
    let mut all: Vec<_> = named.map(|(part, background)| Colours { background, parts: [part; 3] }).collect();
    all.extend((0..SAMPLES).map(|_| Colours::random(least, most, light_on_dark, random)));
    all.into_iter().map(|colours| colours.case(random)).collect()
}

pub(crate) fn dark_on_light() -> Vec<Case> {
    cases(pairs(), 3.0, 21.1, false)
}

pub(crate) fn light_on_dark() -> Vec<Case> {
    cases(pairs().map(|(part, background)| (background, part)), 3.0, 21.1, true)
}

/// As close to each other as colours may be.
pub(crate) fn close(light_on_dark: bool) -> Vec<Case> {
    cases([].into_iter(), MIN_CONTRAST, 3.0, light_on_dark)
}
