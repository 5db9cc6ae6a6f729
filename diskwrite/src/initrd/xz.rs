//! xz at its highest preset without the 64 MiB that its table of matches takes, and the time it takes to touch them.
//!
//! The preset's dictionary of 64 MiB makes the encoder (liblzma, `lz_encoder_mf.c`) keep the places of each four bytes in 2^24 chains.
//! With a smaller dictionary there are fewer, and several fours share one. A search then passes places of other fours, which never
//! are what it looks for, and it finds the same ones in the same order, unless it is cut off: after [`DEPTH`] places. Whether any is
//! can be found out beforehand, by doing the same with no more than places. If none is, the result is byte for byte what the preset
//! gives, but for the dictionary's size in each block's header, where the preset's is put.

use flate2::Crc;
use liblzma::stream::{Check, Filters, LzmaOptions, Stream};
use std::io::{self, Write};

/// The highest preset.
const PRESET: u32 = 9;
/// A search ends where as many bytes are the same.
const GOOD_BYTES: usize = 64;
/// How many places a search visits at most: 16, and half of the bytes that are good enough.
const DEPTH: u32 = 48;
/// The preset has 2^24 chains; fewer than 2^16 there never are.
const PRESET_BITS: u32 = 24;
const MIN_BITS: u32 = 16;
/// Longer content is rare, and worth the preset's memory.
const MAX_CONTENT_BYTES: usize = 1 << 20;
/// Length of a stream's header. A block's is as long: its length, flags, LZMA2, one byte of properties, the dictionary's size, three
/// of padding, CRC32.
const HEADER_BYTES: usize = 12;
/// A dictionary of 64 MiB.
const PRESET_DICTIONARY: u8 = 28;

/// One stream with the CRC32 check, as the preset makes it, of blocks that end at `ends` and at the end.
pub(super) fn compress(content: &[u8], ends: &[usize]) -> io::Result<Vec<u8>> {
    let bits = blocks(content, ends).map(chain_bits).max().unwrap_or(PRESET_BITS);
    let (mut packed, starts) = encode(content, ends, bits)?;
    if bits == PRESET_BITS {
        return Ok(packed);
    }
    let bad = || io::Error::other("the xz encoder has written another header than expected");
    for start in starts {
        let header = packed.get_mut(start..start + HEADER_BYTES).ok_or_else(bad)?;
        let (fields, crc) = header.split_at_mut(8);
        let [2, 0, 0x21, 1, dictionary, 0, 0, 0] = fields else { return Err(bad()) };
        *dictionary = PRESET_DICTIONARY;
        let mut sum = Crc::new();
        sum.update(fields);
        crc.copy_from_slice(&sum.sum().to_le_bytes());
    }
    Ok(packed)
}

/// The content of each block; none is empty.
fn blocks<'a>(content: &'a [u8], ends: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut start = 0;
    ends.iter().copied().chain([content.len()]).filter_map(move |end| {
        let block = content.get(start..end).filter(|block| !block.is_empty())?;
        start = end;
        Some(block)
    })
}

/// With a dictionary that makes for 2^`bits` chains; and where blocks start.
fn encode(content: &[u8], ends: &[usize], bits: u32) -> io::Result<(Vec<u8>, Vec<usize>)> {
    let mut options = LzmaOptions::new_preset(PRESET)?;
    options.dict_size(if bits == PRESET_BITS { 64 << 20 } else { 2 << bits });
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let stream = Stream::new_stream_encoder(&filters, Check::Crc32)?;
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    let mut starts = Vec::new();
    for block in blocks(content, ends) {
        if !starts.is_empty() {
            encoder.flush()?;
        }
        let start = usize::try_from(encoder.total_out()).map_err(io::Error::other)?;
        starts.push(start.max(HEADER_BYTES));
        encoder.write_all(block)?;
    }
    Ok((encoder.finish()?, starts))
}

/// How many chains, as a power of two, give what the preset's give.
fn chain_bits(content: &[u8]) -> u32 {
    if content.len() > MAX_CONTENT_BYTES {
        return PRESET_BITS;
    }
    // The dictionary is twice as long as there are chains, and not shorter than the content.
    let bits = content.len().next_power_of_two().trailing_zeros().saturating_sub(1).max(MIN_BITS);
    if is_never_cut_off(content, bits) { bits } else { PRESET_BITS }
}

