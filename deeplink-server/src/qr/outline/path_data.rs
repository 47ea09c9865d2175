//! Outlines as SVG path data, in few bytes.

use super::Ink;

/// Path data.
#[derive(Default)]
pub(in crate::qr) struct PathData {
    data: String,
    /// What was written last; determines the separator.
    last: Last,
}

#[derive(Default, PartialEq)]
enum Last {
    #[default]
    Letter,
    Whole,
    Fraction,
}

impl Ink for PathData {
    fn start(&mut self, from: (i32, i32), to: (i32, i32)) {
        self.letter('m');
        self.number(to.0 - from.0);
        self.number(to.1 - from.1);
    }

    fn line(&mut self, from: (i32, i32), to: (i32, i32)) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        self.letter(if dy == 0 { 'h' } else { 'v' });
        self.number(dx + dy);
    }

    fn arc(&mut self, radius: i32, from: (i32, i32), to: (i32, i32)) {
        self.letter('a');
        self.number(radius);
        self.number(radius);
        // No rotation, the short arc, clockwise.
        self.data.push_str(" 0 0 1");
        self.last = Last::Whole;
        self.number(to.0 - from.0);
        self.number(to.1 - from.1);
    }

    fn close(&mut self) {
        self.letter('z');
    }
}

impl PathData {
    /// The text.
    pub(in crate::qr) fn into_text(self) -> String {
        self.data
    }

    fn letter(&mut self, letter: char) {
        self.data.push(letter);
        self.last = Last::Letter;
    }

    fn number(&mut self, quarters: i32) {
        let (whole, part) = (quarters.unsigned_abs() / 4, quarters.unsigned_abs() % 4);
        if quarters < 0 {
            self.data.push('-');
        } else if self.last == Last::Whole || self.last == Last::Fraction && (whole > 0 || part == 0) {
            self.data.push(' ');
        }
        if whole > 0 || part == 0 {
            self.data.push_str(&whole.to_string());
        }
        self.data.push_str(["", ".25", ".5", ".75"][part as usize]);
        self.last = if part == 0 { Last::Whole } else { Last::Fraction };
    }
}
