//! The text of an SVG: only a few shapes, and the same picture as the PNG.

use std::collections::BTreeMap;

use deeplink_core::qr::{QrFormat, QrShape};
use deeplink_core::secret::Random;
use roxmltree::{Document, Namespace, Node};

use crate::cases::{Case, Edge, below, colour, sample};
use crate::logos::Artwork;
use crate::pictures::in_colour;
use crate::readers::each;

const SEED: u64 = 20_260_708;
const SVG: &str = "http://www.w3.org/2000/svg";
const XLINK: &str = "http://www.w3.org/1999/xlink";

/// Samples of all options, some with colours and some with a logo.
fn cases(count: usize) -> Vec<Case> {
    let random = &mut Random::seeded(SEED);
    let mut cases = sample(count, random);
    for (at, case) in cases.iter_mut().enumerate() {
        case.format = QrFormat::Svg;
        if at % 2 == 1 {
            let mut dark = || Some(colour(random)).filter(|colour| colour.luminance() < 0.3);
            let (dots, frames, pupils) = (dark(), dark(), dark());
            case.options.dot_color = dots;
            case.options.corner_square_color = frames;
            case.options.corner_dot_color = pupils;
        }
        if at % 3 == 2 {
            let artworks = Artwork::all();
            *case = case.clone().with_artwork(artworks[below(artworks.len(), random)]);
        }
    }
    cases
}

/// O2: every element and attribute that the file may have.
#[test]
fn o2_an_svg_has_a_background_three_paths_and_a_logo_at_most() {
    let outcome = each(&cases(120), |case| {
        let file = String::from_utf8(case.draw()).map_err(|why| format!("{case}: {why}"))?;
        is_listed(case, &file).map_err(|why| format!("{case}: {why}"))
    });
    outcome.is_perfect("SVG files");
}

fn is_listed(case: &Case, file: &str) -> Result<(), String> {
    let document = Document::parse(file).map_err(|why| why.to_string())?;
    let root = document.root_element();
    let namespaces: Vec<_> = root.namespaces().filter(|one| one.name() != Some("xml")).map(Namespace::uri).collect();
    let alone = document.root().children().count() == 1;
    if !alone || !file.starts_with("<svg") || namespaces.iter().any(|uri| ![SVG, XLINK].contains(uri)) {
        return Err(format!("beside the root, or in its namespaces: {namespaces:?}"));
    }
    let style = case.style();
    let size = style.size.to_string();
    let span = case.modules();
    expect(
        root,
        "svg",
        &[
            ("width", &size),
            ("height", &size),
            ("viewBox", &format!("0 0 {span} {span}")),
            ("role", "img"),
            ("aria-label", "QR code"),
        ],
    )?;
    let mut children = root.children();
    let background = children.next().ok_or("nothing inside")?;
    let span = span.to_string();
    expect(background, "rect", &[("width", &span), ("height", &span), ("fill", &style.background.to_string())])?;
    let mut fills = Vec::new();
    let mut logos = 0;
    for child in children {
        if child.children().next().is_some() || logos > 0 {
            return Err(format!("unexpected content in or after {child:?}"));
        }
        match child.tag_name().name() {
            "path" => {
                let fill = child.attribute("fill").ok_or("no colour")?;
                let mut wanted = vec![("fill", fill)];
                wanted.extend(child.attribute("d").map(|d| ("d", d)));
                wanted.extend(
                    child.attribute("fill-rule").filter(|rule| *rule == "evenodd").map(|rule| ("fill-rule", rule)),
                );
                expect(child, "path", &wanted)?;
                fills.push(fill.to_owned());
            }
            "image" => {
                is_embedded(child)?;
                logos += 1;
            }
            other => return Err(format!("{other} is not listed")),
        }
    }
    let drawn = [style.dots, style.frames, style.pupils].map(|colour| colour.to_string());
    let right = fills.len() <= 3
        && drawn.iter().all(|colour| fills.contains(colour))
        && fills.iter().all(|fill| drawn.contains(fill));
    if !right || (logos == 1) != case.artwork.is_some() {
        return Err(format!("paths in {fills:?}, logos: {logos}"));
    }
    Ok(())
}

/// Exactly this element with exactly these attributes.
fn expect(node: Node<'_, '_>, name: &str, attributes: &[(&str, &str)]) -> Result<(), String> {
    let found: BTreeMap<_, _> = node.attributes().map(|one| (one.name(), one.value())).collect();
    let wanted: BTreeMap<_, _> = attributes.iter().copied().collect();
    let tag = node.tag_name();
    if tag.name() == name && tag.namespace() == Some(SVG) && found == wanted {
        return numbers_are_short(&found);
    }
    Err(format!("{tag:?} with {found:?}, where {name} with {wanted:?} should be"))
}

fn is_embedded(image: Node<'_, '_>) -> Result<(), String> {
    let data = image.attribute("href").ok_or("no picture")?;
    let plain: BTreeMap<_, _> =
        image.attributes().filter(|one| one.namespace().is_none()).map(|one| (one.name(), one.value())).collect();
    let linked: Vec<_> = image.attributes().filter(|one| one.namespace().is_some()).collect();
    let twice = linked.len() == 1
        && linked[0].name() == "href"
        && linked[0].namespace() == Some(XLINK)
        && linked[0].value() == data;
    if !twice || image.tag_name().namespace() != Some(SVG) || !data.starts_with("data:image/png;base64,") {
        return Err(format!("{image:?}"));
    }
    let names: Vec<_> = plain.keys().copied().collect();
    let listed = ["height", "href", "preserveAspectRatio", "width", "x", "y"];
    if names.iter().any(|name| !listed.contains(name)) || names.len() < 5 {
        return Err(format!("{names:?}"));
    }
    numbers_are_short(&plain.into_iter().filter(|(name, _)| *name != "href").collect())
}

