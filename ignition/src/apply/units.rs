//! Units, their drop-ins, and what is enabled, disabled or masked.

use super::ApplyError;
use super::root::{Access, Place, Root, is_directory, is_link};
use crate::model::{Systemd, Unit};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
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
/// A larger file is not a unit, or its `Also=` does not matter.
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
        // An empty drop-in is a file, an empty unit is not.
        if let Some(contents) = unit.contents.as_deref().filter(|contents| !contents.is_empty()) {
            write_text(root, &at, &path, contents)?;
        }
        match unit.mask {
            Some(true) => mask(root, &path).map_err(|source| fail(&at, "masking", &path, source))?,
            Some(false) => unmask(root, &path).map_err(|source| fail(&at, "unmasking", &path, source))?,
            None => {}
        }
    }
    let at = "$.systemd.units";
    for preset in presets(&systemd.units) {
        let mut names = preset.names;
        if !preset.enabled {
            let source = |source| fail(at, "looking for links to the unit in", UNIT_DIR, source);
            let enabled = names.iter().map(|name| Ok(is_enabled(root, name)?.then(|| name.clone())));
            names = enabled.filter_map(Result::transpose).collect::<io::Result<_>>().map_err(source)?;
            let source = |source| fail(at, "removing links to the unit in", UNIT_DIR, source);
            names.iter().try_for_each(|name| disable(root, name)).map_err(source)?;
        }
        if !names.is_empty() {
            let line = Preset { names, ..preset }.line();
            append(root, &line).map_err(|source| fail(at, "writing the presets to", PRESET, source))?;
        }
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

/// Removes the link to /dev/null; a unit that is not masked stays as it is.
fn unmask(root: &Root, path: &str) -> io::Result<()> {
    let place = root.resolve(path)?;
    let is_masked = match root.stat(&place)? {
        Some(stat) if is_link(&stat) => root.link_target(&place)? == MASK,
        _ => false,
    };
    if is_masked { root.remove(&place) } else { Ok(()) }
}

/// A line of the preset file: a unit, or the instances of a template.
pub(super) struct Preset {
    pub enabled: bool,
    /// At least one.
    names: Vec<String>,
}

impl Preset {
    pub(super) fn line(&self) -> String {
        let verb = if self.enabled { "enable" } else { "disable" };
        let template = self.names.first().and_then(|name| split_instance(name)).map(|(template, _)| template);
        let Some(template) = template else { return format!("{verb} {}", self.names.join(" ")) };
        let instances = self.names.iter().filter_map(|name| Some(split_instance(name)?.1));
        instances.fold(format!("{verb} {template}"), |line, instance| format!("{line} {instance}"))
    }
}

/// The lines of the preset file, in Ignition's order: by unit or template, what is disabled first.
pub(super) fn presets(units: &[Unit<'_>]) -> Vec<Preset> {
    let mut lines: BTreeMap<String, Preset> = BTreeMap::new();
    for unit in units {
        let Some(enabled) = unit.enabled else { continue };
        let stem = split_instance(&unit.name).map_or_else(|| unit.name.to_string(), |(template, _)| template);
        let key = format!("{stem}-{}", if enabled { "enabled" } else { "disabled" });
        lines.entry(key).or_insert_with(|| Preset { enabled, names: Vec::new() }).names.push(unit.name.to_string());
    }
    lines.into_values().collect()
}

/// `a@b.service` is `b` of `a@.service`.
fn split_instance(name: &str) -> Option<(String, &str)> {
    let (prefix, rest) = name.split_once('@')?;
    let (instance, extension) = rest.rsplit_once('.')?;
    Some((format!("{prefix}@.{extension}"), instance))
}

fn append(root: &Root, line: &str) -> io::Result<()> {
    let place = root.resolve(PRESET)?;
    let (before, access) = match root.stat(&place)? {
        Some(stat) => {
            let access = Access { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode & 0o7777 };
            (root.read(PRESET, PRESET_BYTES)?.unwrap_or_default(), access)
        }
        None => (Vec::new(), FILE),
    };
    root.write(&place, access, &[&before, line.as_bytes(), b"\n"])
}

/// Removes the links by which a unit, and those it names in `Also=`, would be started or known by another name, as
/// `systemctl disable` does.
fn disable(root: &Root, name: &str) -> io::Result<()> {
    let (links, parents) = links(root, &with_also(root, name)?)?;
    links.iter().try_for_each(|link| root.remove(link))?;
    let top = root.resolve(UNIT_DIR)?;
    for dir in parents.iter().filter(|dir| **dir != top) {
        if root.names(dir)?.is_empty() {
            root.remove(dir)?;
        }
    }
    Ok(())
}

/// Whether `systemctl is-enabled` says so, which it does as well of what can't be enabled: units without `[Install]`, and other
/// names of a unit.
fn is_enabled(root: &Root, name: &str) -> io::Result<bool> {
    let Found::Unit { text, link } = find_or_template(root, name)? else { return Ok(false) };
    let is_other_name = link.as_deref().is_some_and(|target| target != name);
    let (found, _) = links(root, &HashSet::from([name.to_owned()]))?;
    let itself = root.resolve(format!("{UNIT_DIR}/{name}"))?;
    let is_linked = found.iter().any(|link| *link != itself);
    Ok(is_other_name || is_linked || !install(&text).has_rules)
}

/// Links by which these units would be started or known by another name, and the directories they are in.
fn links(root: &Root, names: &HashSet<String>) -> io::Result<(Vec<Place>, BTreeSet<Place>)> {
    let (mut found, mut parents) = (Vec::new(), BTreeSet::new());
    let top = root.resolve(UNIT_DIR)?;
    if !root.stat(&top)?.is_some_and(|stat| is_directory(&stat)) {
        return Ok((found, parents));
    }
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
    Ok((found, parents))
}

/// The unit and those that go with it; none if it is masked.
fn with_also(root: &Root, name: &str) -> io::Result<HashSet<String>> {
    let (mut names, mut pending) = (HashSet::new(), vec![name.to_owned()]);
    while let Some(name) = pending.pop() {
        if names.len() >= MAX_ALSO || names.contains(&name) {
            continue;
        }
        let text = match find_or_template(root, &name)? {
            Found::Masked => continue,
            Found::Unit { text, link } => {
                pending.extend(link);
                text
            }
            Found::Nothing => String::new(),
        };
        pending.extend(install(&text).also);
        names.insert(name);
    }
    Ok(names)
}

enum Found {
    Nothing,
    Masked,
    Unit {
        text: String,
        /// Where it leads, if it is a link: the last part of that.
        link: Option<String>,
    },
}

/// A unit, or the template that it is an instance of.
fn find_or_template(root: &Root, name: &str) -> io::Result<Found> {
    match (find(root, name)?, split_instance(name)) {
        (Found::Nothing, Some((template, _))) => find(root, &template),
        (found, _) => Ok(found),
    }
}

fn find(root: &Root, name: &str) -> io::Result<Found> {
    for dir in UNIT_DIRS {
        let path = format!("{dir}/{name}");
        let place: Place = root.resolve(&path)?;
        let Some(stat) = root.stat(&place)? else { continue };
        let target = if is_link(&stat) { Some(root.link_target(&place)?) } else { None };
        if target.as_ref().is_some_and(|target| target == MASK) {
            return Ok(Found::Masked);
        }
        let link = target.and_then(|target| Some(Path::new(&target).file_name()?.to_str()?.to_owned()));
        // An unreadable unit names no others.
        let text = root.read(&path, UNIT_BYTES).ok().flatten().unwrap_or_default();
        return Ok(Found::Unit { text: String::from_utf8_lossy(&text).into_owned(), link });
    }
    Ok(Found::Nothing)
}

/// What `[Install]` says.
#[derive(Default)]
struct Install {
    /// Units that are enabled and disabled with this one.
    also: Vec<String>,
    /// Whether it names anything that the unit could be linked to.
    has_rules: bool,
}

fn install(text: &str) -> Install {
    let (mut install, mut in_install) = (Install::default(), false);
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_install = line == "[Install]";
        } else if let Some((key, value)) = line.split_once('=').filter(|_| in_install) {
            match key.trim() {
                "Also" => install.also.extend(value.split_whitespace().map(str::to_owned)),
                "Alias" | "RequiredBy" | "UpheldBy" | "WantedBy" => install.has_rules |= !value.trim().is_empty(),
                _ => {}
            }
        }
    }
    install
}
