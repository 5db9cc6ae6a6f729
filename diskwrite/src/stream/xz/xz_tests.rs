//! Against liblzma's serial decoder, which the parallel one must never differ from.

use super::format::{BlockHeader, stream_header};
use super::workers::{Plan, dictionary_limit};
use crate::decode::DecodeError;
use crate::decode::Format;
use crate::stream::tests::{large, sample, unpack, xz, xz_blocks};
use liblzma::stream::Check;
use proptest::prelude::*;
use std::{
    io::{Cursor, Read, Write},
    process::{Command, Stdio},
    thread,
};

fn serial(packed: &[u8]) -> Option<Vec<u8>> {
    let stream = liblzma::stream::Stream::new_stream_decoder(u64::MAX, 0).unwrap();
    let mut decoder = liblzma::bufread::XzDecoder::new_stream(Cursor::new(packed), stream);
    let mut data = Vec::new();
    decoder.read_to_end(&mut data).ok()?;
    let end = decoder.into_inner().position();
    (end == u64::try_from(packed.len()).unwrap()).then_some(data)
}

fn parallel(packed: &[u8]) -> Result<Vec<u8>, DecodeError> {
    unpack(Cursor::new(packed.to_vec())).map(|(_, data)| data)
}

/// Packed by the real program.
fn tool(data: &[u8], args: &[&str]) -> Vec<u8> {
    let mut child =
        Command::new("xz").arg("-0c").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(data).unwrap());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        output.stdout
    })
}

#[test]
fn real_streams_of_many_blocks() {
    let data = large(7_000_003);
    for args in [
        &["-T2", "--block-size=1MiB"][..],
        &["-T2", "--block-size=3MiB", "--check=sha256"],
        &["-T2", "--block-size=1000000", "--check=crc32"],
        &["-T1", "--block-size=700001", "--check=none"],
        &["-T2", "--block-list=10,20,30,1000,4096,5000000,0"],
        &["-T1"],
        &["-T0", "--x86", "--lzma2=dict=1MiB", "--block-size=6MiB"],
        &["-T2", "--delta=dist=4", "--lzma2=preset=0,dict=64KiB", "--block-size=123456"],
    ] {
        let packed = tool(&data, args);
        assert!(parallel(&packed).unwrap() == data, "{args:?}");
    }
}

#[test]
fn streams_without_blocks_and_blocks_without_bytes() {
    let data = large(2 << 20);
    for sizes in [&[][..], &[0, 0], &[1, 1, 1], &[4096, 1 << 20]] {
        let packed = xz_blocks(&data, sizes, Check::Crc64);
        assert!(serial(&packed).unwrap() == data);
        assert!(parallel(&packed).unwrap() == data, "{sizes:?}");
    }
    assert!(parallel(&xz_blocks(&[], &[], Check::Crc32)).unwrap().is_empty());
}

/// Gives the first block header of `packed` this dictionary.
fn with_dictionary(mut packed: Vec<u8>, bits: u8) -> Vec<u8> {
    let filter = packed.windows(2).position(|pair| pair == [0x21, 0x01]).unwrap();
    packed[filter + 2] = bits;
    let header_len = (usize::from(packed[12]) + 1) * 4;
    let crc = crc32fast::hash(&packed[12..12 + header_len - 4]).to_le_bytes();
    packed[12 + header_len - 4..12 + header_len].copy_from_slice(&crc);
    packed
}

