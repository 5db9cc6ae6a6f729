//! The minimal ISO of a full one that does not describe it ([`crate::miniso`]): the root file system is cut out, what follows it moves
//! up, and the kernel arguments say where to fetch it (docs/compatibility.md#minimal-iso).
//!
//! Everything else stays as it is, also the tables that make the ISO boot from a stick. Files that grow are put behind the others, and
//! their directory records point there. The same ISO and URL make the same bytes.

mod error;
mod menus;
mod pointers;
mod sectors;
#[cfg(test)]
mod tests;

use crate::bake::partitions::Tables;
use crate::bake::splice::{self, Piece};
use crate::embed;
use crate::iso9660::{Extent, Iso, IsoError, SECTOR_BYTES, Tree};
use crate::kargs::{self, Edit, Kargs, KargsError};
pub use error::CutError;
use menus::LIVE_ISO;
use pointers::{Hole, Pointers, both};
use sectors::Sectors;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

/// What a minimal ISO leaves out.
const ROOTFS: &str = "images/pxeboot/rootfs.img";
/// IBM Z boots this copy of kernel, initrd and arguments.
const IBM_Z_BOOT: &str = "images/cdboot.img";
/// What UEFI boots, a FAT.
const EFI_BOOT: &str = "images/efiboot.img";
const MAX_EFI_BOOT_BYTES: u64 = 256 << 20;
/// What the embed area gets beyond its length: room for networks and proxies, which the initramfs needs.
const MORE_ROOM_BYTES: u64 = 1 << 20;
/// What a URL may have beside letters and digits: nothing that GRUB's or the kernel's parser reads as more than itself.
const URL_MARKS: &str = "-._~:/?#[]@!*+,=%";

/// A file that takes the place of another.
struct Replacement {
    was: Extent,
    content: Content,
}

enum Content {
    Bytes(Vec<u8>),
    Zeros(u64),
}

impl Content {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::Zeros(len) => *len,
        }
    }
}

/// Writes the minimal ISO of the full one at `path` to `out`, which is empty; it fetches its root file system from `rootfs_url`.
pub fn write(path: &Path, rootfs_url: &str, out: &mut File) -> Result<(), CutError> {
    let unreadable = |source| CutError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let unfit = |what: &str| CutError::Base { path: path.to_owned(), what: what.to_owned() };
    if let Some(bad) = rootfs_url.chars().find(|c| !c.is_ascii_alphanumeric() && !URL_MARKS.contains(*c)) {
        return Err(unfit(&format!(
            "boot loaders read {bad:?} in the URL of its root file system as more than a character"
        )));
    }
    let mut iso = Iso::open(BufReader::new(&file))?;
    let Some(rootfs) = iso.find_optional(ROOTFS)? else {
        return Err(unfit(&format!("it has no {ROOTFS}, so it is not a full CoreOS-style live ISO")));
    };
    if iso.find_optional(IBM_Z_BOOT)?.is_some() {
        return Err(unfit("it boots IBM Z, whose loader has a fixed kernel command line: use image_type full-iso"));
    }
    if let Some(boot) = iso.find_optional(EFI_BOOT)? {
        let bytes = iso.read_file(EFI_BOOT, MAX_EFI_BOOT_BYTES.min(boot.len))?;
        if bytes.windows(LIVE_ISO.len()).any(|window| window == LIVE_ISO.as_bytes()) {
            return Err(unfit(&format!("{EFI_BOOT} has its own boot menu with {LIVE_ISO}: use image_type full-iso")));
        }
    }
    let hole = Hole::of(rootfs);
    let mut sectors = Sectors::new(path, &file);
    let replacements = plan(&mut iso, &mut sectors, rootfs_url)?
        .ok_or_else(|| unfit("it has no boot menu with the kernel arguments of CoreOS"))?;

    let trees = iso.trees()?;
    let places = find(&mut iso, &trees, &replacements)?;
    let mut pointers = Pointers::new(&mut sectors, hole);
    pointers.move_all(&mut iso, &trees)?;
    let dropped = pointers.dropped;

    // As baking does it: behind the last byte, whole sectors.
    let rest = hole.end().min(iso.len());
    let moved_len = hole.start() + (iso.len() - rest);
    let start = moved_len.next_multiple_of(SECTOR_BYTES);
    let mut behind = vec![Piece::Zeros(start - moved_len)];
    let mut end = start;
    for (Replacement { content, .. }, places) in replacements.into_iter().zip(places) {
        let (len, address) = (content.len(), end / SECTOR_BYTES);
        let (Ok(length), Ok(address)) = (u32::try_from(len), u32::try_from(address)) else {
            return Err(unfit("the result exceeds the limits of ISO 9660"));
        };
        for place in places {
            sectors.write(place + 2, &[both(address), both(length)].concat());
        }
        behind.push(match content {
            Content::Bytes(bytes) => Piece::Bytes(bytes),
            Content::Zeros(len) => Piece::Zeros(len),
        });
        let next = (end + len).next_multiple_of(SECTOR_BYTES);
        behind.push(Piece::Zeros(next - end - len));
        end = next;
    }
    for offset in dropped.into_iter().rev() {
        remove_record(&mut sectors, offset)?;
    }
    let volume = u32::try_from(end / SECTOR_BYTES).map_err(|_| unfit("the result exceeds the limits of ISO 9660"))?;
    for tree in &trees {
        sectors.write(tree.descriptor + 80, &both(volume));
    }
    let mut tables = Tables::read(iso.len(), |offset, len| sectors.read(offset, len).ok());
    let mut patches = tables.shift(|block| hole.block(block));
    let len = (end + tables.tail_bytes()).next_multiple_of(SECTOR_BYTES);
    let (grown, tail) = tables.grow(end, len);
    patches.extend(grown);
    patches.iter().for_each(|patch| sectors.write(patch.offset, &patch.bytes));

    let mut pieces = sectors.pieces(0, hole.start());
    pieces.extend(sectors.pieces(rest, iso.len()));
    pieces.append(&mut behind);
    let tail_bytes = u64::try_from(tail.len()).unwrap_or_default();
    pieces.push(Piece::Zeros(len - end - tail_bytes));
    pieces.push(Piece::Bytes(tail));
    splice::copy(&pieces, out).map_err(CutError::Write)
}

