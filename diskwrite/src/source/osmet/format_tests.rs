use super::*;
use proptest::prelude::*;
use testkit::disk::osmet as made;

const SUM: [u8; 32] = [7; 32];

fn extent(start: u64, len: u64) -> made::Extent {
    made::Extent { file_offset: 300, start, len, object: [9; 32] }
}

#[test]
fn reads_what_was_written() {
    let head = made::header(4096, "Fedora CoreOS 44", "aarch64");
    let found = header(&mut &head[..]).unwrap();
    let expected =
        Header { sector_bytes: 4096, description: "Fedora CoreOS 44".into(), architecture: "aarch64".into() };
    assert_eq!(found, expected);
    let partitions =
        [(1 << 20, 5 << 32, vec![extent(1 << 20, 70_000), extent(2 << 20, 1)]), (5 << 32, 6 << 32, vec![])];
    let found = index(&mut &made::index(&partitions, &SUM, 7 << 32)[..]).unwrap();
    assert_eq!((found.sha256, found.size_bytes), (SUM, 7 << 32));
    let mapping = |start, len| Mapping { file_offset: 300, start, len, object: [9; 32] };
    assert_eq!(found.mappings, [mapping(1 << 20, 70_000), mapping(2 << 20, 1)]);
}

#[test]
fn writes_what_is_read() {
    let made_header =
        Header { sector_bytes: 512, description: "Fedora CoreOS 44".into(), architecture: "x86_64".into() };
    let mapping = |start, len| Mapping { file_offset: 300, start, len, object: [9; 32] };
    let partitions = [
        Partition { start: 250, end: 5 << 32, mappings: vec![mapping(251, 70_000), mapping(1 << 32, 65_536)] },
        Partition { start: 5 << 32, end: 6 << 32, mappings: vec![] },
    ];
    let bytes = head(&made_header, "0.27.0", &partitions, &SUM, 7 << 32);
    let mut input = &bytes[..];
    assert_eq!(header(&mut input).unwrap(), made_header);
    let mappings = partitions.iter().flat_map(|partition| partition.mappings.clone()).collect();
    assert_eq!(index(&mut input).unwrap(), Index { mappings, sha256: SUM, size_bytes: 7 << 32 });
    assert!(input.is_empty());
    // What is written independently of it, too.
    let extents = partitions.map(|Partition { start, end, mappings }| {
        (start, end, mappings.iter().map(|mapping| extent(mapping.start, mapping.len)).collect())
    });
    let expected = [made::header(512, "Fedora CoreOS 44", "x86_64"), made::index(&extents, &SUM, 7 << 32)].concat();
    assert_eq!(bytes, expected);
}

#[test]
fn refuses_other_headers() {
    let error = |bytes: &[u8]| header(&mut &bytes[..]).unwrap_err().to_string();
    let good = made::header(512, "d", "x86_64");
    let patched = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        error(&bytes)
    };
    assert!(patched(0, b'o').starts_with("not an OSMET file"));
    assert_eq!(patched(8, 2), "incompatible OSMET file version 2, only 1 is supported");
    assert_eq!(patched(8, 254), "its version starts with byte 254, which does not start a number");
    assert_eq!(patched(10, 0xFF), "its program version is not text");
    assert_eq!(error(&good[..good.len() - 1]), "cannot read its architecture");
    let long = [&b"OSMET\0\0\0\x01"[..], &made::number(4097)].concat();
    assert_eq!(error(&long), "its program version is 4097, more than the limit of 4096");
    let sector = [&b"OSMET\0\0\0\x01\0"[..], &made::number(1 << 32)].concat();
    assert_eq!(error(&sector), "its sector size is 4294967296, more than the limit of 4294967295");
}

#[test]
fn refuses_mappings_out_of_order() {
    let error = |partitions: &[made::Partition], size| {
        index(&mut &made::index(partitions, &SUM, size)[..]).unwrap_err().to_string()
    };
    assert_eq!(error(&[], 10), "it has no partitions");
    assert_eq!(
        error(&[(0, 100, vec![extent(10, 20), extent(29, 5)])], 100),
        "its mapping 1 starts at byte 29 and ends at byte 34, outside bytes 30 to 100"
    );
    assert!(error(&[(0, 100, vec![extent(90, 11)])], 200).starts_with("its mapping 0 starts at byte 90"));
    assert!(error(&[(0, 100, vec![extent(90, u64::MAX)])], 200).contains("ends at byte 18446744073709551615"));
    assert!(error(&[(0, 100, vec![]), (99, 120, vec![])], 200).starts_with("its partition 1 starts at byte 99"));
    assert!(error(&[(100, 99, vec![])], 200).starts_with("its partition 0 starts at byte 100"));
    assert_eq!(error(&[(0, 100, vec![])], 99), "its last partition's end is 100, more than the limit of 99");
}

#[test]
fn counts_are_bounded_before_memory_is_taken() {
    let error = |bytes: Vec<u8>| index(&mut &bytes[..]).unwrap_err().to_string();
    assert_eq!(error(made::number(129)), "its number of partitions is 129, more than the limit of 128");
    let many = [vec![1, 0, 100], made::number((1 << 20) + 1)].concat();
    assert_eq!(error(many), "its number of mappings is 1048577, more than the limit of 1048576");
}

proptest! {
    #[test]
    fn any_number_is_read_back(value in any::<u64>(), shift in 0u32..64) {
        let value = value >> shift;
        prop_assert_eq!(number(&mut &made::number(value)[..], "it").unwrap(), value);
        let mut written = Vec::new();
        put_number(&mut written, value);
        prop_assert_eq!(written, made::number(value));
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = index(&mut &noise[..]);
        let _ = header(&mut &[&b"OSMET\0\0\0\x01"[..], &noise].concat()[..]);
    }
}
