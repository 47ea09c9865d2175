//! Square frames, which every reader supports.

use deeplink_core::qr::CornerSquareType;

use crate::cases::Case;
use crate::g1;
use crate::readers::{each_is_read, rqrr};

fn square(mut cases: Vec<Case>) -> Vec<Case> {
    cases.retain(|case| case.style().corner_square_type == CornerSquareType::Square);
    cases
}

#[test]
fn g2_square_frames_are_read_by_a_reader_that_fits_lines_to_them() {
    let cases = square(g1::cases());
    assert!(cases.len() >= 200, "{}", cases.len());
    each_is_read(&cases, rqrr).is_perfect("square frames");
}

#[test]
fn g2_square_frames_are_read_by_it_from_their_svg() {
    each_is_read(&square(g1::svg_cases()), rqrr).is_perfect("square frames as SVG");
}
