//! Draws every combination of the styles, for the readers that `tests/qr-matrix` starts, and sheets for viewing.

#[expect(dead_code, reason = "the suite needs more of it")]
mod cases;
mod colours;
mod logos;
#[expect(dead_code, reason = "the suite needs more of it")]
mod pictures;
mod print;
#[expect(dead_code, reason = "the suite needs more of it")]
mod readers;

use std::collections::HashSet;
use std::error::Error;
use std::io::{BufWriter, ErrorKind, Write, stdout};
use std::path::Path;
use std::{env, fs, io};

use deeplink_core::colour::Rgb;
use deeplink_core::qr::{CornerDotType, CornerSquareType, DotType, QrFormat, QrLevel, QrOptions, QrShape};
use deeplink_core::secret::Random;
use image::imageops::replace;
use image::{GrayImage, RgbImage};
use serde_json::json;

use crate::cases::{Case, EDGES, Edge, LENGTHS, MARGINS, below, link, styles};
use crate::colours::{close, dark_on_light, light_on_dark};
use crate::logos::Artwork;
use crate::pictures::{in_colour, seen};
use crate::readers::{reads, rxing};

const SEED: u64 = 20_260_710;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["draw"] => match draw_all(&mut BufWriter::new(stdout().lock())) {
            // The reader of the pictures has stopped.
            Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        },
        ["request", request] => Ok(stdout().write_all(&request.parse::<Case>()?.draw())?),
        ["sheet", folder] => Ok(sheets(Path::new(folder))?),
        _ => Err("say draw, a request, or sheet and a folder; tests/qr-matrix does".into()),
    }
}

/// Each picture is a line of JSON about it, with what rxing read, and then its pixels: one byte of luma each. Before a
/// code with square frames comes the plain code that OpenCV's reading of it is compared with.
fn draw_all(to: &mut impl Write) -> io::Result<()> {
    let (random, chance) = (&mut Random::seeded(SEED), &mut Random::seeded(SEED + 1));
    let other = &mut Random::seeded(SEED + 2);
    let mut drawn = HashSet::new();
    let mut put = |gate: &str, case: &Case| {
        if is_compared(gate, case) {
            let plain = plain(case);
            if drawn.insert(plain.to_string()) {
                put(to, "plain", &plain, &seen(&plain)[0])?;
            }
        }
        for picture in seen(case) {
            put(to, gate, case, &picture)?;
        }
        io::Result::Ok(())
    };
    for options in styles() {
        for &level in QrLevel::ALL {
            for length in LENGTHS {
                let content = link(length, random);
                let case = Case { options: options.clone().level(level), ..Case::new(content) };
                for edge in EDGES {
                    for margin in MARGINS {
                        put("G1", &with_margin(&case, margin).sized(edge))?;
                    }
                }
                put("s = 2", &somehow(&case, chance).sized(Edge::Modules(2)))?;
                put("G1 as SVG", &Case { format: QrFormat::Svg, ..somehow(&case, chance) })?;
                for artwork in Artwork::lettered() {
                    put("G3", &somehow(&case.clone().with_artwork(artwork), chance))?;
                }
                let striped = Artwork::striped()[below(8, chance)];
                put("G3", &somehow(&case.clone().with_artwork(striped), chance))?;
                for artworks in [Artwork::discs(), Artwork::shaded(), Artwork::empty()] {
                    let artwork = artworks[below(artworks.len(), other)];
                    put("G3", &somehow(&case.clone().with_artwork(artwork), other))?;
                }
            }
        }
    }
    for case in dark_on_light() {
        put("dark on light", &case)?;
    }
    for case in light_on_dark() {
        put("light on dark", &case)?;
    }
    for case in [close(false), close(true)].concat() {
        put("ratio 2 to 3", &case)?;
    }
    to.flush()
}

