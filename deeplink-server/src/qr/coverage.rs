//! How much of each pixel a shape with round corners covers.

/// Samples along each side of a pixel.
const SAMPLES: u32 = 16;
/// The value of a wholly covered pixel.
pub(super) const WHOLE: u32 = SAMPLES * SAMPLES;
/// Sub-units of a pixel: each sample is the center of a cell of four.
const UNIT: u32 = 4 * SAMPLES;

/// How much a round corner cuts off its pixels: `WHOLE` is all of a pixel. This is the upper left corner; mirrored
/// indices give the others.
pub(super) struct Cut {
    edge: usize,
    samples: Vec<u32>,
}

impl Cut {
    /// A corner with a radius in quarters of a module of `scale` pixels.
    pub(super) fn new(radius: u32, scale: u32) -> Self {
        let radius = radius * scale * (UNIT / 4);
        let edge = radius.div_ceil(UNIT);
        let mut samples = vec![0; (edge * edge) as usize];
        for row in 0..edge {
            for column in 0..=row {
                let cut = cut(radius, row, column);
                samples[(row * edge + column) as usize] = cut;
                samples[(column * edge + row) as usize] = cut;
            }
        }
        Self { edge: edge as usize, samples }
    }

    /// How much is cut off the pixel at this row and column from the corner.
    fn at(&self, row: usize, column: usize) -> u32 {
        if row < self.edge && column < self.edge { self.samples[row * self.edge + column] } else { 0 }
    }
}

/// How many samples of a pixel lie beyond the arc.
fn cut(radius: u32, row: u32, column: u32) -> u32 {
    // Distance of the pixel's near and far edges from the arc's center.
    let far = |at: u32| radius.saturating_sub(at * UNIT);
    let near = |at: u32| radius.saturating_sub((at + 1) * UNIT);
    let square = radius * radius;
    if far(row).pow(2) + far(column).pow(2) <= square {
        return 0;
    }
    if near(row).pow(2) + near(column).pow(2) >= square && near(row) > 0 && near(column) > 0 {
        return WHOLE;
    }
    let samples = |at: u32| (0..SAMPLES).filter_map(move |one| radius.checked_sub(at * UNIT + 4 * one + 2));
    let beyond = |y: u32| samples(column).filter(|x| x * x + y * y > square).count();
    let count: usize = samples(row).map(beyond).sum();
    u32::try_from(count).unwrap_or(WHOLE)
}

/// A square with four corners, clockwise from the upper left.
pub(super) struct Shape<'a> {
    /// Edge in pixels.
    pub(super) edge: usize,
    /// The cut of each corner. Cuts must not overlap.
    pub(super) corners: [Option<&'a Cut>; 4],
}

impl Shape<'_> {
    /// Coverage of a pixel, of [`WHOLE`]; 0 outside the square.
    pub(super) fn at(&self, row: usize, column: usize) -> u32 {
        let last = self.edge - 1;
        if row > last || column > last {
            return 0;
        }
        let mirrored = [(row, column), (row, last - column), (last - row, last - column), (last - row, column)];
        let cut: u32 = self
            .corners
            .iter()
            .zip(mirrored)
            .filter_map(|(cut, (row, column))| Some(cut.as_ref()?.at(row, column)))
            .sum();
        WHOLE - cut
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::FRAC_PI_4;

    use super::*;

    fn area(shape: &Shape<'_>) -> f64 {
        let edge = shape.edge;
        let covered: u32 = (0..edge * edge).map(|at| shape.at(at / edge, at % edge)).sum();
        f64::from(covered) / f64::from(WHOLE)
    }

    #[test]
    fn areas_are_those_of_circles() {
        for scale in [2, 3, 7, 18, 20, 97] {
            // Radius in quarters of a module, and the edge of the square in modules.
            for (radius, edge) in [(2, 1), (4, 2), (6, 3), (10, 5), (14, 7)] {
                let cut = Cut::new(radius, scale);
                let disc = Shape { edge: (edge * scale) as usize, corners: [Some(&cut); 4] };
                let exact = FRAC_PI_4 * f64::from(edge * scale).powi(2);
                assert!((area(&disc) - exact).abs() < 0.03 + 0.002 * exact, "{scale} {radius}: {}", area(&disc));
                let one = Shape { edge: disc.edge, corners: [Some(&cut), None, None, None] };
                let exact = f64::from(edge * scale).powi(2) * (1.0 - (1.0 - FRAC_PI_4) / 4.0);
                assert!((area(&one) - exact).abs() < 0.03 + 0.002 * exact, "{scale} {radius}: {}", area(&one));
            }
        }
    }

    #[test]
    fn shapes_are_symmetric_and_end_at_their_edges() {
        for (radius, scale) in [(2, 5), (2, 18), (3, 9), (6, 7), (14, 20)] {
            let cut = Cut::new(radius, scale);
            let edge = (radius.div_ceil(2) * scale) as usize;
            let shape = Shape { edge, corners: [Some(&cut); 4] };
            let last = edge - 1;
            for (row, column) in (0..edge * edge).map(|at| (at / edge, at % edge)) {
                let here = shape.at(row, column);
                assert_eq!(here, shape.at(column, row));
                assert_eq!(here, shape.at(last - row, column));
                assert_eq!(here, shape.at(row, last - column));
            }
            assert_eq!((shape.at(edge, 0), shape.at(0, edge), shape.at(usize::MAX, 0)), (0, 0, 0));
            assert_eq!(shape.at(edge / 2, edge / 2), WHOLE);
        }
    }

    #[test]
    fn without_round_corners_every_pixel_is_whole() {
        let shape = Shape { edge: 9, corners: [None; 4] };
        assert!((0..81).all(|at| shape.at(at / 9, at % 9) == WHOLE));
    }

    /// An odd number of pixels: both corners cut the middle one, and both cuts count.
    #[test]
    fn corners_that_share_a_pixel_both_count() {
        let cut = Cut::new(2, 3);
        let dot = Shape { edge: 3, corners: [Some(&cut); 4] };
        let end = Shape { edge: 3, corners: [Some(&cut), None, None, None] };
        let missing = WHOLE - end.at(0, 1);
        assert!(missing > 0);
        assert_eq!(WHOLE - dot.at(0, 1), 2 * missing);
    }
}
