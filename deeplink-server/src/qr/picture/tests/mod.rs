mod costs;
mod kinds;

use std::time::{Duration, Instant};

use image::{DynamicImage, ExtendedColorType, ImageEncoder, ImageFormat, Rgba, RgbaImage};

use super::*;

const RED: [u8; 4] = [255, 0, 0, 255];
const GREEN: [u8; 4] = [0, 255, 0, 255];
const BLUE: [u8; 4] = [0, 0, 255, 255];

/// 32 × 16: left red with a green corner of 8 × 8, right blue.
const SAMPLES: [(&str, &[u8]); 14] = [
    ("baseline.jpg", include_bytes!("../samples/baseline.jpg")),
    ("progressive.jpg", include_bytes!("../samples/progressive.jpg")),
    ("cmyk.jpg", include_bytes!("../samples/cmyk.jpg")),
    ("rotated.jpg", include_bytes!("../samples/rotated.jpg")),
    ("interlaced.png", include_bytes!("../samples/interlaced.png")),
    ("animated.png", include_bytes!("../samples/animated.png")),
    ("animated.webp", include_bytes!("../samples/animated.webp")),
    ("lossy.webp", include_bytes!("../samples/lossy.webp")),
    ("lossy-alpha.webp", include_bytes!("../samples/lossy-alpha.webp")),
    ("grey.jpg", include_bytes!("../samples/grey.jpg")),
    ("palette.webp", include_bytes!("../samples/palette.webp")),
    ("lossless-alpha.webp", include_bytes!("../samples/lossless-alpha.webp")),
    ("animated-lossless.webp", include_bytes!("../samples/animated-lossless.webp")),
    ("compressed-alpha.webp", include_bytes!("../samples/compressed-alpha.webp")),
];
/// Those with lossless data, which are refused.
const LOSSLESS: [&str; 4] = ["palette.webp", "lossless-alpha.webp", "animated-lossless.webp", "compressed-alpha.webp"];

fn sample(name: &str) -> &'static [u8] {
    SAMPLES.iter().find(|(other, _)| *other == name).expect("a sample").1
}

fn pixel(logo: &Logo, x: u32, y: u32) -> [u8; 4] {
    let at = (y * logo.width() + x) as usize * 4;
    logo.rgba()[at..at + 4].try_into().expect("a pixel")
}

fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, format).expect("a file");
    file.into_inner()
}

/// A PNG of one colour.
fn plain_png(width: u32, height: u32, colour: [u8; 4]) -> Vec<u8> {
    encoded(&RgbaImage::from_pixel(width, height, Rgba(colour)).into(), ImageFormat::Png)
}

#[track_caller]
fn assert_near(found: [u8; 4], expected: [u8; 4], what: &str) {
    assert!(found.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 12), "{what}: {found:?} is not {expected:?}");
}

