//! The installation from first check to last flush.

use crate::boot::console::console_hint;
use crate::boot::{BootConfig, BootError, configure, label};
use crate::buffer::Buffer;
use crate::decode::{DecodeError, Format};
use crate::device::Device;
use crate::disk::{Disk, DiskError, Geometry};
use crate::ends::Ends;
use crate::event::{Event, Meter, PROGRESS_INTERVAL, Phase};
use crate::filter::Filters;
use crate::flight::bytes;
use crate::gpt::Partition;
use crate::image::{Image, ImageError, check, writable};
use crate::mount::{MountError, PartitionDevice};
use crate::options::InstallOptions;
use crate::own_source;
use crate::partitions::{self, PartitionError};
use crate::prepare::{OptionsError, prepare};
use crate::record::{ReadBack, Record};
use crate::saved::{NewTable, Saved, SavedError};
use crate::source::SourceError;
use crate::stream::{LOOK_AROUND, Message, Pump};
use crate::verify::{self, VerifyError};
use crate::write::{WriteError, Writer};
use serde::{Deserialize, Serialize};
use std::{
    error::Error,
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// What an installation came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// The disk, links resolved.
    pub device: PathBuf,
    /// Bytes of the unpacked image.
    pub written_bytes: u64,
    /// Bytes taken from the source.
    pub source_bytes: u64,
}

/// What a failed installation left on the disk.
#[derive(Debug)]
pub enum DiskState {
    /// What was there before.
    Untouched,
    /// First and last MiB are zero: nothing boots from it.
    Cleared,
    /// Its partition table lists the saved partitions and nothing else: nothing boots from it.
    OnlySaved { partitions: usize },
    /// Whatever had been written, as requested. The table is there only if the failure came after it.
    Kept,
    /// The same, and a file as large as the disk, sparse, holds the partition table of the saved partitions.
    KeptBeside {
        /// The file, or why there is none.
        stash: io::Result<PathBuf>,
    },
    /// It was pulled, or its controller gave it up: its contents are unknown.
    Gone,
    /// Clearing failed too: it may hold what looks bootable and is not.
    NotCleared(WriteError),
}

