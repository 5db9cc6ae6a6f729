//! A machine in a file: everything the inventory and the report read on it, and nothing else, for tests, support cases and
//! certification far from the machine.

pub mod cli;
mod scrub;

use kernel::record::Kind;

use crate::{Root, archive, collect, identity, report};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::PathBuf,
};

/// What a capture says of itself.
const ABOUT: &str = "/landfall/capture.json";

/// A machine's facts in the raw.
pub struct Captured(BTreeMap<PathBuf, Kind>);

impl Captured {
    /// Reads all that the inventory, the report and the host's identity are made of.
    pub fn take(root: Root) -> Self {
        let root = root.recording();
        collect(&root);
        report::collect(&root);
        identity::host_id(&root);
        let mut entries = root.into_record().map(|record| record.into_entries()).unwrap_or_default();
        about(&mut entries, false);
        Self(entries)
    }

    /// Puts other characters in place of serial numbers, asset tags, UUIDs, world-wide names and the device part of MAC
    /// addresses: the same ones for the same value throughout, so that what belongs together still does, but others for
    /// each capture. Host name, IP addresses, iSCSI names, file system labels and the kernel's command line stay, except
    /// for such values within them.
    pub fn scrub(self) -> Self {
        let mut entries = scrub::scrub(self.0, uuid::Uuid::new_v4().as_bytes());
        about(&mut entries, true);
        Self(entries)
    }

    /// How many files, links and directories it has.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Writes it as `.tar.gz`, in the order of paths.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        archive::pack(&self.0, to)
    }
}

fn about(entries: &mut BTreeMap<PathBuf, Kind>, is_scrubbed: bool) {
    let about = serde_json::json!({ "landfall": env!("CARGO_PKG_VERSION"), "scrubbed": is_scrubbed });
    entries.insert("/landfall".into(), Kind::Directory);
    entries.insert(ABOUT.into(), Kind::File(format!("{about}\n").into_bytes()));
}
