//! Stages of an installation on their own, for the bench: no installation can be faster than its slowest stage.

use crate::buffer::{Block, Buffer, Pool, Waited};
use crate::device::Device;
use crate::disk::Disk;
use crate::ends::Ends;
use crate::flight::bytes;
use crate::record::{ReadBack, Record};
use crate::write::Writer;
use std::{
    error::Error,
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt, FileTypeExt},
    path::Path,
    sync::{Arc, mpsc::sync_channel},
    thread,
};

/// As an installation has.
const BLOCK_BYTES: usize = 4 << 20;
const BLOCKS: usize = 8;
const HEAD_BYTES: usize = 1 << 20;

pub use crate::stream::decode;

#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// By threads even where there is io_uring.
    pub threads: bool,
    pub read_back: bool,
}

/// Writes a raw image to a disk, or over a file as large as one, and nothing else. Returns the image's size in bytes.
pub fn write(target: &Path, image: &Path, how: How) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let (disk, plain);
    let (file, size_bytes, sector_bytes) = if std::fs::metadata(target)?.file_type().is_block_device() {
        disk = Disk::open(target)?;
        (disk.file(), disk.geometry().size_bytes, disk.geometry().sector_bytes)
    } else {
        plain = OpenOptions::new().read(true).write(true).open(target)?;
        (&plain, plain.metadata()?.len(), 512)
    };
    let device = || if how.threads { Device::with_threads(file) } else { Device::new(file) };
    let sector = usize::try_from(sector_bytes)?;
    let source = File::open(image)?;
    let mut head = Buffer::new(HEAD_BYTES);
    source.read_exact_at(head.whole(), 0)?;
    head.set_len(HEAD_BYTES);

    let mut writer = Writer::new(device()?, target.to_owned(), size_bytes, sector_bytes);
    if how.read_back {
        writer.keep_record();
    }
    writer.begin(&Ends::cleared(size_bytes))?;
    let pool = Arc::new(Pool::new(BLOCKS));
    let stock = pool.clone();
    let (send, blocks) = sync_channel(BLOCKS);
    let reader = thread::spawn(move || -> std::io::Result<()> {
        let mut offset = bytes(HEAD_BYTES);
        while let Some(mut data) = stock.take(|| Buffer::new(BLOCK_BYTES), &Waited::default()) {
            let len = read_full(&source, data.whole(), offset)?;
            data.set_len(len);
            if len == 0 || send.send(Block { offset, data }).is_err() {
                break;
            }
            offset = offset.saturating_add(bytes(len));
        }
        Ok(())
    });
    loop {
        while let Some(buffer) = writer.freed() {
            pool.give(buffer);
        }
        match blocks.try_recv() {
            Ok(block) => writer.block(block, sector)?,
            Err(_) if !writer.is_idle() => writer.wait()?,
            Err(_) => match blocks.recv() {
                Ok(block) => writer.block(block, sector)?,
                Err(_) => break,
            },
        }
    }
    reader.join().map_err(|_| "the reading thread panicked")??;
    writer.sync()?;
    let written = writer.written();
    let (ends, record) = writer.into_ends(head);
    if let Some(record) = record {
        ReadBack::new(device()?, target.to_owned(), record).finish()?;
    }
    Writer::new(device()?, target.to_owned(), size_bytes, sector_bytes).finish(&ends)?;
    if how.read_back {
        ReadBack::new(device()?, target.to_owned(), Record::ends(&ends)).finish()?;
    }
    Ok(written)
}

fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut len = 0;
    while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(bytes(len))) {
            Ok(0) => break,
            Ok(count) => len = len.saturating_add(count),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Whether all of `data` is zero, as the writer finds out: for its speed.
pub fn is_zero(data: &[u8]) -> bool {
    crate::zeros::is_zero(data)
}

/// What the writer hashes with: for its speed.
pub fn hash(data: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(data)
}
