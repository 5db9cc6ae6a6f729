//! What memory is filled with, and whether it still holds that. A released program is optimised for size as a whole, which vectorises
//! nothing, so the loops work on a line of words at once: what the compiler unrolls here stays unrolled.

use crate::Width;
use std::{array, hint::black_box};

/// Words that are compared at once; a page, which stays in the nearest cache.
const BLOCK: usize = 512;
/// Words that are written and compared together: a cache line. Lines begin at numbers that this divides.
const LINE: usize = 8;
/// Odd, without a pattern of its bits: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// What each word holds, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    Constant(u64),
    /// One bit in each word, which moves by one from word to word; or all bits but one.
    Walk {
        shift: u32,
        zeros: bool,
    },
    /// The word's own number times eight, or its complement: finds words that are reached by two addresses.
    Address {
        inverted: bool,
    },
    /// Noise that only the seed and the number decide.
    Random {
        seed: u64,
    },
}

impl Fill {
    /// The word of that number.
    #[inline(always)]
    pub fn word(self, number: u64) -> u64 {
        match self {
            Self::Constant(word) => word,
            Self::Walk { shift, zeros } => walk(number, shift) ^ flipped(zeros),
            Self::Address { inverted } => number.wrapping_mul(8) ^ flipped(inverted),
            Self::Random { seed } => {
                let place = number % number_of(LINE);
                spread(noise(number - place, seed), place)
            }
        }
    }
}

#[inline(always)]
fn flipped(all: bool) -> u64 {
    if all { u64::MAX } else { 0 }
}

#[inline(always)]
fn walk(number: u64, shift: u32) -> u64 {
    1 << (number.wrapping_add(u64::from(shift)) & 63)
}

/// The noise that all words of the line at that number are made from.
#[inline(always)]
fn noise(line: u64, seed: u64) -> u64 {
    let mixed = (line ^ seed).wrapping_mul(GOLDEN);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(GOLDEN);
    mixed ^ (mixed >> 32)
}

/// A line's noise as its word at that place: each bit stands elsewhere in each of the words.
#[inline(always)]
fn spread(noise: u64, place: u64) -> u64 {
    let turn = u32::try_from(place % 64).unwrap_or_default();
    noise.rotate_left(turn * 23) ^ GOLDEN.rotate_left(turn * 7)
}

/// Calls a loop with the function from a line's first number to its words, once for each kind: the choice is not made for every line.
macro_rules! with_line {
    ($fill:expr, $looped:expr) => {
        match $fill {
            Fill::Constant(word) => $looped(|_| [word; LINE]),
            Fill::Walk { shift, zeros } => {
                let flipped = flipped(zeros);
                $looped(move |line: u64| array::from_fn(|at| walk(line.wrapping_add(number_of(at)), shift) ^ flipped))
            }
            Fill::Address { inverted } => {
                let flipped = flipped(inverted);
                $looped(move |line: u64| {
                    array::from_fn(|at| line.wrapping_add(number_of(at)).wrapping_mul(8) ^ flipped)
                })
            }
            Fill::Random { seed } => $looped(move |line: u64| {
                let noise = noise(line, seed);
                array::from_fn(|at| spread(noise, number_of(at)))
            }),
        }
    };
}

/// A word as it is stored.
trait Stored: Copy {
    fn new(word: u64) -> Self;

    fn word(self) -> u64;
}

impl Stored for u64 {
    #[inline(always)]
    fn new(word: u64) -> Self {
        word
    }

    #[inline(always)]
    fn word(self) -> u64 {
        self
    }
}

/// The least significant byte first.
impl Stored for [u8; 8] {
    #[inline(always)]
    fn new(word: u64) -> Self {
        word.to_le_bytes()
    }

    #[inline(always)]
    fn word(self) -> u64 {
        u64::from_le_bytes(self)
    }
}

/// How many words stand before the first whole line.
fn head_len(first: u64, len: usize) -> usize {
    let head = first.wrapping_neg() % number_of(LINE);
    usize::try_from(head).unwrap_or_default().min(len)
}

