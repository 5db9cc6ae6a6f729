//! Arithmetic with known answers, a piece of work for each part of a core. The same on every processor: integers are exact, and the
//! floating-point operations used are those that IEEE 754 rounds correctly.

use crate::{Fill, Width, check, fill};
use kernel::vectors::{LANES, Vectors, Work};
use sha2::{Digest, Sha256};
use std::{array, hint::black_box};

const SEED: u64 = 0x1234_5678_9ABC_DEF1;
/// More than the nearest cache holds, and less than the next.
const CACHE_WORDS: usize = 64 << 10;

/// A piece of work and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// What it loads.
    pub name: &'static str,
    /// Computes the answer, in milliseconds.
    pub work: fn(Width) -> u64,
    pub answer: u64,
}

/// All of them.
pub const UNITS: [Unit; 6] = [
    Unit { name: "integers", work: integers, answer: 0x3AF5_7EAC_CDC1_C7A9 },
    Unit { name: "vectors of integers", work: integer_vectors, answer: 0xFAEA_E49B_4158_93DB },
    Unit { name: "vectors of floating-point numbers", work: float_vectors, answer: 0x9DB4_B4CF_F9F0_80A8 },
    Unit { name: "fused multiplication and addition", work: fused, answer: 0xB261_A9B2_B477_7FE0 },
    Unit { name: "hashes", work: hashes, answer: 0x3ECC_AA09_8DE6_2FEF },
    Unit { name: "caches", work: caches, answer: 0xABE7_05F8_80A5_C9BC },
];

/// Multiplication, division, shifts: one after the other.
fn integers(_: Width) -> u64 {
    let (mut word, mut sum) = (black_box(SEED), 0_u64);
    for step in 1..=400_000_u64 {
        word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).rotate_left(17) ^ step;
        sum = sum.wrapping_add(word / step).wrapping_add(u64::from(word.count_ones()));
    }
    sum ^ word
}

fn integer_vectors(width: Width) -> u64 {
    let mut lanes = [0_u32; LANES];
    for (number, lane) in (black_box(1_u32)..).zip(&mut lanes) {
        *lane = number.wrapping_mul(0x9E37_79B1);
    }
    let lanes = width.run_on_vectors(Integers(lanes));
    lanes.into_iter().fold(SEED, |all, lane| folded(all, u64::from(lane)))
}

struct Integers([u32; LANES]);

impl Work for Integers {
    type Output = [u32; LANES];

    #[inline(always)]
    fn run<V: Vectors, const WORDS: usize, const FLOATS: usize>(self, vectors: V) -> [u32; LANES] {
        let mut parts = self.0.chunks(LANES / WORDS);
        let mut all: [V::Words; WORDS] = array::from_fn(|_| vectors.words(parts.next().unwrap_or_default()));
        let factor = vectors.all_words(0x915F_77F5);
        for step in 0..100_000_u32 {
            let step = vectors.all_words(step);
            for words in &mut all {
                *words = vectors.fold_words(vectors.add_words(vectors.multiply_words(*words, factor), step));
            }
        }
        let mut lanes = [0; LANES];
        let computed = all.into_iter().flat_map(|words| vectors.word_lanes(words));
        lanes.iter_mut().zip(computed).for_each(|(lane, word)| *lane = word);
        lanes
    }
}

/// A map without period: one wrong bit changes all that follows.
fn float_vectors(width: Width) -> u64 {
    let lanes = width.run_on_vectors(Floats(starts()));
    lanes.into_iter().fold(SEED, |all, lane| folded(all, lane.to_bits()))
}

struct Floats([f64; LANES]);

impl Work for Floats {
    type Output = [f64; LANES];

    #[inline(always)]
    fn run<V: Vectors, const WORDS: usize, const FLOATS: usize>(self, vectors: V) -> [f64; LANES] {
        let mut all = load::<V, FLOATS>(vectors, &self.0);
        let (one, factor) = (vectors.all_floats(1.0), vectors.all_floats(3.99));
        for step in 0..60_000_u32 {
            for lane in &mut all {
                *lane = vectors.multiply(vectors.multiply(factor, *lane), vectors.subtract(one, *lane));
            }
            if step % 8 == 0 {
                for lane in &mut all {
                    *lane = vectors.divide(vectors.square_root(*lane), vectors.add(one, *lane));
                }
            }
        }
        store(vectors, all)
    }
}

fn fused(width: Width) -> u64 {
    // In software it takes a hundred times as long.
    let width = if width == Width::Base { Width::widest() } else { width };
    let lanes = width.run_on_vectors(Fused(starts()));
    lanes.into_iter().fold(SEED, |all, lane| folded(all, lane.to_bits()))
}

struct Fused([f64; LANES]);

impl Work for Fused {
    type Output = [f64; LANES];

    #[inline(always)]
    fn run<V: Vectors, const WORDS: usize, const FLOATS: usize>(self, vectors: V) -> [f64; LANES] {
        let mut all = load::<V, FLOATS>(vectors, &self.0);
        let (one, factor) = (vectors.all_floats(1.0), vectors.all_floats(-1.99));
        for _ in 0..100_000_u32 {
            for lane in &mut all {
                *lane = vectors.multiply_add(vectors.multiply(factor, *lane), *lane, one);
            }
        }
        store(vectors, all)
    }
}

#[inline(always)]
fn load<V: Vectors, const FLOATS: usize>(vectors: V, lanes: &[f64; LANES]) -> [V::Floats; FLOATS] {
    let mut parts = lanes.chunks(LANES / FLOATS);
    array::from_fn(|_| vectors.floats(parts.next().unwrap_or_default()))
}

#[inline(always)]
fn store<V: Vectors, const FLOATS: usize>(vectors: V, all: [V::Floats; FLOATS]) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    let computed = all.into_iter().flat_map(|floats| vectors.float_lanes(floats));
    lanes.iter_mut().zip(computed).for_each(|(lane, float)| *lane = float);
    lanes
}

/// Between 0 and 1.
fn starts() -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    for (number, lane) in (black_box(1_u32)..).zip(&mut lanes) {
        *lane = f64::from(number) / 65.5;
    }
    lanes
}

fn hashes(_: Width) -> u64 {
    let mut hash = Sha256::digest(black_box(SEED).to_le_bytes());
    let mut block = [0x5A_u8; 8192];
    for _ in 0..64 {
        for (place, byte) in block.iter_mut().zip(hash) {
            *place = byte;
        }
        hash = Sha256::digest(block);
    }
    hash.iter().fold(0, |all, byte| all << 8 ^ u64::from(*byte) ^ all >> 56)
}

/// Fills the nearer caches and reads them back in another order.
fn caches(width: Width) -> u64 {
    let mut words = vec![0; CACHE_WORDS];
    let mut all = black_box(SEED);
    for seed in 0..8 {
        let pattern = Fill::Random { seed };
        fill(width, &mut words, 0, pattern);
        check(width, &words, 0, pattern, &mut |place, word| {
            all = folded(all, word ^ u64::try_from(place).unwrap_or(0))
        });
        let mut place = 0;
        for _ in 0..CACHE_WORDS {
            place = (place + 4099) % CACHE_WORDS;
            all = folded(all, words.get(place).copied().unwrap_or(0));
        }
    }
    all
}

fn folded(all: u64, word: u64) -> u64 {
    (all ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_gives_the_known_answer() {
        let mut wrong = Vec::new();
        for unit in UNITS {
            for width in Width::all() {
                let found = (unit.work)(width);
                if found != unit.answer {
                    wrong.push(format!("{} {width:?}: {found:#018X}", unit.name));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
