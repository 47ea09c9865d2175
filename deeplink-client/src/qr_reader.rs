//! Reads QR codes back from images, to check a code before it is printed.
//!
//! It reads images of one code (ISO/IEC 18004), such as those that the service generates: dark on light or light on
//! dark, with round or square finder patterns, with or without a margin. Photographs may work, but are not supported.
//!
//! ```
//! use deeplink_client::qr_reader::{ReadError, read_png};
//!
//! // From `client.links().qr(…)` or a file.
//! let bytes = b"GIF89a";
//! assert!(matches!(read_png(bytes), Err(ReadError::NotPng(_))));
//! ```

use std::io::Cursor;
use std::slice::ChunksExact;
use std::{error, fmt};

use deeplink_core::colour::Rgb;
use png::{ColorType, Decoder, DecodingError, Limits, Transformations};
use rxing::common::{GlobalHistogramBinarizer, HybridBinarizer};
use rxing::{BarcodeFormat, Binarizer, BinaryBitmap, DecodeHints, Luma8Source, MultiFormatReader, Reader};

/// Maximum size of a file.
pub const MAX_BYTES: usize = 16 << 20;
/// Maximum pixels per side.
pub const MAX_SIDE: u32 = 4_096;

/// Background put around an image that could not be read as it is, in pixels.
const PADDING: u32 = 40;
/// The scales of the retries, in percent. Readers detect finder patterns by pixel counts, so a round corner that
/// misleads them at one scale may not at another.
const SCALES: [u32; 6] = [100, 50, 66, 80, 125, 150];
/// Longest side of an image that is enlarged.
const MAX_ENLARGED: u32 = MAX_SIDE + 2 * PADDING;

/// Why no code was read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file has more than [`MAX_BYTES`] bytes, or the image more than [`MAX_SIDE`] pixels per side.
    TooLarge,
    /// Not a PNG, or a damaged one.
    NotPng(Box<dyn error::Error + Send + Sync>),
    /// No readable code in the image.
    NoCode,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => {
                write!(
                    f,
                    "the image is too large: the maximum is {} MiB and {MAX_SIDE} pixels per side",
                    MAX_BYTES >> 20
                )
            }
            Self::NotPng(_) => f.write_str("the image is not a valid PNG"),
            Self::NoCode => f.write_str("no QR code could be read from the image"),
        }
    }
}

impl error::Error for ReadError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NotPng(why) => Some(&**why),
            Self::TooLarge | Self::NoCode => None,
        }
    }
}

/// The text of the QR code in a PNG file of any color type; transparent pixels are read on white.
pub fn read_png(bytes: &[u8]) -> Result<String, ReadError> {
    if bytes.len() > MAX_BYTES {
        return Err(ReadError::TooLarge);
    }
    let (width, height, luma) = decode(bytes)?;
    read_luma(width, height, luma).ok_or(ReadError::NoCode)
}

/// The text of the QR code in an image of `width` × `height` pixels, one byte each from 0 (black) to 255 (white), row
/// by row. `None` also if the sizes do not match, or a side is longer than [`MAX_SIDE`].
pub fn read_luma(width: u32, height: u32, luma: Vec<u8>) -> Option<String> {
    let mut picture = Picture { width, height, luma };
    if !picture.is_whole() {
        return None;
    }
    picture.stretch_contrast();
    let inverse = picture.inverted();
    // A code has more background than ink, but little more where it has no margin.
    let both = if picture.mean() >= 128 { [&picture, &inverse] } else { [&inverse, &picture] };
    both.iter().find_map(|picture| picture.read()).or_else(|| {
        let both = both.map(Picture::padded);
        let mut sizes =
            SCALES.iter().flat_map(|&percent| both.iter().filter_map(move |picture| picture.scaled(percent)));
        sizes.find_map(|picture| picture.read())
    })
}

