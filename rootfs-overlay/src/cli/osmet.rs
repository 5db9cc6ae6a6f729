//! `pack osmet`: the image of a disk for the live system of the same build.

use super::note;
use crate::output::Unfinished;
use crate::progress::Progress;
use anyhow::Context;
use clap::Args;
use diskwrite::{Overlaps, PackEvent, PackOptions, Packed, Scan, pack, parse_sha256};
use kernel::Cancel;
use std::path::PathBuf;

/// Pack a disk into a file from which a live system installs it offline
///
/// The disk has file systems labelled boot and root, the latter with an OSTree repository. Objects of the repository, which the live
/// system of the same build has too, are left out; all other bytes are compressed. The disk is only read. The result is unpacked and
/// compared with the checksum before the file gets its name. Needs root, for loop devices and mounts.
#[derive(Debug, Args)]
#[command(override_usage = "\
landfall pack osmet [OPTIONS] --output <FILE> --checksum <SHA256>
                           --description <TEXT> <DEV>")]
pub(super) struct PackOsmet {
    /// Where to write the file; an existing one is replaced
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// SHA-256 of the whole disk
    #[arg(long, value_name = "SHA256")]
    checksum: String,
    /// Name and version of the operating system
    #[arg(long, value_name = "TEXT")]
    description: String,
    /// Compress faster, to a larger file
    #[arg(long)]
    fast: bool,
    /// The disk, or a file with its image
    #[arg(value_name = "DEV")]
    device: PathBuf,
}

impl PackOsmet {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let sha256 = parse_sha256(&self.checksum);
        let sha256 = sha256.with_context(|| format!("'{}' is not a SHA-256 of 64 digits", self.checksum))?;
        let cancel = Cancel::default();
        // The draft and the mount points are removed first.
        cancel.on_signals_in_order().context("cannot wait for signals")?;
        let mut draft = Unfinished::replacing(&self.output)?;
        let options = PackOptions {
            disk: self.device,
            description: self.description,
            architecture: std::env::consts::ARCH.to_owned(),
            sha256,
            fast: self.fast,
            cancel,
        };
        let mut display = Display::default();
        pack(&options, draft.file(), &mut |event| display.show(event))?;
        drop(display);
        draft.finish()?;
        note("Packing successful!");
        Ok(())
    }
}

/// What people see of it: the bar of what is being done, if that is shown.
#[derive(Default)]
struct Display {
    bar: Option<Progress>,
}

impl Display {
    fn show(&mut self, event: PackEvent) {
        match event {
            PackEvent::Scanned(scan) => {
                show_scan(&scan);
                note("Packing image");
            }
            PackEvent::Packing { done, total } => self.reach("packing", done, total),
            PackEvent::Packed(Packed { skipped, written, compressed }) => {
                self.bar = None;
                note(&format!("Total bytes skipped: {skipped}"));
                note(&format!("Total bytes written: {written}"));
                note(&format!("Total bytes written (compressed): {compressed}"));
                note("Verifying that repacked image matches digest");
            }
            PackEvent::Verifying { done, total } => self.reach("verifying", done, total),
        }
    }

    fn reach(&mut self, name: &'static str, done: u64, total: u64) {
        self.bar.get_or_insert_with(|| Progress::named(name, total)).reach(done);
    }
}

fn show_scan(scan: &Scan) {
    let &Scan { mapped, empty, packed, boot_files, boot_extents, root_extents, .. } = scan;
    let objects = mapped.saturating_add(empty).saturating_add(packed);
    note(&format!("Total OSTree objects scanned from /root: {objects} ({mapped} mapped, {empty} empty)"));
    if packed > 0 {
        note(&format!("OSTree objects without plain extents, which are packed: {packed}"));
    }
    note(&format!("Total OSTree objects found in /boot: {boot_files}"));
    show_overlaps(root_extents, scan.root_overlaps);
    note(&format!("Total /root extents: {root_extents}"));
    show_overlaps(boot_extents, scan.boot_overlaps);
    note(&format!("Total /boot extents: {boot_extents}"));
}

fn show_overlaps(extents: usize, Overlaps { dropped, cut }: Overlaps) {
    if extents == 0 {
        return note("No mappings to canonicalize");
    }
    note(&format!("Duplicate extents dropped: {dropped}"));
    note(&format!("Overlapping extents clamped: {cut}"));
}