#[test]
fn the_first_frame_of_every_kind_of_file_is_read_as_it_is_stored() {
    for (name, file) in SAMPLES.iter().filter(|(name, _)| *name != "grey.jpg" && !LOSSLESS.contains(name)) {
        let logo = Logo::decode(file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((logo.width(), logo.height()), (32, 16), "{name}");
        let alpha = if name.contains("alpha") { 128 } else { 255 };
        let seen = |[red, green, blue, _]: [u8; 4]| [red, green, blue, alpha];
        for (x, y, colour) in [(2, 2, GREEN), (3, 13, RED), (12, 3, RED), (30, 1, BLUE), (20, 12, BLUE)] {
            assert_near(pixel(&logo, x, y), seen(colour), name);
        }
        assert_eq!(*logo.digest(), <[u8; 32]>::from(Sha256::digest(file)), "{name}");
    }
    let grey = Logo::decode(sample("grey.jpg")).expect("a grey picture");
    assert_near(pixel(&grey, 30, 1), [29, 29, 29, 255], "blue is dark");
    let text = format!("{:?}", Logo::decode(sample("rotated.jpg")).expect("a picture").rgba());
    assert!(!text.contains(&format!("{:?}", b"EXIF").replace(['[', ']'], "")), "nothing but pixels");
}

#[test]
fn every_depth_and_colour_becomes_eight_bits_of_rgba() {
    let wide = image::ImageBuffer::from_pixel(3, 2, Rgba([0xffff_u16, 0x8080, 0, 0x4040]));
    let logo = Logo::decode(&encoded(&wide.into(), ImageFormat::Png)).expect("16 bits");
    assert_eq!(pixel(&logo, 2, 1), [255, 128, 0, 64]);
    for (kind, bytes, expected) in [
        (ExtendedColorType::L8, &[100][..], [100, 100, 100, 255]),
        (ExtendedColorType::La8, &[100, 50], [100, 100, 100, 50]),
        (ExtendedColorType::Rgb8, &[1, 2, 3], [1, 2, 3, 255]),
        (ExtendedColorType::Rgba8, &[1, 2, 3, 255], [1, 2, 3, 255]),
    ] {
        let mut file = Vec::new();
        let pixels = bytes.repeat(6);
        image::codecs::png::PngEncoder::new(&mut file).write_image(&pixels, 3, 2, kind).expect("a file");
        let logo = Logo::decode(&file).expect("a picture");
        assert_eq!(logo.rgba(), expected.repeat(6), "{kind:?}");
    }
    let clear = Logo::decode(&plain_png(2, 2, [9, 9, 9, 0])).expect("a picture");
    assert_eq!(clear.rgba(), [0; 16], "what cannot be seen is not kept");
}

/// Q4: a file's type is determined by its first and last bytes and its headers; nothing else is a logo.
#[test]
fn q4_only_whole_png_jpeg_and_webp_files_are_logos() {
    let png = plain_png(4, 4, RED);
    let with = |from: &[u8], more: &[u8]| [from, more].concat();
    let script = b"<script>alert(1)</script>";
    for (what, file) in [
        ("nothing", Vec::new()),
        ("a signature", png[..8].to_vec()),
        ("half a PNG", png[..png.len() / 2].to_vec()),
        ("SVG", b"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>".to_vec()),
        ("HTML", b"<!DOCTYPE html><img>".to_vec()),
        ("GIF", b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;".to_vec()),
        ("ICO", with(b"\0\0\x01\0\x01\0", &png)),
        ("AVIF", b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf".to_vec()),
        ("BMP", encoded_bmp()),
        ("GIF before PNG", with(b"GIF89a", &png)),
        ("PNG before script", with(&png, script)),
        ("JPEG before script", with(sample("baseline.jpg"), script)),
        ("WebP before script", with(sample("lossy.webp"), script)),
        ("PNG's first bytes before JPEG", with(&png[..8], sample("baseline.jpg"))),
        ("JPEG's first bytes before PNG", with(&[0xff, 0xd8, 0xff], &png)),
        (
            "RIFF of sound",
            b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\0\0\0\0\0\0\0\0\x01\0\x08\0data\0\0\0\0".to_vec(),
        ),
        ("no width", with_size(&png, 0, 4)),
        ("no height", with_size(&png, 4, 0)),
        ("a wrong checksum", {
            let mut png = png.clone();
            png[29] ^= 1;
            png
        }),
    ] {
        assert_eq!(Logo::decode(&file).err(), Some(NotALogo::NotAnImage), "{what}");
    }
    assert!(Logo::decode(&with(&png, &[0; 9])).is_ok(), "zeros after the end are ignored");
}

fn encoded_bmp() -> Vec<u8> {
    [&b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0"[..], &[0; 28]].concat()
}

/// CRC-32 (PNG, annex D).
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 })
    })
}

/// The same PNG with another size in its header.
fn with_size(png: &[u8], width: u32, height: u32) -> Vec<u8> {
    let mut png = png.to_vec();
    png[16..20].copy_from_slice(&width.to_be_bytes());
    png[20..24].copy_from_slice(&height.to_be_bytes());
    let checksum = checksum(&png[12..29]);
    png[29..33].copy_from_slice(&checksum.to_be_bytes());
    png
}

