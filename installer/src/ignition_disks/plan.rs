//! What is done to which device, from a config and what is known of the disks: pure.

use super::content::{Decision, Unfit, decide, decide_volume, format, mkfs, program};
use super::names::{Device, NameError, NamedDisk, Names};
use crate::programs::Program;
use diskwrite::{
    LayoutPartition,
    probe::Signature,
    repartition::{Change, Fate, TablePlan, Wanted},
};
use ignition::{
    apply::Action,
    model::{Document, Filesystem, Luks, Partition, Raid},
};
use kernel::units::binary;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Why nothing is done.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanError {
    #[error("{at}")]
    Name { at: String, source: NameError },
    #[error("{at}")]
    Unfit { at: String, source: Unfit },
    /// Needs what is not here.
    #[error("{at}: {what} is not supported here")]
    Unsupported { at: String, what: &'static str },
    #[error("{at}: {found} is not {what}")]
    Number { at: String, what: &'static str, found: i64 },
    #[error("{at}: {found:?} is not a GUID")]
    Guid { at: String, found: String },
    /// It could stand for another device.
    #[error("{at}: {name:?} is not the name of an array")]
    ArrayName { at: String, name: String },
    #[error("{at} has no keyFile: the key would be lost")]
    NoKey { at: String },
}

/// A piece of work: done as a whole, or not at all.
pub(super) struct Step<'a> {
    /// What is shown of it.
    pub actions: Vec<Action>,
    pub program: Option<Program>,
    pub work: Work<'a>,
}

/// Devices are found when it is their turn: those of new partitions are missing before.
#[derive(Clone, Copy)]
pub(super) enum Work<'a> {
    Nothing,
    /// Of the disk in this place.
    Table(usize),
    Array(&'a Raid<'a>),
    Volume(&'a Luks<'a>, Decision),
    FileSystem(&'a Filesystem<'a>),
}

/// A disk and what is known of it.
pub(super) struct KnownDisk<'a> {
    /// Where in the config its table is asked for.
    pub at: Option<String>,
    pub table: TablePlan,
    pub names: Vec<String>,
    /// What is in a part of it.
    pub signatures: &'a dyn Fn(u64, u64) -> Vec<Signature>,
}

const MIB: u64 = 1 << 20;

/// The partitions that a config wants on a disk.
pub(super) fn wanted(at: &str, partitions: &[Partition<'_>]) -> Result<Vec<Wanted>, PlanError> {
    let one = |(place, partition): (usize, &Partition<'_>)| {
        let at = || format!("{at}.partitions.{place}");
        let mib = |value: Option<i64>, what| {
            let bytes = |value| u64::try_from(value).ok().and_then(|value: u64| value.checked_mul(MIB));
            value.map(|found| bytes(found).ok_or_else(|| PlanError::Number { at: at(), what, found })).transpose()
        };
        let guid = |text: Option<&str>| {
            let text = text.filter(|text| !text.is_empty());
            let parse = |text| Uuid::parse_str(text).map_err(|_| PlanError::Guid { at: at(), found: text.to_owned() });
            text.map(parse).transpose().map(|uuid| uuid.map(|uuid| uuid.to_bytes_le()))
        };
        let number = u32::try_from(partition.number);
        Ok(Wanted {
            number: number.map_err(|_| PlanError::Number {
                at: at(),
                what: "a partition number",
                found: partition.number,
            })?,
            label: partition.label.as_deref().map(str::to_owned),
            type_guid: guid(partition.type_guid.as_deref())?,
            guid: guid(partition.guid.as_deref())?,
            start: mib(partition.start_mib, "a start in MiB")?,
            len: mib(partition.size_mib, "a size in MiB")?,
            exists: partition.should_exist != Some(false),
            replace: partition.wipe_partition_entry == Some(true),
            resize: partition.resize == Some(true),
        })
    };
    partitions.iter().enumerate().map(one).collect()
}

/// All devices that the config names, by their names.
pub(super) struct Devices<'a> {
    disks: &'a [KnownDisk<'a>],
    named: Vec<NamedDisk>,
    config: &'a Document<'a>,
    resolve: &'a dyn Fn(&Path) -> Option<PathBuf>,
}

