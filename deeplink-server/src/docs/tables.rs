//! Tables of guides. On phones, the cells of a row are below each other, so each has the heading of its column.

use pulldown_cmark::{Event, Tag, TagEnd};

use super::markdown::{Section, escaped};

/// The tables of a page, each named by the heading that it is below.
#[derive(Default)]
pub(super) struct Tables {
    /// Headings so far.
    headings: usize,
    /// Tables below the last of them.
    count: usize,
    /// The column headings of the current table.
    columns: Vec<String>,
    /// The column of the current cell.
    column: usize,
    in_head: bool,
    is_wide: bool,
}

impl Tables {
    pub(super) fn next_section(&mut self) {
        self.headings += 1;
        self.count = 0;
    }

    /// The markup of an event that begins or ends a part of a table. Alignment would be an attribute that the pages'
    /// policy forbids, and tables whose parts are blocks need their roles.
    pub(super) fn markup(&mut self, event: &Event<'_>, sections: &[Section]) -> Option<String> {
        match event {
            Event::Start(Tag::Table(columns)) => {
                self.is_wide = columns.len() > 2;
                self.columns.clear();
                Some(self.begin(sections))
            }
            Event::End(TagEnd::Table) => {
                Some(format!("</tbody>\n</table>\n{}", if self.is_wide { "</div>\n" } else { "" }))
            }
            Event::Start(Tag::TableHead) => {
                self.in_head = true;
                Some("<thead><tr role=\"row\">".to_owned())
            }
            Event::End(TagEnd::TableHead) => {
                self.in_head = false;
                Some("</tr></thead>\n<tbody>\n".to_owned())
            }
            Event::Start(Tag::TableRow) => {
                self.column = 0;
                Some("<tr role=\"row\">".to_owned())
            }
            Event::End(TagEnd::TableRow) => Some("</tr>\n".to_owned()),
            Event::Start(Tag::TableCell) if self.in_head => {
                self.columns.push(String::new());
                Some("<th scope=\"col\" role=\"columnheader\">".to_owned())
            }
            Event::Start(Tag::TableCell) => {
                self.column += 1;
                Some(self.begin_cell())
            }
            Event::End(TagEnd::TableCell) => Some(if self.in_head { "</th>" } else { "</td>" }.to_owned()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(column) = self.columns.last_mut().filter(|_| self.in_head) {
                    column.push_str(text);
                }
                None
            }
            _ => None,
        }
    }

    /// People scroll a table that does not fit with the keyboard, too.
    fn begin(&mut self, sections: &[Section]) -> String {
        const TABLE: &str = "<table class=\"stacked\" role=\"table\">\n";
        if !self.is_wide {
            return TABLE.to_owned();
        }
        self.count += 1;
        let section = self.headings.checked_sub(1).and_then(|at| sections.get(at));
        let heading = section.map_or("", |section| section.heading.as_str());
        let number = if self.count == 1 { String::new() } else { format!(" {}", self.count) };
        let label = attribute(&format!("Table{number}: {heading}"));
        format!("<div class=\"scroll\" role=\"group\" aria-label=\"{label}\" tabindex=\"0\">\n{TABLE}")
    }

    /// Of two columns, the second explains the first without its heading.
    fn begin_cell(&self) -> String {
        let heading = self.columns.get(self.column - 1).filter(|heading| !heading.is_empty());
        match heading.filter(|_| self.is_wide && self.column > 1) {
            Some(heading) => format!("<td role=\"cell\" data-label=\"{}\">", attribute(heading)),
            None => "<td role=\"cell\">".to_owned(),
        }
    }
}

/// A text in an attribute; quotes are left as they are in texts.
fn attribute(text: &str) -> String {
    escaped(text).replace('"', "&quot;")
}