/// Whether the encoder's searches among 2^`bits` chains all come to their end. Each chain is a tree of places, in the order of what
/// is at them, the latest on top; a place takes the one below it apart on its way (`bt_skip_func`).
fn is_never_cut_off(content: &[u8], bits: u32) -> bool {
    const NONE: usize = usize::MAX;
    let table = crc_table();
    let chain_at = |rest: &[u8]| {
        let [a, b, c, d, ..] = rest else { return None };
        let crc = |byte: &u8| table[usize::from(*byte)];
        let hash = crc(a) ^ u32::from(*b) ^ (u32::from(*c) << 8) ^ (crc(d) << 5);
        usize::try_from(hash & ((1 << bits) - 1)).ok()
    };
    let mut places = vec![0_u32; 1 << bits];
    for chain in content.windows(4).filter_map(chain_at) {
        places[chain] += 1;
    }
    let mut tops = vec![NONE; 1 << bits];
    // What is before each place, and what behind it.
    let mut below = vec![[NONE; 2]; content.len()];
    for (place, rest) in (0..content.len()).map(|at| (at, &content[at..])) {
        let Some(chain) = chain_at(rest) else { break };
        if places[chain] <= DEPTH {
            continue;
        }
        let mut next = std::mem::replace(&mut tops[chain], place);
        let limit = rest.len().min(GOOD_BYTES);
        // Where the next one that is before the place goes, the next one behind it, and how much they are known to have in common.
        let mut ends = [(place, 0), (place, 1)];
        let mut common = [0, 0];
        let mut visited = 0;
        while next != NONE {
            if visited == DEPTH {
                return false;
            }
            visited += 1;
            let other = &content[next..];
            let known = common[0].min(common[1]);
            let same = other[known..].iter().zip(&rest[known..limit]).take_while(|(a, b)| a == b).count() + known;
            if same == limit {
                break;
            }
            let side = usize::from(other[same] > rest[same]);
            let (end, end_side) = ends[side];
            below[end][end_side] = next;
            ends[side] = (next, 1 - side);
            common[side] = same;
            next = below[next][1 - side];
        }
        let last = if next == NONE { [NONE; 2] } else { below[next] };
        for ((end, side), rest) in ends.into_iter().zip(last) {
            below[end][side] = rest;
        }
    }
    true
}

/// CRC32 of each byte, the hash that the encoder has.
fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    for (byte, entry) in (0_u32..).zip(&mut table) {
        *entry = (0..8).fold(byte, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words of a few kinds, repeated: much is found in many places.
    fn repetitive() -> impl Strategy<Value = Vec<u8>> {
        let word = proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'"'), any::<u8>()], 1..12);
        (proptest::collection::vec(word, 1..40), proptest::collection::vec(any::<prop::sample::Index>(), 0..4000))
            .prop_map(|(words, order)| order.iter().flat_map(|at| at.get(&words).clone()).collect())
    }

    #[test]
    fn the_same_bytes_as_the_presets() {
        let mut state = 1_u64;
        let mut noise = Vec::new();
        while noise.len() < 60_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            noise.extend_from_slice(&state.to_le_bytes()[4..]);
        }
        let text: Vec<u8> = noise.iter().flat_map(|byte| format!("{{\"n\":\"{byte:08b}\"}},").into_bytes()).collect();
        for content in [&b""[..], b"x", b"abcd", &[0; 100_000], &noise, &text[..400_000]] {
            let ends = [content.len() / 3, content.len() / 2];
            for ends in [&ends[..], &[]] {
                let preset = encode(content, ends, PRESET_BITS).unwrap().0;
                assert!(compress(content, ends).unwrap() == preset, "{} bytes", content.len());
            }
        }
        assert_eq!(chain_bits(b"x"), MIN_BITS);
        assert_eq!((chain_bits(&noise), chain_bits(&text[..200_000])), (MIN_BITS, 17));
        // Each is behind all that were there, and then comes one before all: it passes every one of them.
        let sorted: Vec<u8> = (1_u16..200).chain([0]).flat_map(|n| format!("same{n:03}").into_bytes()).collect();
        assert_eq!(chain_bits(&sorted), PRESET_BITS);
        assert_eq!(chain_bits(&vec![0; MAX_CONTENT_BYTES + 1]), PRESET_BITS);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn whatever_the_content(content in repetitive()) {
            prop_assert_eq!(compress(&content, &[]).unwrap(), encode(&content, &[], PRESET_BITS).unwrap().0);
        }
    }
}