/// O3: at most three decimals, no exponent, no redundant zeros; colours in lower case.
fn numbers_are_short(attributes: &BTreeMap<&str, &str>) -> Result<(), String> {
    for (name, value) in attributes {
        let right = match *name {
            "fill" => {
                value.len() == 7
                    && value.starts_with('#')
                    && value[1..].bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
            }
            "d" | "viewBox" | "width" | "height" | "x" | "y" => {
                let commands = value.bytes().all(|byte| b"MmLlHhVvCcSsQqTtAaZz0123456789.,- ".contains(&byte));
                commands && value.split(|byte: char| !byte.is_ascii_digit() && byte != '.').all(is_short)
            }
            _ => true,
        };
        if !right {
            return Err(format!("{name}={value}"));
        }
    }
    Ok(())
}

/// One number; if two are adjacent without a separator, as in `.5.5`, each begins with its point.
fn is_short(number: &str) -> bool {
    let mut parts = number.split('.');
    let whole = parts.next().unwrap_or_default();
    let whole_is_short = whole == "0" || !whole.starts_with('0') || flags(whole);
    whole_is_short && parts.all(|decimals| (1..=3).contains(&decimals.len()) && !decimals.ends_with('0'))
}

/// The two flags of an arc may be joined with the next number: `a.5.5 0 012 3`.
fn flags(digits: &str) -> bool {
    let mut digits = digits.bytes();
    matches!((digits.next(), digits.next()), (Some(b'0'), Some(b'0' | b'1')))
}

#[test]
fn o3_numbers_with_a_longer_form_are_found() {
    for (number, short) in [
        ("0", true),
        ("12", true),
        ("12.5", true),
        (".125", true),
        (".5.25", true),
        ("1.50", false),
        ("1.0", false),
        ("1.2345", false),
        ("1.", false),
        ("012", true),
        ("05", false),
    ] {
        assert_eq!(is_short(number), short, "{number}");
    }
}

/// The mean difference of a channel is below 1%, and outside of logos none is above 50%.
#[test]
fn the_svg_is_the_same_picture_as_the_png() {
    let cases = cases(60).into_iter().enumerate().map(|(at, case)| {
        // Whole pixels per module, so that both align.
        case.sized(Edge::Modules(if at % 2 == 0 { 6 } else { 9 }))
    });
    let cases: Vec<_> = cases.collect();
    assert!(cases.iter().any(|case| case.style().shape == QrShape::Circle));
    let outcome = each(&cases, |case| {
        let svg = in_colour(case).swap_remove(0);
        let png = in_colour(&Case { format: QrFormat::Png, ..case.clone() }).swap_remove(0);
        assert_eq!(svg.dimensions(), png.dimensions(), "{case}");
        let differences = || svg.as_raw().iter().zip(png.as_raw()).map(|(one, other)| u64::from(one.abs_diff(*other)));
        let mean = differences().sum::<u64>() * 1_000 / u64::try_from(svg.as_raw().len()).expect("few");
        let most = differences().max().unwrap_or_default();
        // Viewers resample images differently.
        let is_same = mean < 2_550 && (most <= 128 || case.style().logo.is_some());
        if is_same { Ok(()) } else { Err(format!("{case}: {mean} thousandths, {most} at most")) }
    });
    outcome.is_perfect("SVG against PNG");
}

/// The mean difference of a channel is below 0.4%, also with a logo: it is in its place, and not upside down.
#[test]
fn what_is_printed_is_the_same_picture_as_the_svg() {
    let formats = [QrFormat::Pdf, QrFormat::Eps].into_iter().cycle();
    let artworks = Artwork::lettered().into_iter().cycle();
    let samples = sample(48, &mut Random::seeded(SEED + 1)).into_iter().zip(formats).zip(artworks).zip(0..);
    let cases = samples.map(|(((case, format), artwork), at)| {
        let case = if at % 3 == 0 { case } else { case.with_artwork(artwork) };
        Case { format, ..case.sized(Edge::Modules(6)) }
    });
    let outcome = each(&cases.collect::<Vec<_>>(), |case| {
        let printed = in_colour(case).swap_remove(0);
        let svg = in_colour(&Case { format: QrFormat::Svg, ..case.clone() }).swap_remove(0);
        assert_eq!(printed.dimensions(), svg.dimensions(), "{case}");
        let pairs = printed.as_raw().iter().zip(svg.as_raw());
        let sum: u64 = pairs.map(|(one, other)| u64::from(one.abs_diff(*other))).sum();
        let mean = sum * 1_000 / u64::try_from(svg.as_raw().len()).expect("few");
        if mean < 1_000 { Ok(()) } else { Err(format!("{case}: {mean} thousandths")) }
    });
    outcome.is_perfect("print against SVG");
}

/// O4: no clock, no randomness, no map iteration order.
#[test]
fn o4_the_same_request_gives_the_same_bytes() {
    let cases: Vec<_> =
        cases(24).into_iter().flat_map(|case| [Case { format: QrFormat::Png, ..case.clone() }, case]).collect();
    let outcome = each(&cases, |case| if case.draw() == case.draw() { Ok(()) } else { Err(case.to_string()) });
    outcome.is_perfect("drawn twice");
}
