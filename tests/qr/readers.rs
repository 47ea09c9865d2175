//! Readers of codes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use image::GrayImage;
use rqrr::PreparedImage;
use rxing::common::{GlobalHistogramBinarizer, HybridBinarizer};
use rxing::{BarcodeFormat, Binarizer, BinaryBitmap, DecodeHints, Luma8Source, MultiFormatReader, Reader};

use crate::cases::Case;
use crate::pictures::{padded, scaled, seen};

/// Background around a picture that was not read as it is, in pixels.
const PADDING: u32 = 40;
/// Scales of the retries.
const SCALES: [f32; 6] = [1.0, 0.5, 0.66, 0.8, 1.25, 1.5];

/// A reader: the text in a picture, if it finds one.
pub(crate) type Read = fn(&GrayImage) -> Option<String>;

/// rxing, a port of zxing-cpp with the older ZXing behind it, as ZXing's own programs try harder: a pixel is dark
/// compared with its surroundings or, if nothing is read then, with the whole image.
pub(crate) fn rxing(picture: &GrayImage) -> Option<String> {
    let (width, height) = picture.dimensions();
    let source = || Luma8Source::new_with_slice(picture, width, height).ok();
    with_rxing(HybridBinarizer::new(source()?)).or_else(|| with_rxing(GlobalHistogramBinarizer::new(source()?)))
}

fn with_rxing(binarizer: impl Binarizer) -> Option<String> {
    let formats = Some([BarcodeFormat::QR_CODE].into());
    let hints = DecodeHints { TryHarder: Some(true), PossibleFormats: formats, ..DecodeHints::default() };
    let found = MultiFormatReader::default().decode_with_hints(&mut BinaryBitmap::new(binarizer), &hints).ok()?;
    Some(found.getText().to_owned())
}

/// rqrr, a port of quirc, which fits lines to the straight edges of eyes.
pub(crate) fn rqrr(picture: &GrayImage) -> Option<String> {
    let (width, height) = picture.dimensions();
    let pixels = picture.as_raw();
    let width = width as usize;
    let mut prepared = PreparedImage::prepare_from_greyscale(width, height as usize, |x, y| pixels[y * width + x]);
    prepared.detect_grids().iter().find_map(|grid| grid.decode().ok()).map(|(_, text)| text)
}

/// Whether the text is read: from the picture, or with background around it, or from that in other sizes.
pub(crate) fn reads(read: Read, picture: &GrayImage, text: &str) -> Result<(), String> {
    let mut tries = 0;
    let mut is_read = |picture: &GrayImage| match read(picture) {
        Some(found) if found == text => Some(Ok(())),
        Some(other) => Some(Err(format!("read as {other:?}"))),
        None => {
            tries += 1;
            None
        }
    };
    is_read(picture)
        .or_else(|| {
            let padded = padded(picture, PADDING);
            SCALES.iter().find_map(|&scale| is_read(&scaled(&padded, scale)))
        })
        .unwrap_or_else(|| Err(format!("not read in {tries} tries")))
}

/// Results of many cases.
pub(crate) struct Outcome {
    tried: usize,
    misses: Vec<String>,
}

impl Outcome {
    /// All were read.
    pub(crate) fn is_perfect(&self, what: &str) {
        self.is_at_least(100, what);
    }

    /// At least this percentage was read.
    pub(crate) fn is_at_least(&self, percent: usize, what: &str) {
        let Self { tried, misses } = self;
        assert!(*tried > 0, "{what}: nothing was tried");
        assert!(
            misses.len() * 100 <= tried * (100 - percent),
            "{what}: {} of {tried} were not read, where {percent} % must be:\n  {}",
            misses.len(),
            misses[..misses.len().min(20)].join("\n  ")
        );
    }
}

/// Checks the cases on all cores.
pub(crate) fn each<T: Sync>(all: &[T], check: impl Fn(&T) -> Result<(), String> + Sync) -> Outcome {
    let (next, misses) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(miss) = check(one) {
                        misses.lock().expect("the list").push(miss);
                    }
                }
            });
        }
    });
    Outcome { tried: all.len(), misses: misses.into_inner().expect("the list") }
}

/// Draws and reads each case; an SVG at its own size and at twice that.
pub(crate) fn each_is_read(cases: &[Case], read: Read) -> Outcome {
    each(cases, |case| {
        for picture in seen(case) {
            reads(read, &picture, &case.content).map_err(|why| format!("{case}: {why}"))?;
        }
        Ok(())
    })
}
