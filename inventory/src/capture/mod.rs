//! A machine in a file: everything the inventory and the report read on it, and nothing else, for tests, support cases and
//! certification far from the machine.

pub mod cli;
mod scrub;

use kernel::record::Kind;

use crate::{Root, about, archive, collect, identity, report};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::PathBuf,
};

/// A machine's facts in the raw.
pub struct Captured {
    entries: BTreeMap<PathBuf, Kind>,
    /// When it was taken, UTC.
    date: Option<String>,
}

impl Captured {
    /// Reads all that the inventory, the report and the host's identity are made of.
    pub fn take(root: Root) -> Self {
        let date = about::date(&root);
        let root = root.recording();
        collect(&root);
        report::collect(&root);
        identity::host_id(&root);
        let entries = root.into_record().map(|record| record.into_entries()).unwrap_or_default();
        Self { entries, date }.with_about(false)
    }

    /// Puts other characters in place of serial numbers, asset tags, UUIDs, world-wide names and the device part of MAC
    /// addresses: the same ones for the same value throughout, so that what belongs together still does, but others for
    /// each capture. Host name, IP addresses, iSCSI names, file system labels and the kernel's command line stay, except
    /// for such values within them.
    pub fn scrub(self) -> Self {
        let entries = scrub::scrub(self.entries, uuid::Uuid::new_v4().as_bytes());
        Self { entries, ..self }.with_about(true)
    }

    /// How many files, links and directories it has.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Writes it as `.tar.gz`, in the order of paths.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        archive::pack(&self.entries, to)
    }

    fn with_about(mut self, is_scrubbed: bool) -> Self {
        let mut about = serde_json::json!({ "landfall": env!("CARGO_PKG_VERSION"), "scrubbed": is_scrubbed });
        if let Some(date) = &self.date {
            about["date"] = date.as_str().into();
        }
        self.entries.insert("/landfall".into(), Kind::Directory);
        self.entries.insert(about::FILE.into(), Kind::File(format!("{about}\n").into_bytes()));
        self
    }
}