/// Q4: sizes are read before anything is decoded.
#[test]
fn q4_what_is_too_large_is_refused_by_its_header() {
    let began = Instant::now();
    let png = plain_png(4, 4, RED);
    for (width, height, is_too_large) in [
        (30_000, 30_000, true),
        (u32::MAX, u32::MAX, true),
        (4_097, 1, true),
        (1, 4_097, true),
        (4_001, 4_000, true),
        // Within the limits, but without enough rows.
        (4_000, 4_000, false),
        (4_096, 3_906, false),
    ] {
        let expected = if is_too_large { NotALogo::TooLarge } else { NotALogo::NotAnImage };
        assert_eq!(Logo::decode(&with_size(&png, width, height)).err(), Some(expected), "{width} × {height}");
    }
    let mut interlaced = png;
    interlaced[28] = 1;
    let interlaced = with_size(&interlaced, u32::MAX, u32::MAX);
    assert_eq!(Logo::decode(&interlaced).err(), Some(NotALogo::TooLarge), "more bytes than can be counted");
    let jpeg = |width: u16, height: u16| {
        let mut file = sample("baseline.jpg").to_vec();
        let frame = file.windows(2).position(|two| two == [0xff, 0xc0]).expect("a frame");
        file[frame + 5..frame + 7].copy_from_slice(&height.to_be_bytes());
        file[frame + 7..frame + 9].copy_from_slice(&width.to_be_bytes());
        file
    };
    assert_eq!(Logo::decode(&jpeg(65_535, 65_535)).err(), Some(NotALogo::TooLarge));
    assert_eq!(Logo::decode(&jpeg(0, 16)).err(), Some(NotALogo::NotAnImage));
    let mut webp = sample("lossy.webp").to_vec();
    webp[26..30].copy_from_slice(&(0x3fff_3fff_u32).to_le_bytes());
    assert_eq!(Logo::decode(&webp).err(), Some(NotALogo::TooLarge), "16,383 × 16,383");
    assert!(began.elapsed() < Duration::from_mins(1), "nothing of that size was made");
}

#[test]
fn large_pictures_become_smaller_and_keep_their_proportions_and_colours() {
    for (width, height, expected) in [
        (4_000, 4_000, (512, 512)),
        (3_000, 1_000, (885, 295)),
        (1_000, 3_000, (295, 885)),
        (4_096, 3_000, (598, 438)),
        // To the nearest pixel it would be one too many.
        (501, 593, (470, 557)),
        (4_096, 1, (2_048, 1)),
        (1, 4_096, (1, 2_048)),
        (2_048, 128, (2_048, 128)),
        (2_048, 512, (1_024, 256)),
        (1_025, 1_024, (512, 512)),
    ] {
        // Left half red, right half clear with a colour that must not shine through.
        let picture = RgbaImage::from_fn(width, height, |x, _| {
            if x < width / 2 || width == 1 { Rgba(RED) } else { Rgba([0, 255, 0, 0]) }
        });
        let logo = Logo::decode(&encoded(&picture.into(), ImageFormat::Png)).expect("a picture");
        assert_eq!((logo.width(), logo.height()), expected, "{width} × {height}");
        for y in [0, logo.height() / 2, logo.height() - 1] {
            assert_eq!(pixel(&logo, 0, y), RED);
            assert!((0..logo.width()).all(|x| pixel(&logo, x, y)[1] == 0), "no green");
            assert!(logo.width() == 1 || pixel(&logo, logo.width() - 1, y) == [0; 4]);
        }
    }
}

#[test]
fn a_smaller_picture_is_the_mean_of_what_it_covers() {
    // Columns of black and white: whatever the size, the mean is grey.
    let picture = RgbaImage::from_fn(2_400, 1_200, |x, _| Rgba(if x % 2 == 0 { [0, 0, 0, 255] } else { [255; 4] }));
    let logo = Logo::decode(&encoded(&picture.into(), ImageFormat::Png)).expect("a picture");
    assert_eq!((logo.width(), logo.height()), (724, 362));
    let sum: u64 = logo.rgba().chunks_exact(4).map(|pixel| u64::from(pixel[0])).sum();
    let half = u64::from(logo.width() * logo.height()) * 255 / 2;
    assert!(sum.abs_diff(half) * 200 < half, "{sum} is not about {half}");
}

proptest::proptest! {
    /// Any bytes are either a logo or refused, without a panic or a large result.
    #[test]
    fn damaged_files_are_refused_or_decoded(
        which in 0..SAMPLES.len(), at in 0_usize..2_000, to in proptest::prelude::any::<u8>(), cut in 0_usize..2_000,
    ) {
        let mut file = SAMPLES[which].1.to_vec();
        let length = file.len();
        file[at % length] = to;
        for file in [&file[..], &file[..cut % length]] {
            if let Ok(logo) = Logo::decode(file) {
                proptest::prop_assert!(u64::from(logo.width()) * u64::from(logo.height()) <= MAX_PIXELS);
            }
        }
    }
}
