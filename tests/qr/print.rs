//! The drawing of a PDF or EPS as an SVG, through its operators, so that what is printed can be read back.

use std::fmt::Write as _;
use std::io::Read as _;

use deeplink_core::qr::QrFormat;
use flate2::read::ZlibDecoder;

/// The drawing of a file without a logo, `size` pixels wide.
pub(crate) fn as_svg(file: &[u8], format: QrFormat, size: u32) -> String {
    let drawing = if format == QrFormat::Pdf { page_of_pdf(file) } else { page_of_eps(file) };
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
            _ => panic!("{word} after {numbers:?}"),
        };
        written.expect("writing to a string does not fail");
        numbers.clear();
    }
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" viewBox="0 0 {edge} {edge}"><g transform="matrix(1 0 0 -1 0 {edge})">{shapes}</g></svg>"#
    )
}

fn page_of_pdf(file: &[u8]) -> String {
    let after = |data: &[u8], mark: &[u8]| {
        let at = data.windows(mark.len()).position(|part| part == mark).expect("a mark");
        data[at + mark.len()..].to_vec()
    };
    let stream = after(&after(file, b"\n4 0 obj\n"), b"stream\n");
    let mut page = String::new();
    ZlibDecoder::new(stream.as_slice()).read_to_string(&mut page).expect("a drawing");
    page
}

fn page_of_eps(file: &[u8]) -> String {
    let file = std::str::from_utf8(file).expect("text");
    let (_, page) = file.split_once("\ngsave\n").expect("a page");
    page.split_once("grestore\n").expect("an end").0.to_owned()
}