fn decode(bytes: &[u8]) -> Result<(u32, u32, Vec<u8>), ReadError> {
    let not_png = |why: DecodingError| match why {
        DecodingError::LimitsExceeded => ReadError::TooLarge,
        why => ReadError::NotPng(why.into()),
    };
    // Limits the memory for everything but the pixels.
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: MAX_BYTES });
    decoder.set_transformations(Transformations::normalize_to_color8());
    let header = decoder.read_header_info().map_err(not_png)?;
    if header.width.max(header.height) > MAX_SIDE {
        return Err(ReadError::TooLarge);
    }
    let mut reader = decoder.read_info().map_err(not_png)?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or(ReadError::TooLarge)?];
    let frame = reader.next_frame(&mut pixels).map_err(not_png)?;
    pixels.truncate(frame.buffer_size());
    let luma = match frame.color_type {
        ColorType::Grayscale => pixels,
        ColorType::GrayscaleAlpha => pixels.chunks_exact(2).map(|pixel| on_white(pixel[0], pixel[1])).collect(),
        ColorType::Rgba => {
            pixels.chunks_exact(4).map(|pixel| on_white(grey(pixel[0], pixel[1], pixel[2]), pixel[3])).collect()
        }
        // Palettes have been expanded.
        ColorType::Rgb | ColorType::Indexed => {
            pixels.chunks_exact(3).map(|pixel| grey(pixel[0], pixel[1], pixel[2])).collect()
        }
    };
    Ok((frame.width, frame.height, luma))
}

fn grey(red: u8, green: u8, blue: u8) -> u8 {
    Rgb([red, green, blue]).luma()
}

fn on_white(luma: u8, alpha: u8) -> u8 {
    let (luma, alpha) = (u32::from(luma), u32::from(alpha));
    u8::try_from((luma * alpha + 255 * (255 - alpha) + 127) / 255).unwrap_or(u8::MAX)
}

/// Gray pixels, row by row.
struct Picture {
    width: u32,
    height: u32,
    luma: Vec<u8>,
}

impl Picture {
    fn is_whole(&self) -> bool {
        let pixels = u64::from(self.width) * u64::from(self.height);
        (1..=MAX_SIDE).contains(&self.width)
            && (1..=MAX_SIDE).contains(&self.height)
            && usize::try_from(pixels).is_ok_and(|pixels| pixels == self.luma.len())
    }

    fn rows(&self) -> ChunksExact<'_, u8> {
        self.luma.chunks_exact(self.width as usize)
    }

    fn mean(&self) -> usize {
        self.luma.iter().copied().map(usize::from).sum::<usize>() / self.luma.len()
    }

    /// The most common value of the lighter pixels: the edge is no guide, because a finder pattern may touch it.
    fn background(&self) -> u8 {
        let mut seen = [0_usize; 256];
        for &luma in &self.luma {
            seen[usize::from(luma)] += 1;
        }
        let mean = self.mean();
        let lighter = (0..=u8::MAX).filter(|&luma| usize::from(luma) >= mean);
        lighter.max_by_key(|&luma| seen[usize::from(luma)]).unwrap_or(u8::MAX)
    }

    /// Makes the darkest pixel black and the lightest white, as a camera's exposure does: two grays make a valid code.
    /// Without this, a global threshold cannot separate grays that are close.
    fn stretch_contrast(&mut self) {
        let darkest = self.luma.iter().copied().min().unwrap_or_default();
        let lightest = self.luma.iter().copied().max().unwrap_or_default();
        let range = u32::from(lightest - darkest).max(1);
        let stretched: Vec<u8> = (0..=u8::MAX)
            .map(|luma| u8::try_from(u32::from(luma.saturating_sub(darkest)) * 255 / range).unwrap_or(u8::MAX))
            .collect();
        for luma in &mut self.luma {
            *luma = stretched[usize::from(*luma)];
        }
    }

    fn inverted(&self) -> Self {
        Self { luma: self.luma.iter().map(|luma| 255 - luma).collect(), ..*self }
    }

    /// With a background margin, dark on light.
    fn padded(&self) -> Self {
        let (width, height) = (self.width + 2 * PADDING, self.height + 2 * PADDING);
        let mut luma = vec![self.background(); width as usize * height as usize];
        let inside = luma.chunks_exact_mut(width as usize).skip(PADDING as usize);
        for (to, from) in inside.zip(self.rows()) {
            to[PADDING as usize..][..from.len()].copy_from_slice(from);
        }
        Self { width, height, luma }
    }

    /// `None` if there would be too many pixels, or none.
    fn scaled(&self, percent: u32) -> Option<Self> {
        let [width, height] = [self.width, self.height].map(|side| side * percent / 100);
        let fits = |side| side > 0 && (percent <= 100 || side <= MAX_ENLARGED);
        (fits(width) && fits(height))
            .then(|| self.stretched(height, percent).turned().stretched(width, percent).turned())
    }

    /// Resampled to `height` rows. Each is the weighted mean of the rows around its place, so that no row is lost when
    /// shrinking.
    fn stretched(&self, height: u32, percent: u32) -> Self {
        // A row is `step` high, in units so fine that every position is an integer.
        let (step, reach) = (i64::from(2 * percent), i64::from(2 * percent.max(100)));
        let mut luma = Vec::with_capacity(self.width as usize * height as usize);
        let mut sums = vec![0_u32; self.width as usize];
        for row in 0..height {
            let center = i64::from(2 * row + 1) * 100 - i64::from(percent);
            let first = usize::try_from((center - reach) / step).unwrap_or(0);
            let mut weights = 0;
            sums.fill(0);
            for (at, from) in self.rows().enumerate().skip(first).take(8) {
                let distance = i64::try_from(at).map_or(reach, |at| (at * step - center).abs());
                let weight = u32::try_from(reach - distance).unwrap_or(0);
                if weight > 0 {
                    weights += weight;
                    for (sum, &luma) in sums.iter_mut().zip(from) {
                        *sum += weight * u32::from(luma);
                    }
                }
            }
            luma.extend(sums.iter().map(|sum| u8::try_from(sum / weights.max(1)).unwrap_or(u8::MAX)));
        }
        Self { width: self.width, height, luma }
    }

    /// Transposed.
    fn turned(&self) -> Self {
        let columns = 0..self.width as usize;
        let luma = columns.flat_map(|column| self.luma.iter().skip(column).step_by(self.width as usize)).copied();
        Self { width: self.height, height: self.width, luma: luma.collect() }
    }

    /// Thresholds each pixel by its surroundings and, if nothing is read, by the whole image: a wide dark gray module
    /// can be lighter than the surroundings considered.
    fn read(&self) -> Option<String> {
        let source = || Luma8Source::new_with_slice(&self.luma, self.width, self.height).ok();
        read(HybridBinarizer::new(source()?)).or_else(|| read(GlobalHistogramBinarizer::new(source()?)))
    }
}

