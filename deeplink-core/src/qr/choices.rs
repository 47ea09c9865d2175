//! The choices for styles, levels and formats.

use std::str::FromStr;

use crate::words::spelled;

/// The text is not one of the choices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {0}")]
pub struct NotListed(&'static str);

macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
        }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            const WORDS: &'static str = {
                const LISTED: &str = concat!($(", ", $word),+);
                LISTED.split_at(2).1
            };

            /// Its name in a query string.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl FromStr for $name {
            type Err = NotListed;

            fn from_str(text: &str) -> Result<Self, NotListed> {
                Self::ALL.iter().copied().find(|one| one.as_str().eq_ignore_ascii_case(text)).ok_or(NotListed(Self::WORDS))
            }
        }

        spelled!($name: $($word),+);
    };
}

choices! {
    /// File format of a QR code.
    QrFormat {
        /// Pixels, with a whole number of pixels per module.
        Png = "png",
        /// Paths, sharp at any size.
        Svg = "svg",
        /// The same paths on a page for print.
        Pdf = "pdf",
        /// The same for software that needs PostScript.
        Eps = "eps",
    }
}

impl QrFormat {
    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Svg => "image/svg+xml; charset=utf-8",
            Self::Pdf => "application/pdf",
            Self::Eps => "application/postscript",
        }
    }
}

choices! {
    /// How much of a code may be unreadable (ISO/IEC 18004).
    QrLevel {
        /// About 7%.
        L = "L",
        /// About 15%.
        M = "M",
        /// About 25%.
        Q = "Q",
        /// About 30%.
        H = "H",
    }
}

choices! {
    /// How the modules are drawn.
    DotType {
        /// Squares.
        Square = "square",
        /// Circles, each on its own.
        Dots = "dots",
        /// Connected modules with rounded ends and corners.
        Rounded = "rounded",
        /// Connected modules with two rounded corners.
        Classy = "classy",
        /// Connected modules with two extra-rounded corners.
        ClassyRounded = "classy-rounded",
        /// Connected modules with rounded ends and extra-rounded corners.
        ExtraRounded = "extra-rounded",
    }
}

choices! {
    /// Shape of the three corner squares.
    CornerSquareType {
        /// A square.
        Square = "square",
        /// A ring.
        Dot = "dot",
        /// A square with rounded corners.
        ExtraRounded = "extra-rounded",
    }
}

choices! {
    /// Shape of the three corner dots.
    CornerDotType {
        /// A disc.
        Dot = "dot",
        /// A square.
        Square = "square",
    }
}

choices! {
    /// Overall shape.
    QrShape {
        /// The code alone.
        Square = "square",
        /// The code in a disc that is filled with decorative dots.
        Circle = "circle",
    }
}
