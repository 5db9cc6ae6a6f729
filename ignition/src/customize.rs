//! Configs that go into a live ISO of CoreOS to make it install a machine unattended, as `iso customize` of
//! coreos-installer makes them (docs/compatibility.md#customized-live-systems): one for the live system, which contains
//! one for the installed system.

use crate::check::version_text;
use crate::model::{Document, File, Reference, Resource, Version};
use crate::resource::{Encoding, resource};
use crate::{BuildError, parts};
use serde::Serialize;
use std::collections::BTreeSet;

/// The version that every CoreOS that can be customised understands.
const VERSION: Version = Version::V3_3;
/// Where the installed system's config waits for the installer.
pub const DEST_CONFIG_PATH: &str = "/etc/coreos/dest.ign";
/// Where the installer reads its configs from, in the order of their names.
const INSTALLER_CONFIG_DIR: &str = "/etc/coreos/installer.d";

/// A file from outside.
#[derive(Clone, Default)]
pub struct Input {
    /// Its name, without a directory.
    pub name: String,
    pub content: Vec<u8>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Input({}, {} bytes)", self.name, self.content.len())
    }
}

/// What an ISO must do.
#[derive(Clone, Debug, Default)]
pub struct Customize {
    /// Configs of the installed system. They may be of any version, even an unknown one.
    pub dest_configs: Vec<Input>,
    /// Further configs of the live system, likewise.
    pub live_configs: Vec<Input>,
    /// Certificates that both systems trust for what their configs fetch, PEM.
    pub certificate_authorities: Vec<Input>,
    /// Programs to run before the installation.
    pub pre_install: Vec<Input>,
    /// Programs to run after it.
    pub post_install: Vec<Input>,
    /// Configs of the installer, in order.
    pub installer_configs: Vec<Input>,
    /// The installer's last config, made of options.
    pub installer: InstallerOptions,
}

/// The installer's options that have their own flag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InstallerOptions {
    /// Kernel arguments to add.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub append_karg: Vec<String>,
    /// Consoles of the installed system.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub console: Vec<String>,
    /// Whether the live system's network settings are taken along.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub copy_network: bool,
    /// Kernel arguments to remove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delete_karg: Vec<String>,
    /// Device to install to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dest_device: Option<String>,
    /// Set when there is a config for the installed system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition_file: Option<String>,
}

/// The config of the installed system: the only one as it is, or one that merges all of them and trusts the certificates. None
/// without configs.
pub fn dest_config(customize: &Customize) -> Result<Option<Vec<u8>>, BuildError> {
    check_versions(&customize.dest_configs)?;
    match &customize.dest_configs[..] {
        [] => Ok(None),
        [only] if customize.certificate_authorities.is_empty() => Ok(Some(only.content.clone())),
        several => {
            let mut config = parts::empty(VERSION);
            add_references(&mut config, several, &customize.certificate_authorities);
            Ok(Some(parts::finish(config, "")?.to_json()))
        }
    }
}

/// The config of the live system. None if it would be empty: a config, even an empty one, takes the log-in prompt away.
pub fn live_config(customize: &Customize) -> Result<Option<Vec<u8>>, BuildError> {
    check_versions(&customize.live_configs)?;
    let mut config = parts::empty(VERSION);
    let mut options = customize.installer.clone();
    if let Some(dest) = dest_config(customize)? {
        config.storage.files.push(file(DEST_CONFIG_PATH.to_owned(), 0o600, &dest));
        options.ignition_file = Some(DEST_CONFIG_PATH.to_owned());
    }
    for (place, input) in customize.installer_configs.iter().enumerate() {
        let name = checked_name(&input.name)?;
        config.storage.files.push(file(format!("{INSTALLER_CONFIG_DIR}/{place:04}-{name}"), 0o600, &input.content));
    }
    if options != InstallerOptions::default() {
        let path = format!("{INSTALLER_CONFIG_DIR}/{:04}-customize.yaml", customize.installer_configs.len());
        // Text keys and text, lists of it and flags: always written. JSON is YAML too.
        let yaml = serde_json::to_vec_pretty(&options).unwrap_or_default();
        config.storage.files.push(file(path, 0o600, &yaml));
    }
    add_programs(&mut config, &PRE_INSTALL, &customize.pre_install)?;
    add_programs(&mut config, &POST_INSTALL, &customize.post_install)?;
    if config.storage.files.is_empty() && customize.live_configs.is_empty() {
        return Ok(None);
    }
    add_references(&mut config, &customize.live_configs, &customize.certificate_authorities);
    Ok(Some(parts::finish(config, "")?.to_json()))
}

/// When a program runs.
struct Moment {
    prefix: &'static str,
    description: &'static str,
    after: &'static str,
    before: &'static str,
}

const PRE_INSTALL: Moment = Moment {
    prefix: "pre-install",
    description: "Before the installation",
    after: "coreos-installer-pre.target",
    before: "coreos-installer.service",
};

const POST_INSTALL: Moment = Moment {
    prefix: "post-install",
    description: "After the installation",
    after: "coreos-installer.service",
    before: "coreos-installer.target",
};

fn add_programs(config: &mut Document<'_>, moment: &Moment, programs: &[Input]) -> Result<(), BuildError> {
    let mut names = BTreeSet::new();
    for program in programs {
        let name = checked_name(&program.name)?;
        if !names.insert(name) {
            return Err(BuildError::SameName { name: name.to_owned() });
        }
        let Moment { prefix, description, after, before } = moment;
        let path = format!("/usr/local/bin/{prefix}-{name}");
        let unit = format!(
            "\
[Unit]
Description={description}: run {name}
After={after}
Before={before}

[Service]
Type=oneshot
ExecStart={path}
RemainAfterExit=true
StandardOutput=kmsg+console
StandardError=kmsg+console

[Install]
RequiredBy={before}
"
        );
        config.storage.files.push(file(path, 0o700, &program.content));
        config.systemd.units.push(parts::unit(format!("{prefix}-{name}.service"), unit));
    }
    Ok(())
}

/// Configs to merge, and certificates to trust.
fn add_references(config: &mut Document<'_>, configs: &[Input], authorities: &[Input]) {
    let reference = |input: &Input| {
        let Resource { compression, http_headers, source, verification } = resource(&input.content, Encoding::Smallest);
        Reference { compression, http_headers, source, verification }
    };
    // A duplicate would be an error, and adds nothing.
    let distinct = |inputs: &[Input]| {
        let mut seen = BTreeSet::new();
        inputs.iter().filter(|input| seen.insert(&input.content)).map(reference).collect::<Vec<_>>()
    };
    config.ignition.config.merge.extend(distinct(configs));
    config.ignition.security.tls.certificate_authorities.extend(distinct(authorities));
}

fn file<'a>(path: String, mode: u32, content: &[u8]) -> File<'a> {
    File { contents: resource(content, Encoding::Smallest), ..parts::file(path, mode) }
}

/// A name that can stand in a path, in a unit's name and in its text.
fn checked_name(name: &str) -> Result<&str, BuildError> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if name.is_empty() || !name.chars().all(is_good) {
        let shown = name.chars().take(80).flat_map(char::escape_default).collect();
        return Err(BuildError::Name { name: shown });
    }
    Ok(name)
}

/// Whether each is a config at all. The rest is up to the Ignition that reads it, which may be newer than this program.
fn check_versions(configs: &[Input]) -> Result<(), BuildError> {
    for config in configs {
        if version_text(&config.content).is_none() {
            return Err(BuildError::NoConfig { name: config.name.chars().take(80).collect() });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "customize_tests.rs"]
mod tests;
