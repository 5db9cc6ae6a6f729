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
        let mut is_there = false;
        for name in *alternatives {
            is_there |= iso.find_optional(name).map_err(CheckError::Inside)?.is_some();
        }
        if !is_there {
            return Err(CheckError::Lacks(alternatives.join(" or ")));
        }
    }
    Ok(LiveIso::of_image(path, image)?)
}
