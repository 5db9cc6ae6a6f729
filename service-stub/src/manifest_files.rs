//! Users' manifests of a cluster: one file each below `manifests/<cluster>/<folder>/`, on disk before the answer
//! (docs/compatibility.md#users-manifests). Beside the folders is one file with those that the service generated.

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

/// The file with the generated ones.
pub(crate) const GENERATED: &str = "generated.json";
/// Its maximum size, bytes.
const MAX_GENERATED_BYTES: usize = 16 << 20;

/// What a manifest's extension says of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Yaml,
    Json,
    /// Operations on another manifest, whose name stands before the extension.
    Patch,
}

impl Form {
    pub(crate) fn of_file(file: &str) -> Option<Self> {
        match file.rsplit_once('.')?.1 {
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            extension => extension.starts_with("patch").then_some(Self::Patch),
        }
    }
}

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
        let plain = |b: u8| b.is_ascii_graphic() && !b"/\\\"".contains(&b);
        let is_good = Form::of_file(file).is_some() && file.len() <= 200 && !file.starts_with('.');
        (is_good && file.bytes().all(plain)).then(|| Self { folder, file: file.to_owned() })
    }

    pub(crate) fn is_patch(&self) -> bool {
        Form::of_file(&self.file) == Some(Form::Patch)
    }

    /// As messages write it.
    pub(crate) fn path_text(&self) -> String {
        format!("{}/{}", self.folder, self.file)
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
    read_file(&name.path(state, cluster), MAX_BYTES)
}

/// All manifests of a cluster with their contents, sorted by name.
pub(crate) fn read_all(state: &Path, cluster: ClusterId) -> io::Result<Vec<(Name, Vec<u8>)>> {
    let mut all = Vec::new();
    for name in list(state, cluster)? {
        // One deleted since the listing is left out.
        let content = read(state, cluster, &name)?;
        all.extend(content.map(|content| (name, content)));
    }
    Ok(all)
}

/// The file with the generated ones, if it exists.
pub(crate) fn read_generated(state: &Path, cluster: ClusterId) -> io::Result<Option<Vec<u8>>> {
    read_file(&directory(state, cluster).join(GENERATED), MAX_GENERATED_BYTES)
}

fn read_file(path: &Path, max_bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut content = Vec::new();
    file.take(u64::try_from(max_bytes).unwrap_or(u64::MAX)).read_to_end(&mut content)?;
    Ok(Some(content))
}

/// Writes a manifest atomically, replacing one of its name.
pub(crate) fn write(state: &Path, cluster: ClusterId, name: &Name, content: &[u8]) -> io::Result<()> {
    write_file(state, &directory(state, cluster).join(name.folder), &name.file, content)
}

/// The same for the file with the generated ones.
pub(crate) fn write_generated(state: &Path, cluster: ClusterId, content: &[u8]) -> io::Result<()> {
    write_file(state, &directory(state, cluster), GENERATED, content)
}

fn write_file(state: &Path, folder: &Path, file: &str, content: &[u8]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // No manifest's name starts like this.
    let partial = folder.join(format!(".{:016x}", fastrand::u64(..)));
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial).and_then(|mut output| {
        output.write_all(content)?;
        output.sync_all()?;
        std::fs::rename(&partial, folder.join(file))
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
        for (good, form) in [
            ("a.yaml", Form::Yaml),
            ("99-worker_x.yml", Form::Yaml),
            ("role:reader+x.yaml", Form::Yaml),
            ("a.b.json", Form::Json),
            ("a.yaml.patch_1", Form::Patch),
            ("a.yml.patch", Form::Patch),
        ] {
            assert!(Name::parse("openshift", good).is_some(), "{good}");
            assert_eq!(Form::of_file(good), Some(form), "{good}");
        }
        let quoted = "a\".yaml";
        for bad in
            ["", ".yaml", "..yaml", "a", "a.txt", "../a.yaml", "a/b.yaml", "a b.yaml", "a\0.yaml", "ä.yaml", quoted]
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
        assert_eq!(read_all(state, id).unwrap(), [(b.clone(), b"2".to_vec()), (a.clone(), b"3".to_vec())]);
        assert_eq!(read_generated(state, id).unwrap(), None);
        write_generated(state, id, b"[]").unwrap();
        assert_eq!(list(state, id).unwrap().len(), 2, "generated ones are not users'");
        assert_eq!(read_generated(state, id).unwrap().unwrap(), b"[]");
        assert!(remove(state, id, &b).unwrap() && !remove(state, id, &b).unwrap());
        forget(state, id);
        assert_eq!(list(state, id).unwrap(), []);
        forget(state, id);
    }
}
