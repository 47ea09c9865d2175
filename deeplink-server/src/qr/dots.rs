//! The shape of a dot: which of its corners are round depends on the adjacent dots.

use deeplink_core::qr::DotType;

/// The four dots adjacent to a dot, as bits.
pub(super) type Neighbours = u8;
pub(super) const LEFT: Neighbours = 1;
pub(super) const RIGHT: Neighbours = 2;
pub(super) const TOP: Neighbours = 4;
pub(super) const BOTTOM: Neighbours = 8;

/// Corner radii in quarters of a module, clockwise from the top left.
pub(super) type Corners = [u32; 4];

const SHARP: u32 = 0;
const ROUND: u32 = 2;
const WIDE: u32 = 4;

/// The corners of a dot of this type with these neighbors. The first matching row applies.
pub(super) fn corners(dot_type: DotType, neighbours: Neighbours) -> Corners {
    match dot_type {
        DotType::Square => [SHARP; 4],
        DotType::Dots => [ROUND; 4],
        DotType::Rounded => rounded(neighbours, ROUND),
        DotType::ExtraRounded => rounded(neighbours, WIDE),
        DotType::Classy => classy(neighbours, ROUND),
        DotType::ClassyRounded => classy(neighbours, WIDE),
    }
}

/// Runs with round ends, and outer corners of this radius.
fn rounded(neighbours: Neighbours, bend: u32) -> Corners {
    const LT: Neighbours = LEFT | TOP;
    const TR: Neighbours = TOP | RIGHT;
    const RB: Neighbours = RIGHT | BOTTOM;
    const LB: Neighbours = LEFT | BOTTOM;
    match neighbours {
        0 => [ROUND; 4],
        LT => [SHARP, SHARP, bend, SHARP],
        TR => [SHARP, SHARP, SHARP, bend],
        RB => [bend, SHARP, SHARP, SHARP],
        LB => [SHARP, bend, SHARP, SHARP],
        LEFT => [SHARP, ROUND, ROUND, SHARP],
        TOP => [SHARP, SHARP, ROUND, ROUND],
        RIGHT => [ROUND, SHARP, SHARP, ROUND],
        BOTTOM => [ROUND, ROUND, SHARP, SHARP],
        _ => [SHARP; 4],
    }
}

/// Runs that are rounded at their upper left and lower right ends.
fn classy(neighbours: Neighbours, end: u32) -> Corners {
    if neighbours == 0 {
        [ROUND, SHARP, ROUND, SHARP]
    } else if neighbours & (LEFT | TOP) == 0 {
        [end, SHARP, SHARP, SHARP]
    } else if neighbours & (RIGHT | BOTTOM) == 0 {
        [SHARP, SHARP, end, SHARP]
    } else {
        [SHARP; 4]
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::FRAC_PI_4;

    use super::*;

    /// All 96 rows. A corner is written as its radius in halves of a module, clockwise from the top left.
    const TABLE: [(&str, [&str; 6]); 16] = [
        // beside    square  dots    rounded classy  classy-rounded extra-rounded
        ("", ["0000", "1111", "1111", "1010", "1010", "1111"]),
        ("L", ["0000", "1111", "0110", "0010", "0020", "0110"]),
        ("R", ["0000", "1111", "1001", "1000", "2000", "1001"]),
        ("T", ["0000", "1111", "0011", "0010", "0020", "0011"]),
        ("B", ["0000", "1111", "1100", "1000", "2000", "1100"]),
        ("LR", ["0000", "1111", "0000", "0000", "0000", "0000"]),
        ("LT", ["0000", "1111", "0010", "0010", "0020", "0020"]),
        ("LB", ["0000", "1111", "0100", "0000", "0000", "0200"]),
        ("RT", ["0000", "1111", "0001", "0000", "0000", "0002"]),
        ("RB", ["0000", "1111", "1000", "1000", "2000", "2000"]),
        ("TB", ["0000", "1111", "0000", "0000", "0000", "0000"]),
        ("LRT", ["0000", "1111", "0000", "0000", "0000", "0000"]),
        ("LRB", ["0000", "1111", "0000", "0000", "0000", "0000"]),
        ("LTB", ["0000", "1111", "0000", "0000", "0000", "0000"]),
        ("RTB", ["0000", "1111", "0000", "0000", "0000", "0000"]),
        ("LRTB", ["0000", "1111", "0000", "0000", "0000", "0000"]),
    ];

    fn set(beside: &str) -> Neighbours {
        beside.chars().fold(0, |set, one| {
            set | match one {
                'L' => LEFT,
                'R' => RIGHT,
                'T' => TOP,
                _ => BOTTOM,
            }
        })
    }

    #[test]
    fn corners_are_those_of_the_table() {
        let seen: std::collections::BTreeSet<_> = TABLE.iter().map(|(beside, _)| set(beside)).collect();
        assert_eq!(seen.len(), 16);
        for (beside, row) in TABLE {
            for (dot_type, expected) in DotType::ALL.iter().zip(row) {
                let drawn: String =
                    corners(*dot_type, set(beside)).iter().map(|quarters| (quarters / 2).to_string()).collect();
                assert_eq!(drawn, expected, "{dot_type} beside {beside:?}");
            }
        }
    }

    /// A corner that lies on a neighbor's edge, or two that meet, would leave the outline.
    #[test]
    fn only_free_corners_are_round_and_they_fit_the_dot() {
        for &dot_type in DotType::ALL.iter().filter(|dot_type| **dot_type != DotType::Dots) {
            for neighbours in 0..16 {
                let corners = corners(dot_type, neighbours);
                let beside = [LEFT | TOP, TOP | RIGHT, RIGHT | BOTTOM, BOTTOM | LEFT];
                for at in 0..4 {
                    assert!(corners[at] == 0 || neighbours & beside[at] == 0, "{dot_type} {neighbours:04b}");
                    assert!(corners[at] + corners[(at + 1) % 4] <= 4, "{dot_type} {neighbours:04b}");
                }
            }
        }
    }

    #[test]
    fn areas_are_those_of_the_shapes() {
        let area = |dot_type, beside| {
            let cut: f64 = corners(dot_type, set(beside)).iter().map(|&r| (f64::from(r) / 4.0).powi(2)).sum();
            1.0 - cut * (1.0 - FRAC_PI_4)
        };
        for (dot_type, beside, expected) in [
            (DotType::Square, "", 1.0),
            (DotType::Rounded, "LR", 1.0),
            (DotType::Dots, "LRTB", FRAC_PI_4),
            (DotType::Rounded, "", FRAC_PI_4),
            (DotType::ExtraRounded, "LT", FRAC_PI_4),
            (DotType::ClassyRounded, "RB", FRAC_PI_4),
            (DotType::Rounded, "L", 1.0 - 0.5 * (1.0 - FRAC_PI_4)),
            (DotType::Classy, "R", 1.0 - 0.25 * (1.0 - FRAC_PI_4)),
        ] {
            assert!((area(dot_type, beside) - expected).abs() < 1e-12, "{dot_type} beside {beside:?}");
        }
    }
}