fn read(binarizer: impl Binarizer) -> Option<String> {
    let hints = DecodeHints {
        TryHarder: Some(true),
        PossibleFormats: Some([BarcodeFormat::QR_CODE].into()),
        // A code does not declare the encoding of a byte segment; URLs are ASCII, and other texts are UTF-8 today.
        CharacterSet: Some("UTF-8".to_owned()),
        ..DecodeHints::default()
    };
    let found = MultiFormatReader::default().decode_with_hints(&mut BinaryBitmap::new(binarizer), &hints).ok()?;
    Some(found.getText().to_owned())
}

#[cfg(test)]
mod tests {
    use qrcodegen::{QrCode, QrCodeEcc, QrSegment};

    use super::*;

    const TEXT: &str = "https://go.example.com/8K2QX9ZB";

    /// A code with `scale` pixels for each module.
    fn code(text: &str, scale: u32, margin: u32, dark: u8, light: u8) -> Picture {
        let code = QrCode::encode_segments(&[QrSegment::make_bytes(text.as_bytes())], QrCodeEcc::Low).expect("a code");
        let side = (u32::try_from(code.size()).expect("a size") + 2 * margin) * scale;
        let at = |pixel: u32| i32::try_from(pixel / scale).expect("few") - i32::try_from(margin).expect("few");
        let pixels = (0..side).flat_map(|y| (0..side).map(move |x| (x, y)));
        let luma = pixels.map(|(x, y)| if code.get_module(at(x), at(y)) { dark } else { light }).collect();
        Picture { width: side, height: side, luma }
    }

    fn read(picture: Picture) -> Option<String> {
        read_luma(picture.width, picture.height, picture.luma)
    }

