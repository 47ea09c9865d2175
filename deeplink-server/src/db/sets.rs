//! Sets of numbers as parameters of a statement. SQLite has no arrays, and both databases look each number of an `IN` up
//! in an index, so a set is a list of parameters; its length is rounded up so that few statements are prepared.

/// Lengths of lists.
const SIZES: [usize; 4] = [1, 4, 25, 100];

/// The numbers, with the last one repeated up to the next length.
pub(super) fn padded(numbers: &[i64]) -> Vec<i64> {
    let size = SIZES.into_iter().find(|size| numbers.len() <= *size).unwrap_or(numbers.len());
    let mut list = numbers.to_vec();
    list.resize(size, numbers.last().copied().unwrap_or(0));
    list
}

/// Parameters from `$first` on, joined by commas.
pub(super) fn places(first: usize, count: usize) -> String {
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
        assert_eq!(places(11, 3), "$11,$12,$13");
    }
}