impl fmt::Display for DiskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untouched => f.write_str("nothing was written"),
            Self::Cleared => f.write_str("its partition table was cleared"),
            Self::OnlySaved { partitions } => {
                write!(f, "its partition table was reset to the {partitions} saved partition(s)")
            }
            Self::Kept => f.write_str("the written data was left in place as requested"),
            Self::KeptBeside { stash: Ok(path) } => {
                let path = path.display();
                write!(f, "the written data was left in place as requested; the saved partitions' table is in {path}")
            }
            Self::KeptBeside { stash: Err(error) } => {
                write!(
                    f,
                    "the written data was left in place as requested; cannot store the saved partitions' table: {error}"
                )
            }
            Self::Gone => f.write_str("the disk is gone (pulled or failed): wipe it before booting from it"),
            Self::NotCleared(error) => {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                write!(f, "clearing its partition table failed too; wipe it before the machine boots: {error}{cause}")
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot install to {} ({disk})", device.display())]
pub struct InstallError {
    /// The disk, as asked for.
    pub device: PathBuf,
    /// What is on it now.
    pub disk: DiskState,
    #[source]
    pub cause: Box<Failure>,
}

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The options make no sense.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The target is not a disk, or is in use.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The source gave out, or what it gave can't be unpacked.
    #[error(transparent)]
    Source(#[from] DecodeError),
    /// Nothing can vouch for the image.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The image does not fit the disk or is not complete.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The partitions to keep can't be kept.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// The disk failed, or ended before the image.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The kernel does not release the disk's old partitions.
    #[error(transparent)]
    Partitions(#[from] PartitionError),
    /// The boot file system can't be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The boot file system is not what was expected.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// What was changed on the boot file system may not be on the medium.
    #[error("cannot flush {} after configuring the boot file system", device.display())]
    Flush { device: PathBuf, source: io::Error },
    #[error("cancelled after {} were written", kernel::units::binary(*written_bytes))]
    Cancelled {
        /// Bytes of the image on the disk by then.
        written_bytes: u64,
    },
}

/// Writes an image to a disk and prepares its first boot. Needs root. Other threads of the process are not affected: the
/// boot file system is mounted where only one thread sees it.
///
/// The disk has no partition table until everything else, the boot file system's configuration too, is on the medium.
pub fn install(options: &InstallOptions, on_event: &mut dyn FnMut(Event)) -> Result<Installed, InstallError> {
    let started = Instant::now();
    let mut touched = None;
    match run(options, on_event, &mut touched) {
        Ok(installed) => {
            let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let Installed { written_bytes, source_bytes, .. } = installed;
            on_event(Event::Finished { written_bytes, source_bytes, elapsed_ms });
            Ok(installed)
        }
        Err(cause) => {
            let disk = match touched {
                None => DiskState::Untouched,
                Some((disk, _)) if disk.is_gone() => DiskState::Gone,
                Some((disk, saved)) if options.preserve_on_error => preserved(&disk, &saved),
                Some((disk, saved)) => {
                    on_event(Event::Phase { phase: Phase::Clearing });
                    clear(&disk, &saved)
                }
            };
            Err(InstallError { device: options.device.clone(), disk, cause: Box::new(cause) })
        }
    }
}

/// `touched` gets the disk, and what of it is retained, just before it is first written to.
fn run(
    options: &InstallOptions,
    on_event: &mut dyn FnMut(Event),
    touched: &mut Option<(Disk, Saved)>,
) -> Result<Installed, Failure> {
    on_event(Event::Phase { phase: Phase::Checking });
    let config = prepare(options)?;
    let filters = Filters::parse(options).map_err(SavedError::from)?;
    if let Some(hint) = console_hint(&options.changes.append_kargs) {
        tracing::warn!("{hint}");
    }
    let disk = Disk::open(&options.device)?;
    let geometry = disk.geometry().clone();
    own_source::check(&options.source, &geometry.path)?;
    let saved = Saved::find_on(disk.file(), &geometry, &filters)?;
    let taps = verify::taps(options)?;
    let mut stream = Stream { options, on_event, pump: Pump::start(options, taps)?, meter: Meter::new(None) };
    let (format, total, head) = stream.opened()?;
    let raw_bytes = total.filter(|_| format == Format::Raw);
    let (image, table) = fit(&head, raw_bytes, &geometry, &saved, options)?;
    stream.meter = Meter::new(total);
    (stream.on_event)(Event::Started {
        source: options.source.to_string(),
        format,
        total_bytes: total,
        device: geometry.path.clone(),
        device_bytes: geometry.size_bytes,
        sector_bytes: geometry.sector_bytes,
    });
    for partition in table.iter().flat_map(|table| &table.saved) {
        (stream.on_event)(Event::Saving { partition: partition.clone() });
    }
    disk.check_unchanged()?;
    // The saved ones too: no program may have them open while the kernel learns their new numbers.
    partitions::forget(&disk)?;

    let (disk, saved) = touched.insert((disk, saved));
    let (written_bytes, ends, record) = stream.write(disk, saved, &image, head)?;
    let ends = match &table {
        Some(table) => table.ends(ends.head),
        None => ends,
    };
    let source_bytes = stream.pump.source_bytes();
    drop(stream);

    if let Some(record) = record {
        on_event(Event::Phase { phase: Phase::Verifying });
        read_back(disk, record, options, on_event, written_bytes)?;
    }

    let labelled = if image.boot_by_label { Some(labelled(disk, &image)?) } else { None };
    if let Some(boot) = image.boot.as_ref().or(labelled.as_ref()) {
        on_event(Event::Phase { phase: Phase::ConfiguringBoot });
        let mut done = Vec::new();
        let result = configure_boot(disk, boot, &config, &mut done);
        done.into_iter().for_each(&mut *on_event);
        result?;
    }
    if options.cancelled() {
        return Err(Failure::Cancelled { written_bytes });
    }
    on_event(Event::Phase { phase: Phase::Finishing });
    writer(disk)?.finish(&ends)?;
    if options.read_back {
        reader(disk, Record::ends(&ends))?.finish()?;
    }

    on_event(Event::Phase { phase: Phase::RereadingTable });
    let partitions = table.as_ref().map_or(&image.partitions, |table: &NewTable| &table.partitions);
    if let Err(error) = partitions::reread_as(disk, partitions) {
        // All is on the disk; the next boot reads the table anyway.
        tracing::warn!(%error, "the kernel does not know the new partitions");
    }
    warn_of_other_boots(&geometry.path);
    Ok(Installed { device: geometry.path, written_bytes, source_bytes })
}

/// Checks the image's start, and its size if `raw_bytes` is known, against the disk and what is retained of it. Returns the table
/// that the disk gets, if it is not the image's own.
pub(crate) fn fit(
    head: &[u8],
    raw_bytes: Option<u64>,
    disk: &Geometry,
    saved: &Saved,
    options: &InstallOptions,
) -> Result<(Image, Option<NewTable>), Failure> {
    let image = check(head, raw_bytes, disk, options.configures_boot())?;
    saved.check_reach(raw_bytes.unwrap_or(0).max(image.end()).max(bytes(head.len())))?;
    let table = saved.merge(head, options.new_disk_guid)?;
    Ok((image, table))
}

/// The partition to configure, by the label of its file system.
fn labelled(disk: &Disk, image: &Image) -> Result<Partition, Failure> {
    let path = &disk.geometry().path;
    // The writer may have gone past the page cache, so that whole pages can be read without its rules on alignment.
    let mut device = File::open(path).map_err(|source| DiskError::Open { path: path.clone(), source })?;
    let boot = label::labelled(&mut device, &image.partitions)?;
    writable(&boot)?;
    Ok(boot)
}

/// The boot loader finds its file system by the label.
fn warn_of_other_boots(device: &Path) {
    let others = label::other_boot_file_systems(device);
    if !others.is_empty() {
        let others: Vec<_> = others.iter().map(|path| path.display().to_string()).collect();
        tracing::warn!(
            others = others.join(" "),
            "other devices have a file system labelled 'boot' too, and the installed system may take the wrong one: \
             wipe them before the reboot if they are not needed"
        );
    }
}

fn device(disk: &Disk) -> Result<Device<'_>, WriteError> {
    Device::new(disk.file()).map_err(|source| WriteError::Start { device: disk.geometry().path.clone(), source })
}

fn writer(disk: &Disk) -> Result<Writer<Device<'_>>, WriteError> {
    let geometry = disk.geometry();
    Ok(Writer::new(device(disk)?, geometry.path.clone(), geometry.size_bytes, geometry.sector_bytes))
}

