//! The code as EPS, in level 2 of PostScript.

use std::fmt::Write as _;

use deeplink_core::qr::QrStyle;

use super::{Image, edge, operators, place};
use crate::qr::Logo;
use crate::qr::hole::Hole;
use crate::qr::layout::Layout;
use crate::qr::matrix::Field;

/// The operators of PDF that the drawing uses, by those of PostScript.
const OPERATORS: &str = "/m{moveto}bind def/l{lineto}bind def/c{curveto}bind def/h{closepath}bind def\n\
    /f{fill}bind def/f*{eofill}bind def/g{setgray}bind def/rg{setrgbcolor}bind def\n\
    /re{4 2 roll moveto 1 index 0 rlineto 0 exch rlineto neg 0 rlineto closepath}bind def\n\
    /cm{6 array astore concat}bind def\n";
/// Characters of a line of an image.
const LINE: usize = 80;

/// The whole file.
pub(in crate::qr) fn draw(layout: &Layout, style: &QrStyle, field: &Field, logo: Option<(&Logo, Hole)>) -> String {
    let edge = edge(layout);
    let whole = (layout.size() * super::POINT).div_ceil(1_000);
    let mut text = format!(
        "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 {whole} {whole}\n%%HiResBoundingBox: 0 0 {edge} {edge}\n\
         %%LanguageLevel: 2\n%%Pages: 1\n%%EndComments\n12 dict begin\n{OPERATORS}%%EndProlog\n%%Page: 1 1\ngsave\n"
    );
    text.push_str(&operators(layout, style, field));
    if let Some((logo, hole)) = logo {
        let [x, y, width, height] = place(layout, hole);
        let image = Image::of(logo, style.background);
        let (columns, rows) = (image.width, image.height);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{x} {y} translate {width} {height} scale\n/DeviceRGB setcolorspace\n\
             << /ImageType 1 /Width {columns} /Height {rows} /BitsPerComponent 8 /Decode [0 1 0 1 0 1]\n\
             /ImageMatrix [{columns} 0 0 {rows} 0 0] /DataSource currentfile /ASCII85Decode filter >> image"
        );
        push_ascii85(&mut text, &image.rgb);
    }
    text.push_str("grestore\nend\nshowpage\n%%EOF\n");
    text
}

/// Four bytes as five characters each, and the mark of the end.
fn push_ascii85(text: &mut String, data: &[u8]) {
    let mut column = 0;
    let mut push = |character: char| {
        // A line with %% would be a comment about the structure. Spaces mean nothing.
        if column == 0 && character == '%' {
            text.push(' ');
        }
        text.push(character);
        column += 1;
        if column == LINE {
            text.push('\n');
            column = 0;
        }
    };
    for chunk in data.chunks(4) {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        let word = u32::from_be_bytes(word);
        if word == 0 && chunk.len() == 4 {
            push('z');
            continue;
        }
        let digits = [52_200_625, 614_125, 7_225, 85, 1].map(|place| word / place % 85);
        for digit in digits.into_iter().take(chunk.len() + 1) {
            push(char::from(b'!' + u8::try_from(digit).unwrap_or(0)));
        }
    }
    text.push_str("~>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_base_85() {
        for (data, expected) in [
            (&b""[..], "~>\n"),
            (b"Man ", "9jqo^~>\n"),
            (b"Man is d", "9jqo^BlbD-~>\n"),
            (b"\0\0\0\0", "z~>\n"),
            (b"\0", "!!~>\n"),
            (b"sure.", "F*2M7/c~>\n"),
        ] {
            let mut text = String::new();
            push_ascii85(&mut text, data);
            assert_eq!(text, expected);
        }
        let mut text = String::new();
        push_ascii85(&mut text, &[1; 1_000]);
        assert!(text.lines().all(|line| line.len() <= LINE + 2));
        // Four and a fraction of the highest place.
        text.clear();
        push_ascii85(&mut text, &(4 * 52_200_625_u32 + 4 * 614_125).to_be_bytes().repeat(40));
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.starts_with(" %%")), "{text}");
    }
}
