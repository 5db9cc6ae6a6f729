//! Units, their drop-ins, and what is enabled, disabled or masked.

use super::ApplyError;
use super::root::{Access, Place, Root, is_directory, is_link};
use crate::model::{Systemd, Unit};
use std::{
    collections::{BTreeSet, HashSet},
    io,
    path::Path,
};

const UNIT_DIR: &str = "/etc/systemd/system";
const PRESET: &str = "/etc/systemd/system-preset/20-ignition.preset";
/// Where systemd looks for units, the first wins.
const UNIT_DIRS: [&str; 5] = [
    UNIT_DIR,
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
const MASK: &str = "/dev/null";
const FILE: Access = Access { uid: 0, gid: 0, mode: 0o644 };
/// A larger file is no unit, or none whose `Also=` is of interest.
const UNIT_BYTES: u64 = 1 << 20;
const PRESET_BYTES: u64 = 16 << 20;
/// Units that name each other by `Also=`.
const MAX_ALSO: usize = 256;

pub(super) fn write(root: &Root, systemd: &Systemd<'_>) -> Result<(), ApplyError> {
    for (number, unit) in systemd.units.iter().enumerate() {
        let at = format!("$.systemd.units.{number}");
        for (number, dropin) in unit.dropins.iter().enumerate() {
            let path = format!("{UNIT_DIR}/{}.d/{}", unit.name, dropin.name);
            if let Some(contents) = dropin.contents.as_deref() {
                write_text(root, &format!("{at}.dropins.{number}"), &path, contents)?;
            }
        }
        let path = format!("{UNIT_DIR}/{}", unit.name);
        // An empty drop-in is a file, an empty unit is none.
        if let Some(contents) = unit.contents.as_deref().filter(|contents| !contents.is_empty()) {
            write_text(root, &at, &path, contents)?;
        }
        if unit.mask == Some(true) {
            mask(root, &path).map_err(|source| fail(&at, "masking", &path, source))?;
        }
    }
    let lines = presets(&systemd.units);
    if lines.is_empty() {
        return Ok(());
    }
    append(root, &lines).map_err(|source| fail("$.systemd.units", "writing the presets to", PRESET, source))?;
    for (number, unit) in systemd.units.iter().enumerate().filter(|(_, unit)| unit.enabled == Some(false)) {
        let at = format!("$.systemd.units.{number}");
        disable(root, &unit.name).map_err(|source| fail(&at, "removing links to the unit in", UNIT_DIR, source))?;
    }
    Ok(())
}

fn fail(at: &str, doing: &'static str, path: &str, source: io::Error) -> ApplyError {
    ApplyError::Path { at: at.to_owned(), doing, path: path.to_owned(), source }
}

fn write_text(root: &Root, at: &str, path: &str, contents: &str) -> Result<(), ApplyError> {
    let written = root.resolve(path).and_then(|place| root.write(&place, FILE, &[contents.as_bytes()]));
    written.map_err(|source| fail(at, "writing", path, source))
}

fn mask(root: &Root, path: &str) -> io::Result<()> {
    let place = root.resolve(path)?;
    root.remove(&place)?;
    root.symlink(MASK, &place, 0, 0)
}

/// Lines of the preset file, in the order of the config. Instances of a template share a line.
pub(super) fn presets(units: &[Unit<'_>]) -> Vec<String> {
    let mut lines: Vec<(Option<String>, String)> = Vec::new();
    for unit in units {
        let Some(enabled) = unit.enabled else { continue };
        let verb = if enabled { "enable" } else { "disable" };
        let Some((template, instance)) = split_instance(&unit.name) else {
            lines.push((None, format!("{verb} {}", unit.name)));
            continue;
        };
        let key = format!("{verb} {template}");
        match lines.iter_mut().find(|(known, _)| known.as_ref() == Some(&key)) {
            Some((_, line)) => {
                line.push(' ');
                line.push_str(instance);
            }
            None => lines.push((Some(key.clone()), format!("{key} {instance}"))),
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// `a@b.service` is `b` of `a@.service`.
fn split_instance(name: &str) -> Option<(String, &str)> {
    let (prefix, rest) = name.split_once('@')?;
    let (instance, extension) = rest.rsplit_once('.')?;
    Some((format!("{prefix}@.{extension}"), instance))
}

fn append(root: &Root, lines: &[String]) -> io::Result<()> {
    let place = root.resolve(PRESET)?;
    let (before, access) = match root.stat(&place)? {
        Some(stat) => {
            let access = Access { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode & 0o7777 };
            (root.read(PRESET, PRESET_BYTES)?.unwrap_or_default(), access)
        }
        None => (Vec::new(), FILE),
    };
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    root.write(&place, access, &[&before, text.as_bytes()])
}

/// Removes the links by which a unit, and those it names in `Also=`, would be started or known by another name, as
/// `systemctl disable` does.
fn disable(root: &Root, name: &str) -> io::Result<()> {
    let names = with_also(root, name)?;
    let top = root.resolve(UNIT_DIR)?;
    if !root.stat(&top)?.is_some_and(|stat| is_directory(&stat)) {
        return Ok(());
    }
    let (mut found, mut parents) = (Vec::new(), BTreeSet::new());
    root.visit(&top, &mut |dir, above, name, stat| {
        let Some((_, below)) = above.split_first() else { return Ok(()) };
        if !is_link(stat) {
            return Ok(());
        }
        let target = nix::fcntl::readlinkat(dir, name)?;
        let is_named = |name: Option<&str>| {
            name.is_some_and(|name| {
                names.contains(name) || split_instance(name).is_some_and(|(template, _)| names.contains(&template))
            })
        };
        let leads_there = Path::new(&target).file_name().and_then(|name| name.to_str());
        if is_named(name.to_str()) || leads_there.is_some_and(|name| names.contains(name)) {
            let dir = below.iter().fold(top.clone(), |place, part| place.join(part));
            found.push(dir.join(name));
            parents.insert(dir);
        }
        Ok(())
    })?;
    found.iter().try_for_each(|link| root.remove(link))?;
    for dir in parents.iter().filter(|dir| **dir != top) {
        if root.names(dir)?.is_empty() {
            root.remove(dir)?;
        }
    }
    Ok(())
}

/// The unit and those that go with it; none if it is masked.
fn with_also(root: &Root, name: &str) -> io::Result<HashSet<String>> {
    let (mut names, mut pending) = (HashSet::new(), vec![name.to_owned()]);
    while let Some(name) = pending.pop() {
        if names.len() >= MAX_ALSO || names.contains(&name) {
            continue;
        }
        let template = split_instance(&name).map(|(template, _)| template);
        let text = match find(root, &name)? {
            Found::Masked => continue,
            Found::Text(text) => text,
            Found::Nothing => match template.as_deref().map(|template| find(root, template)).transpose()? {
                Some(Found::Masked) => continue,
                Some(Found::Text(text)) => text,
                Some(Found::Nothing) | None => String::new(),
            },
        };
        pending.extend(also(&text));
        names.insert(name);
    }
    Ok(names)
}

enum Found {
    Nothing,
    Masked,
    Text(String),
}

fn find(root: &Root, name: &str) -> io::Result<Found> {
    for dir in UNIT_DIRS {
        let path = format!("{dir}/{name}");
        let place: Place = root.resolve(&path)?;
        let Some(stat) = root.stat(&place)? else { continue };
        if is_link(&stat) && root.link_target(&place)? == MASK {
            return Ok(Found::Masked);
        }
        // What can't be read names no others.
        let text = root.read(&path, UNIT_BYTES).ok().flatten().unwrap_or_default();
        return Ok(Found::Text(String::from_utf8_lossy(&text).into_owned()));
    }
    Ok(Found::Nothing)
}

/// Names in the `Also=` lines of `[Install]`.
fn also(text: &str) -> Vec<String> {
    let (mut names, mut in_install) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_install = line == "[Install]";
        } else if let Some((key, value)) = line.split_once('=').filter(|_| in_install)
            && key.trim() == "Also"
        {
            names.extend(value.split_whitespace().map(str::to_owned));
        }
    }
    names
}
