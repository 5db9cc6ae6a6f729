//! Whole images through all stages, with a writer that collects what comes.

use super::*;
use crate::verify::VerifyError;
use liblzma::stream::{Check, LzmaOptions};
use proptest::prelude::*;
use std::{
    io::{self, Cursor, Read, Write},
    sync::{Mutex, mpsc},
};

pub(super) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn xz(data: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// One stream with a block for each of `sizes` and one for the rest; block headers tell no sizes.
pub(super) fn xz_blocks(data: &[u8], sizes: &[usize], check: Check) -> Vec<u8> {
    use liblzma::stream::{Action, Filters, Status, Stream};
    let mut filters = Filters::new();
    filters.x86().lzma2(LzmaOptions::new_preset(0).unwrap().dict_size(1 << 16));
    let mut stream = Stream::new_stream_encoder(&filters, check).unwrap();
    let mut packed = Vec::with_capacity(data.len() + data.len() / 2 + (1 << 20));
    let mut rest = data;
    for size in sizes {
        let (mut block, after) = rest.split_at(rest.len().min(*size));
        rest = after;
        loop {
            let before = stream.total_in();
            let status = stream.process_vec(block, &mut packed, Action::FullFlush).unwrap();
            block = &block[usize::try_from(stream.total_in() - before).unwrap()..];
            if matches!(status, Status::StreamEnd) {
                break;
            }
        }
    }
    loop {
        let before = stream.total_in();
        let status = stream.process_vec(rest, &mut packed, Action::Finish).unwrap();
        rest = &rest[usize::try_from(stream.total_in() - before).unwrap()..];
        if matches!(status, Status::StreamEnd) {
            return packed;
        }
    }
}

fn zst(data: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn pack(format: Format, data: &[u8]) -> Vec<u8> {
    match format {
        Format::Raw => data.to_vec(),
        Format::Gzip => gzip(data),
        Format::Xz => xz(data),
        Format::Zstd => zst(data),
    }
}

/// Puts every piece where it belongs; each byte must come once. Also how much of the source was used.
pub(super) fn collect(pump: &Pump) -> Result<(Format, Vec<u8>), DecodeError> {
    let (mut format, mut image, mut sum) = (None, Vec::new(), 0u64);
    loop {
        match pump.next(LOOK_AROUND) {
            None | Some(Message::Retrying(_)) => {}
            Some(Message::Opened { format: found, head, .. }) => {
                assert!(format.is_none() && image.is_empty());
                format = Some(found);
                sum += u64::try_from(head.len()).unwrap();
                image.extend_from_slice(&head);
            }
            Some(Message::Block(Block { offset, data })) => {
                assert!(format.is_some(), "a block before the head");
                let at = usize::try_from(offset).unwrap();
                assert!(at >= HEAD_BYTES && at.is_multiple_of(4096) && !data.is_empty(), "{at}");
                image.resize(image.len().max(at + data.len()), 0);
                image[at..at + data.len()].copy_from_slice(&data);
                sum += u64::try_from(data.len()).unwrap();
                pump.give_back(data);
            }
            Some(Message::End { image_bytes }) => {
                assert_eq!((image_bytes, sum), (u64::try_from(image.len()).unwrap(), image_bytes));
                return Ok((format.unwrap(), image));
            }
            Some(Message::Failed(error)) => return Err(error),
        }
    }
}

fn start(source: impl Read + Send + 'static, taps: Vec<Box<dyn Tap>>) -> Pump {
    Pump::over(move |_| Ok(Opened { reader: Box::new(source), total: None }), None, taps, Packing::Unpacked).unwrap()
}

pub(super) fn unpack(source: impl Read + Send + 'static) -> Result<(Format, Vec<u8>), DecodeError> {
    collect(&start(source, Vec::new()))
}

/// Text that compresses, with runs and noise.
pub(super) fn sample(len: usize) -> Vec<u8> {
    (0u32..).map(|n| (n.wrapping_mul(2_654_435_761) >> (24 + n % 5)).to_le_bytes()[0]).take(len).collect()
}

/// As [`sample`], but no two pages are alike, so that a piece at the wrong place is noticed.
pub(super) fn large(len: usize) -> Vec<u8> {
    let mut data = sample(len);
    for (number, page) in data.chunks_mut(4096).enumerate() {
        let number = u32::try_from(number).unwrap().to_le_bytes();
        let len = page.len().min(4);
        page[..len].copy_from_slice(&number[..len]);
    }
    data
}

const PACKED: [Format; 3] = [Format::Gzip, Format::Xz, Format::Zstd];
const ALL: [Format; 4] = [Format::Raw, Format::Gzip, Format::Xz, Format::Zstd];

#[test]
fn unpacks_each_format() {
    for len in [0, 1, 100_000, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + BLOCK_BYTES, 6_000_001] {
        let data = large(len);
        for format in ALL {
            let packed = pack(format, &data);
            let packed_bytes = u64::try_from(packed.len()).unwrap();
            let pump = start(Cursor::new(packed), Vec::new());
            let found = collect(&pump).unwrap();
            assert!(found.0 == format && found.1 == data, "{format} of {len} bytes");
            assert_eq!(pump.source_bytes(), packed_bytes);
        }
    }
    assert_eq!(unpack(io::empty()).unwrap(), (Format::Raw, vec![]));
}

#[test]
fn multi_frame_zstd_is_one_image() {
    let mut packed = zst(b"one ");
    packed.extend([0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    packed.extend(zst(b"two"));
    assert_eq!(unpack(Cursor::new(packed.clone())).unwrap().1, b"one two");
    packed.drain(..zst(b"one ").len());
    assert_eq!(unpack(Cursor::new(packed)).unwrap(), (Format::Zstd, b"two".to_vec()));
}

#[test]
fn trailing_data_is_an_error() {
    let data = sample(5000);
    for format in PACKED {
        let mut packed = pack(format, &data);
        let end = u64::try_from(packed.len()).unwrap();
        packed.extend(b"garbage");
        match unpack(Cursor::new(packed)) {
            Err(DecodeError::Trailing { offset, .. }) => assert_eq!(offset, end),
            // zstd looks for another frame and finds none.
            Err(DecodeError::Corrupt { format: Format::Zstd, .. }) => {}
            other => panic!("{format}: {other:?}"),
        }
    }
    let twice = |packed: Vec<u8>| Cursor::new([packed.clone(), packed].concat());
    assert!(matches!(unpack(twice(gzip(&data))), Err(DecodeError::Trailing { format: Format::Gzip, .. })));
    assert!(matches!(unpack(twice(xz(&data))), Err(DecodeError::Trailing { format: Format::Xz, .. })));
}

/// Gives so much, and then fails.
struct Broken(Cursor<Vec<u8>>);

impl Read for Broken {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf)? {
            0 => Err(io::Error::other(SourceError::Short { name: "x".into(), expected: 9, found: 77 })),
            count => Ok(count),
        }
    }
}

#[test]
fn source_errors_come_through_unchanged() {
    let data = large(3 << 20);
    for format in ALL {
        let packed = pack(format, &data);
        for len in [0, 3, 7, 11, packed.len() / 2, packed.len() - 3, packed.len()] {
            match unpack(Broken(Cursor::new(packed[..len].to_vec()))) {
                Err(DecodeError::Source(SourceError::Short { found: 77, .. })) => {}
                other => panic!("{format} cut at {len}: {:?}", other.map(|_| ())),
            }
        }
    }
}

struct Recorder(Arc<Mutex<Vec<u8>>>, bool);

impl Tap for Recorder {
    fn update(&mut self, bytes: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(bytes);
    }
    fn finish(self: Box<Self>) -> Result<(), VerifyError> {
        let no = || VerifyError::Sha256 { expected: "a".into(), found: "b".into() };
        if self.1 { Ok(()) } else { Err(no()) }
    }
}

#[test]
fn taps_see_every_packed_byte_and_have_the_last_word() {
    let data = large(5_500_000);
    for format in ALL {
        let packed = pack(format, &data);
        for good in [true, false] {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let taps: Vec<Box<dyn Tap>> =
                vec![Box::new(Recorder(Arc::default(), true)), Box::new(Recorder(seen.clone(), good))];
            let result = collect(&start(Cursor::new(packed.clone()), taps));
            assert!(*seen.lock().unwrap() == packed, "{format}");
            match result {
                Ok((_, image)) => assert!(good && image == data),
                Err(DecodeError::Verify(_)) => assert!(!good),
                Err(other) => panic!("{format}: {other:?}"),
            }
        }
    }
}

/// Gives what comes through the channel; ends with it.
struct Live(Receiver<u8>);

impl Read for Live {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.recv() {
            Ok(byte) => {
                buf[0] = byte;
                Ok(1)
            }
            Err(_) => Ok(0),
        }
    }
}

#[test]
fn silent_source_has_stalled_and_a_slow_one_has_not() {
    let stall = || Some((Duration::from_secs(6), "a pipe".to_owned()));
    let live = |source| {
        Pump::over(
            move |_| Ok(Opened { reader: Box::new(Live(source)), total: None }),
            stall(),
            vec![],
            Packing::Unpacked,
        )
    };
    let (send, source) = mpsc::channel();
    let pump = live(source).unwrap();
    let slow = thread::spawn(move || {
        for byte in 0..8 {
            send.send(byte).unwrap();
            thread::sleep(Duration::from_secs(1));
        }
    });
    assert_eq!(collect(&pump).unwrap().1, [0, 1, 2, 3, 4, 5, 6, 7]);
    slow.join().unwrap();

    let (send, source) = mpsc::channel();
    let pump = live(source).unwrap();
    send.send(1).unwrap();
    match collect(&pump) {
        Err(DecodeError::Source(error @ SourceError::Silent { offset: 1, .. })) => {
            assert!(error.to_string().contains("stalled"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    drop(pump);
    drop(send);
}

#[test]
fn corrupt_image_is_reported_before_a_slow_source_continues() {
    let (send, source) = mpsc::channel();
    // A kind of deflate block that there is not.
    let mut packed = gzip(b"");
    packed[10] = 0xFF;
    packed.resize(CHUNK_BYTES + 1, 0xFF);
    for byte in packed {
        send.send(byte).unwrap();
    }
    let pump = start(Live(source), Vec::new());
    assert!(matches!(collect(&pump), Err(DecodeError::Corrupt { .. })));
    drop(send);
}

#[test]
fn threads_end_when_the_writer_does() {
    for format in ALL {
        let packed = pack(format, &vec![7; 60 << 20]);
        let pump = start(Cursor::new(packed), vec![Box::new(Recorder(Arc::default(), true))]);
        while !matches!(pump.next(LOOK_AROUND), Some(Message::Opened { .. })) {}
        let flow = Arc::downgrade(&pump.flow);
        drop(pump);
        assert!(testkit::wait::comes(|| flow.strong_count() == 0), "{format}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn truncation_is_found(which in 0usize..3, keep in any::<prop::sample::Index>()) {
        let packed = pack(PACKED[which], &sample(20_000));
        let len = 6 + keep.index(packed.len() - 6);
        match unpack(Cursor::new(packed[..len].to_vec())) {
            Err(DecodeError::Truncated { offset, .. }) => prop_assert_eq!(offset, u64::try_from(len).unwrap()),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn damage_never_panics_nor_passes_for_good(which in 0usize..3, at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let data = sample(20_000);
        let mut packed = pack(PACKED[which], &data);
        let at = at.index(packed.len());
        packed[at] ^= 1 << bit;
        // A flipped bit may land where it changes nothing (a gzip time stamp) or turn the magic into no magic; it must
        // not yield other data under the same format.
        if let Ok((format, found)) = unpack(Cursor::new(packed)) {
            prop_assert!(format == Format::Raw || found == data);
        }
    }

    #[test]
    fn noise_never_panics(which in 0usize..3, noise in prop::collection::vec(any::<u8>(), 0..2000)) {
        let magic: &[u8] = [&[0x1F, 0x8B, 8][..], &[0xFD, b'7', b'z', b'X', b'Z', 0], &[0x28, 0xB5, 0x2F, 0xFD]][which];
        let _ = unpack(Cursor::new([magic, &noise].concat()));
    }
}
