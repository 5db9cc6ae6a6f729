//! Files of a directory.

use anyhow::Context;
use serde_json::Value;
use std::{fs, path::Path};

/// A path below the directory, and the content.
pub(crate) type Asset = (String, Vec<u8>);

pub(crate) fn yaml(path: &str, content: &Value) -> Asset {
    (path.to_owned(), serde_norway::to_string(content).unwrap_or_default().into_bytes())
}

pub(crate) fn json(path: &str, content: &Value) -> Asset {
    (path.to_owned(), content.to_string().into_bytes())
}

pub(crate) fn write(directory: &Path, assets: &[Asset]) -> anyhow::Result<()> {
    for (name, content) in assets {
        let path = directory.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, content).with_context(|| format!("{name} can't be written"))?;
    }
    Ok(())
}

/// The files of a folder, by name.
pub(crate) fn folder(directory: &Path, name: &str) -> anyhow::Result<Vec<Asset>> {
    let mut assets = Vec::new();
    for entry in fs::read_dir(directory.join(name)).with_context(|| format!("{name} can't be read"))? {
        let entry = entry?;
        assets.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    assets.sort();
    Ok(assets)
}
