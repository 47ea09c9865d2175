//! The lossless bitstream of WebP (RFC 9649, section 3), read as far as is needed to know what its tables cost: some
//! hundred bytes can ask for a thousand times as much.

use super::MEMORY;
use super::prefix::Code;

/// What a group of five codes costs beside its tables.
const GROUP: u64 = 1_024;
/// Most steps of this reading: pixels of images inside and symbols of codes, which may both come without a bit. Ten times
/// what the largest picture with the most codes that can be afforded needs.
const STEPS: usize = 32 << 20;
/// Symbols of the codes for green with lengths, red, blue, alpha and distance.
const ALPHABETS: [usize; 5] = [256 + 24, 256, 256, 256, 40];
/// The order in which the lengths of the code lengths' code come.
const LENGTHS: [usize; 19] = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// Where the short distances lead: across and up.
const NEAR: [(i8, i8); 120] = [
    (0, 1),
    (1, 0),
    (1, 1),
    (-1, 1),
    (0, 2),
    (2, 0),
    (1, 2),
    (-1, 2),
    (2, 1),
    (-2, 1),
    (2, 2),
    (-2, 2),
    (0, 3),
    (3, 0),
    (1, 3),
    (-1, 3),
    (3, 1),
    (-3, 1),
    (2, 3),
    (-2, 3),
    (3, 2),
    (-3, 2),
    (0, 4),
    (4, 0),
    (1, 4),
    (-1, 4),
    (4, 1),
    (-4, 1),
    (3, 3),
    (-3, 3),
    (2, 4),
    (-2, 4),
    (4, 2),
    (-4, 2),
    (0, 5),
    (3, 4),
    (-3, 4),
    (4, 3),
    (-4, 3),
    (5, 0),
    (1, 5),
    (-1, 5),
    (5, 1),
    (-5, 1),
    (2, 5),
    (-2, 5),
    (5, 2),
    (-5, 2),
    (4, 4),
    (-4, 4),
    (3, 5),
    (-3, 5),
    (5, 3),
    (-5, 3),
    (0, 6),
    (6, 0),
    (1, 6),
    (-1, 6),
    (6, 1),
    (-6, 1),
    (2, 6),
    (-2, 6),
    (6, 2),
    (-6, 2),
    (4, 5),
    (-4, 5),
    (5, 4),
    (-5, 4),
    (3, 6),
    (-3, 6),
    (6, 3),
    (-6, 3),
    (0, 7),
    (7, 0),
    (1, 7),
    (-1, 7),
    (5, 5),
    (-5, 5),
    (7, 1),
    (-7, 1),
    (4, 6),
    (-4, 6),
    (6, 4),
    (-6, 4),
    (2, 7),
    (-2, 7),
    (7, 2),
    (-7, 2),
    (3, 7),
    (-3, 7),
    (7, 3),
    (-7, 3),
    (5, 6),
    (-5, 6),
    (6, 5),
    (-6, 5),
    (8, 0),
    (4, 7),
    (-4, 7),
    (7, 4),
    (-7, 4),
    (8, 1),
    (8, 2),
    (6, 6),
    (-6, 6),
    (8, 3),
    (5, 7),
    (-5, 7),
    (7, 5),
    (-7, 5),
    (8, 4),
    (6, 7),
    (-6, 7),
    (7, 6),
    (-7, 6),
    (8, 5),
    (7, 7),
    (-7, 7),
    (8, 6),
    (8, 7),
];

/// Bytes that the images and tables before the picture itself take; a number beyond every limit if finding that out is
/// too much work. `size` is that of a stream without a header, and within the limits, as is the size in a header.
pub(super) fn memory(data: &[u8], size: Option<(u32, u32)>) -> Option<u64> {
    let mut bits = Bits { data, at: 0, steps: STEPS };
    let memory = bits.memory(size);
    if bits.steps == 0 { Some(u64::from(u32::MAX)) } else { memory }
}

fn blocks(edge: u32, by: u32) -> u32 {
    edge.div_ceil(1 << by)
}

fn alphabets(cache: u32) -> [usize; 5] {
    let mut alphabets = ALPHABETS;
    if cache > 0 {
        alphabets[0] += 1 << cache;
    }
    alphabets
}

/// Reads bits, the lowest of a byte first.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    /// Steps that are left.
    steps: usize,
}