/// One of the margins and one of the sizes.
fn somehow(case: &Case, chance: &mut Random) -> Case {
    with_margin(case, MARGINS[below(MARGINS.len(), chance)]).sized(EDGES[below(EDGES.len(), chance)])
}

fn with_margin(case: &Case, margin: u32) -> Case {
    Case { options: case.options.clone().margin(margin), ..case.clone() }
}

/// Whether OpenCV, which cannot read rounded frames, must read it as often as a plain code.
fn is_compared(gate: &str, case: &Case) -> bool {
    matches!(gate, "G1" | "G3") && case.style().corner_square_type == CornerSquareType::Square
}

/// The same text in the same size, level and margin, as any generator draws it: squares in black and white.
fn plain(case: &Case) -> Case {
    let style = case.style();
    let options = QrOptions::new().dot_type(DotType::Square).corner_square_type(CornerSquareType::Square);
    let options = options.corner_dot_type(CornerDotType::Square).shape(QrShape::Square);
    let options = options.size(style.size).level(style.level).margin(style.margin);
    Case { options, ..Case::new(case.content.clone()) }
}

fn put(to: &mut impl Write, gate: &str, case: &Case, picture: &GrayImage) -> io::Result<()> {
    let about = json!({
        "gate": gate,
        "request": case.to_string(),
        "text": case.content,
        "background": case.style().background.luma(),
        "plain": is_compared(gate, case).then(|| plain(case).to_string()),
        "version": case.version(),
        "logo": case.artwork.map(|artwork| artwork.to_string()),
        "rxing": reads(rxing, picture, &case.content).err(),
        "width": picture.width(),
        "height": picture.height(),
    });
    writeln!(to, "{about}")?;
    to.write_all(picture)
}

/// All styles side by side, small and large, plain, coloured and with logos.
fn sheets(folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let random = &mut Random::seeded(SEED);
    let content = link(36, random);
    let artworks = Artwork::all();
    for (pixels, across, all) in [(300_u32, 12_u32, "styles"), (1_200, 2, "style")] {
        for &shape in QrShape::ALL {
            let of_shape: Vec<_> = styles().into_iter().filter(|options| options.shape == Some(shape)).collect();
            let per_sheet = if across == 12 { 36 } else { 4 };
            for (number, group) in of_shape.chunks(per_sheet).enumerate() {
                let plain = group
                    .iter()
                    .map(|options| Case { options: options.clone().size(pixels), ..Case::new(content.clone()) });
                let name = format!("{all}-{shape}-{pixels}-{number}.png");
                sheet(&plain.collect::<Vec<_>>(), across, pixels).save(folder.join(name))?;
            }
            let coloured = of_shape.iter().step_by(2).zip(artworks.iter().cycle()).map(|(options, artwork)| {
                let options = options.clone().size(pixels).fg_color(Rgb([27, 38, 94])).bg_color(Rgb([255, 248, 225]));
                let options = options.corner_square_color(Rgb([198, 40, 40])).corner_dot_color(Rgb([0, 105, 92]));
                Case { options, ..Case::new(content.clone()) }.with_artwork(*artwork)
            });
            let coloured: Vec<_> = coloured.take(if across == 12 { 18 } else { 4 }).collect();
            sheet(&coloured, across.min(6), pixels).save(folder.join(format!("logos-{shape}-{pixels}.png")))?;
        }
    }
    Ok(())
}

fn sheet(cases: &[Case], across: u32, pixels: u32) -> RgbImage {
    let gap = pixels / 20;
    let rows = u32::try_from(cases.len()).expect("few").div_ceil(across);
    let mut sheet = RgbImage::from_pixel(across * (pixels + gap) + gap, rows * (pixels + gap) + gap, [204; 3].into());
    for (at, case) in (0_u32..).zip(cases) {
        let picture = in_colour(case).swap_remove(0);
        let place = |number: u32| i64::from(gap + number * (pixels + gap));
        replace(&mut sheet, &picture, place(at % across), place(at / across));
    }
    sheet
}
