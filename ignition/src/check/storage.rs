//! Checks of disks and what is on them.

use super::{text, url};
use crate::model::part::Check;
use crate::model::{
    Clevis, ClevisCustom, Directory, Disk, File, Filesystem, Link, Luks, Partition, Raid, Storage, Tang, Text, Version,
};
use crate::report::{Step, Walk};
use std::collections::{HashMap, HashSet};

/// Permission bits with the special ones.
const MODES: std::ops::RangeInclusive<i64> = 0..=0o7777;
/// GPTs of the field have room for 128; more are not held against each other.
const MAX_COMPARED: usize = 1024;

impl Check for Storage<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        let mut links: HashMap<&str, usize> = HashMap::new();
        self.links.iter().for_each(|link| *links.entry(&link.path).or_default() += 1);
        let links_above = |path: &str| -> usize {
            let parents = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
            parents.filter_map(|parent| links.get(parent)).sum()
        };
        for (list, paths, message) in [
            ("directories", paths(&self.directories, |entry| &entry.path), "directory path includes link in config"),
            ("files", paths(&self.files, |entry| &entry.path), "file path includes link in config"),
            ("links", paths(&self.links, |entry| &entry.path), "link path includes link in config"),
        ] {
            for (place, path) in paths.into_iter().enumerate() {
                for _ in 0..links_above(path).min(walk.room()) {
                    walk.error(&[list.into(), place.into()], message);
                }
            }
        }
        let directories: HashSet<&str> = self.directories.iter().map(|entry| &*entry.path).collect();
        for (place, link) in self.links.iter().enumerate() {
            check_link(link, &directories, &["links".into(), place.into()], walk);
        }
        self.check_filesystems(walk);
    }
}

fn paths<'l, T>(list: &'l [T], path: impl Fn(&'l T) -> &'l Text<'l>) -> Vec<&'l str> {
    list.iter().map(|entry| &**path(entry)).collect()
}

fn check_link(link: &Link<'_>, directories: &HashSet<&str>, at: &[Step<'_>], walk: &mut Walk<'_, '_>) {
    let target = link.target.as_deref().unwrap_or_default();
    if target.is_empty() && walk.version >= Version::V3_3 {
        walk.error(&[at, &["target".into()]].concat(), "link target is required");
        return;
    }
    if link.hard != Some(true) {
        return;
    }
    // As Ignition has it: a relative target is appended to the link itself.
    let target =
        if target.starts_with('/') { text::clean(target) } else { text::clean(&format!("{}/{target}", link.path)) };
    if directories.contains(target.as_str()) {
        walk.error(at, "hard link target is a directory");
    }
    for (who, owner) in [("user", &link.user), ("group", &link.group)] {
        for (key, is_set) in
            [("id", owner.id.is_some()), ("name", owner.name.as_deref().is_some_and(|name| !name.is_empty()))]
        {
            if is_set {
                walk.warning(&[at, &[who.into(), key.into()]].concat(), "user/group ignored for hard link");
            }
        }
    }
}

impl Storage<'_> {
    fn check_filesystems(&self, walk: &mut Walk<'_, '_>) {
        let disks: HashMap<&str, &Disk<'_>> = self.disks.iter().map(|disk| (&*disk.device, disk)).collect();
        for (place, filesystem) in self.filesystems.iter().enumerate() {
            let Some(disk) = disks.get(&*filesystem.device) else { continue };
            let message = if !disk.partitions.is_empty() {
                "filesystem overwrites partitioned device"
            } else if disk.wipe_table == Some(true) && filesystem.wipe_filesystem != Some(true) {
                "device matches disk with wipeTable enabled; filesystem will be wiped"
            } else {
                continue;
            };
            walk.warning(&["filesystems".into(), place.into(), "device".into()], message);
        }
    }
}

fn check_path(key: &str, path: &str, walk: &mut Walk<'_, '_>) {
    if let Err(fault) = text::path(path) {
        walk.error(&[key.into()], fault);
    }
}

