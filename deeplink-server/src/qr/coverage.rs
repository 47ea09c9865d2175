//! How much of each pixel a shape with round corners covers.

/// Samples along each side of a pixel.
const SAMPLES: u32 = 16;
/// What a whole pixel counts.
pub(super) const WHOLE: u32 = SAMPLES * SAMPLES;
/// Sub-units of a pixel: the samples stand in the middles of cells of four.
const UNIT: u32 = 4 * SAMPLES;

/// What a round corner cuts off the pixels at it: `WHOLE` is all of a pixel. The corner is the upper left one; as it is
/// symmetric, mirrored indices give the others.
pub(super) struct Cut {
    edge: usize,
    samples: Vec<u32>,
}

impl Cut {
    /// A corner with a radius of so many quarters of `scale` pixels.
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

    /// What is cut off the pixel so many rows and columns from the corner.
    fn at(&self, row: usize, column: usize) -> u32 {
        if row < self.edge && column < self.edge { self.samples[row * self.edge + column] } else { 0 }
    }
}

/// How many samples of a pixel lie beyond the arc.
fn cut(radius: u32, row: u32, column: u32) -> u32 {
    // Distance of the pixel's near and far edges from the arc's centre.
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

/// A square of so many pixels with four corners, clockwise from the upper left.
pub(super) struct Shape<'a> {
    /// Edge in pixels.
    pub(super) edge: usize,
    /// What each corner cuts off. Their parts must not overlap.
    pub(super) corners: [Option<&'a Cut>; 4],
}

impl Shape<'_> {
    /// How much of a pixel is covered, of [`WHOLE`]; nothing outside the square.
    pub(super) fn at(&self, row: usize, column: usize) -> u32 {
        let last = self.edge - 1;
        if row > last || column > last {
            return 0;
        }
        let places = [(row, column), (row, last - column), (last - row, last - column), (last - row, column)];
        let cut: u32 = self
            .corners
            .iter()
            .zip(places)
            .filter_map(|(cut, (row, column))| Some(cut.as_ref()?.at(row, column)))
            .sum();
        WHOLE - cut
    }
}
