//! The test cases: every option of the renderer, the links and sizes it is tested with, and samples of their product.

use std::fmt;
use std::str::FromStr;

use deeplink_core::colour::Rgb;
use deeplink_core::qr::{CornerDotType, CornerSquareType, DotType, QrFormat, QrLevel, QrOptions, QrShape, QrStyle};
use deeplink_core::secret::Random;
use deeplink_server::qr::{Layout, draw};

use crate::logos::Artwork;

/// The lengths of the links, in bytes.
pub(crate) const LENGTHS: [usize; 4] = [20, 31, 60, 150];
/// Margins in modules.
pub(crate) const MARGINS: [u32; 3] = [0, 2, 4];

/// The size of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// With this many pixels per module, as small as possible.
    Modules(u32),
    /// With this many pixels, but at least three per module.
    Pixels(u32),
}

/// The sizes that each style is drawn at.
pub(crate) const EDGES: [Edge; 4] = [Edge::Modules(3), Edge::Pixels(300), Edge::Pixels(600), Edge::Pixels(1_024)];

/// One request: its options, and its link.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) options: QrOptions,
    pub(crate) format: QrFormat,
    pub(crate) content: String,
    pub(crate) artwork: Option<Artwork>,
}

impl Case {
    /// The default look.
    pub(crate) fn new(content: String) -> Self {
        Self { options: QrOptions::new(), format: QrFormat::Png, content, artwork: None }
    }

    /// With a picture in the middle.
    pub(crate) fn with_artwork(mut self, artwork: Artwork) -> Self {
        self.options = self.options.logo(artwork.url());
        self.artwork = Some(artwork);
        self
    }

    pub(crate) fn style(&self) -> QrStyle {
        self.options.check().unwrap_or_else(|refused| panic!("{self}: {refused:?}"))
    }

    /// Modules from edge to edge, margin and disc included.
    pub(crate) fn modules(&self) -> u32 {
        self.layout(QrFormat::Svg).span()
    }

    /// Version of the symbol.
    pub(crate) fn version(&self) -> u8 {
        self.layout(QrFormat::Svg).version()
    }

    fn layout(&self, format: QrFormat) -> Layout {
        Layout::of(&self.style(), format, &self.content).unwrap_or_else(|why| panic!("{self}: {why}"))
    }

    /// As large as said.
    pub(crate) fn sized(mut self, edge: Edge) -> Self {
        let modules = self.modules();
        self.options = self.options.size(match edge {
            Edge::Modules(pixels) => modules * pixels,
            Edge::Pixels(pixels) => pixels.max(3 * modules),
        });
        self
    }

    /// The file.
    pub(crate) fn draw(&self) -> Vec<u8> {
        let logo = self.artwork.map(Artwork::paint);
        draw(&self.layout(self.format), &self.style(), &self.content, logo.as_ref())
    }
}

/// The request, so that it can be repeated.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sent = serde_json::to_value(&self.options).map_err(|_| fmt::Error)?;
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in sent.as_object().into_iter().flatten() {
            query.append_pair(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        write!(f, "qr.{}?{} of {}", self.format, query.finish(), self.content)
    }
}

/// A request as it was printed.
impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (request, content) = text.split_once(" of ").ok_or("say qr.png?… of https://…")?;
        let (file, query) = request.split_once('?').unwrap_or((request, ""));
        let format =
            file.strip_prefix("qr.").and_then(|format| format.parse().ok()).ok_or("neither qr.png nor qr.svg")?;
        let options = QrOptions::from_query(query, |_| false).map_err(|why| why.message)?;
        let artwork = options.logo.as_deref().map(Artwork::from_url).transpose()?;
        Ok(Self { options, format, content: content.to_owned(), artwork })
    }
}

/// A link of `length` bytes.
pub(crate) fn link(length: usize, random: &mut Random) -> String {
    let start = match length {
        0..=22 => "https://go.example/",
        23..=59 => "https://go.example.com/",
        _ => "https://links.shop.example.com/campaigns/",
    };
    let mut link = start.to_owned();
    while link.len() < length {
        link.push(random.pick(b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ"));
    }
    assert_eq!(link.len(), length, "{start} is too long for a link of {length} bytes");
    link
}

/// Every way to draw dots, frames, pupils and the outline: 72.
pub(crate) fn styles() -> Vec<QrOptions> {
    let mut styles = Vec::new();
    for &dots in DotType::ALL {
        for &frames in CornerSquareType::ALL {
            for &pupils in CornerDotType::ALL {
                for &shape in QrShape::ALL {
                    let options = QrOptions::new().dot_type(dots).corner_square_type(frames);
                    styles.push(options.corner_dot_type(pupils).shape(shape));
                }
            }
        }
    }
    styles
}

/// `count` cases in which each value of each parameter is equally frequent, in random combinations.
pub(crate) fn sample(count: usize, random: &mut Random) -> Vec<Case> {
    let dots = spread(DotType::ALL, count, random);
    let frames = spread(CornerSquareType::ALL, count, random);
    let pupils = spread(CornerDotType::ALL, count, random);
    let shapes = spread(QrShape::ALL, count, random);
    let levels = spread(QrLevel::ALL, count, random);
    let lengths = spread(&LENGTHS, count, random);
    let margins = spread(&MARGINS, count, random);
    let edges = spread(&EDGES, count, random);
    let case = |at: usize| {
        let mut case = Case::new(link(lengths[at], random));
        case.options = QrOptions::new()
            .dot_type(dots[at])
            .corner_square_type(frames[at])
            .corner_dot_type(pupils[at])
            .shape(shapes[at])
            .level(levels[at])
            .margin(margins[at]);
        case.sized(edges[at])
    };
    (0..count).map(case).collect()
}

/// `count` values, each of `all` equally often, shuffled.
pub(crate) fn spread<T: Copy>(all: &[T], count: usize, random: &mut Random) -> Vec<T> {
    let mut values: Vec<T> = all.iter().copied().cycle().take(count).collect();
    for at in (1..values.len()).rev() {
        values.swap(at, below(at + 1, random));
    }
    values
}

/// A place below `end`.
pub(crate) fn below(end: usize, random: &mut Random) -> usize {
    usize::try_from(random.below(u64::try_from(end).expect("few"))).expect("few")
}

/// Any colour.
pub(crate) fn colour(random: &mut Random) -> Rgb {
    Rgb(random.bytes())
}