#[test]
fn memory_is_bounded() {
    // To make such a stream takes gigabytes, so the dictionary size in the block header of a small one is patched.
    let data = sample(1000);
    match parallel(&with_dictionary(xz(&data), 40)) {
        Err(DecodeError::Corrupt { format: Format::Xz, source, .. }) => {
            assert!(source.to_string().contains("memory limit"), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(parallel(&with_dictionary(xz(&data), 31)).unwrap(), data);
    // 384 MiB, of which next to nothing is touched.
    assert_eq!(parallel(&with_dictionary(xz(&data), 33)).unwrap(), data);
}

#[test]
fn large_dictionaries_are_taken_where_memory_allows() {
    let mib = |n: u64| n << 20;
    for (available, limit) in [
        (None, mib(192)),
        (Some(0), mib(192)),
        (Some(mib(314 + 400)), mib(400)),
        (Some(mib(314 + 1536)), mib(1536)),
        (Some(mib(1 << 20)), mib(1536)),
    ] {
        assert_eq!(dictionary_limit(available), limit, "{available:?}");
    }
    let plan = Plan::new(&BlockHeader { dict_bytes: mib(1536), packed_bytes: Some(mib(40)) }, Some(mib(500)), 8);
    assert_eq!(plan, Plan { workers: 1, chunks: 8, ahead: 8 });
}

#[test]
fn memory_is_shared_out_within_its_bound() {
    let mib = |n: u64| n << 20;
    for dict_bytes in [4096, mib(1), mib(8), mib(64), mib(128), mib(192)] {
        for packed_bytes in [None, Some(mib(40)), Some(u64::MAX)] {
            for cores in [0, 1, 2, 4, 64, 1024] {
                let plan = Plan::new(&BlockHeader { dict_bytes, packed_bytes }, Some(mib(500)), cores);
                let (workers, chunks) = (u64::try_from(plan.workers).unwrap(), u64::try_from(plan.ahead).unwrap());
                assert!(
                    workers >= 1
                        && workers <= u64::try_from(cores.max(1)).unwrap()
                        && plan.ahead >= plan.chunks
                        && plan.chunks >= 8,
                    "{plan:?}"
                );
                let sum = workers * (dict_bytes + mib(2)) + mib(chunks) + mib(48);
                assert!(sum <= mib(320), "{plan:?} of {dict_bytes}: {sum}");
            }
        }
    }
    // What FCOS images are, on this many cores.
    let header = BlockHeader { dict_bytes: mib(64), packed_bytes: Some(mib(36)) };
    let total = Some(mib(500));
    assert_eq!(Plan::new(&header, total, 2), Plan { workers: 2, chunks: 128, ahead: 128 });
    assert_eq!(Plan::new(&header, total, 16), Plan { workers: 3, chunks: 74, ahead: 74 });
    // It may be the only one.
    assert_eq!(Plan::new(&header, None, 2), Plan { workers: 2, chunks: 8, ahead: 128 });
    assert_eq!(Plan::new(&header, Some(mib(36)), 2).chunks, 8);
    assert_eq!(Plan::new(&BlockHeader { packed_bytes: None, ..header }, total, 2).chunks, 8);
}

/// The first failure is told, not what it makes of the workers.
#[test]
fn truncation_amid_work_is_reported_as_such() {
    let packed = tool(&large(24 << 20), &["-T2", "--block-size=8MiB"]);
    for cut in [1, 100, packed.len() / 3, packed.len() / 2] {
        let len = packed.len() - cut;
        match parallel(&packed[..len]) {
            Err(DecodeError::Truncated { offset, .. }) => assert_eq!(offset, u64::try_from(len).unwrap()),
            other => panic!("{:?}", other.map(|data| data.len())),
        }
    }
}

#[test]
fn stream_headers_name_their_check() {
    let mut header = *b"\xFD7zXZ\0\0\x04\0\0\0\0";
    let crc = crc32fast::hash(&header[6..8]).to_le_bytes();
    header[8..].copy_from_slice(&crc);
    assert_eq!(stream_header(&header), Ok(8));
    for byte in 0..header.len() {
        let mut bad = header;
        bad[byte] ^= 1;
        assert!(stream_header(&bad).is_err(), "{byte}");
    }
}

fn checks() -> impl Strategy<Value = Check> {
    prop_oneof![Just(Check::None), Just(Check::Crc32), Just(Check::Crc64), Just(Check::Sha256)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn same_bytes_as_the_serial_decoder(
        len in 0usize..1_500_000, noise in any::<u32>(),
        sizes in prop::collection::vec(prop_oneof![0usize..5000, Just(4096), 0usize..300_000], 0..20), check in checks(),
    ) {
        let mut data = large(len);
        let noise_len = data.len() / 3;
        let mut state = noise;
        for byte in &mut data[..noise_len] {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = state.to_be_bytes()[0];
        }
        let packed = xz_blocks(&data, &sizes, check);
        prop_assert!(serial(&packed).as_ref() == Some(&data));
        prop_assert!(parallel(&packed).unwrap() == data);
    }

    #[test]
    fn pieces_of_any_size_are_walked_alike(piece in 1usize..5000, seed in any::<u8>()) {
        let packed = xz_blocks(&large(100_000 + usize::from(seed)), &[1000, 30_000, 0, 4], Check::Crc32);
        let mut splitter = super::split::Splitter::default();
        let mut ends = Vec::new();
        for mut rest in packed.chunks(piece) {
            while !rest.is_empty() {
                let (used, part) = splitter.next(rest).unwrap();
                rest = &rest[used..];
                if let Some(super::split::Part::End(size)) = part {
                    ends.push(size);
                }
            }
        }
        prop_assert!(splitter.is_done());
        ends.retain(|size| *size > 0);
        prop_assert_eq!(ends, vec![1000, 30_000, 4, 68_996 + u64::from(seed)]);
    }

    #[test]
    fn every_truncation_is_found(keep in any::<prop::sample::Index>(), check in checks()) {
        let packed = xz_blocks(&sample(60_000), &[4096, 10_000, 20_000], check);
        let len = 6 + keep.index(packed.len() - 6);
        match parallel(&packed[..len]) {
            Err(DecodeError::Truncated { offset, .. }) => prop_assert_eq!(offset, u64::try_from(len).unwrap()),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn every_flipped_bit_is_found(at in any::<prop::sample::Index>(), bit in 0u8..8, sha256 in any::<bool>()) {
        let data = sample(60_000);
        let check = if sha256 { Check::Sha256 } else { Check::Crc64 };
        let mut packed = xz_blocks(&data, &[4096, 10_000, 20_000], check);
        let at = at.index(packed.len());
        packed[at] ^= 1 << bit;
        let ours = unpack(Cursor::new(packed.clone()));
        let theirs = serial(&packed);
        prop_assert!(theirs.is_none() || at < 6);
        prop_assert!(ours.is_err() || at < 6, "at {} of {}", at, packed.len());
    }

    /// The index must list what came: blocks left out, doubled or exchanged are not what was packed.
    #[test]
    fn blocks_out_of_place_are_found(order in prop::collection::vec(0usize..3, 0..5)) {
        let data = sample(30_000);
        let packed = xz_blocks(&data, &[5000, 9000], Check::Crc32);
        let mut splitter = super::split::Splitter::default();
        let (mut at, mut bounds) = (0, vec![12]);
        while !splitter.is_done() {
            let (used, part) = splitter.next(&packed[at..]).unwrap();
            at += used;
            if matches!(part, Some(super::split::Part::End(_))) {
                bounds.push(at);
            }
        }
        prop_assert_eq!(bounds.len(), 4);
        let mut other = packed[..12].to_vec();
        order.iter().for_each(|n| other.extend(&packed[bounds[*n]..bounds[n + 1]]));
        other.extend(&packed[bounds[3]..]);
        prop_assert_eq!(parallel(&other).ok(), serial(&other));
        prop_assert_eq!(parallel(&other).is_ok(), order == [0, 1, 2]);
    }
}
