//! Bakes into an ISO: the initrd is copied to the image's end, followed by the segment, and the directory records of the old one
//! point to the new one. Boot loaders' configurations need no change, as they all look files up by name.
//!
//! All bytes of the base stay in place, except for those records, the volume's length and the partition tables. The manifest holds
//! their old content, so that the base can be restored byte for byte.

use super::content::Content;
use super::manifest::{Change, ImageFacts, IsoBase, Manifest};
use super::os_image::{LIVE_PATH, OsImage, Slot};
use super::partitions::Tables;
use super::program::Machine;
use super::segment::{self, Found, WINDOW_BYTES};
use super::splice::{Piece, patched};
use super::{BakeError, manifest};
use crate::iso9660::{Extent, Iso, SECTOR_BYTES};
use crate::patched::{Patch, PatchedImage, Reader};
use kernel::order;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

const INITRD: &str = "images/pxeboot/initrd.img";
const KERNEL: &str = "images/pxeboot/vmlinuz";
/// IBM Z boots this copy of kernel and initrd, not the files.
const IBM_Z_BOOT: &str = "images/cdboot.img";
/// Bytes of a kernel that show its processor.
const KERNEL_START_BYTES: u64 = 64 << 10;

/// The processor of the kernel in the live ISO at `path`, if known.
pub fn processor(path: &Path) -> Result<Option<Machine>, BakeError> {
    let failed = |source| BakeError::iso(path, source);
    let file = File::open(path).map_err(|source| BakeError::Read { path: path.to_owned(), source })?;
    let mut iso = Iso::open(BufReader::new(file)).map_err(failed)?;
    let kernel = kernel_start(&mut iso).map_err(failed)?;
    let machine = kernel.as_deref().and_then(Machine::of_start);
    // Kernels of IBM Z have no mark; its ISOs have a file that no others have.
    let is_ibm_z = machine.is_none() && iso.find_optional(IBM_Z_BOOT).map_err(failed)?.is_some();
    Ok(if is_ibm_z { Some(Machine::S390x) } else { machine })
}

fn kernel_start<R: std::io::Read + std::io::Seek>(
    iso: &mut Iso<R>,
) -> Result<Option<Vec<u8>>, crate::iso9660::IsoError> {
    let Some(kernel) = iso.find_optional(KERNEL)? else { return Ok(None) };
    iso.read(Extent { len: kernel.len.min(KERNEL_START_BYTES), ..kernel }).map(Some)
}

/// An ISO, baked or not.
#[derive(Debug)]
pub struct IsoFile {
    path: PathBuf,
    file: File,
    found: Option<Found>,
    /// As before anything was baked in.
    base: PatchedImage,
    /// Restores that from the file's first bytes.
    undo: Vec<Patch>,
}

impl IsoFile {
    /// Looks into the image at `path`.
    pub fn open(path: &Path) -> Result<Self, BakeError> {
        let failed = |source| BakeError::iso(path, source);
        let unreadable = |source| BakeError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let mut iso = Iso::open(BufReader::new(&file)).map_err(failed)?;
        let initrd = initrd(&mut iso, path)?;
        let window = initrd.len.min(WINDOW_BYTES);
        let tail = iso.read(Extent { offset: initrd.end() - window, len: window }).map_err(failed)?;
        let found = segment::find(&tail, initrd.len - window)?;
        let mut undo = Vec::new();
        let mut len = u64::MAX;
        if let Some(iso) = found.as_ref().and_then(|found| found.manifest.iso.as_ref()) {
            let damaged = segment::SegmentError::Damaged { what: "the bytes to restore are not hexadecimal" };
            undo = iso.undo.iter().map(Change::patch).collect::<Option<_>>().ok_or(damaged)?;
            order::sort_by_key(&mut undo, |patch| patch.offset);
            len = iso.bytes;
        }
        let base = PatchedImage::prefix(path, len, undo.clone())?;
        Ok(Self { path: path.to_owned(), file, found, base, undo })
    }

