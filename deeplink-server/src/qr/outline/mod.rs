//! Outlines of what is drawn. Lengths are quarters of a module, so that every number is exact.

mod path_data;

use deeplink_core::qr::{DotType, QrStyle};

use super::dots::{self, Corners};
use super::eyes::{self, Square};
use super::layout::Layout;
use super::matrix::Field;

pub(super) use path_data::PathData;

/// Quarters in a module.
const UNIT: i32 = 4;

/// The four directions, clockwise: the sides of a dot as its outline runs along them, top first.
const DIRECTIONS: [(i32, i32); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];
const TOP: usize = 0;

/// What outlines are written in. Points are in quarters of a module, from the upper left corner.
pub(super) trait Ink: Default {
    /// Begins an outline at `to`. The last one began at `from`.
    fn start(&mut self, from: (i32, i32), to: (i32, i32));

    /// A line to the right, down, to the left or up.
    fn line(&mut self, from: (i32, i32), to: (i32, i32));

    /// A quarter of a circle or half of one, clockwise.
    fn arc(&mut self, radius: i32, from: (i32, i32), to: (i32, i32));

    /// Ends an outline with a straight line to where it began.
    fn close(&mut self);
}

/// Writes outlines that run clockwise around filled areas.
#[derive(Default)]
pub(super) struct Pen<I> {
    ink: I,
    at: (i32, i32),
    start: (i32, i32),
    pending: Option<Segment>,
}

#[derive(Clone, Copy)]
enum Segment {
    /// Its direction and length.
    Line(usize, i32),
    /// A quarter of a circle: its radius, the direction it ends in, and its end.
    Quarter(i32, usize, (i32, i32)),
    /// A half circle, merged from two quarters.
    Half(i32, (i32, i32)),
}

/// The dots of a code, its frames and its pupils. A frame is what is between two outlines.
pub(super) fn parts<I: Ink>(layout: &Layout, style: &QrStyle, field: &Field) -> [I; 3] {
    let (mut dots, mut frames, mut pupils) = (Pen::default(), Pen::default(), Pen::default());
    dots.dots(field, style.dot_type, layout.margin());
    let origin = layout.margin() + layout.ring();
    let (outer, inner) = eyes::frame(style.corner_square_type);
    let pupil = eyes::pupil(style.corner_dot_type, style.corner_square_type);
    for (row, column) in eyes::positions(layout.modules()) {
        let (row, column) = (origin + row, origin + column);
        frames.square(row, column, outer);
        frames.square(row, column, inner);
        pupils.square(row, column, pupil);
    }
    [dots, frames, pupils].map(Pen::into_ink)
}

impl<I: Ink> Pen<I> {
    /// The outlines so far.
    pub(super) fn into_ink(self) -> I {
        self.ink
    }

    fn start(&mut self, x: i32, y: i32) {
        // After closing an outline the pen is at its start.
        self.ink.start(self.at, (x, y));
        self.at = (x, y);
        self.start = self.at;
    }

    fn line(&mut self, direction: usize, length: i32) {
        match &mut self.pending {
            _ if length == 0 => {}
            Some(Segment::Line(before, so_far)) if *before == direction => *so_far += length,
            _ => self.then(Segment::Line(direction, length)),
        }
    }

    /// Turns clockwise from this direction into the next one.
    fn quarter(&mut self, direction: usize, radius: i32) {
        let (ahead, turned) = (DIRECTIONS[direction], DIRECTIONS[(direction + 1) % 4]);
        let (dx, dy) = ((ahead.0 + turned.0) * radius, (ahead.1 + turned.1) * radius);
        match self.pending {
            Some(Segment::Quarter(before, leads, (x, y))) if (before, leads) == (radius, direction) => {
                self.pending = Some(Segment::Half(radius, (x + dx, y + dy)));
            }
            _ => self.then(Segment::Quarter(radius, (direction + 1) % 4, (dx, dy))),
        }
    }

    fn then(&mut self, segment: Segment) {
        self.write();
        self.pending = Some(segment);
    }

