//! Numbers as lengths: bars and sparklines in blocks, or in ASCII where blocks cannot be shown.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::escape;

const BOLD: &str = "\u{1b}[1m";
const BAR: &str = "\u{1b}[36m";
const DIM: &str = "\u{1b}[2m";
const RESET: &str = "\u{1b}[0m";

/// A shorter bar would be meaningless.
const MIN_BAR: usize = 6;
/// Eighths of a block, from one to seven.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// Heights of a sparkline; the first is zero.
const HEIGHTS: [[char; 8]; 2] = [['_', '.', ':', '-', '=', '+', '*', '#'], ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']];

/// Columns that a text occupies: wide characters take two, combining ones none.
pub(crate) fn columns_of(text: &str) -> usize {
    text.width()
}

/// A text padded with spaces to `room` columns.
pub(crate) fn padded(text: &str, room: usize) -> String {
    format!("{text}{:gap$}", "", gap = room.saturating_sub(columns_of(text)))
}

/// How charts are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pen {
    /// Colors are wanted.
    pub(crate) color: bool,
    /// Blocks can be shown.
    pub(crate) utf8: bool,
    /// Columns to draw in.
    pub(crate) width: usize,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    label: String,
    count: i64,
    tail: String,
    /// The value of a full bar, if it is not the largest of its section.
    whole: Option<i64>,
}

impl Line {
    /// A count with its name, which may be untrusted text.
    pub(crate) fn new(label: &str, count: i64) -> Self {
        Self { label: escape::one_line(label).into_owned(), count, tail: String::new(), whole: None }
    }

    /// Adds this text after the bar.
    pub(crate) fn tail(mut self, tail: &str) -> Self {
        self.tail = escape::one_line(tail).into_owned();
        self
    }

    /// Draws the bar as a part of this; there is no bar if it is zero.
    pub(crate) fn part_of(mut self, whole: i64) -> Self {
        self.whole = Some(whole);
        self
    }
}

