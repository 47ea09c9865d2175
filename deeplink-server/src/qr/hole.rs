//! The hole that a logo clears in the middle of the symbol, and the size of the logo in it.

use deeplink_core::qr::QrLevel;

use super::Logo;

/// A cleared box in the middle of a symbol, for one logo. Edges are odd, so that it is centered on the symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hole {
    /// Width in modules.
    pub(super) width: u32,
    /// Height in modules.
    pub(super) height: u32,
    /// The logo's drawn width times its height in pixels, which is its drawn height times its width in pixels.
    reach: u64,
    logo: (u32, u32),
}

impl Hole {
    /// The hole in which this logo is drawn widest; of equals the smallest, then the narrowest. `None` if the level
    /// allows no hole at this size.
    pub(super) fn for_logo(level: QrLevel, modules: u32, logo: &Logo) -> Option<Self> {
        Self::for_picture(level, modules, (logo.width(), logo.height()))
    }

    fn for_picture(level: QrLevel, modules: u32, logo: (u32, u32)) -> Option<Self> {
        let (budget, edge) = (budget(level, modules), longest_edge(modules));
        let edges = || (3..=edge).step_by(2);
        edges()
            .flat_map(|width| edges().map(move |height| (width, height)))
            .filter(|(width, height)| width * height <= budget)
            .map(|(width, height)| {
                // Half a module stays clear all round. Products of whole numbers compare exactly.
                let reach = (u64::from(width - 1) * u64::from(logo.1)).min(u64::from(height - 1) * u64::from(logo.0));
                Self { width, height, reach, logo }
            })
            .min_by_key(|hole| (std::cmp::Reverse(hole.reach), hole.width * hole.height, hole.width))
    }

    /// Whether a module of a symbol with `modules` per side is cleared.
    pub(super) fn covers(&self, modules: u32, row: u32, column: u32) -> bool {
        let within = |at: u32, edge: u32| {
            let first = (modules - edge) / 2;
            (first..first + edge).contains(&at)
        };
        within(row, self.height) && within(column, self.width)
    }

    /// The logo's drawn width and height with `units` per module, rounded, at least 1.
    pub(super) fn logo_size(&self, units: u32) -> (u32, u32) {
        let rounded = |by: u32| {
            let by = u64::from(by);
            let length = (2 * self.reach * u64::from(units) + by) / (2 * by);
            u32::try_from(length).unwrap_or(u32::MAX).max(1)
        };
        (rounded(self.logo.1), rounded(self.logo.0))
    }
}

/// Whether a level leaves room for the smallest hole in a symbol of this size.
pub(super) fn is_allowed(level: QrLevel, modules: u32) -> bool {
    budget(level, modules) >= 9
}

/// How many modules may be missing: fewer than the level corrects, to leave a margin for dirt.
fn budget(level: QrLevel, modules: u32) -> u32 {
    let area = modules * modules;
    match level {
        QrLevel::L => 154 * area / 10_000,
        QrLevel::M => 33 * area / 1_000,
        QrLevel::Q => 75 * area / 1_000,
        QrLevel::H => 9 * area / 100,
    }
}

