//! Gathers what goes into the archive.

use super::{
    Places, Wanted, blocks, bootstrap, cores,
    item::{Counting, Item, Source},
    kmsg, mounts, programs,
    report::Report,
};
use inventory::Root;
use journal::{Journal, Query, Range, SHORT_FIELDS, SinceError, parse_time};
use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// What was gathered. Its directory is removed with it, unless it must stay.
#[derive(Debug)]
pub struct Collected {
    pub(super) items: Vec<Item>,
    pub(super) report: Report,
    pub(super) directory: String,
    work: Option<WorkDirectory>,
    places: Places,
}

/// Where items lie until they are sent, as far as there is room.
#[derive(Debug)]
struct WorkDirectory {
    path: PathBuf,
    keep: bool,
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if !self.keep {
            super::guard::remove(&self.path);
        }
    }
}

/// Its name, and that of the archive's directory.
pub(super) fn directory_name(wanted: &Wanted) -> String {
    format!("logs_host_{}", wanted.host_id)
}

pub(super) fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

impl Collected {
    /// Gathers. `partial` is called now and then while the cluster's own scripts run, with what is there so far. With `keep` the
    /// directory stays.
    pub(super) fn gather(
        wanted: &Wanted,
        places: &Places,
        keep: bool,
        use_disk: bool,
        partial: &mut dyn FnMut(&mut Self),
    ) -> Self {
        let directory = directory_name(wanted);
        let mut report = Report::default();
        let work = use_disk.then(|| WorkDirectory::make(&places.var_log.join(&directory), keep)).and_then(|made| {
            made.inspect_err(|error| tracing::info!(%error, "cannot make a work directory, sending logs without one"))
                .ok()
        });
        let range = match range(&wanted.since) {
            Ok(range) => range,
            Err(error) => {
                report.add(format_args!("{error}; taking all entries"));
                Range { until_us: now_us(), ..Range::default() }
            }
        };
        let mut collected = Self { items: Vec::new(), report, directory, work, places: places.clone() };
        collected.add_mounts();
        collected.add_journal("agent.logs", Query::field("TAG", "agent"), range, false);
        collected.add_journal("installer.logs", Query::field("TAG", "installer"), range, false);
        collected.add_journal("ironic-agent.logs", Query::unit("ironic-agent.service"), range, true);
        if wanted.bootstrap {
            collected.add_journal("bootkube.logs", Query::unit("bootkube.service"), range, true);
        }
        if wanted.installer_gather {
            match kmsg::log(&places.kmsg) {
                Ok(log) => collected.add(Item::text("dmesg.logs", log)),
                Err(error) => collected.report.add(format_args!("{}: {error}", places.kmsg.display())),
            }
            collected.add_journal("journal.logs", Query::everything(), range, false);
            for core in cores::find(&places.cores, &places.journals, &mut collected.report) {
                collected.add(core);
            }
            if wanted.bootstrap {
                bootstrap::gather(wanted, &mut collected, partial);
            }
        }
        collected
    }

    /// Puts an item into the work directory if there is room; else it is read where it is when it is sent.
    pub(super) fn add(&mut self, mut item: Item) {
        tracing::info!(name = item.name, bytes = item.len, "gathered");
        if let Some(path) = self.path_for(&item.name)
            && !matches!(item.source, Source::File(_))
            && item.len <= self.room()
        {
            match write_to(&item.source, &path, item.len) {
                Ok(_) => item.source = Source::File(path),
                Err(error) => {
                    tracing::info!(%error, name = item.name, "cannot store this item on disk");
                    super::guard::remove(&path);
                }
            }
        }
        self.items.push(item);
    }

