//! What a disks stage is asked for and what it answers. The stage itself is the caller's: this crate writes to no disk.

use super::error::ApplyError;
use super::plan::Action;
use super::root::Root;
use crate::fetch::Fetcher;
use crate::model::{Directory, Document, File, Resource, Text};
use std::{path::PathBuf, str::FromStr};

/// A device that may be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedDisk {
    /// What the config calls it, where that is another device here.
    pub name: Option<String>,
    pub device: PathBuf,
}

impl FromStr for AllowedDisk {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Names in /dev/disk may have `=` in them.
        let (name, device) = match text.rsplit_once('=') {
            Some((name, device)) => (Some(name), device),
            None => (None, text),
        };
        let is_path = |path: &str| path.starts_with('/');
        if !is_path(device) || !name.is_none_or(is_path) {
            return Err("expected DEVICE or CONFIG_PATH=DEVICE, both absolute paths".to_owned());
        }
        Ok(Self { name: name.map(str::to_owned), device: device.into() })
    }
}

/// A config's disks, arrays, encrypted devices and file systems, and where they may be.
pub struct DisksRequest<'a> {
    /// Valid and of the newest version.
    pub config: &'a Document<'a>,
    pub allowed: &'a [AllowedDisk],
    /// Plan only.
    pub dry_run: bool,
    /// Gets key files.
    pub fetcher: &'a Fetcher,
}

/// What was done, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisksDone {
    pub actions: Vec<Action>,
    /// Identifiers of encrypted devices, in the config's order; empty for a plan.
    pub volumes: Vec<String>,
}

/// Plans a config's disks and, unless that is all that is asked for, makes them.
pub type DisksStage = fn(&DisksRequest<'_>) -> anyhow::Result<DisksDone>;

const KEY_DIR: &str = "/etc/luks";
const CRYPTTAB: &str = "/etc/crypttab";

/// Adds what opens the encrypted devices at boot to a config's files: keys and `/etc/crypttab`.
pub fn add_crypttab(config: &mut Document<'_>, root: &Root, volumes: &[String]) -> Result<(), ApplyError> {
    if volumes.is_empty() {
        return Ok(());
    }
    let fail = |source| ApplyError::Path {
        at: "$.storage.luks".to_owned(),
        doing: "looking for",
        path: KEY_DIR.to_owned(),
        source,
    };
    let directory = root.resolve(KEY_DIR).and_then(|place| root.stat(&place)).map_err(fail)?;
    let storage = &mut config.storage;
    if directory.is_none() {
        storage.directories.push(Directory { path: KEY_DIR.into(), mode: Some(0o700), ..Directory::default() });
    }
    let mut lines = Vec::new();
    for (luks, uuid) in storage.luks.iter().zip(volumes) {
        let key = format!("{KEY_DIR}/{}", luks.name);
        let line = format!("{} UUID={uuid} {key} luks,x-initrd.attach\n", luks.name);
        let source = Some(Text::from(crate::data_url::percent(line.as_bytes())));
        lines.push(Resource { source, ..Resource::default() });
        let contents = luks.key_file.clone();
        storage.files.push(File { path: key.into(), contents, mode: Some(0o600), ..File::default() });
    }
    let append = crate::model::Sequence(lines);
    storage.files.push(File { path: CRYPTTAB.into(), append, mode: Some(0o600), ..File::default() });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_config_may_stand_for_another_device() {
        let allowed = |text: &str| text.parse::<AllowedDisk>().map(|disk| (disk.name, disk.device));
        assert_eq!(allowed("/dev/loop3"), Ok((None, "/dev/loop3".into())));
        let name = Some("/dev/disk/by-id/a=b".to_owned());
        assert_eq!(allowed("/dev/disk/by-id/a=b=/dev/loop3"), Ok((name, "/dev/loop3".into())));
        for text in ["", "loop3", "x=/dev/loop3", "/dev/x="] {
            assert!(allowed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn encrypted_devices_are_opened_at_boot() {
        let text = br#"{"ignition":{"version":"3.6.0"},"storage":{"luks":[{"name":"a","device":"/dev/x","keyFile":{"source":"data:,k"}}]}}"#;
        let (mut config, ..) = crate::parse(text).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        add_crypttab(&mut config, &root, &["12-34".to_owned()]).unwrap();
        let storage = &config.storage;
        assert_eq!((&*storage.directories[0].path, storage.directories[0].mode), ("/etc/luks", Some(0o700)));
        let files: Vec<_> = storage.files.iter().map(|file| (&*file.path, file.mode)).collect();
        assert_eq!(files, [("/etc/luks/a", Some(0o600)), ("/etc/crypttab", Some(0o600))]);
        let line = storage.files[1].append[0].source.as_deref().unwrap();
        assert_eq!(&*crate::data_url::decode(line).unwrap().data, b"a UUID=12-34 /etc/luks/a luks,x-initrd.attach\n");
        let mut none = Document::default();
        add_crypttab(&mut none, &root, &[]).unwrap();
        assert!(none == Document::default());
    }
}
