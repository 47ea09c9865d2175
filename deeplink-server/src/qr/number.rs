//! Numbers as the formats write them.

use std::fmt;

/// A number with at most three decimals, without trailing zeros.
pub(super) struct Thousandths(pub(super) u32);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1_000, self.0 % 1_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_trailing_zeros() {
        for (thousandths, text) in
            [(0, "0"), (1, "0.001"), (500, "0.5"), (1_000, "1"), (10_250, "10.25"), (7_333, "7.333")]
        {
            assert_eq!(Thousandths(thousandths).to_string(), text);
        }
    }
}
