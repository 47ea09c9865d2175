//! Logos as people have them, painted here: of several aspects, opaque and with holes.

use std::fmt;

use deeplink_server::qr::Logo;

/// Width and height in proportion.
pub(crate) const ASPECTS: [(u32, u32); 4] = [(1, 1), (3, 1), (1, 3), (8, 1)];

/// A picture for the middle of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Artwork {
    aspect: (u32, u32),
    opaque: bool,
}

impl Artwork {
    /// Every aspect, opaque and transparent.
    pub(crate) fn all() -> Vec<Self> {
        ASPECTS.iter().flat_map(|&aspect| [true, false].map(|opaque| Self { aspect, opaque })).collect()
    }

    /// Where it would be.
    pub(crate) fn url(self) -> String {
        format!("https://example.com/{self}.png")
    }

    /// Back from [`Artwork::url`].
    pub(crate) fn from_url(url: &str) -> Result<Self, String> {
        Self::all().into_iter().find(|artwork| artwork.url() == url).ok_or_else(|| format!("{url} is not painted here"))
    }

    /// Stripes of black, white and a colour on a coloured ground, which is as much like modules as a logo gets; the
    /// transparent one has the stripes on nothing.
    pub(crate) fn paint(self) -> Logo {
        let (width, height) = (self.aspect.0 * 48, self.aspect.1 * 48);
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let rgba = pixels.flat_map(|(x, y)| match ((x + y) / 12 % 6, self.opaque) {
            (1, _) => [0, 0, 0, 255],
            (3, _) => [255, 255, 255, 255],
            (5, _) => [10, 124, 255, 255],
            (_, true) => [200, 30, 60, 255],
            (2, false) => [0, 0, 0, 128],
            (_, false) => [255, 255, 255, 0],
        });
        let mut digest = [u8::from(self.opaque); 32];
        digest[0] = u8::try_from(self.aspect.0).expect("few");
        digest[1] = u8::try_from(self.aspect.1).expect("few");
        Logo::new(width, height, rgba.collect(), digest).expect("a logo")
    }
}

impl fmt::Display for Artwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ground = if self.opaque { "opaque" } else { "transparent" };
        write!(f, "{}x{}-{ground}", self.aspect.0, self.aspect.1)
    }
}
