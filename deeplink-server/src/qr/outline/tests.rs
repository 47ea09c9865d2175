//! Outlines read back as polygons.

use super::*;
use crate::qr::matrix::Field;

/// A field drawn with `#`, row by row.
fn field(rows: &[&str]) -> Field {
    let cells = rows.iter().enumerate().flat_map(|(row, text)| {
        text.bytes().enumerate().filter(|(_, byte)| *byte == b'#').map(move |(column, _)| (row, column))
    });
    Field::with_dots(rows.len().max(rows[0].len()), cells)
}

fn dots(rows: &[&str], dot_type: DotType) -> String {
    let mut pen = Pen::<PathData>::default();
    pen.dots(&field(rows), dot_type, 0);
    pen.into_ink().into_text()
}

#[test]
fn outlines_are_short() {
    for (rows, dot_type, data) in [
        (&["#"][..], DotType::Square, "m0 0h1v1h-1z"),
        (&["#"], DotType::Dots, "m0 .5a.5.5 0 0 1 1 0a.5.5 0 0 1-1 0z"),
        (&["#"], DotType::Rounded, "m0 .5a.5.5 0 0 1 1 0a.5.5 0 0 1-1 0z"),
        (&["#"], DotType::Classy, "m0 .5a.5.5 0 0 1 .5-.5h.5v.5a.5.5 0 0 1-.5.5h-.5z"),
        // A run has no inner edges.
        (&["#####"], DotType::Square, "m0 0h5v1h-5z"),
        (&["#####"], DotType::Rounded, "m0 .5a.5.5 0 0 1 .5-.5h4a.5.5 0 0 1 0 1h-4a.5.5 0 0 1-.5-.5z"),
        (&["##", "#."], DotType::ExtraRounded, "m0 1a1 1 0 0 1 1-1h.5a.5.5 0 0 1 0 1h-.5v.5a.5.5 0 0 1-1 0z"),
        // Inside a ring the outline runs the other way.
        (&["###", "#.#", "###"], DotType::Square, "m0 0h3v3h-3zm1 2h1v-1h-1z"),
        // Dots that touch at a corner stay separate.
        (&["#.", ".#"], DotType::Square, "m0 0h1v1h-1zm1 1h1v1h-1z"),
    ] {
        assert_eq!(dots(rows, dot_type), data, "{dot_type}");
    }
}

#[test]
fn parts_of_eyes_are_squares_or_discs() {
    for (radius, data) in [
        (0, "m2 2h3v3h-3z"),
        (3, "m2 2.75a.75.75 0 0 1 .75-.75h1.5a.75.75 0 0 1 .75.75v1.5a.75.75 0 0 1-.75.75h-1.5a.75.75 0 0 1-.75-.75z"),
        (6, "m2 3.5a1.5 1.5 0 0 1 3 0a1.5 1.5 0 0 1-3 0z"),
    ] {
        let mut pen = Pen::<PathData>::default();
        pen.square(0, 0, Square { edge: 3, radius });
        assert_eq!(pen.into_ink().into_text(), data);
    }
}

/// Path data as polygons; a quarter of a circle becomes eight edges.
fn polygons(data: &str) -> Vec<Vec<(f64, f64)>> {
    let mut polygons: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut at = (0.0, 0.0);
    let mut rest = data;
    while let Some(letter) = rest.chars().next() {
        let end = rest[1..].find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |end| end + 1);
        let numbers = numbers(&rest[1..end]);
        rest = &rest[end..];
        let polygon = polygons.last_mut();
        match (letter, &numbers[..]) {
            ('m', [dx, dy]) => {
                at = (at.0 + dx, at.1 + dy);
                polygons.push(vec![at]);
                continue;
            }
            ('z', []) => {
                at = polygon.expect("an outline")[0];
                continue;
            }
            ('h', [dx]) => at.0 += dx,
            ('v', [dy]) => at.1 += dy,
            ('a', &[rx, ry, turn, large, sweep, dx, dy]) => {
                assert_eq!((turn, large, sweep), (0.0, 0.0, 1.0));
                assert!((rx - ry).abs() < 1e-9);
                let polygon = polygon.expect("an outline");
                // The centre is on the right of the chord, at the height that the radius leaves.
                let height = (rx * rx - (dx * dx + dy * dy) / 4.0).max(0.0).sqrt() / dx.hypot(dy);
                let centre = (at.0 + dx / 2.0 - dy * height, at.1 + dy / 2.0 + dx * height);
                let angle = |x: f64, y: f64| (y - centre.1).atan2(x - centre.0);
                let (from, to) = (angle(at.0, at.1), angle(at.0 + dx, at.1 + dy));
                let sweep = (to - from).rem_euclid(std::f64::consts::TAU);
                for step in 1..16 {
                    let angle = from + sweep * f64::from(step) / 16.0;
                    polygon.push((centre.0 + rx * angle.cos(), centre.1 + rx * angle.sin()));
                }
                at = (at.0 + dx, at.1 + dy);
            }
            _ => panic!("{letter} {numbers:?}"),
        }
        polygons.last_mut().expect("an outline").push(at);
    }
    polygons
}