impl Pen {
    fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("{code}{text}{RESET}") } else { text.to_owned() }
    }

    /// A heading.
    pub(crate) fn heading(self, text: &str) -> String {
        self.paint(BOLD, text)
    }

    /// The label next to a value.
    pub(crate) fn label(self, text: &str) -> String {
        self.paint(DIM, text)
    }

    /// A bar in its color.
    pub(crate) fn bar_color(self, bar: &str) -> String {
        self.paint(BAR, bar)
    }

    /// The steps of a funnel, each with its share of the step before, or how many there are for each of those.
    pub(crate) fn funnel(self, clicks: i64, installed: i64, identified: i64, conversions: i64) -> Vec<Line> {
        let line = |label: &str, count: i64, before: Option<(&str, i64)>| {
            let tail = match before {
                Some((name, before)) if before > 0 && count > before => per(count, before, name),
                Some((_, before)) => self.share(count, before),
                None => String::new(),
            };
            Line { label: label.to_owned(), count, tail, whole: None }
        };
        vec![
            line("clicks", clicks, None),
            line("installed", installed, Some(("click", clicks))),
            line("identified", identified, Some(("install", installed))),
            line("conversions", conversions, Some(("user", identified))),
        ]
    }

    /// Counts with bars, section by section under a heading or none. All use the same columns, and each section has its
    /// own scale.
    pub(crate) fn chart(self, sections: &[(&str, Vec<Line>)]) -> String {
        let lines = || sections.iter().flat_map(|(_, lines)| lines);
        let widest = |width: fn(&Line) -> usize| lines().map(width).max().unwrap_or(0);
        let counts = widest(|line| line.count.to_string().len());
        let tails = widest(|line| columns_of(&line.tail));
        let behind = if tails == 0 { 0 } else { 2 + tails };
        // A label is shortened before its bar is.
        let most = self.width.saturating_sub(counts + behind + 4 + MIN_BAR).min(self.width / 3).max(12);
        let labels = widest(|line| columns_of(&line.label)).min(most);
        let room = self.width.saturating_sub(labels + counts + behind + 4);
        let room = if room < MIN_BAR { 0 } else { room };
        let mut out = Vec::new();
        for (at, (heading, lines)) in sections.iter().enumerate() {
            if at > 0 {
                out.push(String::new());
            }
            if !heading.is_empty() {
                out.push(self.heading(heading));
            }
            let longest = lines.iter().map(|line| line.count).max().unwrap_or(0);
            for Line { label, count, tail, whole } in lines {
                let (label, bar) = (self.cut(label, labels), self.bar(*count, whole.unwrap_or(longest), room));
                let gap = room.saturating_sub(bar.chars().count());
                let label = padded(&label, labels);
                let line = format!("{label}  {count:>counts$}  {}", self.bar_color(&bar));
                if tail.is_empty() {
                    out.push(line.trim_end().to_owned());
                } else {
                    let before = gap + 2 + tails.saturating_sub(columns_of(tail));
                    out.push(format!("{line}{:before$}{}", "", self.paint(DIM, tail)));
                }
            }
        }
        out.push(String::new());
        out.join("\n")
    }

    /// A count's length within `room` columns; anything above zero is visible.
    pub(crate) fn bar(self, count: i64, longest: i64, room: usize) -> String {
        if count <= 0 || longest <= 0 || room == 0 {
            return String::new();
        }
        let all = i128::try_from(room * 8).unwrap_or(i128::MAX);
        let eighths = (i128::from(count) * all / i128::from(longest)).clamp(1, all);
        let eighths = usize::try_from(eighths).unwrap_or(1);
        if !self.utf8 {
            return "#".repeat(((eighths + 4) / 8).clamp(1, room));
        }
        let part = EIGHTHS.get((eighths % 8).wrapping_sub(1));
        "█".repeat(eighths / 8).chars().chain(part.copied()).collect()
    }

    /// Counts as heights, side by side; if there is not enough room, neighbors are combined.
    pub(crate) fn spark(self, counts: &[i64]) -> String {
        let together = counts.len().div_ceil(self.width.max(1)).max(1);
        let sums: Vec<i64> =
            counts.chunks(together).map(|some| some.iter().fold(0, |a, b| b.saturating_add(a))).collect();
        let highest = sums.iter().copied().max().unwrap_or(0).max(1);
        let heights = &HEIGHTS[usize::from(self.utf8)];
        let height = |sum: &i64| match *sum {
            ..=0 => 0,
            sum => usize::try_from(1 + i128::from(sum) * 6 / i128::from(highest)).unwrap_or(1),
        };
        let line: String = sums.iter().map(|sum| heights.get(height(sum)).copied().unwrap_or(' ')).collect();
        self.paint(BAR, &line)
    }

    /// A part of a whole in percent.
    pub(crate) fn share(self, part: i64, whole: i64) -> String {
        if whole <= 0 {
            return if self.utf8 { "–" } else { "-" }.to_owned();
        }
        let tenths = (i128::from(part) * 1_000 + i128::from(whole) / 2) / i128::from(whole);
        format!("{}.{}%", tenths / 10, tenths % 10)
    }

    /// A text in `room` columns.
    pub(crate) fn cut(self, text: &str, room: usize) -> String {
        let end = if self.utf8 { "…" } else { "..." };
        if columns_of(text) <= room {
            return text.to_owned();
        }
        let mut left = room.saturating_sub(columns_of(end));
        let fits = |c: &char| {
            let width = c.width().unwrap_or(0);
            let fits = width <= left;
            left = left.saturating_sub(width);
            fits
        };
        text.chars().take_while(fits).chain(end.chars()).collect()
    }
}

