//! The colors of an image: inks on a background, and the steps between them.

use deeplink_core::colour::Rgb;

use crate::qr::coverage::WHOLE;

/// Steps from the background to a color. More would not be visible, and would make the file larger.
pub(super) const STEPS: u32 = 32;

/// The colors of an image: the background, and for each ink the steps that are used.
pub(super) struct Palette {
    background: Rgb,
    colours: Vec<[u8; 3]>,
    used: Vec<(Rgb, [Option<u8>; STEPS as usize + 1])>,
}

impl Palette {
    pub(super) fn new(background: Rgb) -> Self {
        Self { background, colours: vec![background.0], used: Vec::new() }
    }

    /// The index of an ink at this coverage, of [`WHOLE`].
    pub(super) fn index(&mut self, ink: Rgb, covered: u32) -> u8 {
        let step = (covered * STEPS + WHOLE / 2) / WHOLE;
        if step == 0 {
            return 0;
        }
        let of_ink = match self.used.iter().position(|(one, _)| *one == ink) {
            Some(at) => at,
            None => {
                self.used.push((ink, [None; STEPS as usize + 1]));
                self.used.len() - 1
            }
        };
        let slot = &mut self.used[of_ink].1[step as usize];
        *slot.get_or_insert_with(|| {
            self.colours.push(mixed(self.background, ink, step));
            // Three inks with all their steps fit into the palette.
            u8::try_from(self.colours.len() - 1).unwrap_or(0)
        })
    }

    /// Adds a color and returns its index; `None` if the palette is full.
    pub(super) fn add(&mut self, colour: [u8; 3]) -> Option<u8> {
        let index = u8::try_from(self.colours.len()).ok()?;
        self.colours.push(colour);
        Some(index)
    }

    /// Every color, by index.
    pub(super) fn colours(&self) -> &[[u8; 3]] {
        &self.colours
    }
}

/// The color `step` steps from the background.
fn mixed(background: Rgb, ink: Rgb, step: u32) -> [u8; 3] {
    let mut mixed = [0; 3];
    for (channel, (from, to)) in mixed.iter_mut().zip(background.0.into_iter().zip(ink.0)) {
        let sum = u32::from(from) * (STEPS - step) + u32::from(to) * step;
        *channel = u8::try_from((sum + STEPS / 2) / STEPS).unwrap_or(u8::MAX);
    }
    mixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_inks_fit_the_palette() {
        let mut palette = Palette::new(Rgb::WHITE);
        for ink in [Rgb([1, 0, 0]), Rgb([0, 1, 0]), Rgb([0, 0, 1])] {
            for covered in 0..=WHOLE {
                palette.index(ink, covered);
            }
            let whole = palette.index(ink, WHOLE);
            assert_eq!(palette.colours[usize::from(whole)], ink.0);
        }
        assert_eq!(palette.index(Rgb([0, 1, 0]), 0), 0);
        assert_eq!(palette.colours.len(), 1 + 3 * STEPS as usize);
    }

    #[test]
    fn steps_lie_evenly_between_background_and_ink() {
        assert_eq!(mixed(Rgb([255, 0, 100]), Rgb([0, 255, 100]), STEPS), [0, 255, 100]);
        assert_eq!(mixed(Rgb([255, 0, 100]), Rgb([0, 255, 100]), STEPS / 2), [128, 128, 100]);
        assert_eq!(mixed(Rgb::WHITE, Rgb::BLACK, STEPS / 4), [191; 3]);
    }
}
