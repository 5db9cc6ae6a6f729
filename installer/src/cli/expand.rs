//! Config files, as words of a command line in front of the real one (docs/compatibility.md#installer-config-files).

use super::config::InstallConfig;
use ignition::yaml::{self, WordedError, YamlError};
use serde_norway::Value;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Much more than all options with long values take.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Why a config file can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExpandError {
    /// Missing, or not readable.
    #[error("opening config file {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// Something else than a list of options.
    #[error("config file {} has more than {} MiB: is it the right file?", path.display(), MAX_FILE_BYTES >> 20)]
    TooLarge { path: PathBuf },
    /// Not YAML, an unknown key or a value of another type.
    #[error("parsing config file {}", path.display())]
    Parse { path: PathBuf, source: WordedError },
    /// A path that is not Unicode.
    #[error("serializing command-line arguments")]
    Words(#[source] serde_norway::Error),
    /// The last one would win in silence, and be destroyed.
    #[error("more than one disk to install to: {} and {}", first.display(), second.display())]
    TwoDisks { first: PathBuf, second: PathBuf },
}

/// The words for all options of the config files and then of the command line in `config`.
pub(super) fn expand(config: &InstallConfig) -> Result<Vec<String>, ExpandError> {
    let mut all = Vec::new();
    for path in &config.config_file {
        all.push(read(path)?);
    }
    all.push(config.clone());
    let mut disks = all.iter().filter_map(|config| config.disk.as_ref());
    if let (Some(first), Some(second)) = (disks.next(), disks.next()) {
        return Err(ExpandError::TwoDisks { first: first.clone(), second: second.clone() });
    }
    let mut words = Vec::new();
    for config in &all {
        words.extend(words_for(config)?);
    }
    Ok(words)
}

/// Whether one of these config files is so.
pub(super) fn any(files: &[PathBuf], is_so: impl Fn(&InstallConfig) -> bool) -> Result<bool, ExpandError> {
    for path in files {
        if is_so(&read(path)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn read(path: &Path) -> Result<InstallConfig, ExpandError> {
    let failed = |source| ExpandError::Open { path: path.to_owned(), source };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1))
        .read_to_end(&mut text)
        .map_err(failed)?;
    // An empty file, or one of comments, is null.
    match yaml::worded_document::<Option<InstallConfig>>(&text, MAX_FILE_BYTES) {
        Ok(config) => Ok(config.unwrap_or_default()),
        Err(WordedError::Bound(YamlError::TooLong { .. })) => Err(ExpandError::TooLarge { path: path.to_owned() }),
        Err(source) => Err(ExpandError::Parse { path: path.to_owned(), source }),
    }
}

/// The words for each option that is set, config files aside, in the order of the struct.
pub(super) fn words_for(config: &InstallConfig) -> Result<Vec<String>, ExpandError> {
    let mut words = Vec::new();
    let Value::Mapping(fields) = serde_norway::to_value(config).map_err(ExpandError::Words)? else {
        return Ok(words);
    };
    for (name, value) in &fields {
        let Value::String(name) = name else { continue };
        match value {
            Value::Bool(true) => words.push(format!("--{name}")),
            Value::String(value) if name == "dest-device" => words.push(value.clone()),
            Value::String(value) => words.extend(option(name, value)),
            Value::Sequence(values) => {
                words.extend(values.iter().filter_map(Value::as_str).flat_map(|value| option(name, value)));
            }
            _ => {}
        }
    }
    // Config files may not contain it, so serde leaves it out.
    if let Some(firstboot_args) = &config.firstboot_args {
        words.extend(option("firstboot-args", firstboot_args));
    }
    Ok(words)
}

pub(super) fn option(name: &str, value: &str) -> Vec<String> {
    // Such a value would be taken for an option itself, but where it may be an open range.
    if value.starts_with('-') && name != "save-partindex" {
        vec![format!("--{name}={value}")]
    } else {
        vec![format!("--{name}"), value.to_owned()]
    }
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
