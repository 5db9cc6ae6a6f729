//! What the live system must install: the config files put into it and the arguments of its kernel.
//!
//! As coreos-installer.service does it (docs/compatibility.md#installer-config-files): first every file of `/etc/coreos/installer.d` by
//! name, then the `coreos.inst.*` arguments; the kernel's network arguments are passed to the first boot.

use super::expand::option;
use kernel::{order, spelling};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where Ignition puts config files of the installation.
const CONFIG_DIR: &str = "etc/coreos/installer.d";
/// The arguments of the running kernel.
const KERNEL_ARGUMENTS: &str = "proc/cmdline";

/// Arguments about the network, of the kernel and dracut, that the first boot gets too.
const FIRST_BOOT: [&str; 19] = [
    "BOOTIF",
    "biosdevname",
    "bond",
    "bootdev",
    "bridge",
    "coreos.force_persist_ip",
    "coreos.no_persist_ip",
    "ifname",
    "ip",
    "ipv6.disable",
    "nameserver",
    "net.ifnames",
    "net.naming-scheme",
    "rd.bootif",
    "rd.net.timeout.carrier",
    "rd.peerdns",
    "rd.route",
    "team",
    "vlan",
];
/// Arguments about the devices of IBM Z, that every boot gets.
const EVERY_BOOT: [&str; 5] = ["cio_ignore", "rd.dasd", "rd.zfcp", "rd.znet", "zfcp.allow_lun_scan"];
/// What the installation's own arguments begin with.
const PREFIX: &str = "coreos.inst.";
/// All of them. Another one is a mistake: what it asked for would not be done, and the disk would be erased.
const ARGUMENTS: [(&str, Meaning); 10] = [
    ("install_dev", Meaning::Disk),
    ("ignition_url", Meaning::Ignition),
    ("image_url", Meaning::Last("image-url")),
    ("platform_id", Meaning::Last("platform")),
    ("stream", Meaning::Last("stream")),
    ("save_partlabel", Meaning::Each("save-partlabel")),
    ("save_partindex", Meaning::Each("save-partindex")),
    ("insecure", Meaning::Switch(Some("--insecure"))),
    ("secure_ipl", Meaning::Switch(Some("--secure-ipl"))),
    // For the generator.
    ("skip_reboot", Meaning::Switch(None)),
];

/// What an argument is on the command line.
#[derive(Clone, Copy)]
enum Meaning {
    /// The disk.
    Disk,
    /// The Ignition config, where the value is not `skip`.
    Ignition,
    /// The last value is an option's.
    Last(&'static str),
    /// Each value is an option's.
    Each(&'static str),
    /// This flag, unless the value says no.
    Switch(Option<&'static str>),
}

/// Why the live system's configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum LiveError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A name that can't be a word of the command line.
    #[error("the name of config file {} is not Unicode: rename it", path.display())]
    Name { path: PathBuf },
    /// Neither a config file nor an argument for it.
    #[error("No install device specified: no file in {}, and no coreos.inst.install_dev= in {}",
        config_dir.display(), arguments.display())]
    NoDevice {
        /// Where the files would be.
        config_dir: PathBuf,
        /// Where the argument would be.
        arguments: PathBuf,
    },
    #[error("kernel argument {name}")]
    Argument { name: String, source: ArgumentError },
}

/// Why one of the kernel's arguments can't be followed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error("it is not known, and nothing was erased: {hint}")]
    Unknown { hint: String },
    #[error("it has no value: leave it out, or write {name}=VALUE")]
    Empty { name: String },
    #[error("{value} is neither yes nor no: write one of {}", spelling::SWITCH)]
    NoSwitch { value: String },
    /// The last one would win in silence, and be destroyed.
    #[error("it names more than one disk, {first} and {second}: leave one out")]
    TwoDisks { first: String, second: String },
}

/// What the live system below `root` says, as words of a command line.
pub(super) fn words(root: &Path) -> Result<Vec<String>, LiveError> {
    let path = root.join(KERNEL_ARGUMENTS);
    let arguments = fs::read_to_string(&path).map_err(|source| LiveError::Read { path: path.clone(), source })?;
    let config_dir = root.join(CONFIG_DIR);
    let files = files(&config_dir)?;
    from_arguments(files, &arguments)?.ok_or(LiveError::NoDevice { config_dir, arguments: path })
}

/// Deletes the config files: a system that is not live would install again at every boot.
pub(super) fn forget(root: &Path) {
    let dir = root.join(CONFIG_DIR);
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, dir = %dir.display(), "cannot delete the installation's config files");
        }
        _ => {}
    }
}

