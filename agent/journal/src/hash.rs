//! The hashes by which a journal file finds its data objects.

/// SipHash-2-4 keyed with the file's id, of files with the flag for it.
#[allow(deprecated)] // Its successor may change the algorithm, which is fixed here.
pub(super) fn keyed(key: [u8; 16], bytes: &[u8]) -> u64 {
    use std::hash::{Hasher, SipHasher};
    let half = |at: usize| kernel::bytes::le64(&key, at).unwrap_or_default();
    let mut hasher = SipHasher::new_with_keys(half(0), half(8));
    hasher.write(bytes);
    hasher.finish()
}

/// Bob Jenkins' lookup3 (`hashlittle2` from zero), of files without: its first result is the upper half.
pub(super) fn jenkins(bytes: &[u8]) -> u64 {
    // The algorithm takes the length modulo 2^32.
    let len = u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or(0);
    let start = 0xdead_beef_u32.wrapping_add(len);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, after) = rest.split_at(12);
        (a, b, c) = mix(a.wrapping_add(word(block, 0)), b.wrapping_add(word(block, 4)), c.wrapping_add(word(block, 8)));
        rest = after;
    }
    if !rest.is_empty() {
        (b, c) = last(a.wrapping_add(word(rest, 0)), b.wrapping_add(word(rest, 4)), c.wrapping_add(word(rest, 8)));
    }
    u64::from(c) << 32 | u64::from(b)
}

/// Four bytes from `at` on; zeros where there are none.
fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    for (to, from) in word.iter_mut().zip(bytes.iter().skip(at)) {
        *to = *from;
    }
    u32::from_le_bytes(word)
}

fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    (a, b, c)
}

fn last(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32) {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    (b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the self test at the end of lookup3.c: "Four score and seven years ago" from 0, 0.
    #[test]
    fn lookup3_gives_what_its_author_prints() {
        assert_eq!(jenkins(b""), 0xdead_beef_dead_beef);
        assert_eq!(jenkins(b"Four score and seven years ago"), 0x1777_0551_ce72_26e6);
    }
}