fn reader(disk: &Disk, record: Record) -> Result<ReadBack<Device<'_>>, WriteError> {
    Ok(ReadBack::new(device(disk)?, disk.geometry().path.clone(), record))
}

/// Compares what is on the medium with the record of what was written.
fn read_back(
    disk: &Disk,
    record: Record,
    options: &InstallOptions,
    on_event: &mut dyn FnMut(Event),
    written_bytes: u64,
) -> Result<(), Failure> {
    let total_bytes = record.len();
    let mut reader = reader(disk, record)?;
    let mut last_event = None::<Instant>;
    while let Some(checked_bytes) = reader.step()? {
        if options.cancelled() {
            return Err(Failure::Cancelled { written_bytes });
        }
        if checked_bytes == total_bytes || last_event.is_none_or(|last_event| last_event.elapsed() >= PROGRESS_INTERVAL)
        {
            last_event = Some(Instant::now());
            on_event(Event::ReadBack { checked_bytes, total_bytes });
        }
    }
    Ok(())
}

/// The image on its way from the source.
struct Stream<'a> {
    options: &'a InstallOptions,
    on_event: &'a mut dyn FnMut(Event),
    pump: Pump,
    meter: Meter,
}

impl Stream<'_> {
    /// Waits for the source and the image's head.
    fn opened(&mut self) -> Result<(Format, Option<u64>, Buffer), Failure> {
        loop {
            if let Some(Message::Opened { format, total, head }) = self.next(LOOK_AROUND, 0)? {
                return Ok((format, total, head));
            }
        }
    }

    /// Leaves only saved partitions in the disk's tables and writes all but the head. Returns the image's size, and what of it is held back.
    fn write(
        &mut self,
        disk: &Disk,
        saved: &Saved,
        image: &Image,
        head: Buffer,
    ) -> Result<(u64, Ends, Option<Record>), Failure> {
        (self.on_event)(Event::Phase { phase: Phase::Writing });
        let sector = usize::try_from(disk.geometry().sector_bytes).unwrap_or(usize::MAX);
        let mut writer = writer(disk)?;
        if self.options.read_back {
            writer.keep_record();
        }
        writer.begin(&saved.ends())?;
        let image_bytes = loop {
            while let Some(buffer) = writer.freed() {
                self.pump.give_back(buffer);
            }
            // While the disk has something to do it decides how long to wait.
            let patience = if writer.is_idle() { LOOK_AROUND } else { Duration::ZERO };
            match self.next(patience, writer.written())? {
                Some(Message::Block(block)) => {
                    saved.check_reach(block.offset.saturating_add(bytes(block.data.len())))?;
                    writer.block(block, sector)?
                }
                Some(Message::End { image_bytes }) => break image_bytes,
                Some(_) => {}
                None => writer.wait()?,
            }
            self.tell(writer.written(), false);
        };
        image.check_complete(image_bytes)?;
        writer.sync()?;
        self.tell(writer.written(), true);
        let (ends, record) = writer.into_ends(head);
        Ok((image_bytes, ends, record))
    }

    /// The next message of interest, if one comes before `patience` ends, with an eye on the caller's wish to stop.
    fn next(&mut self, patience: Duration, written_bytes: u64) -> Result<Option<Message>, Failure> {
        if self.options.cancelled() {
            return Err(Failure::Cancelled { written_bytes });
        }
        match self.pump.next(patience) {
            Some(Message::Retrying(retry)) => {
                let wait_ms = u64::try_from(retry.wait.as_millis()).unwrap_or(u64::MAX);
                (self.on_event)(Event::Retrying { error: retry.error, wait_ms, source_offset: retry.offset });
                Ok(None)
            }
            Some(Message::Failed(DecodeError::Source(SourceError::Cancelled { .. }))) => {
                Err(Failure::Cancelled { written_bytes })
            }
            Some(Message::Failed(error)) => Err(error.into()),
            message => Ok(message),
        }
    }

    fn tell(&mut self, written_bytes: u64, forced: bool) {
        // Until the writing starts there is no progress to speak of.
        if written_bytes == 0 {
            return;
        }
        if let Some(event) =
            self.meter.tick(Instant::now(), self.pump.source_bytes(), written_bytes, self.pump.waits(), forced)
        {
            (self.on_event)(event);
        }
    }
}