/// The value of the last of the kernel's arguments with this name.
pub(crate) fn live_value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    value(&split(line), name)
}

fn split(line: &str) -> Vec<&str> {
    line.lines().next().unwrap_or_default().split(' ').filter(|argument| !argument.is_empty()).collect()
}

/// The regular files in `dir`, by name; none if it is missing.
fn files(dir: &Path) -> Result<Vec<String>, LiveError> {
    let failed = |source| LiveError::Read { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // As the service's shell has it: a link to a file is one, a name with a dot in front is hidden.
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    order::sort(&mut files);
    let text =
        |path: PathBuf| path.into_os_string().into_string().map_err(|path| LiveError::Name { path: path.into() });
    files.into_iter().map(text).collect()
}

/// None where nothing names a disk; a config file is believed to.
fn from_arguments(files: Vec<String>, line: &str) -> Result<Option<Vec<String>>, LiveError> {
    let arguments = split(line);
    let given = given(&arguments)?;
    let mut words: Vec<_> = files.iter().flat_map(|file| option("config-file", file)).collect();
    let mut first_boot = String::from("rd.neednet=1");
    for argument in &arguments {
        if is_one_of(argument, &FIRST_BOOT) {
            first_boot = format!("{first_boot} {argument}");
        } else if is_one_of(argument, &EVERY_BOOT) {
            words.extend(option("append-karg", argument));
        }
    }
    if first_boot.contains(' ') {
        words.extend(option("firstboot-args", &first_boot));
    }
    let mut disk = None;
    for (name, meaning) in ARGUMENTS {
        let values = || given.iter().filter(|(given, _)| *given == name).map(|(_, value)| *value);
        let Some(last) = values().next_back() else { continue };
        match meaning {
            Meaning::Disk => {
                if let Some(first) = values().find(|value| *value != last) {
                    return Err(refused(name, ArgumentError::TwoDisks { first: first.into(), second: last.into() }));
                }
                disk = Some(if last.contains('/') { last.to_owned() } else { format!("/dev/{last}") });
            }
            Meaning::Ignition if last == "skip" => {}
            Meaning::Ignition => {
                words.extend(option("ignition-url", last));
                words.push("--insecure-ignition".into());
            }
            Meaning::Last(option_name) => words.extend(option(option_name, last)),
            Meaning::Each(option_name) => words.extend(values().flat_map(|value| option(option_name, value))),
            Meaning::Switch(flag) => {
                let value = spelling::switch(last);
                let is_on = value.ok_or_else(|| refused(name, ArgumentError::NoSwitch { value: last.into() }))?;
                words.extend(flag.filter(|_| is_on).map(str::to_owned));
            }
        }
    }
    if disk.is_none() && files.is_empty() {
        return Ok(None);
    }
    words.extend(disk);
    Ok(Some(words))
}

/// The installation's own arguments without what they begin with, and their values; a switch without one is on.
fn given<'a>(arguments: &[&'a str]) -> Result<Vec<(&'a str, &'a str)>, LiveError> {
    let mut given = Vec::new();
    for argument in arguments.iter().filter_map(|argument| argument.strip_prefix(PREFIX)) {
        let (name, value) = argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)));
        let Some((_, meaning)) = ARGUMENTS.iter().find(|(known, _)| *known == name) else {
            let names = || ARGUMENTS.iter().map(|(name, _)| *name);
            let hint = match spelling::nearest(name, names()) {
                Some(nearest) => format!("did you mean {PREFIX}{nearest}?"),
                None => format!("known are {PREFIX}{{{}}}", names().collect::<Vec<_>>().join(", ")),
            };
            return Err(refused(name, ArgumentError::Unknown { hint }));
        };
        match (value, meaning) {
            (None, Meaning::Switch(_)) => given.push((name, "yes")),
            (Some(value), _) if !value.is_empty() => given.push((name, value)),
            _ => return Err(refused(name, ArgumentError::Empty { name: format!("{PREFIX}{name}") })),
        }
    }
    Ok(given)
}

fn refused(name: &str, source: ArgumentError) -> LiveError {
    LiveError::Argument { name: format!("{PREFIX}{name}"), source }
}

/// The value of the last argument with this name; of one without `=` the name. Empty is none.
fn value<'a>(arguments: &[&'a str], name: &str) -> Option<&'a str> {
    let last = arguments.iter().rev().find(|argument| argument.split('=').next() == Some(name))?;
    Some(last.split_once('=').map_or(*last, |(_, value)| value)).filter(|value| !value.is_empty())
}

fn is_one_of(argument: &str, names: &[&str]) -> bool {
    argument.split('=').next().is_some_and(|name| names.contains(&name))
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
