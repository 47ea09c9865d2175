//! Tables for people, and their tab-separated form for pipes.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width, presets};
use deeplink_core::event::EventKind;
use deeplink_core::time::Timestamp;

use crate::clock;
use crate::error::Outcome;
use crate::escape;
use crate::output::{Column, Kind, Noun, Record, Sheet};

/// Values are not shortened below this width, even if the line is then wider than the terminal.
const MIN_CUT_WIDTH: usize = 16;
/// The same for kinds of events, where the first one matters most.
const MIN_EVENTS_WIDTH: usize = 12;
/// The same for names and tags, whose beginning is enough to recognize them.
const MIN_EXTRA_WIDTH: usize = 10;
/// Columns that stay, even if the line is then wider than the terminal.
const KEPT: usize = 2;

/// The rows of one page, and the column widths of the earlier pages.
pub(super) struct Table<'a> {
    sheet: &'a Sheet<'a>,
    columns: Vec<TableColumn>,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
    /// Headings of the columns that were left out.
    hidden: Vec<String>,
    /// Whether one of them is missed.
    hides: bool,
}

/// A column for printing.
struct TableColumn {
    heading: String,
    source: Source,
    kind: Kind,
    /// It may be left out.
    is_spare: bool,
    /// It is left out if no row has it.
    is_extra: bool,
}

enum Source {
    Path(&'static str),
    /// The first that is present, and how many more.
    First(&'static [&'static str]),
    /// The first that is present.
    Either(&'static [&'static str]),
    /// How many items.
    Items(&'static str),
}

impl TableColumn {
    fn of(noun: &'static Noun, column: &Column) -> Self {
        let (heading, source, kind) = match *column {
            Column::Field(heading, name) | Column::Spare(heading, name) | Column::Extra(heading, name) => {
                let (path, kind) = noun.field(name).map_or((name, Kind::Plain), |field| (field.path, field.kind));
                (heading, Source::Path(path), kind)
            }
            Column::Destinations(heading, paths) => (heading, Source::First(paths), Kind::Destination),
            Column::OneOf(heading, paths) => (heading, Source::First(paths), Kind::Plain),
            Column::First(heading, paths, kind) => (heading, Source::Either(paths), kind),
            Column::Items(heading, path) => (heading, Source::Items(path), Kind::Count),
        };
        let is_extra = matches!(column, Column::Extra(..));
        let is_spare = is_extra || matches!(column, Column::Spare(..));
        Self { heading: heading.to_owned(), source, kind, is_spare, is_extra }
    }

    fn cell(&self, record: &Record<'_>, terminal: bool) -> String {
        let text = match &self.source {
            Source::Path(path) => record.cell(path).unwrap_or_default(),
            Source::First(paths) => {
                let mut there = paths.iter().filter_map(|path| record.cell(path));
                let none = if terminal && self.kind == Kind::Destination { "no destination" } else { "" };
                let first = there.next().unwrap_or_else(|| none.to_owned());
                match there.count() {
                    0 => first,
                    _ if !terminal => first,
                    more => format!("{first} +{more}"),
                }
            }
            Source::Either(paths) => paths.iter().find_map(|path| record.cell(path)).unwrap_or_default(),
            Source::Items(path) => record.items(path).len().to_string(),
        };
        match self.kind {
            Kind::Moment if terminal => moment(&text),
            Kind::Flag if terminal => flag(&text).to_owned(),
            Kind::Events if terminal => events(&text),
            Kind::Words if terminal && text == "[]" => String::new(),
            Kind::Words if terminal => lines(&text).join(", "),
            _ => escape::one_line(&text).into_owned(),
        }
    }

    /// Cuts a value to `room` characters, if it may be cut.
    fn cut(&self, text: &mut String, room: usize) {
        if self.kind == Kind::Address { shorten_inside(text, room) } else { shorten(text, room) }
    }

    /// The width below which it is not cut.
    fn narrowest(&self) -> usize {
        match self.kind {
            _ if self.is_extra => MIN_EXTRA_WIDTH,
            Kind::Events => MIN_EVENTS_WIDTH,
            _ => MIN_CUT_WIDTH,
        }
    }

    fn may_be_cut(&self) -> bool {
        self.is_extra || matches!(self.kind, Kind::Destination | Kind::Address | Kind::Events | Kind::Text)
    }
}

fn flag(text: &str) -> &'static str {
    if text == "true" { "yes" } else { "no" }
}

/// The texts of a JSON array; anything else stays as it is.
fn lines(text: &str) -> Vec<String> {
    let texts: Vec<String> = serde_json::from_str(text).unwrap_or_else(|_| vec![text.to_owned()]);
    if texts.is_empty() {
        return vec!["none".to_owned()];
    }
    texts.iter().map(|text| escape::one_line(text).into_owned()).collect()
}