    /// Entries of the journal. With `only_if_any` nothing is added where there are none: that is how a unit that was never loaded
    /// is known.
    fn add_journal(&mut self, name: &str, query: Query, range: Range, only_if_any: bool) {
        let directories = self.places.journals.clone();
        if only_if_any && Journal::open(&directories, &query, range, SHORT_FIELDS).next().is_none() {
            return;
        }
        let source = Source::Journal { directories, query, range };
        // Read once: into the work directory when there is room, else to know its length.
        let path = self.path_for(name);
        let stored = path.as_ref().and_then(|path| match write_to(&source, path, self.room()) {
            Ok(stored) => Some(stored),
            Err(error) => {
                tracing::info!(%error, name, "cannot store this item on disk");
                super::guard::remove(path);
                None
            }
        });
        let (len, faults, source) = match (stored, path) {
            (Some((len, faults)), Some(path)) => (len, faults, Source::File(path)),
            _ => {
                let mut counting = Counting { out: io::sink(), count: 0, limit: u64::MAX };
                match source.write(&mut counting) {
                    Ok(faults) => (counting.count, faults, source),
                    Err(error) => return self.report.add(format_args!("{name}: {error}")),
                }
            }
        };
        faults.into_iter().for_each(|fault| self.report.add(fault));
        tracing::info!(name, bytes = len, "gathered");
        self.items.push(Item { name: name.to_owned(), source, len, skip: 0 });
    }

    /// `mount.logs`: with the usual titles and command lines.
    fn add_mounts(&mut self) {
        let root = match Root::open(&self.places.root) {
            Ok(root) => root,
            Err(error) => return self.report.add(anyhow::Error::from(error)),
        };
        let mut text = String::new();
        let mut part = |title: &str, command: &str, output: &str| {
            text.push_str(&format!("{title}\n{command}\n{output}\n"));
        };
        let columns = "NAME,MAJ:MIN,SIZE,TYPE,FSTYPE,KNAME,MODEL,UUID,WWN,HCTL,VENDOR,STATE,TRAN,PKNAME";
        part("List block devices", &format!("/usr/bin/lsblk -o {columns}"), &blocks::table(&root));
        part("List mounts", "/usr/bin/findmnt --df", &mounts::table(&root));
        for what in ["id", "path"] {
            let directory = format!("/dev/disk/by-{what}");
            let links = mounts::links(&root, &directory).unwrap_or_else(|error| {
                self.report.add(&error);
                format!("{error}\n")
            });
            part(&format!("Disk mapping by {what}"), &format!("/bin/ls -l {directory}"), &links);
        }
        for program in programs::LVM {
            let (output, failure) = programs::lvm(&self.places.root, program);
            let path = program.path();
            let name = path.rsplit('/').next().unwrap_or(path);
            failure.into_iter().for_each(|failure| self.report.add(failure));
            part(&format!("Running {name}"), &format!("{path} -v"), &output);
        }
        self.add(Item::text("mount.logs", text));
    }

    /// Where an item may be written.
    pub(super) fn path_for(&self, name: &str) -> Option<PathBuf> {
        self.work.as_ref().map(|work| work.path.join(name))
    }

    /// Bytes that may still be written: what must stay free, stays.
    pub(super) fn room(&self) -> u64 {
        let free = nix::sys::statvfs::statvfs(&self.places.var_log)
            .map_or(0, |room| room.blocks_available().saturating_mul(room.fragment_size()));
        free.saturating_sub(self.places.reserve_bytes)
    }

    /// The report as `report.logs`, if it is not empty.
    pub(super) fn add_report(&mut self) {
        self.items.retain(|item| item.name != "report.logs");
        if !self.report.is_empty() {
            let text = self.report.to_string();
            self.add(Item::text("report.logs", text));
        }
    }
}

impl WorkDirectory {
    /// Creates it, without the remains of an earlier run.
    fn make(path: &Path, keep: bool) -> io::Result<Self> {
        super::guard::remove(path);
        DirBuilder::new().mode(0o755).create(path)?;
        Ok(Self { path: path.to_owned(), keep })
    }
}

/// Bytes written, and what could not be read.
fn write_to(source: &Source, path: &Path, limit: u64) -> io::Result<(u64, Vec<String>)> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut counting = Counting { out: File::create(path)?, count: 0, limit };
    let faults = source.write(&mut counting)?;
    Ok((counting.count, faults))
}

/// From `since` to now.
pub(super) fn range(since: &str) -> Result<Range, SinceError> {
    let until_us = now_us();
    let since_us = if since.trim().is_empty() { 0 } else { parse_time(since, until_us)? };
    Ok(Range { since_us, until_us })
}