fn write_all<W: Stored>(width: Width, words: &mut [W], first: u64, fill: Fill) {
    let one_by_one = |words: &mut [W], first: u64| {
        for (place, stored) in words.iter_mut().enumerate() {
            *stored = W::new(fill.word(first.wrapping_add(number_of(place))));
        }
    };
    let (head, rest) = words.split_at_mut(head_len(first, words.len()));
    let (lines, tail) = rest.as_chunks_mut();
    let line = first.wrapping_add(number_of(head.len()));
    one_by_one(head, first);
    width.run(|| with_line!(fill, |words_of_line| write(lines, line, words_of_line)));
    one_by_one(tail, line.wrapping_add(number_of(lines.len() * LINE)));
}

#[inline(always)]
fn write<W: Stored>(lines: &mut [[W; LINE]], first: u64, words_of_line: impl Fn(u64) -> [u64; LINE]) {
    let mut number = first;
    for line in lines {
        *line = words_of_line(number).map(W::new);
        number = number.wrapping_add(number_of(LINE));
    }
}

/// Whether each word is what it was filled with.
fn holds<W: Stored>(width: Width, words: &[W], first: u64, fill: Fill) -> bool {
    let one_by_one = |words: &[W], first: u64| {
        (0..).zip(words).all(|(place, stored)| stored.word() == fill.word(first.wrapping_add(place)))
    };
    let (head, rest) = words.split_at(head_len(first, words.len()));
    let (lines, tail) = rest.as_chunks();
    let line = first.wrapping_add(number_of(head.len()));
    one_by_one(head, first)
        && width.run(|| with_line!(fill, |words_of_line| differences(lines, line, words_of_line))) == 0
        && one_by_one(tail, line.wrapping_add(number_of(lines.len() * LINE)))
}

#[inline(always)]
fn differences<W: Stored>(lines: &[[W; LINE]], first: u64, words_of_line: impl Fn(u64) -> [u64; LINE]) -> u64 {
    let mut number = first;
    let mut all = 0;
    for line in lines {
        for (stored, expected) in line.iter().zip(words_of_line(number)) {
            all |= stored.word() ^ expected;
        }
        number = number.wrapping_add(number_of(LINE));
    }
    all
}

/// Calls with the places of words that do not hold what they were filled with, in order, and with what they hold.
fn find_wrong<W: Stored>(width: Width, words: &[W], first: u64, fill: Fill, wrong: &mut dyn FnMut(usize, u64)) {
    let mut start = 0;
    for block in words.chunks(BLOCK) {
        let number = first.wrapping_add(number_of(start));
        if !holds(width, block, number, fill) {
            for (place, stored) in block.iter().enumerate() {
                if stored.word() != fill.word(number.wrapping_add(number_of(place))) {
                    wrong(start + place, stored.word());
                }
            }
        }
        start += block.len();
    }
}

/// Fills words, the first of which has the number `first`.
pub fn fill(width: Width, words: &mut [u64], first: u64, fill: Fill) {
    write_all(width, words, first, fill);
}

/// Reports the places of words that do not hold what they were filled with, in order, with what they hold.
pub fn check(width: Width, words: &[u64], first: u64, fill: Fill, wrong: &mut dyn FnMut(usize, u64)) {
    find_wrong(width, words, first, fill, wrong);
}

/// Fills bytes with words, least significant byte first, the first of which has the number `first`. A rest of less than a word stays.
pub fn fill_bytes(width: Width, bytes: &mut [u8], first: u64, fill: Fill) {
    write_all(width, bytes.as_chunks_mut::<8>().0, first, fill);
}

/// How many words differ from what the bytes were filled with, and the place of the first of them.
pub fn check_bytes(width: Width, bytes: &[u8], first: u64, fill: Fill) -> Option<(u64, usize)> {
    let mut found: Option<(u64, usize)> = None;
    find_wrong(width, bytes.as_chunks::<8>().0, first, fill, &mut |place, _| {
        let (count, place) = found.unwrap_or((0, place));
        found = Some((count + 1, place));
    });
    found
}