    fn write(&mut self) {
        let by = |(x, y): (i32, i32), (dx, dy): (i32, i32)| (x + dx, y + dy);
        let to = match self.pending.take() {
            None => return,
            Some(Segment::Line(direction, length)) => {
                let to = by(self.at, (DIRECTIONS[direction].0 * length, DIRECTIONS[direction].1 * length));
                self.ink.line(self.at, to);
                to
            }
            Some(Segment::Quarter(radius, _, end) | Segment::Half(radius, end)) => {
                let to = by(self.at, end);
                self.ink.arc(radius, self.at, to);
                to
            }
        };
        self.at = to;
    }

    fn close(&mut self) {
        // Closing the path draws a final straight line.
        if !matches!(self.pending, Some(Segment::Line(..))) {
            self.write();
        }
        self.pending = None;
        self.at = self.start;
        self.ink.close();
    }

    /// A part of the eye whose upper left corner is at this module.
    pub(super) fn square(&mut self, row: u32, column: u32, square: Square) {
        let place = |module: u32| (module + square.inset()).cast_signed() * UNIT;
        let (x, y) = (place(column), place(row));
        let (edge, radius) = (square.edge.cast_signed() * UNIT, square.radius.cast_signed());
        self.start(x, y + radius);
        for side in 0..4 {
            if radius > 0 {
                self.quarter((side + 3) % 4, radius);
            }
            self.line(side, edge - 2 * radius);
        }
        self.close();
    }

    /// All dots of a field, whose upper left corner is at this module on both axes. Dots that touch share an outline:
    /// there is no seam between them.
    pub(super) fn dots(&mut self, field: &Field, dot_type: DotType, origin: u32) {
        let mut walk = Walk { field, dot_type, done: vec![false; field.stride() * field.stride()] };
        for row in 0..field.edge() {
            for column in 0..field.edge() {
                let at = field.at(row, column);
                if field.is_dot(at) && !walk.done[at] && !walk.is_joined(at, TOP) {
                    let place = |module: usize| i32::try_from(module).map_or(0, |m| (m + origin.cast_signed()) * UNIT);
                    walk.outline(self, at, place(column), place(row));
                }
            }
        }
    }
}

/// Follows the outlines of connected dots, with the dots on the right.
struct Walk<'a> {
    field: &'a Field,
    dot_type: DotType,
    /// Dots whose top side has been passed. Every outline has a top side somewhere.
    done: Vec<bool>,
}

impl Walk<'_> {
    /// The index one step from a dot.
    fn step(&self, at: usize, direction: usize) -> usize {
        match direction {
            0 => at + 1,
            1 => at + self.field.stride(),
            2 => at - 1,
            _ => at - self.field.stride(),
        }
    }

    /// Whether a dot is joined to its neighbor on this side.
    fn is_joined(&self, at: usize, side: usize) -> bool {
        self.dot_type != DotType::Dots && self.field.is_dot(self.step(at, (side + 3) % 4))
    }

    fn corners(&self, at: usize) -> Corners {
        dots::corners(self.dot_type, self.field.neighbours(at))
    }

    /// Draws the outline that begins along the top of this dot.
    fn outline<I: Ink>(&mut self, pen: &mut Pen<I>, first: usize, x: i32, y: i32) {
        let mut corners = self.corners(first);
        let radius = |corners: Corners, corner: usize| corners[corner % 4].cast_signed();
        pen.start(x, y + radius(corners, 0));
        if corners[0] > 0 {
            pen.quarter(3, radius(corners, 0));
        }
        let (mut at, mut side) = (first, TOP);
        loop {
            if side == TOP {
                self.done[at] = true;
            }
            pen.line(side, UNIT - radius(corners, side) - radius(corners, side + 1));
            let next = (side + 1) % 4;
            if !self.is_joined(at, next) {
                // Turn at the dot's own corner: dots that touch only at a corner have separate outlines.
                if (at, next) == (first, TOP) {
                    break;
                }
                if corners[next] > 0 {
                    pen.quarter(side, radius(corners, next));
                }
                side = next;
                continue;
            }
            at = self.step(at, side);
            if self.is_joined(at, side) {
                at = self.step(at, (side + 3) % 4);
                side = (side + 3) % 4;
            }
            if (at, side) == (first, TOP) {
                break;
            }
            corners = self.corners(at);
        }
        pen.close();
    }
}

#[cfg(test)]
mod tests;
