//! Cells that a spreadsheet program would run as formulas.
//!
//! Spreadsheets recognize a formula in a CSV cell by its first character, quoted or not, and text from visitors and
//! partners ends up in such files. A leading `'` makes the cell text (OWASP, "CSV Injection").

use std::borrow::Cow;

/// Whether a spreadsheet would treat the cell as a formula, apart from a leading `'`.
fn is_formula(cell: &str) -> bool {
    cell.trim_start_matches('\'').starts_with(['=', '+', '-', '@', '\t', '\r'])
}

/// The cell with a `'` in front if it begins with `=`, `+`, `-`, `@`, TAB or CR, or with `'` and one of these, so that
/// [`restore`] gives back what it was.
pub fn defuse(cell: &str) -> Cow<'_, str> {
    if is_formula(cell) { Cow::Owned(format!("'{cell}")) } else { Cow::Borrowed(cell) }
}

/// A cell as it is written into a file: [`defuse`]d if `safe`. If not, only a cell that [`restore`] would shorten gets
/// another `'`.
pub fn written(cell: &str, safe: bool) -> Cow<'_, str> {
    if safe || cell.starts_with('\'') { defuse(cell) } else { Cow::Borrowed(cell) }
}

/// Reverses [`defuse`] and [`written`].
pub fn restore(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(inner) if is_formula(inner) => inner,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text from strangers never reaches a spreadsheet as a formula, and an import restores it.
    #[test]
    fn r9_formulas_are_defused_and_restored() {
        for (cell, safe) in [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("'=1", "''=1"),
            ("''=1", "'''=1"),
            ("", ""),
            ("a=1", "a=1"),
            ("'quoted'", "'quoted'"),
            ("'", "'"),
        ] {
            assert_eq!((defuse(cell).as_ref(), restore(safe)), (safe, cell));
        }
    }

    proptest! {
        #[test]
        fn r9_every_cell_comes_back(cell in "['=+@\\-\t\ra]{0,6}") {
            let safe = defuse(&cell);
            prop_assert_eq!(restore(&safe), cell.as_str());
            let plain = written(&cell, false);
            prop_assert_eq!(restore(&plain), cell.as_str());
            prop_assert!(!safe.starts_with(['=', '+', '-', '@', '\t', '\r']));
        }
    }
}