/// Set-user-ID, set-group-ID, sticky.
const SPECIAL_BITS: i64 = 0o7000;

fn check_mode(mode: Option<i64>, walk: &mut Walk<'_, '_>) {
    let Some(mode) = mode else { return };
    if !MODES.contains(&mode) {
        walk.error(&["mode".into()], "illegal file mode");
    }
    if mode & SPECIAL_BITS != 0 && walk.version < Version::V3_6 {
        walk.warning(
            &["mode".into()],
            "setuid/setgid/sticky bits are not supported or functional in spec versions older than 3.6.0",
        );
    }
}

impl Check for Directory<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        check_path("path", &self.path, walk);
        check_mode(self.mode, walk);
    }
}

impl Check for File<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        check_path("path", &self.path, walk);
        check_mode(self.mode, walk);
        if self.overwrite == Some(true) && self.contents.source.is_none() {
            walk.error(&["overwrite".into()], "overwrite must be false if source is unspecified");
        }
    }
}

impl Check for Link<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        check_path("path", &self.path, walk);
    }
}

impl Check for Disk<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        if self.device.is_empty() {
            walk.error(&["device".into()], "disk device is required");
            return;
        }
        check_path("device", &self.device, walk);
        let found = |walk: &mut Walk<'_, '_>, place: Option<usize>, message: &str| {
            if let Some(place) = place {
                walk.error(&["partitions".into(), place.into()], message);
            }
        };
        found(walk, self.same_number(), "partition numbers collide");
        found(walk, self.overlap(), "partitions overlap");
        found(walk, self.same_label(), "cannot use the same partition label twice");
    }
}

impl Disk<'_> {
    fn same_number(&self) -> Option<usize> {
        let mut seen = HashSet::new();
        self.partitions.iter().position(|partition| partition.number != 0 && !seen.insert(partition.number))
    }

    fn same_label(&self) -> Option<usize> {
        let mut seen = HashSet::new();
        self.partitions.iter().position(|partition| partition.label.as_ref().is_some_and(|label| !seen.insert(label)))
    }

    /// The first that another is over.
    fn overlap(&self) -> Option<usize> {
        let extents: Vec<_> = self.partitions.iter().take(MAX_COMPARED).map(extent).collect();
        for (place, extent) in extents.iter().enumerate() {
            let Some((start, end)) = extent else { continue };
            let is_over =
                |other: &Option<(i64, i64)>| other.is_some_and(|(first, last)| *start <= last && first <= *end);
            let over = extents.iter().enumerate().position(|(other, extent)| other != place && is_over(extent));
            if over.is_some() {
                return over;
            }
        }
        None
    }
}

/// First and last MiB of a partition that says where it is.
fn extent(partition: &Partition<'_>) -> Option<(i64, i64)> {
    let (start, size) = (partition.start_mib.filter(|start| *start != 0)?, partition.size_mib?);
    Some((start, if size == 0 { start } else { start.saturating_add(size).saturating_sub(1) }))
}

impl Check for Partition<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        let is_set = |text: &Option<Text<'_>>| text.as_deref().is_some_and(|text| !text.is_empty());
        let has_more = self.label.is_some()
            || is_set(&self.type_guid)
            || is_set(&self.guid)
            || self.start_mib.is_some()
            || self.size_mib.is_some();
        if self.should_exist == Some(false) && has_more {
            walk.error(&[], "shouldExist specified false with other options also specified");
        }
        if self.number == 0 && self.label.is_none() {
            walk.error(&[], "a partition number >= 1 or a label must be specified");
        }
        match self.label.as_deref() {
            Some(label) if label.len() > 36 => {
                walk.error(&["label".into()], "partition labels may not exceed 36 characters");
            }
            Some(label) if label.contains(':') => {
                walk.error(&["label".into()], "partition label will be truncated to text before the colon");
            }
            _ => {}
        }
        for (key, guid) in [("typeGuid", &self.type_guid), ("guid", &self.guid)] {
            if !text::is_guid(guid.as_deref().unwrap_or_default()) {
                walk.error(&[key.into()], r#"doesn't match the form "01234567-89AB-CDEF-EDCB-A98765432101""#);
            }
        }
    }
}

