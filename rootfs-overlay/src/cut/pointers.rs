//! Every number in an ISO that says where something is, after the sectors of one file are gone: volume descriptors, path tables,
//! directories with their Rock Ridge attributes (SUSP 1.12), El Torito, what boot loaders were patched with, and the headers of older
//! CoreOS images.

use super::error::CutError;
use super::sectors::Sectors;
use crate::iso9660::{Extent, Iso, IsoError, SECTOR_BYTES, Tree};
use kernel::bytes::{be32, le32, le64};
use kernel::order::Gather;
use std::collections::BTreeSet;
use std::io::{Read, Seek};
use std::iter;

const FIRST_DESCRIPTOR: u64 = 16;
/// Blocks of disks in a sector.
const BLOCKS: u64 = 4;
const MAX_PATH_TABLE_BYTES: u32 = 4 << 20;
/// An image that boots (El Torito 1.0, figure 3).
const BOOTABLE: u8 = 0x88;
/// Where isohybrid and GRUB have the first block of a boot image in the master boot record, and GRUB in its boot image.
const MBR_BOOT_BLOCK: u64 = 432;
const GRUB_BOOT_BLOCK: u64 = 2548;
/// `coreKarg` and `coreiso+`: offset, and the first and last byte of the numbers that are offsets.
const HEADERS: [(u64, &[u8], std::ops::Range<usize>); 2] =
    [(32_672, b"coreKarg", 16..72), (32_744, b"coreiso+", 8..16)];

/// The sectors that are left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    first: u64,
    end: u64,
}

impl Hole {
    pub(super) fn of(file: Extent) -> Self {
        Self { first: file.offset / SECTOR_BYTES, end: file.end().div_ceil(SECTOR_BYTES) }
    }

    pub(super) fn start(&self) -> u64 {
        self.first * SECTOR_BYTES
    }

    pub(super) fn end(&self) -> u64 {
        self.end * SECTOR_BYTES
    }

    fn contains(&self, sector: u64) -> bool {
        (self.first..self.end).contains(&sector)
    }

    /// Where a sector is without the hole; one in it is where the hole was.
    fn sector(&self, old: u64) -> u64 {
        old.min(self.first).max(old.saturating_sub(self.end - self.first))
    }

    /// The same for a disk's block.
    pub(super) fn block(&self, old: u64) -> u64 {
        old.min(self.first * BLOCKS).max(old.saturating_sub((self.end - self.first) * BLOCKS))
    }
}

#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
    Both,
}

pub(super) struct Pointers<'a, 'b> {
    sectors: &'a mut Sectors<'b>,
    hole: Hole,
    /// Offsets of what was changed: several descriptors and records lead to the same table.
    seen: BTreeSet<u64>,
    /// Offsets of the records of what is left out.
    pub(super) dropped: BTreeSet<u64>,
}

impl<'a, 'b> Pointers<'a, 'b> {
    pub(super) fn new(sectors: &'a mut Sectors<'b>, hole: Hole) -> Self {
        Self { sectors, hole, seen: BTreeSet::new(), dropped: BTreeSet::new() }
    }

    pub(super) fn move_all<R: Read + Seek>(&mut self, iso: &mut Iso<R>, trees: &[Tree]) -> Result<(), CutError> {
        for (sector, _) in (FIRST_DESCRIPTOR..).zip(iso.descriptors()) {
            self.descriptor(sector * SECTOR_BYTES)?;
        }
        for tree in trees {
            self.directories(iso, tree)?;
        }
        self.headers()
    }

    /// Changes the sector number at `offset`; returns what it was, unless it was seen before.
    fn number(&mut self, offset: u64, order: Order) -> Result<Option<u32>, CutError> {
        if !self.seen.insert(offset) {
            return Ok(None);
        }
        let bytes = self.sectors.read(offset, 4)?;
        let big = matches!(order, Order::Big);
        let old = if big { be32(&bytes, 0) } else { le32(&bytes, 0) }.unwrap_or_default();
        if self.hole.contains(old.into()) {
            return Err(IsoError::Directory { offset }.into());
        }
        let new = u32::try_from(self.hole.sector(old.into())).unwrap_or(old);
        match order {
            Order::Little => self.sectors.write(offset, &new.to_le_bytes()),
            Order::Big => self.sectors.write(offset, &new.to_be_bytes()),
            Order::Both => self.sectors.write(offset, &both(new)),
        }
        Ok(Some(old))
    }