/// What grows or changes beside the places of files: kernel arguments and the embed area. `None` if no boot menu is found.
fn plan<R: Read + Seek>(
    iso: &mut Iso<R>,
    sectors: &mut Sectors<'_>,
    rootfs_url: &str,
) -> Result<Option<Vec<Replacement>>, CutError> {
    let area = embed::locate(iso)?.extent;
    let room = Content::Zeros(area.len + MORE_ROOM_BYTES);
    let mut replacements = vec![Replacement { was: area, content: room }];
    let argument = format!("coreos.live.rootfs_url={rootfs_url}");
    let edit = |arguments: &str| {
        let old = arguments.split_ascii_whitespace().filter(|argument| argument.starts_with(LIVE_ISO));
        let edit = Edit { delete: old.map(str::to_owned).collect(), append: vec![argument.clone()], ..Edit::default() };
        edit.apply(arguments).map_err(KargsError::from)
    };
    let Some(kargs) = Kargs::find(iso)? else {
        let found = menus::find(iso, &argument)?;
        let is_empty = found.is_empty();
        let longer = found.into_iter().map(|(was, text)| Replacement { was, content: Content::Bytes(text) });
        replacements.extend(longer);
        return Ok((!is_empty).then_some(replacements));
    };
    for patch in kargs.patches(&edit(kargs.current())?)? {
        sectors.write(patch.offset, &patch.bytes);
    }
    // A reset must not lead back to arguments that boot nothing.
    let default = edit(kargs.default_arguments())?;
    if let Some((was, text)) = kargs::with_default(iso, &default)? {
        replacements.push(Replacement { was, content: Content::Bytes(text) });
    }
    Ok(Some(replacements))
}

/// The directory records of each replaced file. An area that is only a part of a file has none, and stays as it is.
fn find<R: Read + Seek>(
    iso: &mut Iso<R>,
    trees: &[Tree],
    replacements: &[Replacement],
) -> Result<Vec<Vec<u64>>, IsoError> {
    let mut all = Vec::new();
    for replacement in replacements {
        let mut places = Vec::new();
        for tree in trees {
            places.extend(iso.places(tree, replacement.was)?);
        }
        all.push(places);
    }
    Ok(all)
}

/// Takes a record out of its directory's sector.
fn remove_record(sectors: &mut Sectors<'_>, offset: u64) -> Result<(), CutError> {
    let start = offset / SECTOR_BYTES * SECTOR_BYTES;
    let old = sectors.read(start, SECTOR_BYTES)?;
    let at = usize::try_from(offset - start).unwrap_or(usize::MAX);
    let (before, rest) = old.split_at(at.min(old.len()));
    let len = rest.first().map_or(0, |len| usize::from(*len));
    let mut new = before.to_vec();
    new.extend_from_slice(rest.get(len..).unwrap_or_default());
    new.resize(old.len(), 0);
    sectors.write(start, &new);
    Ok(())
}
