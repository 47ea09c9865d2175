//! Resizing of logos. Only sums, products and comparisons of floats: the result is the same on every platform.

use super::Logo;

/// A pixel: red, green and blue from 0 to 255, multiplied by alpha, and alpha from 0 to 1.
pub(super) type Pixel = [f32; 4];

/// The logo at this size, row by row. Cubic interpolation (Catmull-Rom), widened to the step between pixels when it
/// shrinks. Colours are weighed by their alpha, so that what is transparent leaves no fringe.
pub(super) fn resize(logo: &Logo, width: u32, height: u32) -> Vec<Pixel> {
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
                narrow(source, &columns, &mut line);
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
        let most = 255.0 * pixel[3];
        for channel in &mut pixel[..3] {
            *channel = channel.clamp(0.0, most);
        }
    }
    out
}

/// One row of the logo, resized.
fn narrow(source: &[u8], columns: &[Taps], line: &mut [Pixel]) {
    for (pixel, taps) in line.iter_mut().zip(columns) {
        *pixel = [0.0; 4];
        for (rgba, weight) in source[4 * taps.first..].chunks_exact(4).zip(&taps.weights) {
            let alpha = weight * (f32::from(rgba[3]) / 255.0);
            for (sum, channel) in pixel.iter_mut().zip(&rgba[..3]) {
                *sum += alpha * f32::from(*channel);
            }
            pixel[3] += alpha;
        }
    }
}

/// What one pixel of the result is made of: neighbours in the source, and the part of each. The parts add up to 1.
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
        weights.iter_mut().for_each(|weight| *weight /= sum);
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
