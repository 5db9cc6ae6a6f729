//! SMBIOS structures (DSP0134, 6.1): where each begins and ends, and the fields in it. The bytes come from the firmware
//! and are hostile.

use std::{fmt, iter, ops::Range};

/// Bytes of a structure's header: type, length, handle.
const HEADER_BYTES: usize = 4;
/// Structure type that ends the table (7.46).
const END_OF_TABLE: u8 = 127;
/// The largest machines have some thousands; the shortest structure takes six bytes.
const MAX_STRUCTURES: usize = 16_384;

/// Where the 32-bit entry point has the version.
const OLD_VERSION_AT: usize = 6;

/// Names of a field's values: the first value and the names from it on.
pub(super) type Names = [(u8, &'static [&'static str])];

/// Version of the specification that a table was made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Version {
    /// Major.
    pub major: u8,
    /// Minor.
    pub minor: u8,
}

impl Version {
    /// What the entry point says, in its 32-bit or its 64-bit form (DSP0134, 5.2.1 and 5.2.2). Firmware that writes 2.31,
    /// 2.33 or 2.51 means 2.3 and 2.6 (the kernel's drivers/firmware/dmi_scan.c); VMware's does so.
    pub(super) fn parse(entry_point: &[u8]) -> Option<Self> {
        let at = match entry_point {
            [b'_', b'S', b'M', b'3', b'_', ..] => 7,
            [b'_', b'S', b'M', b'_', ..] => OLD_VERSION_AT,
            _ => return None,
        };
        let [major, minor] = *entry_point.get(at..)?.first_chunk()?;
        let minor = match (at, major, minor) {
            (OLD_VERSION_AT, 2, 31 | 33) => 3,
            (OLD_VERSION_AT, 2, 51) => 6,
            _ => minor,
        };
        Some(Self { major, minor })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// One structure: the formatted area with its header, and the strings behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Structure<'a> {
    pub(super) kind: u8,
    pub(super) handle: u16,
    /// Before SMBIOS 2.6 UUIDs were big-endian throughout (7.2.1).
    pub(super) big_endian_uuid: bool,
    formatted: &'a [u8],
    strings: &'a [u8],
}

/// The structures of a table up to its end, or to the first that does not fit: what follows a structure whose length lies
/// can't be found.
pub(super) fn structures(table: &[u8], version: Option<Version>) -> impl Iterator<Item = Structure<'_>> {
    let big_endian_uuid = version.is_some_and(|version| version < Version { major: 2, minor: 6 });
    let mut rest = table;
    iter::from_fn(move || {
        let (structure, next) = Structure::split(rest)?;
        rest = next;
        Some(Structure { big_endian_uuid, ..structure })
    })
    .take_while(|structure| structure.kind != END_OF_TABLE)
    .take(MAX_STRUCTURES)
}

impl<'a> Structure<'a> {
    /// The structure that `bytes` begin with, and what follows it.
    fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let [kind, length, low, high] = *bytes.first_chunk()?;
        let length = usize::from(length);
        if length < HEADER_BYTES {
            return None;
        }
        let (formatted, rest) = bytes.split_at_checked(length)?;
        let end = rest.windows(2).position(|pair| pair == [0, 0])?;
        let handle = u16::from_le_bytes([low, high]);
        let structure = Self { kind, handle, big_endian_uuid: false, formatted, strings: &rest[..end] };
        Some((structure, &rest[end + 2..]))
    }

    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.array(at).map(u8::from_le_bytes)
    }

    pub(super) fn word(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn dword(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn qword(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    pub(super) fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        kernel::bytes::array(self.formatted, at)
    }

    /// A bit of the byte at `at`.
    pub(super) fn bit(&self, at: usize, bit: u8) -> Option<bool> {
        Some(self.byte(at)? >> bit & 1 == 1)
    }

    /// A byte that stands for nothing where it is zero.
    pub(super) fn nonzero_byte(&self, at: usize) -> Option<u8> {
        self.byte(at).filter(|&value| value != 0)
    }

    /// A word that stands for nothing where it is zero.
    pub(super) fn nonzero_word(&self, at: usize) -> Option<u16> {
        self.word(at).filter(|&value| value != 0)
    }

    /// The handle of another structure; the two highest values mean none.
    pub(super) fn reference(&self, at: usize) -> Option<u16> {
        self.word(at).filter(|&handle| handle < 0xfffe)
    }

    /// The string whose number is at `at`, trimmed; none where there is no such string or it is blank.
    pub(super) fn text(&self, at: usize) -> Option<String> {
        let number = self.nonzero_byte(at)?;
        text(self.strings().nth(usize::from(number) - 1)?)
    }

    /// The structure's own strings in order, trimmed, blank ones left out.
    pub(super) fn texts(&self, count: usize) -> Vec<String> {
        self.strings().take(count).filter_map(text).collect()
    }

    fn strings(&self) -> impl Iterator<Item = &'a [u8]> {
        self.strings.split(|&byte| byte == 0).take_while(|string| !string.is_empty())
    }

    /// What the value at `at` is called.
    pub(super) fn name(&self, at: usize, names: &Names) -> Option<String> {
        name(self.byte(at)?, names)
    }

    /// So many bytes from `at` on.
    pub(super) fn part(&self, at: usize, len: usize) -> Option<&'a [u8]> {
        self.formatted.get(at..)?.get(..len)
    }

    /// What a value that was taken out of others is called.
    pub(super) fn name_of(&self, value: u8, names: &Names) -> Option<String> {
        name(value, names)
    }

    /// What the value in these bits of the byte at `at` is called.
    pub(super) fn name_of_bits(&self, at: usize, bits: Range<u8>, names: &Names) -> Option<String> {
        name(self.byte(at)? << (8 - bits.end) >> (8 - bits.end + bits.start), names)
    }
}

