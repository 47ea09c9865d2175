//! The code as PDF: one page with a compressed drawing and, with a logo, an image.

use std::fmt::Write as _;
use std::io::Write as _;

use deeplink_core::qr::QrStyle;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::{Image, edge, operators, place};
use crate::qr::Logo;
use crate::qr::hole::Hole;
use crate::qr::layout::Layout;
use crate::qr::matrix::Field;

/// The whole file.
pub(in crate::qr) fn draw(layout: &Layout, style: &QrStyle, field: &Field, logo: Option<(&Logo, Hole)>) -> Vec<u8> {
    let mut drawing = operators(layout, style, field);
    if let Some((_, hole)) = logo {
        let [x, y, width, height] = place(layout, hole);
        // An image is the unit square, upside down in these coordinates.
        // Writing to a string cannot fail.
        let _ = writeln!(drawing, "1 0 0 1 {x} {y} cm {width} 0 0 {height} 0 0 cm 1 0 0 -1 0 1 cm /L Do");
    }
    let resources = if logo.is_some() { "/XObject << /L 5 0 R >>" } else { "" };
    let edge = edge(layout);
    let page = format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {edge} {edge}] /Resources << {resources} >> /Contents 4 0 R >>"
    );
    let mut file = File::default();
    file.object("<< /Type /Catalog /Pages 2 0 R >>");
    file.object("<< /Type /Pages /Kids [3 0 R] /Count 1 >>");
    file.object(&page);
    file.stream("", drawing.as_bytes());
    if let Some((logo, _)) = logo {
        let image = Image::of(logo, style.background);
        let head = format!(
            "/Type /XObject /Subtype /Image /Width {} /Height {} /ColorSpace /DeviceRGB /BitsPerComponent 8 ",
            image.width, image.height
        );
        file.stream(&head, &image.rgb);
    }
    file.finish()
}

/// A PDF file in the making.
struct File {
    bytes: Vec<u8>,
    /// Where each object begins.
    offsets: Vec<usize>,
}

impl Default for File {
    fn default() -> Self {
        // Bytes above 127 show that the file is binary.
        Self { bytes: b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec(), offsets: Vec::new() }
    }
}

impl File {
    fn begin(&mut self) {
        self.offsets.push(self.bytes.len());
        let head = format!("{} 0 obj\n", self.offsets.len());
        self.bytes.extend_from_slice(head.as_bytes());
    }

    fn object(&mut self, dictionary: &str) {
        self.begin();
        self.bytes.extend_from_slice(dictionary.as_bytes());
        self.bytes.extend_from_slice(b"\nendobj\n");
    }

    fn stream(&mut self, head: &str, data: &[u8]) {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        let written = encoder.write_all(data).and_then(|()| encoder.finish());
        let data = written.expect("writing to memory does not fail");
        self.begin();
        let head = format!("<< {head}/Filter /FlateDecode /Length {} >>\nstream\n", data.len());
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(&data);
        self.bytes.extend_from_slice(b"\nendstream\nendobj\n");
    }

    fn finish(mut self) -> Vec<u8> {
        let (table, size) = (self.bytes.len(), self.offsets.len() + 1);
        let mut end = format!("xref\n0 {size}\n0000000000 65535 f \n");
        for offset in &self.offsets {
            let _ = writeln!(end, "{offset:010} 00000 n ");
        }
        let _ = writeln!(end, "trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF");
        self.bytes.extend_from_slice(end.as_bytes());
        self.bytes
    }
}
