//! Inserts of many rows. Rows are split into chunks of a few fixed lengths, so that few statements are prepared.

const LENGTHS: [usize; 4] = [64, 16, 4, 1];

/// Splits rows into chunks of a few fixed lengths, in order.
pub(super) fn chunks<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let length = LENGTHS.into_iter().find(|length| *length <= rows.len())?;
        let (chunk, rest) = rows.split_at(length);
        rows = rest;
        Some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_one_chunk() {
        let rows: Vec<usize> = (0..150).collect();
        for count in 0..rows.len() {
            let chunks: Vec<&[usize]> = chunks(&rows[..count]).collect();
            assert!(chunks.iter().all(|chunk| LENGTHS.contains(&chunk.len())), "{count}");
            assert_eq!(chunks.concat(), rows[..count], "{count}");
        }
    }
}