impl Check for Raid<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        let level = self.level.as_deref().unwrap_or_default();
        let message = match level {
            "" if walk.version >= Version::V3_3 => Some("raid level is required"),
            "linear" | "raid0" | "0" | "stripe" => self
                .spares
                .is_some_and(|spares| spares != 0)
                .then_some("spares unsupported for linear and raid0 arrays"),
            "raid1" | "1" | "mirror" | "raid4" | "4" | "raid5" | "5" | "raid6" | "6" | "raid10" | "10" => None,
            _ => Some("unrecognized raid level"),
        };
        message.into_iter().for_each(|message| walk.error(&["level".into()], message));
        if self.devices.is_empty() {
            walk.error(&["devices".into()], "raid devices required");
        }
        for (place, device) in self.devices.iter().enumerate() {
            if let Err(fault) = text::path(device) {
                walk.error(&["devices".into(), place.into()], fault);
            }
        }
    }
}

impl Check for Filesystem<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        let format = self.format.as_deref().unwrap_or_default();
        let is_virtual = format == "virtiofs" && walk.version >= Version::V3_7;
        if let Some(path) = self.path.as_deref().filter(|path| !path.is_empty()) {
            check_path("path", path, walk);
        }
        if is_virtual {
            self.check_tag(walk);
        } else {
            check_path("device", &self.device, walk);
        }
        self.check_format(format, is_virtual, walk);
        self.check_label(format, is_virtual, walk);
        if is_virtual {
            self.check_without_block_device(walk);
        }
    }
}

impl Filesystem<'_> {
    fn check_format(&self, format: &str, is_virtual: bool, walk: &mut Walk<'_, '_>) {
        let is_set = |text: &Option<Text<'_>>| text.as_deref().is_some_and(|text| !text.is_empty());
        let needs_one = is_set(&self.path)
            || is_set(&self.label)
            || is_set(&self.uuid)
            || self.wipe_filesystem == Some(true)
            || !self.options.is_empty()
            || !self.mount_options.is_empty();
        let message = match format {
            "" => needs_one.then_some(
                "format cannot be empty when path, label, uuid, wipeFilesystem, options, or mountOptions is specified",
            ),
            "ext4" | "btrfs" | "xfs" | "swap" | "vfat" => None,
            "none" if walk.version >= Version::V3_3 => None,
            _ if is_virtual => None,
            _ => Some("invalid filesystem format"),
        };
        message.into_iter().for_each(|message| walk.error(&["format".into()], message));
    }

    fn check_label(&self, format: &str, is_virtual: bool, walk: &mut Walk<'_, '_>) {
        let Some(label) = self.label.as_deref().filter(|label| !label.is_empty()) else { return };
        let most = match format {
            "" => {
                walk.error(&["label".into()], "filesystem must specify format if label is specified");
                return;
            }
            "ext4" => 16,
            "btrfs" => 256,
            "xfs" => 12,
            "swap" => 15,
            "vfat" => 11,
            _ if is_virtual => {
                walk.error(&["label".into()], "filesystem labels cannot be set when using virtiofs");
                return;
            }
            _ => return,
        };
        if label.len() > most {
            walk.error(
                &["label".into()],
                format!("filesystem labels cannot be longer than {most} characters when using {format}"),
            );
        }
    }

    /// The host's directories are known by tags.
    fn check_tag(&self, walk: &mut Walk<'_, '_>) {
        if self.device.is_empty() {
            walk.error(&["device".into()], "device not specified");
        } else if self.device.len() > 36 {
            walk.error(&["device".into()], "virtiofs device tag cannot be longer than 36 bytes");
        }
    }

    fn check_without_block_device(&self, walk: &mut Walk<'_, '_>) {
        let has_uuid = self.uuid.as_deref().is_some_and(|uuid| !uuid.is_empty());
        for (key, what, is_set) in [
            ("uuid", "filesystem uuid", has_uuid),
            ("wipeFilesystem", "wipeFilesystem", self.wipe_filesystem == Some(true)),
            ("options", "filesystem options (mkfs)", !self.options.is_empty()),
        ] {
            if is_set {
                walk.error(&[key.into()], format!("{what} cannot be set for non-block-device filesystems"));
            }
        }
    }
}

