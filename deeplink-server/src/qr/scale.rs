//! Resizing of logos. Uses only sums, products and comparisons of floats, so the result is the same on every platform.

use super::Logo;

/// A pixel: red, green and blue from 0 to 255, multiplied by alpha, and alpha from 0 to 1.
pub(super) type Pixel = [f32; 4];

/// The logo at this size, row by row. Cubic interpolation (Catmull-Rom), widened to the step between pixels when it
/// shrinks. Colors are premultiplied, so that transparent pixels leave no fringe.
pub(super) fn resize(logo: &Logo, width: u32, height: u32) -> Vec<Pixel> {
    if (width, height) == (logo.width(), logo.height()) {
        return logo.rgba().as_chunks().0.iter().map(|rgba| premultiplied(*rgba, 1.0)).collect();
    }
    let columns = weights(logo.width(), width);
    let rows = weights(logo.height(), height);
    let width = width as usize;
    let mut out = vec![[0.0; 4]; width * height as usize];
    let mut line = vec![[0.0; 4]; width];
    let lines = logo.rgba().chunks_exact(4 * logo.width() as usize);
    for (at, source) in lines.enumerate() {
        let mut done = false;
        // Rows of the picture that this row of the logo adds to.
        let begin = rows.partition_point(|taps| taps.first + taps.weights.len() <= at);
        for (row, taps) in rows.iter().enumerate().skip(begin).take_while(|(_, taps)| taps.first <= at) {
            if !done {
                resize_row(source, &columns, &mut line);
                done = true;
            }
            let weight = taps.weights[at - taps.first];
            for (pixel, part) in out[row * width..][..width].iter_mut().zip(&line) {
                for (sum, value) in pixel.iter_mut().zip(part) {
                    *sum += weight * value;
                }
            }
        }
    }
    // The filter overshoots at hard edges.
    for pixel in &mut out {
        pixel[3] = pixel[3].clamp(0.0, 1.0);
        let max = 255.0 * pixel[3];
        for channel in &mut pixel[..3] {
            *channel = channel.clamp(0.0, max);
        }
    }
    out
}

/// One row of the logo, resized.
fn resize_row(source: &[u8], columns: &[Taps], line: &mut [Pixel]) {
    for (pixel, taps) in line.iter_mut().zip(columns) {
        *pixel = [0.0; 4];
        for (rgba, weight) in source.as_chunks().0[taps.first..].iter().zip(&taps.weights) {
            for (sum, value) in pixel.iter_mut().zip(premultiplied(*rgba, *weight)) {
                *sum += value;
            }
        }
    }
}

/// A pixel of the logo, premultiplied and weighted.
fn premultiplied([red, green, blue, alpha]: [u8; 4], weight: f32) -> Pixel {
    let alpha = weight * (f32::from(alpha) / 255.0);
    [alpha * f32::from(red), alpha * f32::from(green), alpha * f32::from(blue), alpha]
}

/// The source pixels of one pixel of the result, with their weights, which add up to 1.
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "edges of pictures are far below 2^24"
)]
fn weights(from: u32, to: u32) -> Vec<Taps> {
    let step = from as f32 / to as f32;
    let stretch = step.max(1.0);
    let taps = |at: u32| {
        let centre = (at as f32 + 0.5) * step;
        let first = (centre - 2.0 * stretch).floor().max(0.0) as usize;
        let end = ((centre + 2.0 * stretch).ceil() as usize).min(from as usize);
        let mut weights: Vec<f32> =
            (first..end).map(|source| cubic((source as f32 + 0.5 - centre) / stretch)).collect();
        let sum: f32 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= sum;
        }
        Taps { first, weights }
    };
    (0..to).map(taps).collect()
}

/// The Catmull-Rom kernel.
fn cubic(x: f32) -> f32 {
    let x = x.abs();
    if x < 1.0 {
        (1.5 * x - 2.5) * x * x + 1.0
    } else if x < 2.0 {
        ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logo(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Logo {
        let places = (0..width * height).map(|at| (at / width, at % width));
        let rgba = places.flat_map(|(row, column)| pixel(row, column)).collect();
        Logo::new(width, height, rgba, [0; 32]).expect("a logo")
    }

    fn close(pixel: Pixel, expected: Pixel) -> bool {
        pixel.iter().zip(expected).all(|(one, other)| (one - other).abs() < 0.01)
    }

    #[test]
    fn one_colour_stays_that_colour_at_any_size() {
        let source = logo(37, 23, |_, _| [200, 100, 50, 255]);
        for (width, height) in [(1, 1), (5, 40), (37, 23), (100, 3), (74, 46)] {
            let resized = resize(&source, width, height);
            assert_eq!(resized.len(), (width * height) as usize);
            assert!(resized.iter().all(|pixel| close(*pixel, [200.0, 100.0, 50.0, 1.0])), "{width} × {height}");
        }
    }

    #[test]
    fn at_its_own_size_a_logo_is_unchanged() {
        let of = |row: u32, column: u32| u8::try_from((row * 31 + column * 17) % 256).expect("a byte");
        let source = logo(9, 11, |row, column| [of(row, column), of(column, row), 7, 255]);
        for (at, pixel) in resize(&source, 9, 11).into_iter().enumerate() {
            let rgba = &source.rgba()[4 * at..][..4];
            assert!(close(pixel, [f32::from(rgba[0]), f32::from(rgba[1]), 7.0, 1.0]), "{at}: {pixel:?}");
        }
    }

    /// Transparent pixels have a color too, which must not show.
    #[test]
    fn transparent_pixels_leave_no_fringe() {
        let source = logo(64, 64, |_, column| if column < 32 { [0, 255, 0, 0] } else { [255, 0, 0, 255] });
        for edge in [5, 17, 64, 200] {
            let resized = resize(&source, edge, edge);
            assert!(resized.iter().all(|[_, green, blue, _]| *green == 0.0 && *blue == 0.0));
            assert!(resized.iter().all(|[red, _, _, alpha]| (red - 255.0 * alpha).abs() < 0.01));
            assert!(resized[0][3] < 0.01 && resized[edge as usize - 1][3] > 0.99);
        }
    }

    #[test]
    fn what_shrinks_is_averaged() {
        let source = logo(256, 256, |row, column| if (row + column) % 2 == 0 { [255; 4] } else { [0, 0, 0, 255] });
        for pixel in resize(&source, 20, 20) {
            assert!((pixel[0] - 127.5).abs() < 4.0 && (pixel[3] - 1.0).abs() < 0.01, "{pixel:?}");
        }
    }

    #[test]
    fn nothing_overshoots() {
        let source = logo(40, 40, |_, column| if column < 20 { [0, 0, 0, 255] } else { [255; 4] });
        for pixel in resize(&source, 333, 7) {
            assert!(pixel[..3].iter().all(|channel| (0.0..=255.0).contains(channel)) && pixel[3] <= 1.0);
        }
    }
}
