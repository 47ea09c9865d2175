//! Generated logos: of several aspects, opaque and with holes, lettered, striped and plain.

use std::fmt;

use deeplink_server::qr::Logo;

/// Width and height in proportion.
pub(crate) const ASPECTS: [(u32, u32); 4] = [(1, 1), (3, 1), (1, 3), (8, 1)];
/// Pixels of the shorter side.
const SIDE: u32 = 48;

/// What it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// Letters, as of a name or a mark.
    Letters,
    /// Diagonal stripes of black, white and colours, which resemble modules.
    Stripes,
    /// A disc that fills the image.
    Disc,
    /// Gradients as in a photograph; of a round object if it is not opaque.
    Shades,
    /// An empty image.
    Nothing,
}

/// A logo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Artwork {
    aspect: (u32, u32),
    opaque: bool,
    subject: Subject,
}

impl Artwork {
    /// Letters and stripes of every aspect, opaque and transparent.
    pub(crate) fn all() -> Vec<Self> {
        [Self::lettered(), Self::striped()].concat()
    }

    /// Those with letters.
    pub(crate) fn lettered() -> Vec<Self> {
        Self::of(Subject::Letters)
    }

    /// Those with stripes.
    pub(crate) fn striped() -> Vec<Self> {
        Self::of(Subject::Stripes)
    }

    /// Those with a disc.
    pub(crate) fn discs() -> Vec<Self> {
        Self::of(Subject::Disc)
    }

    /// Those like photographs.
    pub(crate) fn shaded() -> Vec<Self> {
        Self::of(Subject::Shades)
    }

    /// Those that leave the middle of a code empty.
    pub(crate) fn empty() -> Vec<Self> {
        Self::of(Subject::Nothing).into_iter().filter(|artwork| !artwork.opaque).collect()
    }

    fn of(subject: Subject) -> Vec<Self> {
        ASPECTS.iter().flat_map(|&aspect| [true, false].map(|opaque| Self { aspect, opaque, subject })).collect()
    }

    /// Its URL.
    pub(crate) fn url(self) -> String {
        format!("https://example.com/{self}.png")
    }

    /// The reverse of [`Artwork::url`].
    pub(crate) fn from_url(url: &str) -> Result<Self, String> {
        let others = [Self::discs(), Self::shaded(), Self::empty()].concat();
        let mut all = Self::all().into_iter().chain(others);
        all.find(|artwork| artwork.url() == url).ok_or_else(|| format!("{url} is not painted here"))
    }

    /// The image; a transparent one has no background, and parts of it are half transparent.
    pub(crate) fn paint(self) -> Logo {
        let (width, height) = (self.aspect.0 * SIDE, self.aspect.1 * SIDE);
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let rgba = pixels.flat_map(|(x, y)| match self.subject {
            Subject::Letters => self.letters(x, y),
            Subject::Stripes => self.stripes(x, y),
            Subject::Disc => match (self.is_in_disc(x, y), self.opaque) {
                (true, true) => [255, 255, 255, 255],
                (false, false) => [255, 255, 255, 0],
                _ => [200, 30, 60, 255],
            },
            Subject::Shades if self.opaque || self.is_in_disc(x, y) => shades(x, y),
            Subject::Shades | Subject::Nothing => [255, 255, 255, 0],
        });
        let mut digest = [u8::from(self.opaque); 32];
        digest[0] = u8::try_from(self.aspect.0).expect("few");
        digest[1] = u8::try_from(self.aspect.1).expect("few");
        digest[2] = self.subject as u8;
        Logo::new(width, height, rgba.collect(), digest).expect("a logo")
    }

    fn letters(self, x: u32, y: u32) -> [u8; 4] {
        // T and L alternating, each in its own square.
        let is_ink = |x: u32, y: u32| {
            let (column, row) = (x % SIDE, y % SIDE);
            let stroke = |across: std::ops::Range<u32>, down: std::ops::Range<u32>| {
                across.contains(&column) && down.contains(&row)
            };
            if (x / SIDE + y / SIDE).is_multiple_of(2) {
                stroke(8..40, 8..17) || stroke(20..29, 8..40)
            } else {
                stroke(12..21, 8..40) || stroke(12..38, 31..40)
            }
        };
        let is_shadow = || x >= 3 && y >= 3 && is_ink(x - 3, y - 3);
        match (is_ink(x, y), self.opaque) {
            (true, true) => [255, 255, 255, 255],
            (true, false) => [20, 60, 160, 255],
            (false, true) => [200, 30, 60, 255],
            (false, false) if is_shadow() => [0, 0, 0, 128],
            (false, false) => [255, 255, 255, 0],
        }
    }

    fn is_in_disc(self, x: u32, y: u32) -> bool {
        let (width, height) = (self.aspect.0 * SIDE, self.aspect.1 * SIDE);
        let (across, down) = ((2 * x + 1).abs_diff(width) * height, (2 * y + 1).abs_diff(height) * width);
        across.pow(2) + down.pow(2) <= (width * height).pow(2)
    }

    fn stripes(self, x: u32, y: u32) -> [u8; 4] {
        match ((x + y) / 12 % 6, self.opaque) {
            (1, _) => [0, 0, 0, 255],
            (3, _) => [255, 255, 255, 255],
            (5, _) => [10, 124, 255, 255],
            (_, true) => [200, 30, 60, 255],
            (2, false) => [0, 0, 0, 128],
            (_, false) => [255, 255, 255, 0],
        }
    }
}

fn shades(x: u32, y: u32) -> [u8; 4] {
    let wave = |at: u32, length: u32| (at % length).abs_diff(length / 2) * 510 / length;
    let red = (2 * wave(x + 2 * y, 106) + wave(3 * x + y, 146)) / 3;
    let green = wave(2 * x + y, 122).midpoint(wave(x + 3 * y, 178));
    let blue = (wave(x + y, 82) + 2 * wave(2 * x + 3 * y, 202)) / 3;
    let [red, green, blue] = [red, green, blue].map(|part| u8::try_from(part).unwrap_or(u8::MAX));
    [red, green, blue, 255]
}

impl fmt::Display for Artwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = match self.subject {
            Subject::Letters => "letters",
            Subject::Stripes => "stripes",
            Subject::Disc => "disc",
            Subject::Shades => "shades",
            Subject::Nothing => "empty",
        };
        let ground = if self.opaque { "opaque" } else { "transparent" };
        write!(f, "{subject}-{}x{}-{ground}", self.aspect.0, self.aspect.1)
    }
}
