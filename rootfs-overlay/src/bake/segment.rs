//! The archives at an initrd's end: a compressed one with the Ignition config, then a small plain one with only the manifest, which
//! can be read without unpacking the initrd.
//!
//! The kernel unpacks consecutive archives, each from a multiple of four bytes on (buffer-format.rst). gzip, since every kernel with
//! an initramfs reads it, and xz gains nothing: most is base64 of compressed data, from which any compression removes the quarter
//! that base64 added, gzip in a tenth of the time.

use super::manifest::{Manifest, SCHEMA_VERSION};
use crate::initrd::{Archive, ArchiveError, Compression};
use kernel::newc;

/// The fragment that Ignition merges below the user's config. Configs embedded by `serve` and others therefore win.
const CONFIG_PATH: &str = "usr/lib/ignition/base.d/50-landfall.ign";
const MANIFEST_PATH: &str = "etc/landfall/baked.json";
/// A larger manifest is invalid: the undo data has a few KiB, a file 200 bytes.
const MAX_MANIFEST_BYTES: usize = 4 << 20;
/// How much of an initrd's end is searched, so that `pxe customize` may append more later.
pub(crate) const WINDOW_BYTES: u64 = 8 << 20;

/// Why a manifest can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error("cannot pack the overlay")]
    Pack(#[from] ArchiveError),
    /// It can't be written as JSON.
    #[error("cannot write the manifest")]
    Manifest(#[source] serde_json::Error),
    /// It isn't JSON of this form.
    #[error("cannot read the manifest of what was baked in ({MANIFEST_PATH} at the initrd's end)")]
    Unreadable(#[source] serde_json::Error),
    /// A later program wrote it.
    #[error(
        "a later Landfall baked it (manifest schema {found}; this program reads {SCHEMA_VERSION}): use that version"
    )]
    Later {
        /// Its schema.
        found: u64,
    },
    /// It is inconsistent.
    #[error("what was baked in is damaged: {what}")]
    Damaged { what: &'static str },
    /// It would not be found again.
    #[error("the manifest would have {bytes} bytes; the limit is {MAX_MANIFEST_BYTES}: bake in fewer files")]
    TooLarge { bytes: usize },
}

pub(crate) fn config_archive(config: &[u8]) -> Result<Vec<u8>, SegmentError> {
    let mut archive = Archive::new();
    archive.add(CONFIG_PATH, 0o600, config)?;
    Ok(archive.pack(Compression::Gzip)?)
}

/// All that follows an initrd of `manifest.initrd_bytes`.
pub fn pack(config_archive: &[u8], manifest: &Manifest) -> Result<Vec<u8>, SegmentError> {
    let lead = usize::try_from(manifest.initrd_bytes.next_multiple_of(4) - manifest.initrd_bytes).unwrap_or_default();
    let mut out = vec![0; lead];
    out.extend_from_slice(config_archive);
    // Padding starts after the lead, at a multiple of four.
    out.resize(lead + config_archive.len().next_multiple_of(4), 0);
    let json = serde_json::to_vec(manifest).map_err(SegmentError::Manifest)?;
    if json.len() > MAX_MANIFEST_BYTES {
        return Err(SegmentError::TooLarge { bytes: json.len() });
    }
    let mut archive = Archive::new();
    archive.add(MANIFEST_PATH, 0o600, json)?;
    out.extend_from_slice(&archive.to_cpio()?);
    Ok(out)
}

/// A segment in an initrd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub manifest: Manifest,
    /// The first byte of the initrd behind it.
    pub end: u64,
}

/// Looks for a segment in the last bytes of an initrd, which start at `offset` in it.
pub fn find(tail: &[u8], offset: u64) -> Result<Option<Found>, SegmentError> {
    let name = [MANIFEST_PATH.as_bytes(), b"\0"].concat();
    let Some(name_at) = tail.windows(name.len()).rposition(|window| window == name) else { return Ok(None) };
    let damaged = |what| SegmentError::Damaged { what };
    let header_at = name_at.checked_sub(newc::HEADER_BYTES).ok_or(damaged("its manifest's start is missing"))?;
    let header = tail.get(header_at..name_at).unwrap_or_default();
    let digits = header.get(54..62).and_then(|digits| std::str::from_utf8(digits).ok());
    let len = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let (true, Some(len)) = (header.starts_with(b"070701"), len.filter(|len| *len <= MAX_MANIFEST_BYTES)) else {
        return Err(damaged("its manifest has no header"));
    };
    let data_at = header_at + (newc::HEADER_BYTES + name.len()).next_multiple_of(4);
    let data_end = data_at + len;
    let json = tail.get(data_at..data_end).ok_or(damaged("its manifest is truncated"))?;
    let schema = serde_json::from_slice::<serde_json::Value>(json).map_err(SegmentError::Unreadable)?;
    match schema.get("schema_version").and_then(serde_json::Value::as_u64) {
        Some(found) if found == u64::from(SCHEMA_VERSION) => {}
        Some(found) => return Err(SegmentError::Later { found }),
        None => return Err(damaged("its manifest has no schema_version")),
    }
    let manifest: Manifest = serde_json::from_slice(json).map_err(SegmentError::Unreadable)?;
    let trailer_at = header_at + (data_end - header_at).next_multiple_of(4);
    let trailer_len = (newc::HEADER_BYTES + newc::TRAILER.len() + 1).next_multiple_of(4);
    let end = trailer_at + trailer_len;
    let trailer = tail.get(trailer_at + newc::HEADER_BYTES..end).ok_or(damaged("its end is missing"))?;
    if !trailer.starts_with(newc::TRAILER.as_bytes()) {
        return Err(damaged("it has no end"));
    }
    let position = |at: usize| u64::try_from(at).ok().and_then(|at| offset.checked_add(at));
    let (Some(start), Some(end)) = (position(header_at), position(end)) else {
        return Err(damaged("its end is out of range"));
    };
    if manifest.initrd_bytes >= start {
        return Err(damaged("its start is after its end"));
    }
    Ok(Some(Found { manifest, end }))
}