    /// What is baked in.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.found.as_ref().map(|found| &found.manifest)
    }

    /// Length of the image before anything was baked in.
    pub fn base_bytes(&self) -> u64 {
        self.base.len()
    }

    /// The original image.
    pub fn removed(&self) -> Result<Vec<Piece<'_>>, BakeError> {
        if self.manifest().is_none_or(|manifest| manifest.iso.is_none()) {
            return Err(BakeError::Absent { path: self.path.clone() });
        }
        Ok(patched(&self.file, self.base.len(), self.undo.clone()))
    }

    /// The image with `content` in it and `image` beside it, which replace what was baked in before.
    pub fn baked<'a>(&'a self, content: &Content, image: Option<&'a OsImage>) -> Result<Vec<Piece<'a>>, BakeError> {
        let failed = |source| BakeError::iso(&self.path, source);
        let mut iso = Iso::open(BufReader::new(self.base.reader())).map_err(failed)?;
        let initrd = self.check(&mut iso, content)?;
        let mut places = Vec::new();
        let mut descriptors = Vec::new();
        let mut slots = Vec::new();
        for tree in iso.trees().map_err(failed)? {
            let found = iso.places(&tree, initrd).map_err(failed)?;
            if let (Some(_), Some(template)) = (image, found.first()) {
                let slot = Slot::find(&mut iso, &tree, *template).map_err(failed)?;
                let slot = slot.map_err(|what| self.no(&format!("cannot add the OS image: {what}")))?;
                slots.push(slot);
            }
            places.extend(found);
            descriptors.push(tree.descriptor);
        }
        order::sort(&mut places);
        places.dedup();
        let tables = Tables::read(self.base.len(), |offset, len| self.bytes(offset, len));
        let image_len = image.map_or(0, |image| image.len);
        let layout = Layout { base_bytes: self.base.len(), places, descriptors, tables, slots, image_len };

        // The changed places don't depend on where things go, so their old content is known beforehand.
        let (patches, _) = layout.changes(self, 0)?;
        let undo = patches.iter().map(|patch| {
            let len = u64::try_from(patch.bytes.len()).unwrap_or_default();
            let bytes =
                self.bytes(patch.offset, len).ok_or_else(|| self.no("it ends before the end of its records"))?;
            Ok(Change::undoing(&Patch { offset: patch.offset, bytes }))
        });
        let before = IsoBase { bytes: self.base.len(), undo: undo.collect::<Result<_, BakeError>>()? };
        let facts = image.map(|image| ImageFacts { path: LIVE_PATH.to_owned(), bytes: image.len.into() });
        let archive = segment::config_archive(&content.config()?)?;
        let segment = segment::pack(&archive, &manifest(content, initrd.len, facts, Some(before)))?;
        let initrd_bytes = initrd.len + u64::try_from(segment.len()).unwrap_or(u64::MAX >> 1);
        let (patches, tail) = layout.changes(self, initrd_bytes)?;
        let mut pieces = patched(&self.file, self.base.len(), over(&self.undo, &patches));
        pieces.push(Piece::Zeros(layout.start() - self.base.len()));
        pieces.extend(self.part(initrd)?);
        pieces.push(Piece::Bytes(segment));
        let mut end = layout.start() + initrd_bytes;
        if let Some(OsImage { file, len }) = image {
            let start = layout.image_start(initrd_bytes);
            pieces.push(Piece::Zeros(start - end));
            pieces.push(Piece::Copy { file, offset: 0, len: (*len).into() });
            end = start + u64::from(*len);
        }
        let tail_bytes = u64::try_from(tail.len()).unwrap_or_default();
        pieces.push(Piece::Zeros(layout.len(initrd_bytes) - tail_bytes - end));
        pieces.push(Piece::Bytes(tail));
        Ok(pieces)
    }

    /// Where the initrd is, if `content` can be baked into the image.
    fn check(&self, iso: &mut Iso<BufReader<Reader<'_>>>, content: &Content) -> Result<Extent, BakeError> {
        let failed = |source| BakeError::iso(&self.path, source);
        if iso.find_optional(IBM_Z_BOOT).map_err(failed)?.is_some() {
            return Err(self.no(
                "it boots IBM Z from images/cdboot.img, which contains a copy of the initrd: extract images/initrd.img \
                 and use `pxe bake`",
            ));
        }
        if let Some(start) = kernel_start(iso).map_err(failed)? {
            content.check_machine(Machine::of_start(&start))?;
        }
        initrd(iso, &self.path)
    }

    /// Bytes of the base; `None` if it has fewer.
    fn bytes(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        let mut at = 0;
        while at < bytes.len() {
            let position = offset.checked_add(u64::try_from(at).ok()?)?;
            match self.base.read_at(position, &mut bytes[at..]).ok()? {
                0 => return None,
                count => at += count,
            }
        }
        Some(bytes)
    }

    /// A part of the base that no change touches.
    fn part(&self, extent: Extent) -> Result<Option<Piece<'_>>, BakeError> {
        let Extent { offset, len } = extent;
        let end = extent.end();
        let is_changed = self.undo.iter().any(|patch| {
            patch.offset < end && patch.offset + u64::try_from(patch.bytes.len()).unwrap_or_default() > offset
        });
        if is_changed {
            return Err(self.no("a change recorded by baking overlaps its initrd: the image is damaged"));
        }
        Ok(Some(Piece::Copy { file: &self.file, offset, len }))
    }

    fn no(&self, what: &str) -> BakeError {
        BakeError::Base { path: self.path.clone(), what: what.to_owned() }
    }
}

