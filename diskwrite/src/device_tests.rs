//! The writer over files and loop devices, with io_uring and with threads.

use super::*;
use crate::buffer::{Block, Buffer};
use crate::ends::Ends;
use crate::flight::{Flight, Kind};
use crate::record::{ReadBack, Record};
use crate::request::Work;
use crate::write::{WriteError, Writer};
use std::{
    fs::OpenOptions,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};
use testkit::disk::{LoopDisk, MIB, skipped};

type Make = for<'a> fn(&'a File) -> io::Result<Device<'a>>;

/// Both ways, as far as this machine has them.
fn ways() -> Vec<(&'static str, Make)> {
    let file = tempfile::tempfile().unwrap();
    let mut ways: Vec<(&'static str, Make)> = vec![("threads", |file| Device::with_threads(file))];
    match Device::with_ring(&file) {
        Ok(_) => ways.push(("io_uring", |file| Device::with_ring(file))),
        Err(error) => testkit::skip::because(format_args!("there is no io_uring: {error}")),
    }
    ways
}

fn filled(data: &[u8]) -> Buffer {
    let mut buffer = Buffer::new(data.len().next_multiple_of(4096));
    buffer.whole()[..data.len()].copy_from_slice(data);
    buffer.set_len(data.len());
    buffer
}

fn noise(len: u64) -> Vec<u8> {
    let mut data = vec![0; usize::try_from(len).unwrap()];
    fastrand::Rng::with_seed(len).fill(&mut data);
    data
}

/// Noise with zeros in it, that ends in the middle of a sector.
fn image() -> Vec<u8> {
    let mut image = noise(37 * MIB + 100);
    let mib = usize::try_from(MIB).unwrap();
    image[5 * mib..6 * mib].fill(0);
    image[13 * mib..30 * mib].fill(0);
    image
}

/// Writes an image in blocks that come out of order, reads it back, and then the ends, as an installation does.
fn write(make: Make, file: &File, image: &[u8], sector: u32) -> Record {
    let size = file.metadata().unwrap().len().max(kernel::disk::size_bytes(file).unwrap_or(0));
    let (head, rest) = image.split_at(usize::try_from(MIB).unwrap());
    let mut writer = Writer::new(make(file).unwrap(), "disk".into(), size, sector);
    writer.keep_record();
    writer.begin(&Ends::cleared(size)).unwrap();
    let step = usize::try_from(4 * MIB).unwrap();
    let mut blocks: Vec<_> = (MIB..).step_by(step).zip(rest.chunks(step)).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut blocks);
    for (offset, data) in blocks {
        writer.block(Block { offset, data: filled(data) }, usize::try_from(sector).unwrap()).unwrap();
        writer.freed();
    }
    writer.sync().unwrap();
    let (ends, record) = writer.into_ends(filled(head));
    let mut writer = Writer::new(make(file).unwrap(), "disk".into(), size, sector);
    writer.finish(&ends).unwrap();
    drop(writer);
    ReadBack::new(make(file).unwrap(), "disk".into(), Record::ends(&ends)).finish().unwrap();
    record.unwrap()
}

#[test]
fn image_arrives_in_files_of_any_file_system() {
    let image = image();
    for dir in ["/dev/shm", "/var/tmp", "/tmp"].iter().filter(|dir| Path::new(dir).is_dir()) {
        for (name, make) in ways() {
            let file = tempfile::tempfile_in(dir).unwrap();
            file.write_all_at(&[0xEE; 41 << 20], 0).unwrap();
            let record = write(make, &file, &image, 512);
            let mut found = vec![0; 41 << 20];
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found[..image.len()] == image[..], "{name} in {dir}");
            assert!(found[image.len()..image.len() + 412].iter().all(|byte| *byte == 0), "{name} in {dir}");
            ReadBack::new(make(&file).unwrap(), "file".into(), record).finish().unwrap();
        }
    }
}

