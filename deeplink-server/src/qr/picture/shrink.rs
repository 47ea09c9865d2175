//! Scales an image down row by row to the largest size that can be drawn.

/// Longest edge of a logo, in pixels: the longest edge of a QR code.
const MAX_EDGE: u32 = 2_048;
/// Maximum pixels of a logo: about as many as the largest code of a typical link draws; the very largest codes enlarge
/// it by a tenth. Embedded in an SVG, a logo has at most 512 px on an edge.
const MAX_PIXELS: u64 = 256 << 10;

/// Takes rows in order. Each resulting pixel is the mean of the area that it covers, in whole numbers and weighted by
/// opacity, so that transparent colors do not show.
pub(super) struct Shrink {
    from: (u64, u64),
    to: (u64, u64),
    /// Rows taken so far.
    taken: u64,
    /// The current row of the result: red, green, blue times alpha, and alpha, times the area.
    row: Vec<[u64; 4]>,
    rgba: Vec<u8>,
}

impl Shrink {
    /// For rows of a picture of this size.
    pub(super) fn new(width: u32, height: u32) -> Self {
        let to = fitting(width, height);
        let (width, height) = (u64::from(width), u64::from(height));
        let (columns, rows) = (usize::try_from(to.0).unwrap_or(0), usize::try_from(to.1).unwrap_or(0));
        Self {
            from: (width, height),
            to,
            taken: 0,
            row: vec![[0; 4]; columns],
            rgba: Vec::with_capacity(columns * rows * 4),
        }
    }

    /// Takes a row of 8-bit pixels: gray, gray and alpha, RGB or RGBA, as its length says.
    pub(super) fn row(&mut self, pixels: &[u8]) {
        let ((width, height), rows) = (self.from, self.to.1);
        if self.taken >= height {
            return;
        }
        let channels = pixels.len() / usize::try_from(width).unwrap_or(usize::MAX).max(1);
        // In units of which the picture has height × rows: this row, and the end of the result's row in it.
        let (top, bottom) = (self.taken * rows, (self.taken + 1) * rows);
        let end = (top / height + 1) * height;
        if channels > 0 {
            self.add(pixels, channels, bottom.min(end) - top);
        }
        if bottom >= end {
            self.emit();
            if bottom > end && channels > 0 {
                self.add(pixels, channels, bottom - end);
            }
        }
        self.taken += 1;
    }

    fn add(&mut self, pixels: &[u8], channels: usize, weight: u64) {
        // In units of which the row has width × columns: the end of this pixel, and of the result's pixel.
        let (width, columns) = (self.from.0, self.to.0);
        let (mut right, mut end) = (0, width);
        let mut cell = [0; 4];
        let mut cells = self.row.iter_mut();
        for pixel in pixels.chunks_exact(channels) {
            let (red, green, blue, alpha) = match *pixel {
                [red, green, blue, alpha] => (red, green, blue, alpha),
                [red, green, blue] => (red, green, blue, 255),
                [grey, alpha] => (grey, grey, grey, alpha),
                [grey, ..] => (grey, grey, grey, 255),
                [] => return,
            };
            let alpha = u64::from(alpha);
            let value = [u64::from(red) * alpha, u64::from(green) * alpha, u64::from(blue) * alpha, alpha];
            right += columns;
            if right < end {
                add_to(&mut cell, value, columns);
                continue;
            }
            let beyond = right - end;
            add_to(&mut cell, value, columns - beyond);
            if let Some(sum) = cells.next() {
                add_to(sum, cell, weight);
            }
            cell = [0; 4];
            add_to(&mut cell, value, beyond);
            end += width;
        }
    }

    /// Appends a finished row to the result.
    fn emit(&mut self) {
        let area = self.from.0 * self.from.1;
        for sum in &mut self.row {
            let [red, green, blue, alpha] = std::mem::take(sum);
            let mean = |sum: u64, of: u64| u8::try_from((sum + of / 2).checked_div(of).unwrap_or(0)).unwrap_or(u8::MAX);
            self.rgba.extend([mean(red, alpha), mean(green, alpha), mean(blue, alpha), mean(alpha, area)]);
        }
    }

    /// Width, height and pixels, once all rows were taken.
    pub(super) fn finish(self) -> Option<(u32, u32, Vec<u8>)> {
        let (width, height) = (u32::try_from(self.to.0).ok()?, u32::try_from(self.to.1).ok()?);
        (self.taken == self.from.1).then_some((width, height, self.rgba))
    }
}

fn add_to(sum: &mut [u64; 4], value: [u64; 4], weight: u64) {
    let [red, green, blue, alpha] = sum;
    *red += value[0] * weight;
    *green += value[1] * weight;
    *blue += value[2] * weight;
    *alpha += value[3] * weight;
}

/// The largest size within the limits, with the same proportions where whole pixels allow it without much loss.
fn fitting(width: u32, height: u32) -> (u64, u64) {
    let (long, pixels) = (width.max(height), u64::from(width) * u64::from(height));
    let (width, height) = (u64::from(width), u64::from(height));
    if long <= MAX_EDGE && pixels <= MAX_PIXELS {
        return (width, height);
    }
    let common = greatest_common_divisor(width, height);
    let (across, down) = (width / common, height / common);
    let times = (u64::from(MAX_EDGE) / across.max(down)).min((MAX_PIXELS / (across * down)).isqrt());
    // The next larger multiple does not fit, so that at most an eighth is lost.
    if times >= 7 {
        return (across * times, down * times);
    }
    // The longer edge first, then the other to the nearest pixel that fits.
    let long = u64::from(MAX_EDGE).min((MAX_PIXELS * width.max(height) / width.min(height)).isqrt());
    let other =
        |edge: u64| ((edge * long * 2 + width.max(height)) / (width.max(height) * 2)).clamp(1, MAX_PIXELS / long);
    if width >= height { (long, other(height)) } else { (other(width), long) }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