fn initrd<R: std::io::Read + std::io::Seek>(iso: &mut Iso<R>, path: &Path) -> Result<Extent, BakeError> {
    match iso.find(INITRD) {
        Ok(extent) => Ok(extent),
        Err(error) if error.is_absence() => Err(BakeError::Base {
            path: path.to_owned(),
            what: format!("it has no {INITRD}, so it is not a CoreOS-style live ISO"),
        }),
        Err(source) => Err(BakeError::iso(path, source)),
    }
}

struct Layout {
    base_bytes: u64,
    places: Vec<u64>,
    descriptors: Vec<u64>,
    tables: Tables,
    /// For the OS image's records.
    slots: Vec<Slot>,
    image_len: u32,
}

impl Layout {
    /// Start of the new initrd.
    fn start(&self) -> u64 {
        self.base_bytes.next_multiple_of(SECTOR_BYTES)
    }

    /// Start of the OS image.
    fn image_start(&self, initrd_bytes: u64) -> u64 {
        (self.start() + initrd_bytes).next_multiple_of(SECTOR_BYTES)
    }

    fn volume_end(&self, initrd_bytes: u64) -> u64 {
        (self.image_start(initrd_bytes) + u64::from(self.image_len)).next_multiple_of(SECTOR_BYTES)
    }

    /// Length of the image.
    fn len(&self, initrd_bytes: u64) -> u64 {
        (self.volume_end(initrd_bytes) + self.tables.tail_bytes()).next_multiple_of(SECTOR_BYTES)
    }

    /// The changes of the base for a new initrd of this size, sorted, and what comes last. Places and lengths of the changes don't
    /// depend on the size.
    fn changes(&self, iso: &IsoFile, initrd_bytes: u64) -> Result<(Vec<Patch>, Vec<u8>), BakeError> {
        let sector = |offset: u64| u32::try_from(offset / SECTOR_BYTES).ok();
        let numbers = (sector(self.start()), u32::try_from(initrd_bytes).ok(), sector(self.volume_end(initrd_bytes)));
        let (Some(address), Some(length), Some(sectors)) = numbers else {
            return Err(iso.no("the result exceeds the limits of ISO 9660 (4 GiB for the initrd, 8 TiB for the image)"));
        };
        let (mut patches, tail) = self.tables.grow(self.volume_end(initrd_bytes), self.len(initrd_bytes));
        for place in &self.places {
            let bytes = [both(address), both(length)].concat();
            patches.push(Patch { offset: place + 2, bytes });
        }
        let image_start = sector(self.image_start(initrd_bytes)).unwrap_or_default();
        patches.extend(self.slots.iter().map(|slot| slot.patch(both(image_start), both(self.image_len))));
        for descriptor in &self.descriptors {
            patches.push(Patch { offset: descriptor + 80, bytes: both(sectors).to_vec() });
        }
        order::sort_by_key(&mut patches, |patch| patch.offset);
        let overlap = patches.windows(2).any(|pair| match pair {
            [a, b] => a.offset + u64::try_from(a.bytes.len()).unwrap_or_default() > b.offset,
            _ => false,
        });
        if overlap {
            return Err(iso.no("its directories and partition tables overlap"));
        }
        Ok((patches, tail))
    }
}

/// A number in both byte orders (ECMA-119 §7.3.3).
fn both(number: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// One set of patches over another.
fn over(below: &[Patch], above: &[Patch]) -> Vec<Patch> {
    let mut bytes = BTreeMap::new();
    for patch in below.iter().chain(above) {
        for (offset, byte) in (patch.offset..).zip(&patch.bytes) {
            bytes.insert(offset, *byte);
        }
    }
    let mut patches: Vec<Patch> = Vec::new();
    for (offset, byte) in bytes {
        match patches.last_mut() {
            Some(last) if last.offset + u64::try_from(last.bytes.len()).unwrap_or_default() == offset => {
                last.bytes.push(byte);
            }
            _ => patches.push(Patch { offset, bytes: vec![byte] }),
        }
    }
    patches
}
