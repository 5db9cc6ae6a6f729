//! Options of the first `up`, for a second one that names fewer of them.

use super::cli::Up;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

pub(super) const FILE: &str = "options.toml";

/// What a rack is continued with.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Stored {
    /// A directory of manifests; a small plan is in the rack's directory.
    pub(super) manifests: Option<PathBuf>,
    pub(super) iso: Option<PathBuf>,
    pub(super) image: Option<PathBuf>,
    pub(super) cluster_files: Option<PathBuf>,
    /// Whole, once it is known: ISOs carry the port.
    pub(super) listen: Option<SocketAddr>,
    pub(super) url: Option<String>,
    pub(super) vms: Option<u8>,
    pub(super) vm_memory: Option<u32>,
    pub(super) vm_disk: Option<u64>,
}

impl Stored {
    /// What `up` says, and the rest from before.
    pub(super) fn read(up: &Up, directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(FILE);
        let before: Self = match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).with_context(|| format!("{} is damaged: remove it", path.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let whole = |path: &Option<PathBuf>| path.as_deref().map(std::path::absolute).transpose();
        Ok(Self {
            manifests: whole(&up.rack.clone().filter(|path| path.is_dir()))?.or(before.manifests),
            iso: whole(&up.iso)?.or(before.iso),
            image: whole(&up.image)?.or(before.image),
            cluster_files: whole(&up.cluster_files)?.or(before.cluster_files),
            listen: up.listen.or(before.listen),
            url: up.url.clone().or(before.url),
            vms: up.vms.or(before.vms),
            vm_memory: up.vm_memory.or(before.vm_memory),
            vm_disk: up.vm_disk.or(before.vm_disk),
        })
    }

    pub(super) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let path = directory.join(FILE);
        let text = toml::to_string(self).context("options have no TOML form")?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
