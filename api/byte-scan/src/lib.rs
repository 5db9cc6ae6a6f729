//! Scans long texts and blocks of disks, several bytes at once: configs have files in them, so their strings have megabytes. The rest of the
//! program is compiled for size. This is compiled for speed, and not inlined where it would lose that again. Pure.

/// As many bytes as a word has.
const WORD_BYTES: usize = size_of::<u64>();
/// One in each byte.
const ONES: u64 = u64::MAX / 0xFF;
const HIGHEST_BITS: u64 = ONES * 0x80;

/// Whether a byte of the word is below `limit`, which is at most 0x80.
const fn has_less(word: u64, limit: u8) -> bool {
    word.wrapping_sub(ONES * limit as u64) & !word & HIGHEST_BITS != 0
}

const fn has_byte(word: u64, byte: u8) -> bool {
    has_less(word ^ (ONES * byte as u64), 1)
}

const fn has_special(word: u64) -> bool {
    has_less(word, 0x20) | has_byte(word, b'"') | has_byte(word, b'\\')
}

/// How many bytes at the beginning are in words of which `is_meant` is false. The last of them is filled up with letters.
fn length_without(bytes: &[u8], is_meant: impl Fn(u64) -> bool) -> usize {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    let without = words.iter().take_while(|word| !is_meant(u64::from_ne_bytes(**word))).count();
    let mut last = [b'a'; WORD_BYTES];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    match without == words.len() && !is_meant(u64::from_ne_bytes(last)) {
        true => bytes.len(),
        false => without * WORD_BYTES,
    }
}

/// Whether there is a control character of ASCII.
#[inline(never)]
pub fn has_control(bytes: &[u8]) -> bool {
    length_without(bytes, |word| has_less(word, 0x20) | has_byte(word, 0x7F)) < bytes.len()
}

/// Whether there is a carriage return or a line feed.
#[inline(never)]
pub fn has_line_end(bytes: &[u8]) -> bool {
    length_without(bytes, |word| has_byte(word, b'\r') | has_byte(word, b'\n')) < bytes.len()
}

/// How many bytes at the beginning stand for themselves in a string of JSON: up to a quote, a backslash, a control character or the end.
#[inline(never)]
pub fn plain_length(text: &[u8]) -> usize {
    let plain = length_without(text, has_special);
    let rest = text.get(plain..).unwrap_or_default();
    plain + rest.iter().take_while(|byte| !has_special(ONES * u64::from(**byte))).count()
}

/// The offsets of all line feeds.
#[inline(never)]
pub fn line_feeds(text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        at += length_without(rest, |word| has_byte(word, b'\n'));
        let word = text.get(at..).unwrap_or_default().iter().zip(at..).take(WORD_BYTES);
        found.extend(word.filter(|(byte, _)| **byte == b'\n').map(|(_, at)| at));
        at += WORD_BYTES;
    }
    found
}

/// What is looked at before the next look at the answer.
const STRIDE: usize = 8 * WORD_BYTES;

/// How many zeros are at the beginning: as fast as memory on zeros, and done at once on most else.
#[inline(never)]
pub fn leading_zeros(bytes: &[u8]) -> usize {
    let (strides, _) = bytes.as_chunks::<STRIDE>();
    let is_zero = |stride: &&[u8; STRIDE]| {
        let (words, _) = stride.as_chunks::<WORD_BYTES>();
        words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word)) == 0
    };
    let zeros = strides.iter().take_while(is_zero).count() * STRIDE;
    let rest = bytes.get(zeros..).unwrap_or_default();
    zeros + rest.iter().take_while(|byte| **byte == 0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_wherever_it_is() {
        for length in [0, 1, 63, 64, 65, 200] {
            let plain = vec![b'a'; length];
            assert!(!has_control(&plain) && !has_line_end(&plain), "{length}");
            assert_eq!((plain_length(&plain), line_feeds(&plain)), (length, vec![]));
            for at in 0..length {
                let with = |byte| [&plain[..at], &[byte], &plain[at + 1..]].concat();
                for byte in [0, 0x1F, b'\n', b'"', b'\\', 0x7F, 0x80, 0xFF] {
                    let text = with(byte);
                    assert_eq!(has_control(&text), byte < 0x20 || byte == 0x7F, "{byte} at {at} of {length}");
                    assert_eq!(has_line_end(&text), byte == b'\n');
                    let ends = byte < 0x20 || byte == b'"' || byte == b'\\';
                    assert_eq!(plain_length(&text), if ends { at } else { length }, "{byte} at {at} of {length}");
                    assert_eq!(line_feeds(&text), if byte == b'\n' { vec![at] } else { vec![] });
                }
                assert!(has_line_end(&with(b'\r')));
            }
        }
        assert_eq!(line_feeds(b"\n\na\n"), [0, 1, 3]);
    }

    #[test]
    fn counts_leading_zeros() {
        assert_eq!((leading_zeros(&[]), leading_zeros(&[1])), (0, 0));
        for len in [1, STRIDE - 1, STRIDE, STRIDE + 1, 3 * STRIDE, 3 * STRIDE + 7] {
            for end in 0..len {
                let bytes = [vec![0; end], vec![0x80; len - end]].concat();
                assert_eq!(leading_zeros(&bytes), end, "{len}");
            }
            assert_eq!(leading_zeros(&vec![0; len]), len);
        }
    }
}