impl<'a> Devices<'a> {
    pub(super) fn new(
        config: &'a Document<'a>,
        disks: &'a [KnownDisk<'a>],
        resolve: &'a dyn Fn(&Path) -> Option<PathBuf>,
    ) -> Self {
        let named =
            |disk: &KnownDisk<'_>| NamedDisk { names: disk.names.clone(), partitions: disk.table.partitions.clone() };
        Self { disks, named: disks.iter().map(named).collect(), config, resolve }
    }

    pub(super) fn find(&self, name: &str) -> Result<Device, NameError> {
        let storage = &self.config.storage;
        let arrays = storage.raid.iter().map(|raid| &*raid.name).collect();
        let volumes = storage.luks.iter().map(|luks| &*luks.name).collect();
        Names { disks: &self.named, arrays, volumes, resolve: self.resolve }.find(name)
    }

    /// A disk, and the partition if it is one.
    pub(super) fn on_disk(&self, device: Device) -> Option<(&'a KnownDisk<'a>, Option<&'a LayoutPartition>)> {
        match device {
            Device::Disk(disk) => Some((self.disks.get(disk)?, None)),
            Device::Partition { disk, number } => {
                let disk = self.disks.get(disk)?;
                Some((disk, Some(disk.table.partitions.iter().find(|partition| partition.number == number)?)))
            }
            Device::Array(_) | Device::Volume(_) => None,
        }
    }

    /// For people.
    fn show(&self, name: &str, device: Device) -> String {
        match self.on_disk(device) {
            Some((disk, partition)) => {
                let path = disk.table.disk.path.display();
                let node =
                    partition.map_or(path.to_string(), |partition| format!("{path} partition {}", partition.number));
                if node == name { node } else { format!("{name} ({node})") }
            }
            None => name.to_owned(),
        }
    }

    /// What is on a device that exists already, or will be a part of a disk; nothing of what is yet to be stacked on others.
    fn found(&self, device: Device) -> Vec<Signature> {
        let Some((disk, partition)) = self.on_disk(device) else { return Vec::new() };
        let (start, len) = match partition {
            Some(partition) => (partition.start, partition.len),
            None => (0, disk.table.disk.size_bytes),
        };
        (disk.signatures)(start, len)
    }
}

/// The steps in Ignition's order: tables, arrays, encrypted devices, file systems.
pub(super) fn plan<'a>(config: &'a Document<'a>, devices: &Devices<'a>) -> Result<Vec<Step<'a>>, PlanError> {
    let mut steps = Vec::new();
    for (place, disk) in devices.disks.iter().enumerate() {
        let Some(at) = &disk.at else { continue };
        let work = if disk.table.writes() { Work::Table(place) } else { Work::Nothing };
        steps.push(Step { actions: table_actions(at, disk), program: None, work });
    }
    let storage = &config.storage;
    for (place, raid) in storage.raid.iter().enumerate() {
        steps.push(array(&format!("$.storage.raid.{place}"), raid, devices)?);
    }
    for (place, luks) in storage.luks.iter().enumerate() {
        steps.push(volume(&format!("$.storage.luks.{place}"), luks, devices)?);
    }
    for (place, file_system) in storage.filesystems.iter().enumerate().filter(|(_, it)| format(it).is_some()) {
        steps.push(self::file_system(&format!("$.storage.filesystems.{place}"), file_system, devices)?);
    }
    Ok(steps)
}

fn find(at: &str, name: &str, devices: &Devices<'_>) -> Result<Device, PlanError> {
    devices.find(name).map_err(|source| PlanError::Name { at: at.to_owned(), source })
}

fn action(at: String, what: &'static str, to: String, with: impl IntoIterator<Item = Option<String>>) -> Action {
    Action { at, what, to, with: with.into_iter().flatten().collect() }
}

fn table_actions(at: &str, disk: &KnownDisk<'_>) -> Vec<Action> {
    let device = disk.table.disk.path.display().to_string();
    let called = disk.names.iter().find(|name| **name != device).map(|name| format!("{name} in the config"));
    let wipe =
        disk.table.wipe.then(|| action(format!("{at}.wipeTable"), "wipe partition table of", device.clone(), [called]));
    let one = |Change { wanted, fate, partition }: &Change| {
        let what = match fate {
            Fate::Keep => "keep partition",
            Fate::Create => "make partition",
            Fate::Delete => "delete partition",
            Fate::Replace => "replace partition",
            Fate::Resize => "resize partition",
        };
        let label = Some(format!("label {:?}", partition.name)).filter(|_| !partition.name.is_empty());
        let place = Some(format!("{} from {}", binary(partition.len), binary(partition.start)));
        action(format!("{at}.partitions.{wanted}"), what, format!("{} of {device}", partition.number), [label, place])
    };
    wipe.into_iter().chain(disk.table.changes.iter().map(one)).collect()
}

