//! Images as readers receive them: grey pixels, drawn or rasterised, with and without distortions.

use deeplink_core::colour::Rgb;
use deeplink_core::qr::QrFormat;
use image::imageops::FilterType;
use image::{DynamicImage, GrayImage, Luma, RgbImage};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use crate::cases::Case;
use crate::print::as_svg;

/// The image of a case: a PNG as it is, any other at its own size and at twice that.
pub(crate) fn seen(case: &Case) -> Vec<GrayImage> {
    in_colour(case).iter().map(grey).collect()
}

/// Like [`seen`], in colour.
pub(crate) fn in_colour(case: &Case) -> Vec<RgbImage> {
    let file = case.draw();
    match case.format {
        QrFormat::Png => vec![decoded(&file)],
        QrFormat::Svg => [1, 2].map(|scale| rasterised(&file, scale)).into(),
        QrFormat::Pdf | QrFormat::Eps => {
            let svg = as_svg(&file, case.format, case.style().size);
            [1, 2].map(|scale| rasterised(svg.as_bytes(), scale)).into()
        }
    }
}

/// The pixels of a PNG.
pub(crate) fn decoded(png: &[u8]) -> RgbImage {
    image::load_from_memory(png).expect("a PNG").into_rgb8()
}

/// An SVG with `scale` pixels for each of its own.
pub(crate) fn rasterised(svg: &[u8], scale: u16) -> RgbImage {
    let tree = Tree::from_data(svg, &Options::default()).expect("an SVG");
    let size = tree.size().to_int_size().scale_by(f32::from(scale)).expect("a size");
    let mut pixels = Pixmap::new(size.width(), size.height()).expect("room");
    resvg::render(&tree, Transform::from_scale(scale.into(), scale.into()), &mut pixels.as_mut());
    let rgba = image::RgbaImage::from_raw(size.width(), size.height(), pixels.take()).expect("pixels");
    // The background is opaque, so nothing is premultiplied.
    DynamicImage::ImageRgba8(rgba).into_rgb8()
}

/// Luma by ITU-R BT.601, as cameras give it to readers.
pub(crate) fn grey(picture: &RgbImage) -> GrayImage {
    let mut luma = Vec::with_capacity(picture.as_raw().len() / 3);
    let (mut last, mut seen) = ([0; 3], Rgb([0; 3]).luma());
    for pixel in picture.as_raw().chunks_exact(3) {
        // Most pixels are like the one before.
        if pixel != last {
            last.copy_from_slice(pixel);
            seen = Rgb(last).luma();
        }
        luma.push(seen);
    }
    GrayImage::from_raw(picture.width(), picture.height(), luma).expect("pixels")
}

pub(crate) fn inverted(picture: &GrayImage) -> GrayImage {
    let mut picture = DynamicImage::ImageLuma8(picture.clone());
    picture.invert();
    picture.into_luma8()
}

/// The most frequent of the lighter colours: without a margin the edge may belong to an eye.
pub(crate) fn background(picture: &GrayImage) -> Luma<u8> {
    let mut seen = [0_usize; 256];
    for &luma in picture.as_raw() {
        seen[usize::from(luma)] += 1;
    }
    let mean = seen.iter().enumerate().map(|(luma, count)| luma * count).sum::<usize>() / picture.as_raw().len();
    Luma([(0..=u8::MAX)
        .filter(|&luma| usize::from(luma) >= mean)
        .max_by_key(|&luma| seen[usize::from(luma)])
        .expect("one")])
}

/// With `border` pixels of background all round.
pub(crate) fn padded(picture: &GrayImage, border: u32) -> GrayImage {
    let (width, height) = (picture.width() + 2 * border, picture.height() + 2 * border);
    let mut rows = GrayImage::from_pixel(width, height, background(picture)).into_raw();
    let inside = rows.chunks_exact_mut(width as usize).skip(border as usize);
    for (to, from) in inside.zip(picture.as_raw().chunks_exact(picture.width() as usize)) {
        to[border as usize..][..from.len()].copy_from_slice(from);
    }
    GrayImage::from_raw(width, height, rows).expect("pixels")
}

