//! Many rows in few statements. Each number of rows is a text of its own, so the numbers are few: a set of rows is cut into
//! pieces of these lengths, and every statement stays prepared.

const LENGTHS: [usize; 4] = [64, 16, 4, 1];

/// The rows in pieces of a few lengths, in their order.
pub(super) fn pieces<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let length = LENGTHS.into_iter().find(|length| *length <= rows.len())?;
        let (piece, rest) = rows.split_at(length);
        rows = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_one_piece() {
        let rows: Vec<usize> = (0..150).collect();
        for count in 0..rows.len() {
            let cut: Vec<&[usize]> = pieces(&rows[..count]).collect();
            assert!(cut.iter().all(|piece| LENGTHS.contains(&piece.len())), "{count}");
            assert_eq!(cut.concat(), rows[..count], "{count}");
        }
    }
}
