//! Minimal ISOs packed, described, unpacked; descriptions damaged.

use super::*;
use crate::iso9660::Iso;
use crate::testing::image;
use proptest::prelude::*;
use std::io::Cursor;

fn files(image: &[u8]) -> BTreeMap<String, Record> {
    let walked = Iso::open(Cursor::new(image)).unwrap().walk().unwrap();
    walked.into_iter().filter(|(_, record)| !record.is_directory).collect()
}

fn sample() -> (Vec<u8>, Vec<u8>) {
    let noise: Vec<u8> = (0_u32..9000).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let full = image(&[("BIG.IMG", &[1; 30_000]), ("EFI/GRUB.CFG", b"menu"), ("KERNEL.IMG", &noise), ("EMPTY", b"")]);
    let minimal = image(&[("EFI/GRUB.CFG", b"menu"), ("EMPTY", b""), ("KERNEL.IMG", &noise)]);
    (full, minimal)
}

#[test]
fn what_is_packed_is_described_and_comes_back() {
    let (full, minimal) = sample();
    let (data, statistics) = Data::pack(&mut Cursor::new(&minimal), &files(&full), &files(&minimal)).unwrap();
    assert_eq!((statistics.matches, statistics.skipped_bytes), (3, 9004));
    assert_eq!(statistics.written_bytes + statistics.skipped_bytes, u64::try_from(minimal.len()).unwrap());
    let encoded = data.encode("0.27.0").unwrap();
    assert!(encoded.starts_with(b"MINISO\0\0\x01\x060.27.0\x02"), "{encoded:?}");
    let decoded = Data::decode(&[&encoded[..], b"more"].concat()).unwrap();
    assert_eq!(decoded, data);
    let mut out = Vec::new();
    decoded.unpack(&mut Cursor::new(&full), &mut out).unwrap();
    assert_eq!(out, minimal);

    let mut other = full.clone();
    let at = other.windows(4).position(|w| w == b"menu").unwrap();
    other[at] = b'M';
    let error = decoded.unpack(&mut Cursor::new(&other), io::sink()).unwrap_err().to_string();
    assert!(error.starts_with("wrong final digest: expected "), "{error}");
}

#[test]
fn isos_that_do_not_go_together_are_refused() {
    let (full, minimal) = sample();
    let pack = |full: &[u8], minimal: &[u8]| {
        Data::pack(&mut Cursor::new(minimal), &files(full), &files(minimal)).unwrap_err().to_string()
    };
    assert_eq!(pack(&minimal, &full), "missing minimal file BIG.IMG in full ISO");
    let other = image(&[("EFI/GRUB.CFG", b"menus")]);
    assert_eq!(pack(&full, &other), "File EFI/GRUB.CFG has different lengths in full and minimal ISOs");
    assert_eq!(pack(&full, &image(&[("EMPTY", b"")])), "validating table");
}

#[test]
fn numbers_are_as_wide_as_they_must_be() {
    for (value, expected) in [
        (0, &[0][..]),
        (250, &[250]),
        (251, &[251, 251, 0]),
        (65_535, &[251, 255, 255]),
        (65_536, &[252, 0, 0, 1, 0]),
        (1 << 32, &[253, 0, 0, 0, 0, 1, 0, 0, 0]),
    ] {
        let mut out = Vec::new();
        coding::number(&mut out, value);
        assert_eq!(out, expected);
        assert_eq!(Decoder(&out).number().unwrap(), value);
    }
    let text = |bytes: &[u8]| format!("{:#}", anyhow::Error::from(Data::decode(bytes).unwrap_err()));
    assert_eq!(
        text(b"MINISO\0\0\x02\x010"),
        "validating header: incompatible miniso file version: 1 vs 2 (created by 0)"
    );
    assert_eq!(text(b"MINISO\0\x01\x01\x010"), "validating header: not a miniso file!");
    assert_eq!(text(b"MINISO"), "failed to deserialize header: io error: failed to fill whole buffer");
}

proptest! {
    #[test]
    fn no_description_makes_it_panic(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut in any::<prop::sample::Index>()) {
        let (full, minimal) = sample();
        let (data, _) = Data::pack(&mut Cursor::new(&minimal), &files(&full), &files(&minimal)).unwrap();
        let mut bytes = data.encode("0.27.0").unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(data) = Data::decode(&bytes) {
            let _ = data.unpack(&mut Cursor::new(&full), io::sink());
        }
        bytes.truncate(cut.index(bytes.len()));
        let _ = Data::decode(&bytes);
    }
}
