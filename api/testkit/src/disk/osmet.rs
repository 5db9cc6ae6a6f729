//! Makes osmet files, for tests.

use sha2::{Digest, Sha256};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

/// A number as bincode writes it.
pub fn number(value: u64) -> Vec<u8> {
    let all = value.to_le_bytes();
    match value {
        0..=250 => all[..1].to_vec(),
        251..=0xFFFF => [&[251], &all[..2]].concat(),
        0x1_0000..=0xFFFF_FFFF => [&[252], &all[..4]].concat(),
        _ => [&[253], &all[..]].concat(),
    }
}

pub fn text(text: &str) -> Vec<u8> {
    [number(text.len().try_into().unwrap()), text.as_bytes().to_vec()].concat()
}

pub fn header(sector_bytes: u32, description: &str, architecture: &str) -> Vec<u8> {
    let start = [&b"OSMET\0\0\0"[..], &[1]].concat();
    [start, text("0.27.0"), number(sector_bytes.into()), text(description), text(architecture)].concat()
}

/// `len` bytes of the image at `start` are those of an object from `file_offset` on, zeros after its end.
#[derive(Clone, Debug)]
pub struct Extent {
    pub file_offset: u64,
    pub start: u64,
    pub len: u64,
    pub object: [u8; 32],
}

/// A partition from its first byte to the one after its last, with its extents in order.
pub type Partition = (u64, u64, Vec<Extent>);

pub fn index(partitions: &[Partition], sum: &[u8; 32], size_bytes: u64) -> Vec<u8> {
    let mut out = number(partitions.len().try_into().unwrap());
    for (start, end, extents) in partitions {
        out.extend([number(*start), number(*end), number(extents.len().try_into().unwrap())].concat());
        for extent in extents {
            out.extend([number(extent.file_offset), number(extent.start - start), number(extent.len)].concat());
            out.extend(extent.object);
        }
    }
    [out, sum.to_vec(), number(size_bytes)].concat()
}

/// What the extents leave of the image, as xz.
pub fn packed(image: &[u8], partitions: &[Partition]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    let mut at = 0;
    for extent in partitions.iter().flat_map(|(_, _, extents)| extents) {
        let start = usize::try_from(extent.start).unwrap();
        encoder.write_all(&image[at..start]).unwrap();
        at = start + usize::try_from(extent.len).unwrap();
    }
    encoder.write_all(&image[at..]).unwrap();
    encoder.finish().unwrap()
}

/// Puts a file into an ostree repository, under the sum of its content, which serves as well as ostree's.
pub fn add_object(repo: &Path, content: &[u8]) -> [u8; 32] {
    let sum: [u8; 32] = Sha256::digest(content).into();
    let path = object_path(repo, &sum);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    sum
}

pub fn object_path(repo: &Path, sum: &[u8; 32]) -> PathBuf {
    let name: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    repo.join("objects").join(&name[..2]).join(format!("{}.file", &name[2..]))
}

/// Writes an osmet file for `image`, for x86_64.
pub fn write(path: &Path, image: &[u8], sector_bytes: u32, partitions: &[Partition]) {
    let sum: [u8; 32] = Sha256::digest(image).into();
    let head = [header(sector_bytes, "Test OS 1", "x86_64"), index(partitions, &sum, image.len().try_into().unwrap())];
    fs::write(path, [head.concat(), packed(image, partitions)].concat()).unwrap();
}
