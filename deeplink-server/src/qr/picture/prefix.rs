//! The prefix codes of lossless WebP (RFC 9649, section 3.7.2.1).

/// A canonical prefix code: how many symbols have which length, and the symbols in the order of their codes.
pub(super) struct Code {
    pub(super) counts: [u32; 15],
    pub(super) symbols: Vec<u32>,
}

impl Code {
    pub(super) fn simple(symbols: Vec<u32>) -> Self {
        let mut counts = [0; 15];
        counts[0] = 2;
        Self { counts, symbols }
    }

    /// From the lengths of the symbols' codes, 0 for none. Only a code that leaves nothing open is one.
    pub(super) fn of(lengths: &[u32]) -> Option<Self> {
        let mut counts = [0; 15];
        let used = || (0_u32..).zip(lengths).filter(|(_, length)| **length > 0);
        for (_, length) in used() {
            *counts.get_mut(*length as usize - 1)? += 1;
        }
        // Where the symbols of each length begin.
        let mut places = [0; 15];
        for (place, count) in (1..).zip(&counts[..14]) {
            places[place] = places[place - 1] + *count as usize;
        }
        let mut symbols = vec![0; used().count()];
        for (symbol, length) in used() {
            let place = places.get_mut(*length as usize - 1)?;
            *symbols.get_mut(*place)? = symbol;
            *place += 1;
        }
        let taken: u32 = (1..).zip(&counts).map(|(length, count)| count << (15 - length)).sum();
        (symbols.len() == 1 || taken == 1 << 15).then_some(Self { counts, symbols })
    }

    /// Bytes that the decoder's table and tree for this code take: the table is for the first 10 bits.
    pub(super) fn cost(&self) -> u64 {
        if self.symbols.len() == 1 {
            return 0;
        }
        let longest = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let beyond: u32 = self.counts[10..].iter().sum();
        (4 << longest.min(10)) + 64 * u64::from(beyond) + 128
    }
}
