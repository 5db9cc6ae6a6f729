//! Users' manifests of a cluster: one file each below `manifests/<cluster>/<folder>/`, on disk before the answer
//! (docs/compatibility.md#user-endpoints).

use api::ClusterId;
use kernel::order;
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Maximum per cluster.
pub(crate) const MAX_FILES: usize = 256;
/// Maximum size, bytes.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// The two folders of manifests.
pub(crate) const FOLDERS: [&str; 2] = ["manifests", "openshift"];

/// File extensions of manifests.
pub(crate) const EXTENSIONS: [&str; 3] = [".yaml", ".yml", ".json"];

/// A validated folder and file name, which become parts of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    /// One of [`FOLDERS`].
    pub(crate) folder: &'static str,
    /// Plain characters, with a known extension.
    pub(crate) file: String,
}

impl Name {
    /// `None` if invalid.
    pub(crate) fn parse(folder: &str, file: &str) -> Option<Self> {
        let folder = FOLDERS.into_iter().find(|own| *own == folder)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        let known = EXTENSIONS.iter().any(|end| file.len() > end.len() && file.ends_with(end));
        let is_good = known && file.len() <= 200 && !file.starts_with('.') && file.bytes().all(plain);
        is_good.then(|| Self { folder, file: file.to_owned() })
    }

    fn path(&self, state: &Path, cluster: ClusterId) -> PathBuf {
        directory(state, cluster).join(self.folder).join(&self.file)
    }
}

fn directory(state: &Path, cluster: ClusterId) -> PathBuf {
    state.join("manifests").join(cluster.to_string())
}

/// All manifests of a cluster, sorted.
pub(crate) fn list(state: &Path, cluster: ClusterId) -> io::Result<Vec<Name>> {
    let mut names = Vec::new();
    for folder in FOLDERS {
        let entries = match std::fs::read_dir(directory(state, cluster).join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            // An invalid name is an interrupted write.
            names.extend(entry?.file_name().to_str().and_then(|file| Name::parse(folder, file)));
        }
    }
    order::sort(&mut names);
    Ok(names)
}

/// A manifest's content, if it exists.
pub(crate) fn read(state: &Path, cluster: ClusterId, name: &Name) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(name.path(state, cluster)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut content = Vec::new();
    file.take(u64::try_from(MAX_BYTES).unwrap_or(u64::MAX)).read_to_end(&mut content)?;
    Ok(Some(content))
}

/// Writes a manifest atomically, replacing one of its name.
pub(crate) fn write(state: &Path, cluster: ClusterId, name: &Name, content: &[u8]) -> io::Result<()> {
    let path = name.path(state, cluster);
    let folder = directory(state, cluster).join(name.folder);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    // No manifest's name starts like this.
    let partial = folder.join(format!(".{:016x}", fastrand::u64(..)));
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&partial, &path)
    });
    if written.is_err() {
        // Report the first error.
        let _ = std::fs::remove_file(&partial);
    }
    written?;
    for directory in folder.ancestors().take_while(|path| path.starts_with(state)) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// Removes a manifest; returns whether it existed.
pub(crate) fn remove(state: &Path, cluster: ClusterId, name: &Name) -> io::Result<bool> {
    let path = name.path(state, cluster);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        removed => removed?,
    }
    path.parent().map(|folder| File::open(folder)?.sync_all()).transpose()?;
    Ok(true)
}

/// Removes all of a deleted cluster. Its record is gone, so failures are only logged.
pub(crate) fn forget(state: &Path, cluster: ClusterId) {
    match std::fs::remove_dir_all(directory(state, cluster)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%cluster, %error, "cannot remove the manifests of a deleted cluster: remove them by hand");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_become_paths() {
        for good in ["a.yaml", "99-worker_x.yml", "a.b.json"] {
            assert!(Name::parse("openshift", good).is_some(), "{good}");
        }
        for bad in
            ["", ".yaml", "..yaml", "a", "a.txt", "../a.yaml", "a/b.yaml", "a b.yaml", "a\0.yaml", "a.yaml.patch_1"]
        {
            assert_eq!(Name::parse("manifests", bad), None, "{bad}");
        }
        assert_eq!(Name::parse("..", "a.yaml"), None);
    }

    #[test]
    fn files_are_written_listed_and_removed() {
        let state = tempfile::tempdir().unwrap();
        let (state, id) = (state.path(), ClusterId::random());
        let name = |folder, file| Name::parse(folder, file).unwrap();
        let (a, b) = (name("openshift", "a.yaml"), name("manifests", "b.yaml"));
        write(state, id, &a, b"1").unwrap();
        write(state, id, &b, b"2").unwrap();
        write(state, id, &a, b"3").unwrap();
        std::fs::write(directory(state, id).join("openshift/.0123"), b"cut short").unwrap();
        assert_eq!(list(state, id).unwrap(), [b.clone(), a.clone()]);
        assert_eq!(read(state, id, &a).unwrap().unwrap(), b"3");
        assert!(remove(state, id, &b).unwrap() && !remove(state, id, &b).unwrap());
        forget(state, id);
        assert_eq!(list(state, id).unwrap(), []);
        forget(state, id);
    }
}
