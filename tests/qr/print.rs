//! The drawing of a PDF or EPS as an SVG, through its operators, so that what is printed can be read back.

use std::fmt::Write as _;
use std::io::{Cursor, Read as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::qr::QrFormat;
use flate2::read::ZlibDecoder;
use image::{ImageFormat, RgbImage};

/// The drawing of a file, `size` pixels wide.
pub(crate) fn as_svg(file: &[u8], format: QrFormat, size: u32) -> String {
    let Page { drawing, logo } = if format == QrFormat::Pdf { page_of_pdf(file) } else { page_of_eps(file) };
    let logo = logo.unwrap_or_default();
    let (mut edge, mut fill, mut transform) = (0.0, String::new(), String::new());
    let (mut path, mut shapes) = (String::new(), String::new());
    let mut numbers: Vec<f64> = Vec::new();
    for word in drawing.split_ascii_whitespace() {
        if let Ok(number) = word.parse() {
            numbers.push(number);
            continue;
        }
        let said = numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
        let written = match (word, numbers.as_slice()) {
            ("m", [_, _]) => write!(path, "M {said} "),
            ("l", [_, _]) => write!(path, "L {said} "),
            ("c", [_, _, _, _, _, _]) => write!(path, "C {said} "),
            ("h", []) => write!(path, "Z "),
            ("re", [x, y, width, height]) => {
                edge = *width;
                write!(path, "M {x} {y} h {width} v {height} h -{width} Z ")
            }
            ("g", [gray]) => {
                fill.clear();
                write!(fill, "rgb({0}%, {0}%, {0}%)", gray * 100.0)
            }
            ("rg", [red, green, blue]) => {
                fill.clear();
                write!(fill, "rgb({}%, {}%, {}%)", red * 100.0, green * 100.0, blue * 100.0)
            }
            ("cm", [_, _, _, _, _, _]) => write!(transform, "matrix({said}) "),
            ("f" | "f*", []) => {
                let rule = if word == "f" { "nonzero" } else { "evenodd" };
                let path = std::mem::take(&mut path);
                write!(shapes, r#"<path fill="{fill}" fill-rule="{rule}" transform="{transform}" d="{path}"/>"#)
            }
            ("translate", [x, y]) => write!(transform, "matrix(1 0 0 1 {x} {y}) "),
            ("scale", [x, y]) => write!(transform, "matrix({x} 0 0 {y} 0 0) "),
            ("/L", []) => Ok(()),
            ("Do" | "image", []) => {
                // In PDF, the first row of an image is the one farthest from the origin.
                let turn = if word == "Do" { "matrix(1 0 0 -1 0 1)" } else { "" };
                write!(
                    shapes,
                    r#"<image width="1" height="1" preserveAspectRatio="none" transform="{transform}{turn}" href="{logo}"/>"#
                )
            }
            _ => panic!("{word} after {numbers:?}"),
        };
        written.expect("writing to a string does not fail");
        numbers.clear();
    }
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" viewBox="0 0 {edge} {edge}"><g transform="matrix(1 0 0 -1 0 {edge})">{shapes}</g></svg>"#
    )
}

/// A drawing, and the logo in it.
struct Page {
    drawing: String,
    logo: Option<String>,
}

fn page_of_pdf(file: &[u8]) -> Page {
    let (_, drawing) = stream_of_pdf(file, 4).expect("a page");
    let logo = stream_of_pdf(file, 5).map(|(dictionary, pixels)| as_png(&dictionary, pixels));
    Page { drawing: String::from_utf8(drawing).expect("a drawing"), logo }
}

/// The dictionary of an object and its data, if there is one with this number.
fn stream_of_pdf(file: &[u8], number: u32) -> Option<(String, Vec<u8>)> {
    let split = |data: &[u8], mark: &[u8]| {
        let at = data.windows(mark.len()).position(|part| part == mark)?;
        Some((data[..at].to_vec(), data[at + mark.len()..].to_vec()))
    };
    let (_, object) = split(file, format!("\n{number} 0 obj\n").as_bytes())?;
    let (dictionary, data) = split(&object, b"stream\n").expect("a stream");
    let mut plain = Vec::new();
    ZlibDecoder::new(data.as_slice()).read_to_end(&mut plain).expect("compressed data");
    Some((String::from_utf8(dictionary).expect("text"), plain))
}

fn page_of_eps(file: &[u8]) -> Page {
    let file = std::str::from_utf8(file).expect("text");
    let (_, page) = file.split_once("\ngsave\n").expect("a page");
    let (page, _) = page.rsplit_once("grestore\n").expect("an end");
    let Some((drawing, image)) = page.split_once("/DeviceRGB setcolorspace\n") else {
        return Page { drawing: page.to_owned(), logo: None };
    };
    let (dictionary, data) = image.split_once(" image\n").expect("an image");
    let (data, _) = data.split_once("~>").expect("its end");
    Page { drawing: format!("{drawing}image"), logo: Some(as_png(dictionary, from_ascii85(data))) }
}

/// An image as the address of a PNG.
fn as_png(dictionary: &str, rgb: Vec<u8>) -> String {
    let number = |name: &str| -> u32 {
        let (_, rest) = dictionary.split_once(name).expect(name);
        rest.split_whitespace().next().and_then(|number| number.parse().ok()).expect(name)
    };
    let picture = RgbImage::from_raw(number("/Width "), number("/Height "), rgb).expect("as many pixels");
    let mut png = Cursor::new(Vec::new());
    picture.write_to(&mut png, ImageFormat::Png).expect("a PNG");
    format!("data:image/png;base64,{}", STANDARD.encode(png.into_inner()))
}

fn from_ascii85(text: &str) -> Vec<u8> {
    let (mut bytes, mut digits) = (Vec::new(), Vec::new());
    let word = |digits: &[u8]| -> [u8; 4] {
        let word = digits.iter().fold(0_u64, |word, digit| word * 85 + u64::from(*digit));
        u32::try_from(word).expect("four bytes").to_be_bytes()
    };
    for character in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        if character == b'z' {
            bytes.extend([0; 4]);
            continue;
        }
        digits.push(character - b'!');
        if digits.len() == 5 {
            bytes.extend(word(&digits));
            digits.clear();
        }
    }
    if let Some(count) = digits.len().checked_sub(1) {
        digits.resize(5, 84);
        bytes.extend(&word(&digits)[..count]);
    }
    bytes
}