/// Mounts the boot partition, changes what is to be changed, and flushes it; the disk itself has no table yet.
/// `done` gets what is worth an event: the file system is mounted in another thread.
fn configure_boot(
    disk: &mut Disk,
    boot: &Partition,
    config: &BootConfig,
    done: &mut Vec<Event>,
) -> Result<(), Failure> {
    disk.release()?;
    partitions::announce(disk, std::slice::from_ref(boot))?;
    let device = PartitionDevice::open(disk, boot)?;
    device.enter(|| configure(Path::new("/"), config, done))??;
    drop(device);
    if let Err(error) = partitions::forget(disk) {
        // Unmounting has written all there was; the node just stays until the table is read.
        tracing::debug!(%error, "the boot partition is still listed");
    }
    let error = |source| Failure::Flush { device: disk.geometry().path.clone(), source };
    disk.file().sync_all().map_err(error)?;
    // Reads through the whole disk's page cache must see what went through the partition's.
    kernel::disk::drop_cache(disk.file()).map_err(error)
}

fn clear(disk: &Disk, saved: &Saved) -> DiskState {
    // By now it may be another copy of the table that leads to the saved partitions.
    let ends = saved.ends_over(saved.standing_on(disk.file()));
    let result = writer(disk).and_then(|mut writer| writer.clear(&ends));
    if let Err(error) = partitions::reread_as(disk, saved.partitions()) {
        tracing::warn!(%error, "the kernel still lists partitions of the cleared disk");
    }
    match (result, saved.partitions().len()) {
        (Ok(()), 0) => DiskState::Cleared,
        (Ok(()), partitions) => DiskState::OnlySaved { partitions },
        (Err(error), _) => DiskState::NotCleared(error),
    }
}

fn preserved(disk: &Disk, saved: &Saved) -> DiskState {
    // Those to keep had to be forgotten, and may be looked at again.
    if let Err(error) = partitions::announce(disk, saved.partitions()) {
        tracing::warn!(%error, "the kernel does not list the partitions to keep");
    }
    if saved.partitions().is_empty() { DiskState::Kept } else { DiskState::KeptBeside { stash: saved.stash() } }
}