    fn png(picture: &Picture, color: ColorType, pixel: impl Fn(u8) -> Vec<u8>) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, picture.width, picture.height);
        encoder.set_color(color);
        encoder.set_palette((0..=u8::MAX).flat_map(|luma| [luma; 3]).collect::<Vec<_>>());
        let mut writer = encoder.write_header().expect("a header");
        writer.write_image_data(&picture.luma.iter().copied().flat_map(pixel).collect::<Vec<_>>()).expect("pixels");
        writer.finish().expect("an end");
        file
    }

    #[test]
    fn codes_are_read_dark_on_light_and_light_on_dark_with_and_without_a_margin() {
        for (dark, light) in [(0, 255), (255, 0), (100, 200), (90, 40)] {
            for (scale, margin) in [(2, 0), (3, 2), (7, 0), (20, 4)] {
                let found = read(code(TEXT, scale, margin, dark, light));
                assert_eq!(found.as_deref(), Some(TEXT), "{dark} on {light}, {scale} px, margin {margin}");
            }
        }
        let long = "https://example.com/grüße?".to_owned() + &"x".repeat(1_000);
        assert_eq!(read(code(&long, 3, 2, 0, 255)), Some(long));
    }

    /// Without a margin, most of the edge belongs to the eyes' frames.
    #[test]
    fn what_is_put_around_a_code_is_its_background() {
        for margin in [0, 4] {
            let code = code(TEXT, 5, margin, 20, 230);
            assert_eq!((code.background(), code.inverted().background()), (230, 235), "margin {margin}");
            assert_eq!((code.padded().luma[0], code.padded().width), (230, code.width + 2 * PADDING));
        }
    }

    #[test]
    fn every_colour_type_is_read() {
        let picture = code(TEXT, 4, 2, 0, 255);
        for (color, file) in [
            ("grey", png(&picture, ColorType::Grayscale, |luma| vec![luma])),
            ("palette", png(&picture, ColorType::Indexed, |luma| vec![luma])),
            ("RGB", png(&picture, ColorType::Rgb, |luma| vec![luma, luma / 2, 0])),
            ("grey on nothing", png(&picture, ColorType::GrayscaleAlpha, |luma| vec![0, 255 - luma])),
            ("white on nothing but black", png(&picture, ColorType::Rgba, |luma| vec![0, 0, 0, 255 - luma])),
        ] {
            assert_eq!(read_png(&file).ok().as_deref(), Some(TEXT), "{color}");
        }
    }

    #[test]
    fn what_is_no_code_is_told_from_what_is_no_picture() {
        let blank = Picture { width: 50, height: 30, luma: vec![255; 1_500] };
        assert!(matches!(read_png(&png(&blank, ColorType::Grayscale, |luma| vec![luma])), Err(ReadError::NoCode)));
        let whole = png(&code(TEXT, 4, 2, 0, 255), ColorType::Grayscale, |luma| vec![luma]);
        for broken in [&b""[..], b"GIF89a", &whole[..20], &whole[..whole.len() / 2]] {
            let why = read_png(broken).expect_err("a refusal");
            assert!(matches!(why, ReadError::NotPng(_)), "{why:?}");
            assert!(error::Error::source(&why).is_some());
        }
    }

    #[test]
    fn pictures_beyond_the_limits_are_refused_before_they_are_decoded() {
        assert!(matches!(read_png(&vec![0; MAX_BYTES + 1]), Err(ReadError::TooLarge)));
        let wide = Picture { width: MAX_SIDE + 1, height: 1, luma: vec![255; MAX_SIDE as usize + 1] };
        assert!(matches!(read_png(&png(&wide, ColorType::Grayscale, |luma| vec![luma])), Err(ReadError::TooLarge)));
        assert_eq!(read(wide), None);
        for (width, height, pixels) in [(0, 0, 0), (2, 2, 3), (2, 2, 5), (u32::MAX, u32::MAX, 1)] {
            assert_eq!(read_luma(width, height, vec![0; pixels]), None);
        }
    }

    /// Pure noise of every small size must not crash the reader.
    #[test]
    fn noise_is_no_code() {
        let mut state = 1_u32;
        for side in 1..40 {
            let pixels = side * (41 - side);
            let luma = (0..pixels).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            });
            assert_eq!(read_luma(side, 41 - side, luma.collect()), None);
        }
    }

    #[test]
    fn scaling_keeps_what_is_flat_and_where_things_are() {
        let flat = Picture { width: 7, height: 5, luma: vec![77; 35] };
        for percent in SCALES {
            let scaled = flat.scaled(percent).expect("a picture");
            assert!(scaled.is_whole() && scaled.luma.iter().all(|&luma| luma == 77), "{percent}");
            assert_eq!((scaled.width, scaled.height), (7 * percent / 100, 5 * percent / 100));
        }
        let halves = Picture { width: 40, height: 4, luma: [[0; 20], [255; 20]].concat().repeat(4) };
        for percent in SCALES {
            let row = halves.scaled(percent).expect("a picture").luma[..40 * percent as usize / 100].to_vec();
            let (left, right) = row.split_at(row.len() / 2);
            assert!(left.iter().all(|&luma| luma < 128) && right.iter().all(|&luma| luma > 127), "{percent}: {row:?}");
        }
        assert_eq!(halves.scaled(100).expect("a picture").luma, halves.luma);
    }
}