/// What a value is called: none for "Unknown", and the number itself where the specification knows no name.
fn name(value: u8, names: &Names) -> Option<String> {
    let known = names.iter().find_map(|(first, names)| names.get(usize::from(value.checked_sub(*first)?)).copied());
    match known {
        Some("Unknown") => None,
        Some(known) => Some(known.to_owned()),
        None => Some(format!("{value:#04x}")),
    }
}

/// The names of the bits that are set; `names` begins with bit `first`.
pub(super) fn flags(value: u16, first: usize, names: &[&str]) -> Vec<String> {
    let is_set = |bit: usize| value >> bit & 1 == 1;
    names.iter().enumerate().filter(|(n, _)| is_set(first + n)).map(|(_, name)| (*name).to_owned()).collect()
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes).trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// What is decoded of a structure type.
pub(super) trait Decode {
    /// The type's number.
    const KIND: u8;

    fn decode(structure: &Structure<'_>) -> Self;
}

/// Declares what is decoded of a structure type: each fact, what it means, and how it is read.
macro_rules! structure {
    (
        $(#[$doc:meta])*
        $name:ident = $kind:literal, |$structure:ident| {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $value:expr,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub struct $name {
            /// The structure's handle, by which others refer to it.
            pub handle: u16,
            $($(#[$field_doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
        }

        impl $crate::smbios::structure::Decode for $name {
            const KIND: u8 = $kind;

            fn decode($structure: &$crate::smbios::structure::Structure<'_>) -> Self {
                Self { handle: $structure.handle, $($field: $value,)* }
            }
        }
    };
}
pub(super) use structure;

#[cfg(test)]
mod tests {
    use super::*;

    fn all(table: &[u8]) -> Vec<Structure<'_>> {
        structures(table, None).collect()
    }

    #[test]
    fn a_structure_whose_end_is_missing_is_none() {
        let table = [1, 5, 7, 0, 1, b'a', 0, b'b', 0, 0];
        for len in 0..table.len() {
            assert!(all(&table[..len]).is_empty(), "{len}");
        }
        let structures = all(&table);
        assert_eq!((structures[0].kind, structures[0].handle, structures[0].texts(9).len()), (1, 7, 2));
        assert_eq!(structures[0].text(4).as_deref(), Some("a"));
        assert_eq!(structures[0].text(5), None);
    }

    #[test]
    fn a_lying_length_ends_the_table() {
        for length in [0, 3, 9, 255] {
            assert!(all(&[1, length, 0, 0, 0, 0]).is_empty(), "{length}");
        }
    }

    #[test]
    fn as_many_structures_as_fit_are_too_many() {
        assert_eq!(all(&[4, 4, 0, 0, 0, 0].repeat(170_000)).len(), MAX_STRUCTURES);
    }

    #[test]
    fn strings_by_number() {
        let table = [1, 8, 0, 0, 0, 1, 2, 3, b' ', b'x', b' ', 0, b' ', 0, 0];
        let [structure] = all(&table)[..] else { panic!() };
        assert_eq!([4, 5, 6, 7, 8].map(|at| structure.text(at)), [None, Some("x".to_owned()), None, None, None]);
    }

    #[test]
    fn names_of_values() {
        const NAMES: &Names = &[(1, &["One", "Unknown"]), (0x80, &["Other"])];
        assert_eq!(
            [1, 2, 0x80].map(|value| name(value, NAMES)),
            [Some("One"), None, Some("Other")].map(|n| n.map(str::to_owned))
        );
        assert_eq!([0, 3, 0xff].map(|value| name(value, NAMES)), ["0x00", "0x03", "0xff"].map(|n| Some(n.to_owned())));
        let table = [0, 5, 0, 0, 0b1010_0110, 0, 0];
        assert_eq!(all(&table)[0].name_of_bits(4, 5..7, NAMES).as_deref(), Some("One"));
        assert_eq!(flags(0b1010, 1, &["first", "second", "third"]), ["first", "third"]);
    }

    #[test]
    fn versions() {
        let version = |entry_point: &[u8]| Version::parse(entry_point).map(|version| version.to_string());
        assert_eq!(version(b"_SM_\x00\x1f\x02\x08").as_deref(), Some("2.8"));
        assert_eq!(version(b"_SM3_\x00\x18\x03\x07").as_deref(), Some("3.7"));
        assert_eq!([version(b"_SM3_\x00\x18\x03"), version(b"_DMI_\x00\x02\x08"), version(b"")], [None, None, None]);
    }

    #[test]
    fn old_tables_have_big_endian_uuids() {
        let old =
            |major, minor| structures(&[1, 4, 0, 0, 0, 0], Some(Version { major, minor })).all(|s| s.big_endian_uuid);
        assert_eq!([old(2, 1), old(2, 5), old(2, 6), old(3, 0)], [true, true, false, false]);
    }
}
