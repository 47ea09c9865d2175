//! The three eyes: finder patterns of 7 × 7 modules, drawn as a frame around a pupil.

use deeplink_core::qr::{CornerDotType, CornerSquareType};

/// Edge of an eye in modules.
pub(super) const EDGE: u32 = 7;

/// A square with round corners, centered in the eye. A radius of half the edge makes it a disc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Square {
    /// Edge in modules; odd.
    pub(super) edge: u32,
    /// Corner radius in quarters of a module.
    pub(super) radius: u32,
}

impl Square {
    /// Distance from the eye's edge, in modules.
    pub(super) fn inset(self) -> u32 {
        (EDGE - self.edge) / 2
    }
}

/// Row and column of each eye's upper left module.
pub(super) fn positions(modules: u32) -> [(u32, u32); 3] {
    [(0, 0), (0, modules - EDGE), (modules - EDGE, 0)]
}

/// Whether a module belongs to an eye.
pub(super) fn covers(modules: u32, row: u32, column: u32) -> bool {
    let (first, last) = (..EDGE, modules - EDGE..);
    first.contains(&row) && (first.contains(&column) || last.contains(&column))
        || last.contains(&row) && first.contains(&column)
}

/// The frame: its outline, and the square cut out of it.
pub(super) fn frame(style: CornerSquareType) -> (Square, Square) {
    let (outer, inner) = match style {
        CornerSquareType::Square => (0, 0),
        CornerSquareType::ExtraRounded => (10, 6),
        CornerSquareType::Dot => (14, 10),
    };
    (Square { edge: 7, radius: outer }, Square { edge: 5, radius: inner })
}

/// The pupil. A sharp square inside a ring misleads scanners along the diagonals, so there it is slightly rounded.
pub(super) fn pupil(style: CornerDotType, frame: CornerSquareType) -> Square {
    let radius = match (style, frame) {
        (CornerDotType::Dot, _) => 6,
        (CornerDotType::Square, CornerSquareType::Dot) => 3,
        (CornerDotType::Square, _) => 0,
    };
    Square { edge: 3, radius }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_pupils_are_those_of_the_table() {
        for (style, outer, inner) in [
            (CornerSquareType::Square, 0.0, 0.0),
            (CornerSquareType::ExtraRounded, 2.5, 1.5),
            (CornerSquareType::Dot, 3.5, 2.5),
        ] {
            let (out, cut) = frame(style);
            assert_eq!((out.edge, out.inset(), cut.edge, cut.inset()), (7, 0, 5, 1));
            assert_eq!((f64::from(out.radius) / 4.0, f64::from(cut.radius) / 4.0), (outer, inner), "{style}");
            for (dot, radius) in [
                (CornerDotType::Dot, 1.5),
                (CornerDotType::Square, if style == CornerSquareType::Dot { 0.75 } else { 0.0 }),
            ] {
                let pupil = pupil(dot, style);
                assert_eq!((pupil.edge, pupil.inset(), f64::from(pupil.radius) / 4.0), (3, 2, radius), "{dot} {style}");
            }
        }
    }

    #[test]
    fn eyes_are_in_three_corners() {
        let count = (0..25 * 25).filter(|at| covers(25, at / 25, at % 25)).count();
        assert_eq!(count, 3 * 49);
        for (row, column) in positions(25) {
            assert!(covers(25, row, column) && covers(25, row + 6, column + 6));
        }
        assert!(!covers(25, 24, 24) && !covers(25, 7, 0) && !covers(25, 0, 7) && !covers(25, 17, 0));
    }
}