impl Bits<'_> {
    /// As [`memory`].
    fn memory(&mut self, size: Option<(u32, u32)>) -> Option<u64> {
        let (mut width, height) = match size {
            Some(size) => size,
            None => {
                self.at = 8;
                let size = (self.read(14)? + 1, self.read(14)? + 1);
                self.read(4)?;
                size
            }
        };
        let mut memory = 0;
        let mut seen = [false; 4];
        while self.read(1)? == 1 {
            let transform = self.read(2)?;
            if std::mem::replace(seen.get_mut(transform as usize)?, true) {
                return None;
            }
            match transform {
                0 | 1 => {
                    let by = self.read(3)? + 2;
                    let image = self.image(blocks(width, by), blocks(height, by))?;
                    memory += 4 * image.len() as u64;
                }
                2 => {}
                _ => {
                    let colours = self.read(8)? + 1;
                    self.image(colours, 1)?;
                    width = match colours {
                        0..=2 => blocks(width, 3),
                        3..=4 => blocks(width, 2),
                        5..=16 => blocks(width, 1),
                        _ => width,
                    };
                }
            }
        }
        let cache = self.cache()?;
        let mut groups = 1;
        if self.read(1)? == 1 {
            let by = self.read(3)? + 2;
            let image = self.image(blocks(width, by), blocks(height, by))?;
            memory += 6 * image.len() as u64;
            groups = image.iter().map(|pixel| u64::from(pixel >> 8 & 0xffff) + 1).max()?;
        }
        for _ in 0..groups {
            memory += GROUP;
            for alphabet in alphabets(cache) {
                memory += self.code(alphabet)?.cost();
            }
            if memory > MEMORY {
                break;
            }
        }
        Some(memory)
    }

    /// Goes so many steps, if there are so many left.
    fn walk(&mut self, steps: usize) -> Option<()> {
        self.steps = self.steps.saturating_sub(steps);
        (self.steps > 0).then_some(())
    }

    fn read(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for place in 0..count {
            let byte = *self.data.get(self.at / 8)?;
            value |= u32::from(byte >> (self.at % 8) & 1) << place;
            self.at += 1;
        }
        Some(value)
    }

    /// Bits of the colour cache's index; 0 without one.
    fn cache(&mut self) -> Option<u32> {
        if self.read(1)? == 0 {
            return Some(0);
        }
        Some(self.read(4)?).filter(|bits| (1..=11).contains(bits))
    }

    /// A small image inside the stream: pixels as alpha, red, green, blue.
    fn image(&mut self, width: u32, height: u32) -> Option<Vec<u32>> {
        let cache_bits = self.cache()?;
        let mut cache = vec![0; if cache_bits == 0 { 0 } else { 1 << cache_bits }];
        let mut codes = Vec::with_capacity(5);
        for alphabet in alphabets(cache_bits) {
            codes.push(self.code(alphabet)?);
        }
        let size = width as usize * height as usize;
        self.walk(size)?;
        let mut pixels: Vec<u32> = Vec::with_capacity(size);
        let mut cached = 0;
        while pixels.len() < size {
            let green = self.symbol(&codes[0])?;
            match green {
                0..256 => {
                    let [red, blue, alpha] =
                        [self.symbol(&codes[1])?, self.symbol(&codes[2])?, self.symbol(&codes[3])?];
                    pixels.push(alpha << 24 | red << 16 | green << 8 | blue);
                }
                256..280 => {
                    let length = self.copied(green - 256)?;
                    let near = self.symbol(&codes[4])?;
                    let distance = distance(self.copied(near)?, width);
                    for _ in 0..length {
                        let from = pixels.len().checked_sub(distance)?;
                        pixels.push(pixels[from]);
                    }
                }
                _ => {
                    // Pixels enter the cache before it is asked.
                    remember(&mut cache, cache_bits, &pixels[cached..]);
                    cached = pixels.len();
                    pixels.push(*cache.get(green as usize - 280)?);
                }
            }
        }
        (pixels.len() == size).then_some(pixels)
    }

    /// A length or distance from its prefix.
    fn copied(&mut self, prefix: u32) -> Option<usize> {
        if prefix < 4 {
            return Some(prefix as usize + 1);
        }
        let extra = (prefix - 2) >> 1;
        Some((((2 + (prefix & 1)) << extra) + self.read(extra)? + 1) as usize)
    }

    /// A code for symbols below `alphabet`.
    fn code(&mut self, alphabet: usize) -> Option<Code> {
        if self.read(1)? == 1 {
            let is_pair = self.read(1)? == 1;
            let wide = self.read(1)?;
            let mut symbols = vec![self.read(1 + 7 * wide)?];
            if is_pair {
                symbols.push(self.read(8)?);
            }
            let fits = symbols.iter().all(|symbol| (*symbol as usize) < alphabet);
            return fits.then(|| Code::simple(symbols));
        }
        self.walk(alphabet)?;
        let mut lengths = [0; 19];
        let count = self.read(4)? as usize + 4;
        for &symbol in LENGTHS.get(..count)? {
            lengths[symbol] = self.read(3)?;
        }
        let lengths = Code::of(&lengths)?;
        let mut left = alphabet;
        if self.read(1)? == 1 {
            let wide = 2 + 2 * self.read(3)?;
            left = self.read(wide)? as usize + 2;
            if left > alphabet {
                return None;
            }
        }
        let (mut of_symbols, mut before) = (Vec::with_capacity(alphabet), 8);
        while of_symbols.len() < alphabet && left > 0 {
            left -= 1;
            let (length, times) = match self.symbol(&lengths)? {
                16 => (before, 3 + self.read(2)?),
                17 => (0, 3 + self.read(3)?),
                18 => (0, 11 + self.read(7)?),
                length => (length, 1),
            };
            if length != 0 {
                before = length;
            }
            of_symbols.extend(std::iter::repeat_n(length, times as usize));
        }
        (of_symbols.len() <= alphabet).then(|| Code::of(&of_symbols))?
    }

    fn symbol(&mut self, code: &Code) -> Option<u32> {
        if let [symbol] = code.symbols[..] {
            return Some(symbol);
        }
        let (mut value, mut first, mut index) = (0, 0, 0);
        for count in code.counts {
            value |= self.read(1)?;
            if value < first + count {
                return code.symbols.get((index + value - first) as usize).copied();
            }
            index += count;
            first = (first + count) << 1;
            value <<= 1;
        }
        None
    }
}

fn distance(code: usize, width: u32) -> usize {
    let Some(&(across, up)) = NEAR.get(code - 1) else { return code - NEAR.len() };
    usize::try_from(i64::from(across) + i64::from(up) * i64::from(width)).unwrap_or(1).max(1)
}

fn remember(cache: &mut [u32], bits: u32, pixels: &[u32]) {
    for pixel in pixels {
        if let Some(place) = cache.get_mut((pixel.wrapping_mul(0x1e35_a7bd) >> (32 - bits)) as usize) {
            *place = *pixel;
        }
    }
}
