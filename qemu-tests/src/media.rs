//! The live ISO and the OS images racks start from, with the `landfall` under test inside.

use crate::{
    images::{Compression, LiveIso, SectorSize, live_iso, metal_image},
    service,
};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Files of the live host, and where the program goes there.
const OVERLAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rootfs-overlay/overlay");
const PROGRAM: &str = "usr/bin/landfall";

/// A live ISO that starts the agent. Built unless there is one of the same inputs.
pub fn agent_iso() -> Result<PathBuf> {
    let files = vec![(PROGRAM.to_owned(), service::binary()?)];
    let overlays = vec![Path::new(OVERLAY).to_owned()];
    live_iso(&LiveIso { overlays, files, ..LiveIso::default() }).context("building the live ISO")
}

/// An OS image. Built unless there is one of the same inputs.
pub fn os_image(sector: SectorSize, compression: Compression) -> Result<PathBuf> {
    metal_image(sector, compression).with_context(|| format!("building the OS image ({sector:?}, {compression:?})"))
}
