//! File systems and encrypted devices: whether what is on a device is what the config wants, and how it is made.

use crate::programs::Program;
use diskwrite::probe::{self, Decided, Kind, Signature};
use ignition::model::{Filesystem, Luks};

/// What to do with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It has what it should have.
    Keep,
    Make,
}

/// Something else is there, and may not be wiped. The words are Ignition's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error(
        "filesystem at {device:?} is not of the correct type, label, or UUID (found {kind}, {label:?}, {uuid}) and a \
         filesystem wipe was not requested"
    )]
    FileSystem { device: String, kind: &'static str, label: String, uuid: String },
    #[error(
        "what is at {device:?} is not clear: {kinds} were found at once. Remove what does not belong there with \
         wipefs, or ask for a wipe"
    )]
    Several { device: String, kinds: String },
    #[error("volume at {device:?} is not of the correct type (found {kind}) and a volume wipe was not requested")]
    Volume { device: String, kind: &'static str },
    #[error("volume wipe was not requested and luks device {device:?} could not be reused: {why}")]
    Reuse { device: String, why: String },
}

/// The format, if it is one that stands on a block device.
pub(super) fn format<'f>(file_system: &'f Filesystem<'_>) -> Option<&'f str> {
    file_system.format.as_deref().filter(|format| !matches!(*format, "" | "virtiofs"))
}

pub(super) fn decide(file_system: &Filesystem<'_>, found: &[Signature]) -> Result<Decision, Unfit> {
    let format = format(file_system).filter(|format| *format != "none").unwrap_or_default();
    if file_system.wipe_filesystem == Some(true) {
        return Ok(Decision::Make);
    }
    let found = what_counts(found, &file_system.device)?;
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let kind = found.map_or("", |found| found.kind.name());
    let label = text(found.and_then(|found| found.label.as_ref()));
    let uuid = text(found.and_then(|found| found.uuid.as_ref()));
    let same_label = file_system.label.as_deref().is_none_or(|wanted| wanted == label);
    let same_uuid =
        file_system.uuid.as_deref().is_none_or(|wanted| canonical(format, wanted) == canonical(kind, &uuid));
    if kind == format && same_label && same_uuid {
        return Ok(Decision::Keep);
    }
    if kind.is_empty() {
        return Ok(if format.is_empty() { Decision::Keep } else { Decision::Make });
    }
    Err(Unfit::FileSystem { device: file_system.device.to_string(), kind, label, uuid })
}

/// The one thing that a device is taken for.
fn what_counts<'f>(found: &'f [Signature], device: &str) -> Result<Option<&'f Signature>, Unfit> {
    match probe::decide(found) {
        Decided::Nothing => Ok(None),
        Decided::This(found) => Ok(Some(found)),
        Decided::Several => {
            let whole = found.iter().filter(|found| !found.remains);
            let kinds = whole.map(|found| found.kind.name()).collect::<Vec<_>>().join(", ");
            Err(Unfit::Several { device: device.to_owned(), kinds })
        }
    }
}

/// FAT's is shown with a hyphen, which mkfs.fat does not take.
fn canonical(format: &str, uuid: &str) -> String {
    let uuid = uuid.to_lowercase();
    match uuid.split_once('-') {
        Some((first, rest)) if format == "vfat" && first.len() == 4 => format!("{first}{rest}"),
        _ => uuid,
    }
}

/// What makes it. None for the format `none`, for which signatures are wiped at most.
pub(super) fn program(file_system: &Filesystem<'_>) -> Option<Program> {
    Some(match format(file_system)? {
        "ext4" => Program::MkfsExt4,
        "xfs" => Program::MkfsXfs,
        "btrfs" => Program::MkfsBtrfs,
        "vfat" => Program::MkfsFat,
        "swap" => Program::Mkswap,
        _ => return None,
    })
}

/// The arguments of its program, but for the device.
pub(super) fn mkfs(file_system: &Filesystem<'_>) -> Vec<String> {
    let format = format(file_system).unwrap_or_default();
    let (force, uuid_option, label_option) = match format {
        "ext4" => (Some("-F"), "-U", "-L"),
        "btrfs" => (Some("--force"), "-U", "-L"),
        "vfat" => (None, "-i", "-n"),
        // xfs has an option of several parts for the UUID.
        "xfs" => (Some("-f"), "-m", "-L"),
        _ => (Some("-f"), "-U", "-L"),
    };
    let mut words: Vec<String> = file_system.options.iter().map(ToString::to_string).collect();
    words.extend(force.map(str::to_owned));
    if let Some(uuid) = file_system.uuid.as_deref() {
        let prefix = if format == "xfs" { "uuid=" } else { "" };
        words.extend([uuid_option.to_owned(), format!("{prefix}{}", canonical(format, uuid))]);
    }
    if let Some(label) = file_system.label.as_deref() {
        words.extend([label_option.to_owned(), label.to_owned()]);
    }
    words
}

/// Whether an encrypted device is opened as it is. That the key fits, only opening it shows.
pub(super) fn decide_volume(luks: &Luks<'_>, found: &[Signature]) -> Result<Decision, Unfit> {
    let device = || luks.device.as_deref().unwrap_or_default().to_owned();
    if luks.wipe_volume == Some(true) {
        return Ok(Decision::Make);
    }
    let Some(found) = what_counts(found, &device())? else { return Ok(Decision::Make) };
    if found.kind != Kind::Luks {
        return Err(Unfit::Volume { device: device(), kind: found.kind.name() });
    }
    let differs = |what: &str, wanted: Option<&str>, found: Option<&String>| {
        let found = found.map(String::as_str).unwrap_or_default();
        let wanted = wanted.filter(|wanted| *wanted != found)?;
        Some(format!("volume {what} {found:?} doesn't match expected {what} {wanted:?}"))
    };
    let is_first = found.detail.as_deref().is_some_and(|detail| detail.starts_with("version 1"));
    let why = is_first
        .then(|| "it is a luks device but not luks2".to_owned())
        .or_else(|| differs("label", luks.label.as_deref(), found.label.as_ref()))
        .or_else(|| differs("UUID", luks.uuid.as_deref(), found.uuid.as_ref()));
    match why {
        Some(why) => Err(Unfit::Reuse { device: device(), why }),
        None => Ok(Decision::Keep),
    }
}

/// The arguments that format an encrypted device with a key.
pub(super) fn luks_format(luks: &Luks<'_>, key: &str, device: &str) -> Vec<String> {
    let mut words = ["luksFormat", "--batch-mode", "--type", "luks2", "--key-file", key].map(str::to_owned).to_vec();
    for (option, value) in [("--label", &luks.label), ("--uuid", &luks.uuid)] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            words.extend([option.to_owned(), value.to_owned()]);
        }
    }
    words.extend(luks.options.iter().map(ToString::to_string));
    words.push(device.to_owned());
    words
}

/// The arguments that open it, and store in it how.
pub(super) fn luks_open(luks: &Luks<'_>, key: &str, device: &str) -> Vec<String> {
    let mut words = ["luksOpen", device, &luks.name, "--key-file", key, "--persistent"].map(str::to_owned).to_vec();
    words.extend((luks.discard == Some(true)).then(|| "--allow-discards".to_owned()));
    words.extend(luks.open_options.iter().map(ToString::to_string));
    words
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
