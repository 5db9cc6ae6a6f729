//! What the live system must install: the config files put into it and the arguments of its kernel.
//!
//! As coreos-installer.service does it (docs/compatibility.md#installer-config-files): first every file of `/etc/coreos/installer.d` by
//! name, then the `coreos.inst.*` arguments; the kernel's network arguments are passed to the first boot.

use super::expand::option;
use kernel::order;
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
/// Arguments that are an option with the same value.
const COPIED: [(&str, &str); 5] = [
    ("coreos.inst.image_url", "image-url"),
    ("coreos.inst.platform_id", "platform"),
    ("coreos.inst.stream", "stream"),
    ("coreos.inst.save_partlabel", "save-partlabel"),
    ("coreos.inst.save_partindex", "save-partindex"),
];
/// Arguments that are a flag.
const FLAGS: [(&str, &str); 2] = [("coreos.inst.insecure", "--insecure"), ("coreos.inst.secure_ipl", "--secure-ipl")];

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
}

/// What the live system below `root` says, as words of a command line.
pub(super) fn words(root: &Path) -> Result<Vec<String>, LiveError> {
    let path = root.join(KERNEL_ARGUMENTS);
    let arguments = fs::read_to_string(&path).map_err(|source| LiveError::Read { path: path.clone(), source })?;
    let config_dir = root.join(CONFIG_DIR);
    let files = files(&config_dir)?;
    from_arguments(files, &arguments).ok_or(LiveError::NoDevice { config_dir, arguments: path })
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
fn from_arguments(files: Vec<String>, line: &str) -> Option<Vec<String>> {
    let arguments = split(line);
    let mut words: Vec<_> = files.iter().flat_map(|file| option("config-file", file)).collect();
    if let Some(url) = value(&arguments, "coreos.inst.ignition_url").filter(|url| *url != "skip") {
        words.extend(option("ignition-url", url));
        words.push("--insecure-ignition".into());
    }
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
    for (argument, name) in COPIED {
        if let Some(value) = value(&arguments, argument) {
            words.extend(option(name, value));
        }
    }
    for (name, flag) in FLAGS {
        if value(&arguments, name).is_some_and(|value| !matches!(value, "0" | "no" | "off")) {
            words.push(flag.into());
        }
    }
    // The disk is for this installation alone, and the network may come late.
    words.extend(option("fetch-retries", "infinite"));
    match value(&arguments, "coreos.inst.install_dev") {
        Some(device) if device.contains('/') => words.push(device.to_owned()),
        Some(name) => words.push(format!("/dev/{name}")),
        None if files.is_empty() => return None,
        None => {}
    }
    Some(words)
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
