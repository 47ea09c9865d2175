//! Ordinary files of every kind are accepted.

use super::*;

/// A PNG with unusual settings.
fn png_of(
    width: u32,
    height: u32,
    colour: ::png::ColorType,
    depth: ::png::BitDepth,
    rows: &[u8],
    more: Palette<'_>,
) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut file, width, height);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    if let Some((colours, alpha)) = more {
        encoder.set_palette(colours);
        encoder.set_trns(alpha);
    }
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(rows).expect("rows");
    writer.finish().expect("an end");
    file
}

type Palette<'a> = Option<(&'a [u8], &'a [u8])>;

/// Two thousand pixels a side are accepted, whatever memory a decoder needs for them.
#[test]
fn large_files_of_every_kind_are_drawn() {
    let striped = RgbaImage::from_fn(2_000, 2_000, |x, _| Rgba(if x < 1_000 { RED } else { BLUE }));
    let striped = DynamicImage::from(striped);
    let progressive = include_bytes!("../samples/large-progressive.jpg");
    let interlaced = include_bytes!("../samples/large-interlaced.png");
    for (what, file) in [
        ("progressive", progressive.to_vec()),
        ("interlaced", interlaced.to_vec()),
        ("baseline", encoded(&striped.to_rgb8().into(), ImageFormat::Jpeg)),
        ("PNG", encoded(&striped, ImageFormat::Png)),
    ] {
        let logo = Logo::decode(&file).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((logo.width(), logo.height()), (512, 512), "{what}");
        assert_near(pixel(&logo, 20, 200), RED, what);
        assert_near(pixel(&logo, 500, 20), BLUE, what);
        let last = pixel(&logo, 2, 2);
        assert_near(last, if matches!(what, "progressive" | "interlaced") { GREEN } else { RED }, what);
    }
    let lossy = Logo::decode(include_bytes!("../samples/large-lossy.webp")).expect("a lossy WebP");
    assert_near(pixel(&lossy, 20, 20), RED, "lossy");
    let jpeg = encoded(&image::RgbImage::from_pixel(4_000, 4_000, image::Rgb([9, 99, 9])).into(), ImageFormat::Jpeg);
    assert_near(pixel(&Logo::decode(&jpeg).expect("sixteen megapixels"), 9, 9), [9, 99, 9, 255], "sixteen megapixels");
}

#[test]
fn every_depth_of_png_is_drawn() {
    use ::png::{BitDepth, ColorType};
    let colours = [255, 0, 0, 0, 255, 0, 0, 0, 255];
    for (depth, row, expected) in [
        (BitDepth::One, &[0b0100_0000][..], [[255, 0, 0, 64], [0, 255, 0, 255], [255, 0, 0, 64]]),
        (BitDepth::Two, &[0b0010_0100], [[255, 0, 0, 64], BLUE, [0, 255, 0, 255]]),
        (BitDepth::Four, &[0x02, 0x10], [[255, 0, 0, 64], BLUE, [0, 255, 0, 255]]),
        (BitDepth::Eight, &[0, 2, 1], [[255, 0, 0, 64], BLUE, [0, 255, 0, 255]]),
    ] {
        let file = png_of(3, 5, ColorType::Indexed, depth, &row.repeat(5), Some((&colours, &[64])));
        let logo = Logo::decode(&file).expect("colours of a palette");
        assert_eq!(logo.rgba(), expected.concat().repeat(5), "{depth:?}");
    }
    for (depth, row, expected) in [
        (BitDepth::One, &[0b0100_0000][..], [0, 255, 0]),
        (BitDepth::Two, &[0b0011_0100], [0, 255, 85]),
        (BitDepth::Four, &[0x0f, 0x30], [0, 255, 51]),
        (BitDepth::Sixteen, &[0, 0, 0xff, 0xff, 0x33, 0x33], [0, 255, 51]),
    ] {
        let logo = Logo::decode(&png_of(3, 5, ColorType::Grayscale, depth, &row.repeat(5), None)).expect("greys");
        assert_eq!(logo.rgba(), expected.map(|grey| [grey, grey, grey, 255]).concat().repeat(5), "{depth:?}");
    }
    let grey = Logo::decode(include_bytes!("../samples/interlaced-grey.png")).expect("an interlaced grey");
    for (x, y, grey_of) in [(2, 2, 150), (3, 13, 76), (30, 1, 29)] {
        assert_near(pixel(&grey, x, y), [grey_of, grey_of, grey_of, 255], "interlaced and grey");
    }
}

#[test]
fn the_smallest_and_oddest_sizes_are_drawn() {
    for (width, height) in [(1, 1), (3, 5), (17, 1), (1, 33)] {
        let picture = DynamicImage::from(RgbaImage::from_pixel(width, height, Rgba(RED)));
        for (format, picture) in [(ImageFormat::Png, picture.clone()), (ImageFormat::Jpeg, picture.to_rgb8().into())] {
            let logo = Logo::decode(&encoded(&picture, format)).expect("a picture");
            assert_eq!((logo.width(), logo.height()), (width, height), "{format:?}");
            assert_near(pixel(&logo, width - 1, height - 1), RED, "its last pixel");
        }
    }
}

/// Without alpha a picture is opaque, whatever bytes are in its place.
#[test]
fn alpha_that_is_not_used_is_not_seen() {
    let mut file = sample("lossy-alpha.webp").to_vec();
    assert_near(pixel(&Logo::decode(&file).expect("a picture"), 30, 1), [0, 0, 255, 128], "used");
    file[20] &= !0x10;
    assert_near(pixel(&Logo::decode(&file).expect("a picture"), 30, 1), BLUE, "not used");
}