/// How many there are for each of `of`, with one decimal.
fn per(count: i64, of: i64, name: &str) -> String {
    let tenths = (i128::from(count) * 10 + i128::from(of) / 2) / i128::from(of);
    format!("{}.{} per {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEN: Pen = Pen { color: false, utf8: true, width: 40 };
    const ASCII: Pen = Pen { utf8: false, ..PEN };

    #[test]
    fn bars_are_in_proportion_and_nothing_is_lost() {
        assert_eq!(PEN.bar(10, 10, 4), "████");
        assert_eq!(PEN.bar(5, 10, 4), "██");
        assert_eq!(PEN.bar(4, 10, 4), "█▌");
        assert_eq!(PEN.bar(1, 1_000_000, 4), "▏");
        assert_eq!(PEN.bar(0, 10, 4), "");
        assert_eq!(PEN.bar(0, 0, 4), "");
        assert_eq!(PEN.bar(i64::MAX, i64::MAX, 400).chars().count(), 400);
        assert_eq!([ASCII.bar(10, 10, 4), ASCII.bar(1, 1_000, 4), ASCII.bar(5, 10, 4)], ["####", "#", "##"]);
    }

    #[test]
    fn a_funnel_fits_its_terminal() {
        let drawn = |pen: Pen| pen.chart(&[("", pen.funnel(1_204, 310, 0, 64))]);
        assert_eq!(
            drawn(PEN),
            "clicks       1204  ██████████████\n\
             installed     310  ███▌            25.7%\n\
             identified      0                   0.0%\n\
             conversions    64  ▋                   –\n"
        );
        for (width, pen) in [(20, PEN), (40, ASCII), (80, PEN), (200, ASCII)] {
            let pen = Pen { width, ..pen };
            for line in drawn(pen).lines() {
                assert!(line.chars().count() <= width.max(29), "{width}: {line}");
            }
        }
        let coloured = drawn(Pen { color: true, ..PEN });
        assert!(coloured.contains("\u{1b}[36m███▌\u{1b}[0m") && coloured.contains("\u{1b}[2m"), "{coloured:?}");
    }

    #[test]
    fn more_than_all_is_not_a_share() {
        let tails = |steps: Vec<Line>| steps.into_iter().map(|line| line.tail).collect::<Vec<_>>();
        assert_eq!(tails(PEN.funnel(10, 10, 2, 8)), ["", "100.0%", "20.0%", "4.0 per user"]);
        assert_eq!(tails(PEN.funnel(2, 3, 100, i64::MAX))[1..3], ["1.5 per click", "33.3 per install"]);
    }

    #[test]
    fn a_bar_may_be_a_part_of_its_own_whole() {
        let lines = vec![
            Line::new("links", 50).part_of(100).tail("50.0%"),
            Line::new("hooks", 3).part_of(2).tail("150.0%"),
            Line::new("people", 9).part_of(0),
        ];
        assert_eq!(
            PEN.chart(&[("", lines)]),
            "links   50  ██████████             50.0%\n\
             hooks    3  ████████████████████  150.0%\n\
             people   9\n"
        );
    }

    #[test]
    fn names_from_elsewhere_are_harmless_and_give_way() {
        let lines = vec![Line::new("a\u{1b}[31m\n", 1), Line::new(&"n".repeat(64), 2).tail("EUR 84.00")];
        let shown = PEN.chart(&[("", lines.clone())]);
        assert!(
            shown.contains("a\\u{1b}[31m\\n") && shown.contains("nnn…") && shown.ends_with("EUR 84.00\n"),
            "{shown}"
        );
        assert!(shown.lines().all(|line| line.chars().count() <= 40), "{shown}");
        assert!(ASCII.chart(&[("", lines)]).is_ascii());
    }

    #[test]
    fn wide_and_combining_characters_stay_in_line() {
        let lines =
            ["購入", "e\u{301}te\u{301}", &"購入完了".repeat(9), "signup"].map(|label| Line::new(label, 3).tail("5%"));
        let shown = PEN.chart(&[("", lines.to_vec())]);
        let bars: Vec<usize> = shown.lines().map(|line| columns_of(line.split_once('█').expect("a bar").0)).collect();
        assert_eq!(bars, [bars[0]; 4], "{shown}");
        assert!(shown.lines().all(|line| columns_of(line) <= 40), "{shown}");
        assert_eq!(
            [PEN.cut("購入完了", 5), PEN.cut("購入完了", 4), PEN.cut("購入完了", 8)],
            ["購入…", "購…", "購入完了"]
        );
    }

    #[test]
    fn sparklines_have_a_column_for_each_count_or_for_several() {
        assert_eq!(PEN.spark(&[0, 1, 2, 3, 4, 5, 6, 7]), "▁▂▃▄▅▆▇█");
        assert_eq!(ASCII.spark(&[0, 7]), "_#");
        assert_eq!(PEN.spark(&[]), "");
        assert_eq!(PEN.spark(&[0, 0]), "▁▁");
        assert_eq!(PEN.spark(&[1; 720]).chars().count(), 40);
        assert_eq!(PEN.spark(&[i64::MAX; 80]).chars().next(), Some('█'));
    }

    #[test]
    fn shares_are_rounded() {
        let share = |part, whole| PEN.share(part, whole);
        assert_eq!([share(1, 3), share(2, 3), share(3, 2), share(0, 5)], ["33.3%", "66.7%", "150.0%", "0.0%"]);
        assert_eq!(share(i64::MAX, 1), "922337203685477580700.0%");
        assert_eq!([share(1, 0), ASCII.share(1, 0)], ["–", "-"]);
    }
}