#[test]
fn image_arrives_on_disks_of_both_sector_sizes_and_wrong_ones_are_found() {
    if skipped() {
        return;
    }
    let image = image();
    for (name, make) in ways() {
        for sector in [512, 4096] {
            let disk = LoopDisk::new(40 * MIB, sector, false);
            disk.put_old_tables(sector);
            let file = OpenOptions::new().read(true).write(true).open(disk.path()).unwrap();
            let record = write(make, &file, &image, sector);
            assert!(disk.read(0, 37 * MIB + 100) == image, "{name} on {sector}");
            assert!(disk.read(39 * MIB, MIB).iter().all(|byte| *byte == 0), "{name} on {sector}");
            // A byte of a zero run: what is read back comes from the disk, not from memory.
            disk.write(20 * MIB + 512, &[1]);
            let error = ReadBack::new(make(&file).unwrap(), disk.path(), record).finish().unwrap_err();
            assert!(
                matches!(error, WriteError::ReadBack { offset, len, .. } if (offset..offset + len).contains(&(20 * MIB + 512))),
                "{name} on {sector}: {error}"
            );
        }
    }
}

#[test]
fn odd_memory_only_costs_speed() {
    for dir in ["/dev/shm", "/var/tmp", "/tmp"].iter().filter(|dir| Path::new(dir).is_dir()) {
        for (name, make) in ways() {
            let file = tempfile::tempfile_in(dir).unwrap();
            file.set_len(3 * MIB).unwrap();
            let data = Arc::new(filled(&[7; 8192]));
            let mut flight = Flight::new(make(&file).unwrap());
            // Several are under way when the first is refused.
            for offset in 0..4 {
                flight.push(Request::new(4096 * offset, Work::Write(data.clone(), 1..4097))).unwrap();
            }
            flight.settle().unwrap();
            flight.push(Request::new(3 * 4096 + 512, Work::Zero(2 << 20))).unwrap();
            flight.sync().unwrap().unwrap();
            drop(flight);
            let mut found = vec![1; 3 << 20];
            file.read_exact_at(&mut found, 0).unwrap();
            let (data, zeros) = found.split_at(3 * 4096 + 512);
            assert!(data.iter().all(|byte| *byte == 7), "{name} in {dir}");
            assert!(zeros[..2 << 20].iter().all(|byte| *byte == 0), "{name} in {dir}");
        }
    }
}

#[test]
fn failure_comes_back_with_its_place() {
    for (name, make) in ways() {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut flight = Flight::new(make(&file).unwrap());
        let data = Arc::new(filled(&[7; 8192]));
        let failed = flight.push(Request::new(4096, Work::Write(data.clone(), 0..8192))).and_then(|()| flight.settle());
        let failed = failed.unwrap_err();
        assert_eq!((failed.offset, failed.len, failed.kind), (4096, 8192, Kind::Write), "{name}");
        assert_eq!(failed.source.raw_os_error(), Some(libc::ENOSPC), "{name}");
        assert_eq!(Arc::strong_count(&data), 1, "{name} keeps memory");

        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let mut flight = Flight::new(make(&file).unwrap());
        flight.push(Request::new(0, Work::Read(filled(&[1; 8192])))).unwrap();
        let failed = flight.settle().unwrap_err();
        assert_eq!((failed.offset, failed.len, failed.kind), (4096, 4096, Kind::Read), "{name}");
        assert_eq!(failed.source.kind(), io::ErrorKind::UnexpectedEof, "{name}");
    }
}

#[test]
fn what_is_under_way_is_waited_for_when_the_device_goes() {
    for (name, make) in ways() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        let data = Arc::new(filled(&noise(MIB)));
        let mut flight = Flight::new(make(&file).unwrap());
        for index in 0..16 {
            flight.push(Request::new(index * MIB, Work::Write(data.clone(), 0..1 << 20))).unwrap();
        }
        drop(flight);
        assert_eq!(Arc::strong_count(&data), 1, "{name}");
        assert_eq!(file.metadata().unwrap().len(), 16 * MIB, "{name}");
    }
}

#[test]
fn claim_on_a_disk_ends_with_its_descriptor() {
    if skipped() {
        return;
    }
    for (name, make) in ways() {
        let disk = LoopDisk::new(8 * MIB, 512, false);
        let data = Arc::new(filled(&noise(MIB)));
        for round in 0..100 {
            let claimed = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(disk.path());
            let file = claimed.unwrap_or_else(|error| panic!("{name}, round {round}: {error}"));
            let mut flight = Flight::new(make(&file).unwrap());
            flight.push(Request::new(0, Work::Write(data.clone(), 0..1 << 20))).unwrap();
            flight.push(Request::new(4 * MIB, Work::Zero(1 << 20))).unwrap();
            flight.settle().unwrap();
        }
    }
}