/// At another size.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "small numbers"
)]
pub(crate) fn scaled(picture: &GrayImage, scale: f32) -> GrayImage {
    let [width, height] = [picture.width(), picture.height()].map(|side| (side as f32 * scale).round() as u32);
    if (width, height) == picture.dimensions() {
        return picture.clone();
    }
    DynamicImage::ImageLuma8(picture.clone()).resize_exact(width, height, FilterType::Triangle).into_luma8()
}

/// Distortions by cameras, printers and messengers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wear {
    /// Out of focus: a Gaussian blur of 0.4 modules.
    Blurred,
    /// Compressed as JPEG of quality 40.
    Compressed,
    /// Turned by 7°.
    Turned,
    /// Seen from below: the upper edge 15% shorter than the lower one.
    Leaning,
    /// With 40% of its contrast.
    Faded,
}

impl Wear {
    pub(crate) const ALL: [Self; 5] = [Self::Blurred, Self::Compressed, Self::Turned, Self::Leaning, Self::Faded];

    /// The distorted image; a module is `module` pixels wide.
    pub(crate) fn on(self, picture: &GrayImage, module: f32) -> GrayImage {
        match self {
            Self::Blurred => DynamicImage::ImageLuma8(picture.clone()).blur(0.4 * module).into_luma8(),
            Self::Compressed => {
                let mut file = Vec::new();
                let encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut file, 40);
                picture.write_with_encoder(encoder).expect("a JPEG");
                image::load_from_memory(&file).expect("a JPEG").into_luma8()
            }
            Self::Turned => {
                let (sin, cos) = 7_f32.to_radians().sin_cos();
                warped(picture, 1.15, |x, y| (x * cos + y * sin, y * cos - x * sin))
            }
            Self::Leaning => {
                // A plane that leans back: at its upper edge everything is 1 / 0.85 times as far away.
                let farther = 1.0 / 0.85 - 1.0;
                warped(picture, 1.0, |x, y| {
                    let up = (0.5 - y) / (1.0 - farther * (0.5 - y));
                    (x * (1.0 + farther * up), 0.5 - up)
                })
            }
            Self::Faded => {
                let mut picture = picture.clone();
                for luma in picture.iter_mut() {
                    // Around the middle grey.
                    *luma = 77 + (u16::from(*luma) * 2 / 5).to_le_bytes()[0];
                }
                picture
            }
        }
    }
}

/// A picture `larger` times as large, in which the point at (x, y) shows the one at `from(x, y)`; the middle is (0, 0),
/// and the side of the original is 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "small numbers"
)]
fn warped(picture: &GrayImage, larger: f32, from: impl Fn(f32, f32) -> (f32, f32)) -> GrayImage {
    let (side, background) = (picture.width() as f32, background(picture));
    let at = |x: f32, y: f32| -> f32 {
        let inside = x >= 0.0 && y >= 0.0 && x < side && y < side;
        f32::from(if inside { picture.get_pixel(x as u32, y as u32).0[0] } else { background.0[0] })
    };
    let edge = (side * larger).round() as u32;
    let place = |pixel: u32| (pixel as f32 + 0.5) / side - larger / 2.0;
    GrayImage::from_fn(edge, edge, |x, y| {
        let (x, y) = from(place(x), place(y));
        let (x, y) = ((x + 0.5) * side - 0.5, (y + 0.5) * side - 0.5);
        let (right, down) = (x - x.floor(), y - y.floor());
        let upper = at(x, y) * (1.0 - right) + at(x + 1.0, y) * right;
        let lower = at(x, y + 1.0) * (1.0 - right) + at(x + 1.0, y + 1.0) * right;
        Luma([(upper * (1.0 - down) + lower * down).round() as u8])
    })
}
