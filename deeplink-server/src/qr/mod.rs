//! Draws links as QR codes.
//!
//! The same options, content and logo give the same bytes, on every node and after a restart; any change to the output
//! raises [`RENDERER_VERSION`]. Drawing is pure computation, so the caller chooses the thread.

mod codes;
mod coverage;
mod dots;
mod eyes;
mod hole;
mod layout;
mod logo;
pub(crate) mod logos;
mod matrix;
mod number;
mod outline;
mod picture;
mod png;
mod print;
mod scale;
mod svg;

use deeplink_core::qr::{QrFormat, QrStyle};

pub(crate) use codes::Codes;
pub use layout::{CannotDraw, Layout};
pub use logo::Logo;
pub use picture::NotALogo;

use hole::Hole;
use matrix::Field;

/// The renderer's version, a part of every `ETag`, so that cached images of an older one are not used.
pub const RENDERER_VERSION: u32 = 1;

/// The finished file. `layout` must be made for the same style and content.
///
/// # Panics
///
/// If the content is longer than the one that the layout was made for.
pub fn draw(layout: &Layout, style: &QrStyle, content: &str, logo: Option<&Logo>) -> Vec<u8> {
    let logo = logo.and_then(|logo| Some((logo, Hole::for_logo(layout.level(), layout.modules(), logo)?)));
    let field = Field::of(layout, content, logo.map(|(_, hole)| hole));
    match layout.format() {
        QrFormat::Png => png::draw(layout, style, &field, logo),
        QrFormat::Svg => svg::draw(layout, style, &field, logo).into_bytes(),
        QrFormat::Pdf => print::pdf(layout, style, &field, logo),
        QrFormat::Eps => print::eps(layout, style, &field, logo).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use deeplink_core::colour::Rgb;
    use deeplink_core::error::{ErrorCode, Invalid};
    use deeplink_core::qr::{CornerDotType, CornerSquareType, DotType, QrLevel, QrShape};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn colours() -> impl Strategy<Value = Rgb> {
        any::<[u8; 3]>().prop_map(Rgb)
    }

    fn styles() -> impl Strategy<Value = QrStyle> {
        let sizes = prop_oneof![12 => 0_u32..400, 1 => 400_u32..2_100, 1 => any::<u32>()];
        let margins = prop_oneof![12 => 0_u32..=16, 1 => any::<u32>()];
        let types = (select(DotType::ALL), select(CornerSquareType::ALL), select(CornerDotType::ALL));
        let looks = (select(QrLevel::ALL), select(QrShape::ALL), types, any::<bool>());
        (sizes, margins, looks, [colours(), colours(), colours(), colours()]).prop_map(
            |(size, margin, (level, shape, types, logo), [background, dots, frames, pupils])| QrStyle {
                size,
                level,
                margin,
                dot_type: types.0,
                corner_square_type: types.1,
                corner_dot_type: types.2,
                shape,
                background,
                dots,
                frames,
                pupils,
                logo: logo.then(String::new),
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        /// Every style is drawn or refused; drawn twice, it gives the same bytes.
        #[test]
        fn every_style_is_drawn_alike_or_refused(
            style in styles(),
            format in select(QrFormat::ALL),
            length in prop_oneof![4 => 0_usize..200, 1 => 0_usize..3_000],
            (width, height) in (1_u32..90, 1_u32..90),
        ) {
            let content = "é/".repeat(length / 3) + &"x".repeat(length % 3);
            let logo = Logo::new(width, height, vec![150; (width * height * 4) as usize], [0; 32]);
            match Layout::of(&style, format, &content) {
                Err(why) => {
                    let refused = Invalid::from(why);
                    prop_assert_eq!(refused.code, ErrorCode::InvalidQrOptions);
                    prop_assert_eq!(refused.field.is_none(), why == CannotDraw::TooLong);
                }
                Ok(layout) => {
                    let logo = logo.as_ref().filter(|_| style.logo.is_some());
                    let file = draw(&layout, &style, &content, logo);
                    prop_assert_eq!(&file, &draw(&layout, &style, &content, logo));
                    let begins: &[u8] = match format {
                        QrFormat::Png => b"\x89PNG",
                        QrFormat::Svg => b"<svg ",
                        QrFormat::Pdf => b"%PDF-1.4\n",
                        QrFormat::Eps => b"%!PS-Adobe-3.0 EPSF-3.0\n",
                    };
                    prop_assert!(file.starts_with(begins));
                }
            }
        }
    }

    /// A logo for which the layout left no room is not drawn.
    #[test]
    fn without_room_there_is_no_logo() {
        let style = QrStyle::default();
        let layout = Layout::of(&style, QrFormat::Svg, "short").expect("a layout");
        assert_eq!(layout.version(), 1);
        let logo = Logo::new(1, 1, vec![0; 4], [0; 32]).expect("a logo");
        assert_eq!(draw(&layout, &style, "short", Some(&logo)), draw(&layout, &style, "short", None));
    }
}