/// Whether two pieces of bytes differ.
pub fn differ(width: Width, one: &[u8], other: &[u8]) -> bool {
    let ((words, rest), (others, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    one.len() != other.len() || rest != other_rest || width.run(|| different_bits(words, others)) != 0
}

#[inline(always)]
fn different_bits(words: &[[u8; 8]], others: &[[u8; 8]]) -> u64 {
    let bits = |(one, other): (&[u8; 8], &[u8; 8])| u64::from_ne_bytes(*one) ^ u64::from_ne_bytes(*other);
    words.iter().zip(others).map(bits).fold(0, |all, bits| all | bits)
}

/// Reads all words, as fast as that is possible.
pub fn sum(width: Width, words: &[u64]) -> u64 {
    black_box(width.run(|| words.iter().fold(0, |all, word| all ^ word)))
}

fn number_of(place: usize) -> u64 {
    u64::try_from(place).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Fill; 8] = [
        Fill::Constant(0),
        Fill::Constant(0x5555_5555_5555_5555),
        Fill::Walk { shift: 0, zeros: false },
        Fill::Walk { shift: 63, zeros: true },
        Fill::Address { inverted: false },
        Fill::Address { inverted: true },
        Fill::Random { seed: 0 },
        Fill::Random { seed: 1 },
    ];

    fn wrong(words: &[u64], first: u64, fill: Fill) -> Vec<(usize, u64)> {
        let mut found = Vec::new();
        check(Width::widest(), words, first, fill, &mut |place, word| found.push((place, word)));
        found
    }

    #[test]
    fn every_flipped_bit_is_found_where_it_is() {
        for pattern in ALL {
            let mut words = vec![0; 3 * BLOCK + 7];
            fill(Width::widest(), &mut words, 1000, pattern);
            assert_eq!(wrong(&words, 1000, pattern), []);
            for place in [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 6] {
                words[place] ^= 1 << (place % 64);
                assert_eq!(wrong(&words, 1000, pattern), [(place, words[place])], "{pattern:?}");
                words[place] ^= 1 << (place % 64);
            }
            // From the middle of a line.
            for first in 1..9 {
                let part = &mut words.clone()[first..first + 20];
                assert_eq!(wrong(part, 1000 + number_of(first), pattern), []);
                for place in 0..part.len() {
                    part[place] ^= 2;
                    assert_eq!(wrong(part, 1000 + number_of(first), pattern), [(place, part[place])]);
                    part[place] ^= 2;
                }
            }
        }
    }

    #[test]
    fn every_width_writes_the_same() {
        for pattern in ALL {
            let filled = |width| {
                let mut words = vec![0; 100];
                fill(width, &mut words, u64::MAX - 50, pattern);
                words
            };
            assert!(Width::all().into_iter().all(|width| filled(width) == filled(Width::Base)), "{pattern:?}");
            let expected: Vec<_> = (0..100).map(|place| pattern.word((u64::MAX - 50).wrapping_add(place))).collect();
            assert_eq!(filled(Width::Base), expected);
        }
    }

    #[test]
    fn bytes_are_filled_as_words_are() {
        for pattern in ALL {
            let mut bytes = vec![0; 8 * (2 * BLOCK + 3) + 5];
            fill_bytes(Width::widest(), &mut bytes, 7, pattern);
            assert_eq!(bytes[8..16], pattern.word(8).to_le_bytes());
            assert_eq!(check_bytes(Width::widest(), &bytes, 7, pattern), None);
            bytes[8 * (BLOCK + 1) + 2] ^= 1;
            bytes[8 * (BLOCK + 9)] ^= 1;
            assert_eq!(check_bytes(Width::widest(), &bytes, 7, pattern), Some((2, BLOCK + 1)));
        }
    }

    #[test]
    fn every_byte_counts() {
        let one: Vec<u8> = (0..203).collect();
        assert!(!differ(Width::widest(), &one, &one) && differ(Width::widest(), &one, &one[1..]));
        for place in 0..one.len() {
            let mut other = one.clone();
            other[place] ^= 0x80;
            assert!(differ(Width::widest(), &one, &other), "{place}");
        }
    }

    #[test]
    fn patterns_are_what_their_names_say() {
        assert_eq!([0, 1, 64].map(|number| Fill::Walk { shift: 1, zeros: false }.word(number)), [2, 4, 2]);
        assert_eq!(Fill::Walk { shift: 0, zeros: true }.word(3), !8);
        assert_eq!(Fill::Address { inverted: false }.word(3), 24);
        let noise: std::collections::BTreeSet<_> = (0..1000).map(|n| Fill::Random { seed: 5 }.word(n)).collect();
        assert_eq!(noise.len(), 1000);
        assert_eq!(sum(Width::widest(), &[1, 2, 4, 4]), 3);
    }
}
