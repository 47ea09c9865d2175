//! The values of a row, by their role.

use std::borrow::Cow;
use std::cell::Cell as Flag;

use super::super::fields::Field;
use super::Role;

/// A value of a row, its column, and what that column is, if it is known.
pub(in super::super) struct Cell<'a> {
    pub(in super::super) column: usize,
    pub(in super::super) name: &'a str,
    pub(in super::super) role: Option<Role>,
    pub(in super::super) text: Cow<'a, str>,
    /// The values of a list, whose text has commas between them.
    pub(in super::super) items: &'a [String],
}

impl Cell<'_> {
    /// Whether it is anything other than empty, `false`, `no` or `0`.
    fn matters(&self) -> bool {
        !matches!(self.text.trim().to_ascii_lowercase().as_str(), "" | "false" | "no" | "0")
    }
}

/// The values of a row. Those that were used are marked, so that the others can be reported.
pub(super) struct RowCells<'a> {
    cells: &'a [Cell<'a>],
    used: Vec<Flag<bool>>,
}

impl<'a> RowCells<'a> {
    pub(super) fn new(cells: &'a [Cell<'a>]) -> Self {
        Self { cells, used: vec![Flag::new(false); cells.len()] }
    }

    /// The cells in this role that have a value.
    fn of(&self, role: &Role) -> impl Iterator<Item = (&'a Cell<'a>, &Flag<bool>)> {
        let has = move |(cell, _): &(&Cell<'_>, &Flag<bool>)| {
            cell.role.as_ref() == Some(role) && !cell.text.trim().is_empty()
        };
        self.cells.iter().zip(&self.used).filter(has)
    }

    /// The first value in this role, without marking it as used.
    pub(super) fn peek(&self, role: &Role) -> Option<&'a str> {
        self.of(role).next().map(|(cell, _)| cell.text.trim())
    }

    /// The first cell in this role that has a value. Others with the same text repeat it.
    pub(super) fn first(&self, role: &Role) -> Option<&'a Cell<'a>> {
        let (first, _) = self.of(role).next()?;
        self.of(role).filter(|(cell, _)| cell.text.trim() == first.text.trim()).for_each(|(_, used)| used.set(true));
        Some(first)
    }

    pub(super) fn text(&self, role: &Role) -> Option<&'a str> {
        self.first(role).map(|cell| cell.text.trim())
    }

    /// Every cell in this role that has a value.
    pub(super) fn all(&self, role: &Role) -> impl Iterator<Item = &'a Cell<'a>> {
        self.of(role).map(|(cell, used)| {
            used.set(true);
            cell
        })
    }

    /// Marks the cells in these roles that repeat a text.
    pub(super) fn repeated(&self, text: &str, roles: &[Role]) {
        for role in roles {
            self.of(role).filter(|(cell, _)| cell.text.trim() == text).for_each(|(_, used)| used.set(true));
        }
    }

    /// What the caller mapped.
    pub(super) fn own(&self) -> impl Iterator<Item = (&'a Cell<'a>, &'a Field)> {
        self.cells.iter().zip(&self.used).filter_map(|(cell, used)| match &cell.role {
            Some(Role::Own(field)) => {
                used.set(true);
                Some((cell, field)).filter(|_| !cell.text.trim().is_empty())
            }
            _ => None,
        })
    }

    /// The further data that has a key of its own.
    pub(super) fn further(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        self.cells.iter().filter_map(|cell| match &cell.role {
            Some(Role::Meta(key)) if self.peek(&Role::Meta(key)) == Some(cell.text.trim()) => {
                self.text(&Role::Meta(key)).map(|text| (*key, text))
            }
            _ => None,
        })
    }

    /// The cells that were not used and have a value that matters.
    pub(super) fn left(&self) -> impl Iterator<Item = &'a Cell<'a>> {
        self.cells.iter().zip(&self.used).filter(|(cell, used)| !used.get() && cell.matters()).map(|(cell, _)| cell)
    }
}
