//! Checks of units.

use super::unit;
use crate::model::part::Check;
use crate::model::{Document, Dropin, Systemd, Text, Unit};
use crate::report::Walk;
use std::collections::{HashMap, HashSet};

const UNIT_DIR: &str = "/etc/systemd/system/";
const EXTENSIONS: [&str; 11] = [
    ".service",
    ".socket",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".target",
    ".path",
    ".timer",
    ".snapshot",
    ".slice",
];
const SCOPE: &str = ".scope";

fn is_set(text: &Option<Text<'_>>) -> bool {
    text.as_deref().is_some_and(|text| !text.is_empty())
}

/// Whether a file, directory or link is at the path of a unit's file.
pub(super) fn check_paths(config: &Document<'_>, walk: &mut Walk<'_, '_>) {
    let mut taken = HashSet::new();
    for unit in &config.systemd.units {
        if is_set(&unit.contents) {
            taken.insert(format!("{UNIT_DIR}{}", unit.name));
        }
        let dropins = unit.dropins.iter().filter(|dropin| is_set(&dropin.contents));
        taken.extend(dropins.map(|dropin| format!("{UNIT_DIR}{}.d/{}", unit.name, dropin.name)));
    }
    let storage = &config.storage;
    let mut check = |list: &'static str, place: usize, path: &str| {
        if taken.contains(path) {
            let at = ["storage".into(), list.into(), place.into(), "path".into()];
            walk.error(&at, "path conflicts with systemd unit or dropin");
        }
    };
    storage.files.iter().enumerate().for_each(|(place, entry)| check("files", place, &entry.path));
    storage.directories.iter().enumerate().for_each(|(place, entry)| check("directories", place, &entry.path));
    storage.links.iter().enumerate().for_each(|(place, entry)| check("links", place, &entry.path));
}

impl Check for Systemd<'_> {
    /// An instance is enabled by its template's `[Install]`.
    fn check(&self, walk: &mut Walk<'_, '_>) {
        let units: HashMap<&str, &Unit<'_>> = self.units.iter().map(|unit| (&*unit.name, unit)).collect();
        for (place, instance) in self.units.iter().enumerate() {
            let Some((template, extension)) = instance
                .name
                .split_once('@')
                .and_then(|(name, rest)| Some((name, rest.rsplit_once('.')?)))
                .filter(|(_, (instance, _))| !instance.is_empty())
                .map(|(name, (_, extension))| (format!("{name}@.{extension}"), extension))
            else {
                continue;
            };
            let found = units.get(template.as_str()).filter(|unit| is_set(&unit.contents));
            let is_service = extension == "service";
            if let Some(found) = found.filter(|_| instance.enabled == Some(true) && is_service)
                && matches!(unit::can_be_enabled(found.contents.as_deref().unwrap_or_default()), Ok(false))
            {
                let message =
                    format!("template unit \"{template}\" for \"{}\" doesn't have Install section", instance.name);
                walk.warning(&["units".into(), place.into(), "contents".into()], message);
            }
        }
    }
}

impl Check for Unit<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        if !EXTENSIONS.iter().chain([&SCOPE]).any(|extension| has_extension(&self.name, extension)) {
            walk.error(&["name".into()], "invalid systemd unit extension");
        }
        let contents = self.contents.as_deref().unwrap_or_default();
        match unit::can_be_enabled(contents) {
            Err(error) => walk.error(&["contents".into()], format!("invalid unit content: {error}")),
            Ok(false) if self.enabled == Some(true) && !contents.is_empty() => {
                let message =
                    format!("unit \"{}\" is enabled, but has no install section so enable does nothing", self.name);
                walk.warning(&["contents".into()], message);
            }
            Ok(_) => {}
        }
    }
}

/// As Go's `path.Ext` has it: from the last dot of the last part on.
fn has_extension(name: &str, extension: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or_default();
    last.rfind('.').and_then(|at| last.get(at..)).is_some_and(|found| found == extension)
}

impl Check for Dropin<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        if !has_extension(&self.name, ".conf") {
            walk.error(&["name".into()], "invalid systemd drop-in extension");
        }
        if let Err(error) = unit::can_be_enabled(self.contents.as_deref().unwrap_or_default()) {
            walk.error(&["contents".into()], format!("invalid unit content: {error}"));
        }
    }
}