fn numbers(text: &str) -> Vec<f64> {
    let mut numbers: Vec<String> = Vec::new();
    let mut whole = true;
    for (at, c) in text.char_indices() {
        let begins = c == '-' || c == ' ' || c == '.' && !whole || at == 0;
        whole = c != '.' && (whole || begins);
        if begins {
            numbers.push(String::new());
        }
        numbers.last_mut().expect("a number").push(c);
    }
    numbers.iter().map(|text| text.trim().parse().expect("a number")).collect()
}

/// The winding number of the outlines around a point.
fn winding(polygons: &[Vec<(f64, f64)>], x: f64, y: f64) -> i32 {
    let edges = polygons.iter().flat_map(|points| points.iter().zip(points.iter().cycle().skip(1)));
    edges
        .map(|(from, to)| {
            let crosses = (from.1 > y) != (to.1 > y);
            let right = crosses && from.0 + (y - from.1) / (to.1 - from.1) * (to.0 - from.0) > x;
            i32::from(right) * if to.1 > from.1 { 1 } else { -1 }
        })
        .sum()
}

/// Whether a point of this module is in its dot; `None` near an edge.
fn in_dot(field: &Field, dot_type: DotType, (row, column): (usize, usize), (x, y): (f64, f64)) -> Option<bool> {
    let at = field.at(row, column);
    if !field.is_dot(at) {
        return Some(false);
    }
    let corners = dots::corners(dot_type, field.neighbours(at)).map(|quarters| f64::from(quarters) / 4.0);
    for (radius, (x, y)) in corners.into_iter().zip([(x, y), (1.0 - x, y), (1.0 - x, 1.0 - y), (x, 1.0 - y)]) {
        let distance = (radius - x).hypot(radius - y);
        if x < radius && y < radius && (distance - radius).abs() < 0.02 {
            return None;
        }
        if x < radius && y < radius && distance > radius {
            return Some(false);
        }
    }
    Some(true)
}

/// The outlines enclose exactly the union of the dots, once.
#[test]
fn outlines_are_the_union_of_the_dots() {
    let mut bits = 0x2545_F491_4F6C_DD1D_u64;
    for &dot_type in DotType::ALL {
        for _ in 0..12 {
            let cells: Vec<_> = (0..49)
                .filter(|_| {
                    bits ^= bits << 13;
                    bits ^= bits >> 7;
                    bits ^= bits << 17;
                    bits & 3 != 0
                })
                .map(|at| (at / 7, at % 7))
                .collect();
            let field = Field::with_dots(7, cells.iter().copied());
            let mut pen = Pen::<PathData>::default();
            pen.dots(&field, dot_type, 0);
            let data = pen.into_ink().into_text();
            let polygons = polygons(&data);
            for (row, column) in (0..49_u32).map(|at| (at / 7, at % 7)) {
                for (dx, dy) in [(0.07, 0.06), (0.93, 0.08), (0.94, 0.92), (0.05, 0.94), (0.51, 0.49), (0.2, 0.77)] {
                    let place = (row as usize, column as usize);
                    let Some(inside) = in_dot(&field, dot_type, place, (dx, dy)) else { continue };
                    let around = winding(&polygons, f64::from(column) + dx, f64::from(row) + dy);
                    assert_eq!(around, i32::from(inside), "{dot_type} {row}, {column}: {data} {cells:?}");
                }
            }
        }
    }
}