impl Check for Luks<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        if self.name.contains('/') {
            walk.error(&["name".into()], "device names cannot contain slashes");
        }
        if self.label.as_ref().is_some_and(|label| label.len() > 47) {
            walk.error(&["label".into()], "luks device labels cannot be longer than 47 characters");
        }
        match self.device.as_deref() {
            None | Some("") => walk.error(&["device".into()], "disk device is required"),
            Some(device) => check_path("device", device, walk),
        }
        let Clevis { custom, tang, threshold, tpm2 } = &self.clevis;
        let has_pins = *tpm2 == Some(true) || !tang.is_empty() || threshold.is_some_and(|threshold| threshold != 0);
        let has_custom = match walk.version {
            // There an empty one counts as well.
            Version::V3_2 => walk.is_object(&["clevis".into(), "custom".into()]),
            _ => custom.pin.as_deref().is_some_and(|pin| !pin.is_empty()),
        };
        if has_custom && has_pins {
            walk.error(&["clevis".into()], "cannot use custom clevis config with tpm2, tang, or threshold");
        }
        if let Some(source) = self.key_file.source.as_deref().filter(|source| !source.is_empty())
            && url::check(source, walk.version).is_err()
        {
            walk.error(&["keys".into()], "invalid key-file source");
        }
        if self.cex.enabled == Some(true) {
            if *custom != ClevisCustom::default() || has_pins {
                walk.error(&["cex".into()], "cannot use cex with clevis");
            }
            if self.key_file.source.as_deref().is_some_and(|source| !source.is_empty()) {
                walk.error(&["cex".into()], "cannot use key file with cex");
            }
        }
    }
}

impl Check for Clevis<'_> {}

impl Check for ClevisCustom<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        let is_missing = |text: &Option<Text<'_>>| text.as_deref().unwrap_or_default().is_empty();
        if is_missing(&self.pin) && is_missing(&self.config) && self.needs_network != Some(true) {
            return;
        }
        match self.pin.as_deref().unwrap_or_default() {
            "" if walk.version >= Version::V3_3 => walk.error(&["pin".into()], "missing required custom clevis pin"),
            "tpm2" | "tang" | "sss" => {}
            _ if walk.version >= Version::V3_6 => {}
            _ => walk.error(&["pin".into()], "unsupported clevis pin"),
        }
        if is_missing(&self.config) {
            walk.error(&["config".into()], "missing required custom clevis config");
        }
    }
}

impl Check for Tang<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        match url::scheme(&self.url) {
            Ok(url::Scheme::Http | url::Scheme::Https) => {}
            Ok(_) => walk.error(&["url".into()], "invalid url scheme"),
            Err(_) => walk.error(&["url".into()], "unable to parse url"),
        }
        if self.thumbprint.as_deref().unwrap_or_default().is_empty() {
            walk.error(&["thumbprint".into()], "thumbprint is required");
        }
        if self.advertisement.as_deref().is_some_and(|text| {
            !text.is_empty() && crate::json::parse(text.as_bytes(), crate::json::MAX_VALUES).is_err()
        }) {
            walk.error(&["advertisement".into()], "advertisement is not valid JSON");
        }
    }
}
