//! Sets of numbers as parameters of an `IN` list, since SQLite has no arrays. Lengths are rounded up, so that few statements
//! are prepared.

/// Lengths of lists.
const SIZES: [usize; 4] = [1, 4, 25, 100];

/// The numbers, with the last one repeated up to the next length.
pub(super) fn padded(numbers: &[i64]) -> Vec<i64> {
    let size = SIZES.into_iter().find(|size| numbers.len() <= *size).unwrap_or(numbers.len());
    let mut list = numbers.to_vec();
    list.resize(size, numbers.last().copied().unwrap_or(0));
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
        assert_eq!(padded(&(0..101).collect::<Vec<_>>()).len(), 101);
        assert_eq!(placeholders(11, 3), "$11,$12,$13");
    }
}
