//! Whether a download is the live ISO it should be.

use crate::media::{LiveIso, MediaError};
use crate::media_probe;
use crate::releases::OsImage;
use rootfs_overlay::iso9660::{Descriptor, Iso, IsoError};
use std::{
    fs::File,
    io::{self, BufReader},
    path::Path,
};

/// What a live system cannot be started without: one file of each list.
const NEEDED: [&[&str]; 2] =
    [&["images/pxeboot/vmlinuz", "images/pxeboot/kernel.img", "images/kernel.img"], &["images/pxeboot/rootfs.img"]];
/// Names of CoreOS's volumes begin so.
const VOLUMES: [&str; 3] = ["rhcos-", "fedora-coreos-", "scos-"];

/// Why it is not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error("cannot read {0}")]
    Read(String, #[source] io::Error),
    #[error("it is not an ISO")]
    NotIso,
    #[error("cannot read the files in the ISO")]
    Inside(#[source] IsoError),
    #[error("the ISO has no {0}")]
    Lacks(String),
    #[error("{file} in the ISO ends at byte {end}, but the ISO has {len}")]
    Beyond { file: String, end: u64, len: u64 },
    #[error(transparent)]
    Media(#[from] MediaError),
}

/// The ISO at `path`, if it is one for `image`.
pub(super) fn open(path: &Path, image: &OsImage) -> Result<LiveIso, CheckError> {
    let read = |source| CheckError::Read(path.display().to_string(), source);
    if !media_probe::is_iso(path).map_err(read)? {
        return Err(CheckError::NotIso);
    }
    let file = File::open(path).map_err(read)?;
    let len = file.metadata().map_err(read)?.len();
    let mut iso = Iso::open(BufReader::new(file)).map_err(CheckError::Inside)?;
    for descriptor in iso.descriptors() {
        if let Descriptor::Primary { volume_id, .. } = descriptor
            && !VOLUMES.iter().any(|start| volume_id.starts_with(start))
        {
            tracing::warn!(volume_id, version = image.version, "the OS image is not named like one of CoreOS");
        }
    }
    // An image with a service in it has its own rules for these.
    for alternatives in NEEDED.iter().filter(|_| !image.offline) {
        let mut found = None;
        for name in *alternatives {
            found = found.or(iso.find_optional(name).map_err(CheckError::Inside)?.map(|extent| (*name, extent.end())));
        }
        match found {
            None => return Err(CheckError::Lacks(alternatives.join(" or "))),
            Some((name, end)) if end > len => return Err(CheckError::Beyond { file: name.to_owned(), end, len }),
            Some(_) => {}
        }
    }
    Ok(LiveIso::of_image(path, image)?)
}