fn array<'a>(at: &str, raid: &'a Raid<'a>, devices: &Devices<'_>) -> Result<Step<'a>, PlanError> {
    let in_dev = raid.name.strip_prefix("/dev/md").map(|rest| rest.strip_prefix('/').unwrap_or(rest));
    let own = in_dev.unwrap_or(&raid.name);
    if own.is_empty() || own.contains('/') || own.starts_with(['.', '-']) {
        return Err(PlanError::ArrayName { at: at.to_owned(), name: raid.name.to_string() });
    }
    let member = |name: &str| Ok(devices.show(name, find(at, name, devices)?));
    let members = raid.devices.iter().map(|name| member(name)).collect::<Result<Vec<_>, _>>()?;
    let spares = raid.spares.filter(|spares| *spares != 0);
    let members_len = i64::try_from(raid.devices.len()).unwrap_or(i64::MAX);
    if let Some(found) = spares.filter(|spares| !(0..members_len).contains(spares)) {
        return Err(PlanError::Number { at: at.to_owned(), what: "a number of spares beside a member", found });
    }
    let with = [
        Some(format!("level {}", raid.level.as_deref().unwrap_or_default())),
        Some(format!("of {}", members.join(" "))),
        spares.map(|spares| format!("{spares} spares")),
    ];
    let actions = vec![action(at.to_owned(), "make array", raid.name.to_string(), with)];
    Ok(Step { actions, program: Some(Program::Mdadm), work: Work::Array(raid) })
}

/// The arguments that create an array of these members.
pub(super) fn mdadm(raid: &Raid<'_>, members: &[String]) -> Vec<String> {
    let spares = raid.spares.and_then(|spares| usize::try_from(spares).ok()).unwrap_or(0);
    let level = raid.level.as_deref().unwrap_or_default();
    let active = members.len().saturating_sub(spares).to_string();
    let mut words =
        ["--create", &raid.name, "--force", "--run", "--homehost", "any", "--level", level, "--raid-devices"]
            .map(str::to_owned)
            .to_vec();
    words.push(active);
    if spares > 0 {
        words.extend(["--spare-devices".to_owned(), spares.to_string()]);
    }
    words.extend(raid.options.iter().map(ToString::to_string));
    words.extend_from_slice(members);
    words
}

fn volume<'a>(at: &str, luks: &'a Luks<'a>, devices: &Devices<'_>) -> Result<Step<'a>, PlanError> {
    let unsupported = |what: &'static str| PlanError::Unsupported { at: format!("{at}.{what}"), what };
    let clevis = &luks.clevis;
    let has_pins = clevis.tpm2 == Some(true) || !clevis.tang.is_empty() || clevis.threshold.is_some_and(|it| it != 0);
    if has_pins || clevis.custom.pin.is_some() {
        return Err(unsupported("clevis"));
    }
    if luks.cex.enabled == Some(true) {
        return Err(unsupported("cex"));
    }
    if luks.key_file.source.as_deref().is_none_or(str::is_empty) {
        return Err(PlanError::NoKey { at: at.to_owned() });
    }
    let name = luks.device.as_deref().unwrap_or_default();
    let device = find(at, name, devices)?;
    let decision = decide_volume(luks, &devices.found(device));
    let decision = decision.map_err(|source| PlanError::Unfit { at: at.to_owned(), source })?;
    let what = match decision {
        Decision::Keep => "open LUKS device",
        Decision::Make => "make LUKS device",
    };
    let with = [
        Some(format!("on {}", devices.show(name, device))),
        luks.label.as_deref().map(|label| format!("label {label:?}")),
        luks.uuid.as_deref().map(|uuid| format!("UUID {uuid}")),
    ];
    let actions = vec![action(at.to_owned(), what, luks.name.to_string(), with)];
    Ok(Step { actions, program: Some(Program::Cryptsetup), work: Work::Volume(luks, decision) })
}

fn file_system<'a>(at: &str, file_system: &'a Filesystem<'a>, devices: &Devices<'_>) -> Result<Step<'a>, PlanError> {
    let device = find(at, &file_system.device, devices)?;
    let decision = decide(file_system, &devices.found(device));
    let decision = decision.map_err(|source| PlanError::Unfit { at: at.to_owned(), source })?;
    // What is in a new array, and in one that is opened, shows later only.
    let is_known = devices.on_disk(device).is_some();
    let what = match decision {
        _ if program(file_system).is_none() => "leave without a file system",
        Decision::Make if is_known || file_system.wipe_filesystem == Some(true) => "make file system on",
        Decision::Make => "make file system, unless it exists, on",
        Decision::Keep => "keep file system on",
    };
    let words = mkfs(file_system);
    let with = [format(file_system).map(str::to_owned), Some(words.join(" ")).filter(|words| !words.is_empty())];
    let actions = vec![action(at.to_owned(), what, devices.show(&file_system.device, device), with)];
    let work = if decision == Decision::Keep && is_known { Work::Nothing } else { Work::FileSystem(file_system) };
    let program = program(file_system).filter(|_| !matches!(work, Work::Nothing));
    Ok(Step { actions, program, work })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