    fn descriptor(&mut self, offset: u64) -> Result<(), CutError> {
        let bytes = self.sectors.read(offset, SECTOR_BYTES)?;
        match bytes.first() {
            Some(0) if bytes.get(7..30) == Some(b"EL TORITO SPECIFICATION") => {
                if let Some(catalog) = self.number(offset + 71, Order::Little)? {
                    self.boot_catalog(u64::from(catalog) * SECTOR_BYTES)?;
                }
            }
            Some(1 | 2) => {
                let len = le32(&bytes, 132).unwrap_or_default().min(MAX_PATH_TABLE_BYTES);
                for (at, order) in [(140, Order::Little), (144, Order::Little), (148, Order::Big), (152, Order::Big)] {
                    if let Some(table @ 1..) = self.number(offset + at, order)? {
                        self.path_table(u64::from(table) * SECTOR_BYTES, len, order)?;
                    }
                }
                self.number(offset + 158, Order::Both)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// ECMA-119 §9.4.
    fn path_table(&mut self, offset: u64, len: u32, order: Order) -> Result<(), CutError> {
        let bytes = self.sectors.read(offset, len.into())?;
        let mut at = 0;
        while let Some(name_len) = usize::try_from(at).ok().and_then(|at| bytes.get(at)).filter(|len| **len > 0) {
            self.number(offset + at + 2, order)?;
            at += (8 + u64::from(*name_len)).next_multiple_of(2);
        }
        Ok(())
    }

    fn directories<R: Read + Seek>(&mut self, iso: &mut Iso<R>, tree: &Tree) -> Result<(), CutError> {
        let mut open = vec![tree.root.clone()];
        let mut seen: BTreeSet<_> = iter::once(tree.root.address).gather();
        while let Some(directory) = open.pop() {
            for (offset, record) in iso.records(&directory)? {
                let extent = record.extent();
                if record.is_directory && seen.insert(record.address) {
                    open.push(record.directory());
                }
                let is_inside = self.hole.contains(record.address.into());
                if extent.len > 0 && !is_inside && extent.offset < self.hole.start() && extent.end() > self.hole.start()
                {
                    return Err(IsoError::Directory { offset }.into());
                }
                if is_inside && !record.is_directory {
                    if extent.len > 0 {
                        self.dropped.insert(offset);
                        continue;
                    }
                    // An empty file may be anywhere.
                    self.sectors.write(offset + 2, &both(0));
                }
                self.number(offset + 2, Order::Both)?;
                if !tree.is_joliet {
                    self.attributes(offset)?;
                }
            }
        }
        Ok(())
    }

    /// Of the record at `offset`: what continues elsewhere, and directories that were moved because they are deep.
    fn attributes(&mut self, offset: u64) -> Result<(), CutError> {
        let head = self.sectors.read(offset, 33)?;
        let (len, name_len) = (head.first().copied().unwrap_or(0), head.get(32).copied().unwrap_or(0));
        let before = (33 + u64::from(name_len)).next_multiple_of(2);
        let mut areas = vec![(offset + before, u64::from(len).saturating_sub(before))];
        while let Some((offset, len)) = areas.pop() {
            let bytes = self.sectors.read(offset, len)?;
            let mut at = 0;
            while let Some([a, b, length @ 4..=255, _]) = kernel::bytes::array::<4>(&bytes, at) {
                let place = offset + u64::try_from(at).unwrap_or_default() + 4;
                let number = |at_entry| le32(&bytes, at + at_entry).map(u64::from).unwrap_or_default();
                match &[a, b] {
                    b"CE" if length >= 28 => {
                        if let Some(block) = self.number(place, Order::Both)? {
                            let start = u64::from(block) * SECTOR_BYTES + number(12);
                            areas.push((start, number(20).min(SECTOR_BYTES)));
                        }
                    }
                    b"CL" | b"PL" if length >= 12 => drop(self.number(place, Order::Both)?),
                    _ => {}
                }
                at += usize::from(length);
            }
        }
        Ok(())
    }

    /// The images that boot, and the boot loaders in them that know where they are.
    fn boot_catalog(&mut self, offset: u64) -> Result<(), CutError> {
        let catalog = self.sectors.read(offset, SECTOR_BYTES)?;
        for (at, entry) in (offset..).step_by(32).zip(catalog.chunks(32)).skip(1) {
            if entry.first() != Some(&BOOTABLE) {
                continue;
            }
            let Some(old) = self.number(at + 8, Order::Little)? else { continue };
            let (old, new) = (u64::from(old), self.hole.sector(old.into()));
            let image = old * SECTOR_BYTES;
            // The boot information table (isolinux and GRUB): the volume's descriptor, then the image itself.
            let Ok(table) = self.sectors.read(image + 8, 8) else { continue };
            if (le32(&table, 0), le32(&table, 4).map(u64::from)) == (Some(16), Some(old)) {
                self.sectors.write(image + 12, &new.to_le_bytes()[..4]);
            }
            for (place, added) in [(image + GRUB_BOOT_BLOCK, 5), (MBR_BOOT_BLOCK, 4), (MBR_BOOT_BLOCK, 0)] {
                let known = self.sectors.read(place, 8).ok().and_then(|bytes| le64(&bytes, 0));
                if known == Some(old * BLOCKS + added) && self.seen.insert(place) {
                    self.sectors.write(place, &(new * BLOCKS + added).to_le_bytes());
                }
            }
        }
        Ok(())
    }

    fn headers(&mut self) -> Result<(), CutError> {
        for (offset, magic, numbers) in HEADERS {
            let len = u64::try_from(numbers.end).unwrap_or_default();
            let header = self.sectors.read(offset, len)?;
            if !header.starts_with(magic) {
                continue;
            }
            for at in numbers.step_by(8) {
                let old = le64(&header, at).unwrap_or_default();
                let new = self.hole.sector(old / SECTOR_BYTES) * SECTOR_BYTES + old % SECTOR_BYTES;
                self.sectors.write(offset + u64::try_from(at).unwrap_or_default(), &new.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// A number in both byte orders (ECMA-119 §7.3.3).
pub(super) fn both(number: u32) -> [u8; 8] {
    (u64::from(number.swap_bytes()) << 32 | u64::from(number)).to_le_bytes()
}