/// The longest edge with which the hole stays between the eyes.
fn longest_edge(modules: u32) -> u32 {
    modules.saturating_sub(14)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(level: QrLevel, version: u32, logo: (u32, u32)) -> Option<Hole> {
        Hole::for_picture(level, 17 + 4 * version, logo)
    }

    #[test]
    fn budgets_are_those_of_the_levels() {
        for (level, version, most) in [
            (QrLevel::L, 1, 6),
            (QrLevel::L, 2, 9),
            (QrLevel::M, 1, 14),
            (QrLevel::M, 2, 20),
            (QrLevel::Q, 1, 33),
            (QrLevel::Q, 4, 81),
            (QrLevel::H, 1, 39),
            (QrLevel::H, 2, 56),
            (QrLevel::H, 40, 2_819),
        ] {
            assert_eq!(budget(level, 17 + 4 * version), most, "version {version} at {level}");
        }
        for level in QrLevel::ALL {
            for version in 1..=40 {
                let allowed = is_allowed(*level, 17 + 4 * version);
                assert_eq!(allowed, !(*level == QrLevel::L && version == 1));
                assert_eq!(allowed, hole(*level, version, (7, 5)).is_some());
            }
        }
    }

    #[test]
    fn square_logos_have_the_holes_of_the_table() {
        for (level, edges) in [
            (QrLevel::L, [0, 3, 3, 3, 3, 5, 7]),
            (QrLevel::M, [3, 3, 5, 5, 5, 7, 9]),
            (QrLevel::Q, [5, 5, 7, 9, 9, 11, 15]),
            (QrLevel::H, [5, 7, 7, 9, 11, 11, 17]),
        ] {
            for (version, edge) in [1, 2, 3, 4, 5, 6, 10].into_iter().zip(edges) {
                let found = hole(level, version, (640, 640));
                assert_eq!(found.map_or((0, 0), |hole| (hole.width, hole.height)), (edge, edge), "v{version} {level}");
                if let Some(found) = found {
                    assert_eq!(found.logo_size(1_000), ((edge - 1) * 1_000, (edge - 1) * 1_000));
                }
            }
        }
    }

    #[test]
    fn long_logos_have_long_holes() {
        for (version, width, height, drawn) in
            [(2, 11, 5, (10_000, 3_333)), (3, 13, 5, (12_000, 4_000)), (6, 19, 7, (18_000, 6_000))]
        {
            let found = hole(QrLevel::H, version, (300, 100)).expect("a hole");
            assert_eq!((found.width, found.height, found.logo_size(1_000)), (width, height, drawn));
            let turned = hole(QrLevel::H, version, (100, 300)).expect("a hole");
            assert_eq!((turned.width, turned.height, turned.logo_size(1_000)), (height, width, (drawn.1, drawn.0)));
        }
    }

    #[test]
    fn of_equal_holes_the_smallest_and_then_the_narrowest_is_taken() {
        // As wide as allowed; the height is what the width leaves.
        let found = hole(QrLevel::H, 10, (4_096, 1)).expect("a hole");
        assert_eq!((found.width, found.height), (43, 3));
        let turned = hole(QrLevel::H, 10, (1, 4_096)).expect("a hole");
        assert_eq!((turned.width, turned.height), (3, 43));
        // Every candidate by hand: no other is wider, none as wide is smaller, none as small is narrower.
        for (level, version, logo) in [
            (QrLevel::H, 4, (7, 5)),
            (QrLevel::Q, 7, (3, 2)),
            (QrLevel::M, 12, (13, 17)),
            (QrLevel::L, 25, (999, 1_000)),
        ] {
            let found = hole(level, version, logo).expect("a hole");
            let modules = 17 + 4 * version;
            for width in (3..=modules - 14).step_by(2) {
                for height in (3..=modules - 14).step_by(2).filter(|height| width * height <= budget(level, modules)) {
                    let reach = u64::from((width - 1) * logo.1).min(u64::from((height - 1) * logo.0));
                    assert!(
                        reach < found.reach
                            || reach == found.reach
                                && (width * height, width) >= (found.width * found.height, found.width),
                        "{width} × {height} beats {found:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_hole_is_in_the_middle() {
        let found = hole(QrLevel::H, 2, (300, 100)).expect("a hole");
        let cleared: Vec<_> = (0..25 * 25).filter(|at| found.covers(25, at / 25, at % 25)).collect();
        assert_eq!(cleared.len(), 55);
        assert_eq!((cleared[0] / 25, cleared[0] % 25), (10, 7));
        assert_eq!((cleared[54] / 25, cleared[54] % 25), (14, 17));
    }

    #[test]
    fn a_sliver_of_a_logo_is_still_a_pixel_high() {
        let found = hole(QrLevel::H, 2, (4_096, 1)).expect("a hole");
        assert_eq!(found.logo_size(2), (2 * (found.width - 1), 1));
    }
}