/// The kinds of events of a webhook as words.
fn events(text: &str) -> String {
    let named = lines(text);
    let is_all =
        EventKind::ALL.len() == named.len() && EventKind::ALL.iter().all(|kind| named.contains(&kind.to_string()));
    if is_all { "all".to_owned() } else { named.join(", ") }
}

fn moment(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(moment) => clock::relative(moment, clock::now()),
        Err(_) => escape::one_line(text).into_owned(),
    }
}

impl<'a> Table<'a> {
    pub(super) fn new(sheet: &'a Sheet<'a>) -> Self {
        let columns: Vec<TableColumn> = match &sheet.fields {
            None => {
                let columns = sheet.noun.columns.iter().map(|column| TableColumn::of(sheet.noun, column));
                columns.filter(|column| sheet.out.terminal || !column.is_extra).collect()
            }
            Some(fields) => fields
                .iter()
                .map(|field| TableColumn {
                    heading: field.name.to_uppercase().replace('_', " "),
                    source: Source::Path(field.path),
                    kind: field.kind,
                    is_spare: false,
                    is_extra: false,
                })
                .collect(),
        };
        Self { sheet, columns, rows: Vec::new(), widths: Vec::new(), hidden: Vec::new(), hides: false }
    }

    pub(super) fn push(&mut self, json: &str) {
        let record = Record::read(json).unwrap_or_default();
        let terminal = self.sheet.out.terminal;
        self.rows.push(self.columns.iter().map(|column| column.cell(&record, terminal)).collect());
    }

    /// Prints the buffered rows. Only the first page has a heading.
    pub(super) fn print(&mut self) -> Outcome {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let out = self.sheet.out;
        if !out.terminal {
            for row in rows {
                out.raw(row.join("\t").as_bytes())?;
                out.raw(b"\n")?;
            }
            return Ok(());
        }
        let text = self.draw(rows);
        out.raw(text.as_bytes())?;
        out.raw(b"\n")
    }

