//! Sets as parameters of an `IN` list, since SQLite has no arrays. Lengths are rounded up, so that few statements are
//! prepared.

/// The longest of the lengths that others are rounded up to.
pub(super) const PADDED_UP_TO: usize = 400;
/// Lengths of lists.
const SIZES: [usize; 5] = [1, 4, 25, 100, PADDED_UP_TO];

/// The length to which a list of this length is padded, by repeating its last member.
pub(super) fn padded_length(length: usize) -> usize {
    SIZES.into_iter().find(|size| length <= *size).unwrap_or(length)
}

/// The numbers, with the last one repeated up to the next length.
pub(super) fn padded(numbers: &[i64]) -> Vec<i64> {
    let mut list = numbers.to_vec();
    list.resize(padded_length(numbers.len()), numbers.last().copied().unwrap_or(0));
    list
}

/// The same for texts.
pub(super) fn padded_texts<'a>(texts: &[&'a str]) -> Vec<&'a str> {
    let mut list = texts.to_vec();
    list.resize(padded_length(texts.len()), texts.last().copied().unwrap_or_default());
    list
}

/// `count` placeholders from `$first` on, separated by commas.
pub(super) fn placeholders(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("${number}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_few_lengths_and_the_same_members() {
        assert_eq!(padded(&[7]), [7]);
        assert_eq!(padded(&[7, 8]), [7, 8, 8, 8]);
        assert_eq!(padded(&(0..26).collect::<Vec<_>>()).len(), 100);
        assert_eq!(padded(&(0..401).collect::<Vec<_>>()).len(), 401);
        assert_eq!(placeholders(11, 3), "$11,$12,$13");
    }
}
