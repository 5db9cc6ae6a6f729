//! Stand-ins for values, in all the ways a value is written. Pure.

use super::MIN_LEN;
use kernel::order;
use md5::{Digest, Md5};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Leading hexadecimal digits that name the maker: NAA and OUI of a WWN, OUI of a MAC address or EUI.
const MAKER_DIGITS: usize = 7;

/// A value of the same length: other digits for digits and other letters for letters, all else as it is.
pub(super) fn stand_in(value: &str, key: &[u8]) -> String {
    // The same value may be written in either case.
    let lower = value.to_lowercase();
    let is_hex = lower.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'-'));
    let digits = lower.bytes().filter(u8::is_ascii_hexdigit).count();
    // A world-wide name or a MAC address: the maker may stay visible. A UUID has no such part.
    let is_named =
        is_hex && (digits == 16 || (digits == 12 && lower.contains(':')) || digits == 32 && !lower.contains('-'));
    let mut prefix_left = match (is_named, digits) {
        (true, 12) => MAKER_DIGITS - 1,
        (true, _) => MAKER_DIGITS,
        (false, _) => 0,
    };
    let normal: String = if is_hex { lower.chars().filter(char::is_ascii_hexdigit).collect() } else { lower };
    let mut noise = Noise::new(key, &normal);
    let other = |c: char| {
        if !c.is_ascii_alphanumeric() {
            return c;
        }
        if prefix_left > 0 {
            prefix_left -= 1;
            return c;
        }
        let pick = |from: &[u8], n: u8| char::from(from[usize::from(n) % from.len()]);
        match c {
            _ if is_hex && c.is_ascii_uppercase() => pick(b"0123456789ABCDEF", noise.next()),
            _ if is_hex && digits > 8 => {
                let digit = pick(b"0123456789abcdef", noise.next());
                // In an upper-case value the digits of both cases have to agree.
                if value.bytes().any(|byte| byte.is_ascii_uppercase()) { digit.to_ascii_uppercase() } else { digit }
            }
            '0'..='9' => pick(b"0123456789", noise.next()),
            'A'..='Z' => pick(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", noise.next()),
            _ => pick(b"abcdefghijklmnopqrstuvwxyz", noise.next()),
        }
    };
    value.chars().map(other).collect()
}

/// Bytes that look random without the key.
struct Noise {
    block: [u8; 16],
    used: usize,
}

impl Noise {
    fn new(key: &[u8], value: &str) -> Self {
        let mut sum = Md5::new();
        sum.update(key);
        sum.update(value);
        Self { block: sum.finalize().into(), used: 0 }
    }

    fn next(&mut self) -> u8 {
        if self.used == self.block.len() {
            *self = Self { block: Md5::digest(self.block).into(), used: 0 };
        }
        self.used += 1;
        self.block[self.used - 1]
    }
}

/// What is searched for, by its first bytes.
pub(super) struct StandIns {
    by_start: HashMap<[u8; MIN_LEN], Vec<StandIn>>,
}

/// A value in one of its forms, and what is put there.
struct StandIn {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl StandIns {
    pub(super) fn new(values: &BTreeSet<String>, key: &[u8]) -> Self {
        let mut pairs = BTreeMap::new();
        // Where one value is a form of another, the longer counts: a UUID with its dashes.
        let mut values: Vec<_> = values.iter().collect();
        order::sort_by_key(&mut values, |value| std::cmp::Reverse(value.len()));
        for value in values {
            for (from, to) in forms(value).into_iter().zip(forms(&stand_in(value, key))) {
                pairs.entry(from).or_insert(to);
            }
            // The second half of an extended WWN stands alone, too. Those that may be just a number stay.
            if value.len() == 32
                && let (Some(half), Some(other)) = (value.get(16..), stand_in(value, key).get(16..))
                && !half.starts_with("00000000")
            {
                pairs.entry(half.into()).or_insert(other.into());
            }
        }
        let mut by_start: HashMap<_, Vec<StandIn>> = HashMap::new();
        for (from, to) in pairs {
            if let Some(start) = from.first_chunk().copied() {
                by_start.entry(start).or_default().push(StandIn { from, to });
            }
        }
        for pairs in by_start.values_mut() {
            order::sort_by_key(pairs, |pair| std::cmp::Reverse(pair.from.len()));
        }
        Self { by_start }
    }

