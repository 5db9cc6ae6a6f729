//! Where a block holds nothing but zeros.

use std::ops::Range;

/// Zero runs shorter than this are written like data; a block is looked at in pieces of this size. Of a file system's
/// zeros pieces of 4 KiB would find hardly more, and cost requests.
const PIECE_BYTES: usize = 1 << 20;

/// Splits `data` into runs of zeros and of other bytes, of whole pieces but for the last and at most `max` bytes each.
pub(crate) fn runs(data: &[u8], max: usize) -> impl Iterator<Item = (bool, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = data.get(at..)?;
        let mut pieces = rest.chunks(PIECE_BYTES);
        let first = pieces.next()?;
        let zero = is_zero(first);
        let mut len = first.len();
        for piece in pieces {
            if len.saturating_add(piece.len()) > max || is_zero(piece) != zero {
                break;
            }
            len += piece.len();
        }
        let run = at..at + len;
        at = run.end;
        Some((zero, run))
    })
}

/// Whether there is no other byte.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    byte_scan::leading_zeros(bytes) == bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn finds_runs() {
        let mut block = vec![1; 3 * MIB + 10];
        block[MIB..].fill(0);
        let found = |block: &[u8], max| runs(block, max).collect::<Vec<_>>();
        assert_eq!(found(&block, 8 * MIB), [(false, 0..MIB), (true, MIB..3 * MIB + 10)]);
        block[2 * MIB - 1] = 1;
        assert_eq!(found(&block, 8 * MIB), [(false, 0..2 * MIB), (true, 2 * MIB..3 * MIB + 10)]);
        assert_eq!(found(&block, MIB).len(), 4, "no run is longer than asked for");
        assert_eq!(found(&[], MIB), []);
    }

    #[test]
    fn one_byte_anywhere_is_seen() {
        let mut bytes = vec![0; 2 * 64 + 13];
        assert!(is_zero(&bytes) && is_zero(&[]));
        for at in 0..bytes.len() {
            bytes[at] = 0x80;
            assert!(!is_zero(&bytes), "byte {at}");
            assert!(is_zero(&bytes[..at]) && is_zero(&bytes[at + 1..]));
            bytes[at] = 0;
        }
    }
}
