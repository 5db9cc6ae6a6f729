//! xz at its highest preset without the 64 MiB that its table of matches takes, and the time it takes to touch them.
//!
//! The preset's dictionary of 64 MiB makes the encoder (liblzma, `lz_encoder_mf.c`) keep the places of each four bytes in 2^24 chains.
//! With a smaller dictionary there are fewer, and several fours share one. That changes nothing of what is found as long as no
//! search is cut off, and none is in a chain of no more places than a search may visit. So the least number of chains is taken that
//! only short ones share; the result is byte for byte what the preset gives, but for the dictionary's size in a header, where the
//! preset's is put.

use flate2::Crc;
use liblzma::stream::{Check, Filters, LzmaOptions, Stream};
use std::io::{self, Write};

/// The highest preset.
const PRESET: u32 = 9;
/// How many places a search visits: 16, and half of the preset's length that is good enough (64).
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

/// How many chains, as a power of two, give what the preset's give, with a dictionary as long as the content.
fn chain_bits(content: &[u8]) -> u32 {
    if content.len() > MAX_CONTENT_BYTES {
        return PRESET_BITS;
    }
    let table = crc_table();
    // With the bits turned around, what shares its lowest bits is side by side.
    let mut chains: Vec<u32> = content
        .windows(4)
        .filter_map(|window| {
            let [a, b, c, d] = window.try_into().ok()?;
            let crc = |byte: u8| table.get(usize::from(byte)).copied();
            let hash = crc(a)? ^ u32::from(b) ^ (u32::from(c) << 8) ^ (crc(d)? << 5);
            Some((hash & 0xff_ffff).reverse_bits())
        })
        .collect();
    chains.sort_unstable();
    let mut counted: Vec<(u32, u32)> = Vec::new();
    for chain in chains {
        match counted.last_mut() {
            Some((last, count)) if *last == chain => *count += 1,
            _ => counted.push((chain, 1)),
        }
    }
    let fits = |bits: u32| u64::try_from(content.len()).is_ok_and(|len| len <= 2 << bits);
    let harmless = |bits: u32| {
        let shared = counted.chunk_by(|(a, _), (b, _)| a >> (32 - bits) == b >> (32 - bits));
        shared.into_iter().all(|fours| fours.len() < 2 || fours.iter().map(|(_, count)| count).sum::<u32>() <= DEPTH)
    };
    (MIN_BITS..PRESET_BITS).find(|bits| fits(*bits) && harmless(*bits)).unwrap_or(PRESET_BITS)
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
        // There would be no difference to see with chains that are always as many.
        assert!(chain_bits(&noise) < PRESET_BITS && chain_bits(&text[..200_000]) > MIN_BITS);
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