    /// The bytes with every value replaced, the longest first where several begin at one place.
    pub(super) fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some((&first, after)) = rest.split_first() {
            let candidates = rest.first_chunk().and_then(|start: &[u8; MIN_LEN]| self.by_start.get(start));
            let hit = candidates.into_iter().flatten().find(|pair| rest.starts_with(&pair.from));
            if let Some(StandIn { from, to }) = hit {
                out.extend(to);
                rest = &rest[from.len()..];
            } else {
                out.push(first);
                rest = after;
            }
        }
        out
    }
}

/// The ways a value is written; those of its stand-in come in the same order.
fn forms(value: &str) -> Vec<Vec<u8>> {
    let mut forms: Vec<Vec<u8>> = vec![
        value.into(),
        value.to_lowercase().into(),
        value.to_uppercase().into(),
        // udev's and the kernel's ways with blanks.
        value.replace(' ', "_").into(),
        value.replace(' ', "\\x20").into(),
        swapped(value.as_bytes()),
    ];
    let digits: String = value.chars().filter(char::is_ascii_hexdigit).collect();
    let separators = value.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'-'));
    if separators && digits.len() >= 12 && digits.len().is_multiple_of(2) {
        let bytes: Vec<u8> =
            (0..digits.len()).step_by(2).filter_map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect();
        forms.extend(forms_of_bytes(&bytes));
    }
    forms
}

fn forms_of_bytes(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    let mut in_order = vec![bytes.to_vec()];
    let mut add = |text: String| forms.extend([text.to_uppercase().into(), text.into()]);
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // With dashes a MAC address is in BOOTIF=, with colons between fours a GUID in InfiniBand's files.
    for separator in ["", ":", "-", " "] {
        add(pairs.join(separator));
    }
    match bytes {
        [a, b, c, d, e, f] => {
            // The device's part of a modified EUI-64 (RFC 4291, appendix A), in a table, in a file, in an address.
            let last = u16::from_be_bytes([*e, *f]);
            let middle = u16::from_be_bytes([*c, 0xff]);
            add(format!("{middle:x}:fe{d:02x}:{last:x}"));
            add(format!("{c:02x}fffe{d:02x}{last:04x}"));
            add(format!("{:02x}{b:02x}{c:02x}fffe{d:02x}{last:04x}", a ^ 2));
            in_order.push(vec![*c, 0xff, 0xfe, *d, *e, *f]);
        }
        [_, _, _, _, _, _, _, _] => {
            add(pairs.chunks(2).map(<[_]>::concat).collect::<Vec<_>>().join(":"));
            // As ATA's words, and little endian.
            in_order.push(swapped(bytes));
            in_order.push(bytes.iter().rev().copied().collect());
        }
        [a, b, c, d, e, f, g, h, rest @ ..] if rest.len() == 8 => {
            // A UUID as SMBIOS and EFI keep it, its first three fields little endian; and as IPMI does, all of it.
            let little = [&[*d, *c, *b, *a, *f, *e, *h, *g], rest].concat();
            let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
            for order in [bytes.to_vec(), little, reversed] {
                if let Ok(uuid) = uuid::Uuid::from_slice(&order) {
                    add(uuid.to_string());
                    add(uuid.simple().to_string());
                }
                in_order.push(order);
            }
        }
        _ => {}
    }
    forms.extend(in_order);
    forms
}

/// As an ATA string: the bytes of each word the other way round, filled up with a blank.
fn swapped(text: &[u8]) -> Vec<u8> {
    text.chunks(2).flat_map(|word| [word.get(1).copied().unwrap_or(b' '), word[0]]).collect()
}