    fn draw(&mut self, mut rows: Vec<Vec<String>>) -> String {
        let first = self.widths.is_empty();
        if first {
            self.leave_out(&mut rows);
            self.widths = self.columns.iter().map(|column| column.heading.chars().count()).collect();
        }
        self.fit(&mut rows);
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if self.sheet.out.color {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        if first {
            let bold = |column: &TableColumn| Cell::new(&column.heading).add_attribute(Attribute::Bold);
            table.set_header(self.columns.iter().map(bold));
        }
        for row in rows {
            table.add_row(row.iter().zip(&self.columns).map(|(text, column)| styled(text, column.kind)));
        }
        let last = self.widths.len().saturating_sub(1);
        for (index, width) in self.widths.iter().enumerate() {
            let Some(column) = table.column_mut(index) else { continue };
            // Nothing follows the last column, so it needs no padding.
            let gap = if index == last { 0 } else { 2 };
            column.set_padding((0, gap));
            let width = u16::try_from(*width).unwrap_or(u16::MAX).saturating_add(gap);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
            if self.columns.get(index).is_some_and(|column| column.kind == Kind::Count) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().map(|line| trimmed(&line)).collect::<Vec<_>>().join("\n")
    }

    /// Names the columns that were left out, if there are any that are not spare.
    pub(super) fn note_hidden(&self) -> Outcome {
        if !self.hides {
            return Ok(());
        }
        let all = self.hidden.join(", ");
        self.sheet.out.line(&format!("\nhidden columns: {all}; use a wider terminal or -o json"))
    }

    /// Leaves out spare columns and then others, the last one first, until a row fits the terminal with all cuts applied.
    /// Columns that were asked for stay.
    fn leave_out(&mut self, rows: &mut [Vec<String>]) {
        for at in (0..self.columns.len()).rev() {
            let is_empty = rows.iter().all(|row| row.get(at).is_none_or(String::is_empty));
            if is_empty && self.columns.get(at).is_some_and(|column| column.is_extra) {
                self.remove(at, rows);
            }
        }
        let least = |column: &TableColumn, index: usize| {
            let texts = rows.iter().filter_map(|row| row.get(index)).map(|text| text.chars().count());
            let widest = texts.max().unwrap_or(0);
            let cells = if column.may_be_cut() { widest.min(column.narrowest()) } else { widest };
            cells.max(column.heading.chars().count())
        };
        let mut needed: Vec<usize> = self.columns.iter().enumerate().map(|(at, column)| least(column, at)).collect();
        let fits = |needed: &[usize]| {
            needed.iter().sum::<usize>() + 2 * needed.len().saturating_sub(1) <= crate::output::width()
        };
        // Rows that wrap whatever is left out keep all that was not spare.
        let may_fit = fits(&needed[..needed.len().min(KEPT)]) && self.sheet.fields.is_none();
        while !fits(&needed) {
            let spare = self.columns.iter().rposition(|column| column.is_spare);
            let last = self.columns.len().checked_sub(1).filter(|at| *at >= KEPT && may_fit);
            let Some(at) = spare.or(last) else { return };
            let column = self.remove(at, rows);
            self.hides |= !column.is_spare;
            self.hidden.insert(0, column.heading);
            needed.remove(at);
        }
    }

    fn remove(&mut self, at: usize, rows: &mut [Vec<String>]) -> TableColumn {
        for row in rows {
            row.remove(at);
        }
        self.columns.remove(at)
    }

    /// Cuts values that may be cut, names and tags before destinations, so that a row fits the terminal if possible.
    fn fit(&mut self, rows: &mut [Vec<String>]) {
        let mut needed = self.widths.clone();
        for row in rows.iter() {
            for (width, text) in needed.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        let gaps = 2 * needed.len().saturating_sub(1);
        let mut over = (needed.iter().sum::<usize>() + gaps).saturating_sub(crate::output::width());
        let columns = || self.columns.iter().enumerate();
        let extra = columns().rev().filter(|(_, column)| column.is_extra);
        for (index, column) in extra.chain(columns().filter(|(_, column)| !column.is_extra)) {
            if over == 0 || !column.may_be_cut() {
                continue;
            }
            let Some(width) = needed.get_mut(index) else { continue };
            let room = width.saturating_sub(over).max(column.narrowest()).min(*width);
            over -= *width - room;
            *width = room;
            for row in rows.iter_mut() {
                if let Some(text) = row.get_mut(index) {
                    column.cut(text, room);
                }
            }
        }
        self.widths = needed;
    }
}

/// A line without trailing blanks, even before the code that ends a color.
fn trimmed(line: &str) -> String {
    const RESET: &str = "\u{1b}[0m";
    match line.trim_end().strip_suffix(RESET) {
        Some(line) => format!("{}{RESET}", line.trim_end()),
        None => line.trim_end().to_owned(),
    }
}

/// Cuts a text to `room` characters, the last of them an ellipsis.
fn shorten(text: &mut String, room: usize) {
    if text.chars().count() > room {
        *text = text.chars().take(room.saturating_sub(1)).chain(['…']).collect();
    }
}

/// The same for an address: the common prefix is cut first, then the middle gets the ellipsis.
fn shorten_inside(text: &mut String, room: usize) {
    if text.chars().count() > room
        && let Some(rest) = text.strip_prefix("https://")
    {
        *text = rest.to_owned();
    }
    let length = text.chars().count();
    if length > room {
        let behind = room.saturating_sub(1) / 2;
        let before = room.saturating_sub(1) - behind;
        *text = text.chars().take(before).chain(['…']).chain(text.chars().skip(length - behind)).collect();
    }
}

fn styled(text: &str, kind: Kind) -> Cell {
    let cell = Cell::new(text);
    match (kind, text) {
        (Kind::Status, "active" | "finished") => cell.fg(Color::Green),
        (Kind::Status, "expired" | "unfinished" | "partly rejected") => cell.fg(Color::Yellow),
        (Kind::Status, "flagged" | "disabled" | "rejected") => cell.fg(Color::Red),
        (Kind::Flag, "yes") => cell.fg(Color::Green),
        (Kind::Flag, "no") => cell.fg(Color::Yellow),
        (Kind::Moment, _) => cell.add_attribute(Attribute::Dim),
        _ => cell,
    }
}

/// One record: on a terminal a block with a line for each field that has a value, elsewhere `field<TAB>value`.
pub(super) fn detail(sheet: &Sheet<'_>, json: &str) -> Outcome {
    let (out, record) = (sheet.out, Record::read(json).unwrap_or_default());
    let fields = sheet.noun.fields.iter().filter(|field| field.is_in_csv());
    if !out.terminal {
        for field in fields {
            let text = field.cell(&record).unwrap_or_default();
            out.raw(format!("{}\t{}\n", field.name, escape::one_line(&text)).as_bytes())?;
        }
        return Ok(());
    }
    let shown: Vec<_> = fields.filter_map(|field| Some((field, field.cell(&record)?))).collect();
    let widest = shown.iter().map(|(field, _)| field.name.len()).max().unwrap_or(0);
    for (field, text) in shown {
        let label = format!("{:widest$}", field.name.replace('_', " "));
        let text = match field.kind {
            Kind::Moment => format!("{} ({})", escape::visible(&text), moment(&text)),
            Kind::Flag => flag(&text).to_owned(),
            Kind::Events => events(&text),
            Kind::Words => escape::visible(&text).replace(',', ", "),
            Kind::Lines => lines(&text).join(&format!("\n{:widest$}  ", "")),
            // Text of several lines stays in its column.
            _ => escape::visible(&text).replace('\n', &format!("\n{:widest$}  ", "")),
        };
        let line =
            if out.color { format!("\u{1b}[2m{label}\u{1b}[0m  {text}\n") } else { format!("{label}  {text}\n") };
        out.raw(line.as_bytes())?;
    }
    Ok(())
}
