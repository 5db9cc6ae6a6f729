//! The consoles of each platform in an image's `coreos/platforms.json`.

use super::{BootError, read_text};
use serde::Deserialize;
use std::{collections::HashMap, path::Path};

const TABLE: &str = "coreos/platforms.json";

/// One platform's consoles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    pub grub_commands: Vec<String>,
    #[serde(default)]
    pub kernel_arguments: Vec<String>,
}

/// All platforms by name.
#[derive(Debug, Default)]
pub(super) struct Platforms(HashMap<String, Platform>);

impl Platforms {
    /// Reads the table; images need not have one.
    pub(super) fn read(root: &Path) -> Result<Self, BootError> {
        let path = root.join(TABLE);
        let Some(text) = read_text(&path)? else { return Ok(Self::default()) };
        serde_json::from_slice(text.as_bytes()).map(Self).map_err(|source| BootError::Platforms { path, source })
    }

    /// A platform's consoles; none if it is not listed.
    pub(super) fn get(&self, name: &str) -> Platform {
        self.0.get(name).cloned().unwrap_or_default()
    }
}
