//! A run's directory. What the program leaves there is not trusted: no link is followed, and all that is read is bounded.

use api::ClusterId;
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::{Mode, mkdirat},
    unistd::{UnlinkatFlags, unlinkat},
};
use std::{
    fs::{self, File, Permissions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// A larger file is a mistake: Ignition files have a few MB at most.
pub(crate) const MAX_FILE_BYTES: usize = 64 << 20;
/// Entries of a run's directory. An installer makes some hundred.
const MAX_ENTRIES: usize = 4096;
/// What an entry takes at least.
const ENTRY_BYTES: u64 = 512;
/// Letters of a directory's name that can't be guessed.
const RANDOM_LETTERS: usize = 16;
const PRIVATE_DIRECTORY: u32 = 0o700;

/// What can't be done in a run's directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("can't {action} {path}")]
    File { action: &'static str, path: String, source: io::Error },
    #[error("{path} is a symbolic link")]
    Link { path: String },
    #[error("{path} is not a regular file")]
    Special { path: String },
    #[error("{path} is larger than {}", kernel::units::binary(u64::try_from(*max).unwrap_or(u64::MAX)))]
    TooLarge { path: String, max: usize },
    /// What the names of files come from is not trusted.
    #[error("{path:?} is not a file name")]
    Name { path: String },
    #[error("{path} has more than {max} files")]
    TooMany { path: String, max: usize },
}

/// How much is in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Within,
    TooManyBytes,
    TooManyEntries { max: usize },
}

/// A directory with the program's own, a home and a place for temporary files. Dropping it removes all of it.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// The program's own, opened before the program could replace it.
    cluster: OwnedFd,
}

impl Directory {
    /// Makes one below `work`, which is made too.
    pub(crate) fn create(work: &Path, cluster: ClusterId) -> Result<Self, DirectoryError> {
        let failed = |source| DirectoryError::File { action: "create a directory in", path: text(work), source };
        private().recursive(true).create(work).map_err(failed)?;
        let made = tempfile::Builder::new()
            .prefix(&format!("{cluster}."))
            .rand_bytes(RANDOM_LETTERS)
            .permissions(Permissions::from_mode(PRIVATE_DIRECTORY))
            .tempdir_in(work)
            .map_err(failed)?;
        for part in ["cluster", "home", "tmp"] {
            private().create(made.path().join(part)).map_err(failed)?;
        }
        let cluster = nix::fcntl::open(&made.path().join("cluster"), FOLDER, Mode::empty());
        let cluster = cluster.map_err(|errno| failed(errno.into()))?;
        Ok(Self { path: made.keep(), cluster })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The program's own directory.
    pub(crate) fn cluster(&self) -> PathBuf {
        self.path.join("cluster")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Makes a folder.
    pub(crate) fn create_folder(&self, name: &str, mode: u32) -> Result<(), DirectoryError> {
        let (folder, name) = self.place(name)?;
        mkdirat(&folder, name, Mode::from_bits_truncate(mode)).map_err(|errno| failure("create", name, errno))
    }

    /// Writes a file that only we can read, in place of another of its name. `path` is its name, or a folder and its name.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> Result<(), DirectoryError> {
        let (folder, name) = self.place(path)?;
        match unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(failure("replace", path, errno)),
        }
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&folder, name, flags, Mode::S_IRUSR | Mode::S_IWUSR);
        let mut file = File::from(file.map_err(|errno| failure("write", path, errno))?);
        file.write_all(content).map_err(|source| DirectoryError::File { action: "write", path: path.into(), source })
    }

    /// The contents of a file.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>, DirectoryError> {
        let (folder, name) = self.place(path)?;
        // A pipe must not block.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&folder, name, flags, Mode::empty()).map_err(|errno| failure("read", path, errno))?;
        read_bounded(File::from(file), path)
    }

    /// The same of one that may be missing.
    pub(crate) fn read_if_present(&self, path: &str) -> Result<Option<Vec<u8>>, DirectoryError> {
        match self.read(path) {
            Err(DirectoryError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    pub(crate) fn remove(&self, path: &str) -> Result<(), DirectoryError> {
        let (folder, name) = self.place(path)?;
        unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir).map_err(|errno| failure("remove", path, errno))
    }

    /// The names in a folder, in their order. Those that are not UTF-8 are left out.
    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>, DirectoryError> {
        let mut open =
            Dir::from_fd(self.folder(folder, OFlag::O_RDONLY)?).map_err(|errno| failure("list", folder, errno))?;
        let mut names = Vec::new();
        for entry in open.iter() {
            let entry = entry.map_err(|errno| failure("list", folder, errno))?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(_) if names.len() >= MAX_ENTRIES => {
                    return Err(DirectoryError::TooMany { path: folder.to_owned(), max: MAX_ENTRIES });
                }
                Ok(name) => names.push(name.to_owned()),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether all of it, temporary files too, is within `max_bytes`.
    pub(crate) fn fill(&self, max_bytes: u64) -> Fill {
        let (mut bytes, mut entries) = (0_u64, 0);
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            // The program may be removing what is listed.
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                let stored = metadata.len().max(metadata.blocks().saturating_mul(512)).max(ENTRY_BYTES);
                bytes = bytes.saturating_add(stored);
                entries += 1;
                if bytes > max_bytes {
                    return Fill::TooManyBytes;
                }
                if entries > MAX_ENTRIES {
                    return Fill::TooManyEntries { max: MAX_ENTRIES };
                }
                if metadata.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        Fill::Within
    }

    /// The folder of a path, and the name in it.
    fn place<'p>(&self, path: &'p str) -> Result<(OwnedFd, &'p str), DirectoryError> {
        let (folder, name) = path.split_once('/').map_or((None, path), |(folder, name)| (Some(folder), name));
        if !is_file_name(name) {
            return Err(DirectoryError::Name { path: path.to_owned() });
        }
        match folder {
            Some(folder) => Ok((self.folder(folder, OFlag::O_PATH)?, name)),
            None => {
                let cluster = self.cluster.try_clone();
                let own =
                    cluster.map_err(|source| DirectoryError::File { action: "open", path: path.into(), source })?;
                Ok((own, name))
            }
        }
    }

    fn folder(&self, name: &str, flags: OFlag) -> Result<OwnedFd, DirectoryError> {
        if !is_file_name(name) {
            return Err(DirectoryError::Name { path: name.to_owned() });
        }
        openat(self.cluster.as_fd(), name, FOLDER | flags, Mode::empty()).map_err(|errno| failure("open", name, errno))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the directory of a preparation");
        }
    }
}

const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Whether it is the name of a file, and of nothing elsewhere.
pub(crate) fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// The whole of a regular file.
pub(crate) fn read_bounded(file: File, path: &str) -> Result<Vec<u8>, DirectoryError> {
    let failed = |source| DirectoryError::File { action: "read", path: path.to_owned(), source };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(DirectoryError::Special { path: path.to_owned() });
    }
    let mut content = Vec::new();
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut content).map_err(failed)?;
    if content.len() > MAX_FILE_BYTES {
        return Err(DirectoryError::TooLarge { path: path.to_owned(), max: MAX_FILE_BYTES });
    }
    Ok(content)
}

/// Removes what runs left in `work` when their process was killed.
pub fn clean(work: &Path) -> Result<(), DirectoryError> {
    let failed = |source| DirectoryError::File { action: "clean", path: text(work), source };
    let entries = match fs::read_dir(work) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // Of the entry itself: a link is none.
        let is_directory = entry.file_type().map_err(failed)?.is_dir();
        if is_directory && entry.file_name().to_str().is_some_and(is_run) {
            remove_tree(&entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

fn is_run(name: &str) -> bool {
    let (cluster, random) = name.split_once('.').unwrap_or_default();
    random.len() == RANDOM_LETTERS && Uuid::try_parse(cluster).is_ok()
}

/// Removes a directory that nothing writes to any more. The standard library follows no link there.
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(path);
            fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

/// Gives all directories the permissions that removing needs.
fn make_writable(path: &Path) {
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, Permissions::from_mode(PRIVATE_DIRECTORY));
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
}

fn private() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    builder.mode(PRIVATE_DIRECTORY);
    builder
}

fn failure(action: &'static str, path: &str, errno: Errno) -> DirectoryError {
    let path = path.to_owned();
    match errno {
        Errno::ELOOP => DirectoryError::Link { path },
        errno => DirectoryError::File { action, path, source: errno.into() },
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn directory(work: &Path) -> Directory {
        Directory::create(work, ClusterId::random()).unwrap()
    }

    #[test]
    fn only_we_can_enter_and_nothing_is_left() {
        let work = tempfile::tempdir().unwrap();
        let own = directory(work.path());
        let path = own.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        own.create_folder("tls", 0o755).unwrap();
        own.write("tls/ca.key", b"secret").unwrap();
        own.write("tls/ca.key", b"other").unwrap();
        assert_eq!(own.read("tls/ca.key").unwrap(), b"other");
        assert_eq!(fs::metadata(path.join("cluster/tls/ca.key")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(own.names("tls").unwrap(), ["ca.key"]);
        assert_eq!(own.read_if_present("missing").unwrap(), None);
        own.remove("tls/ca.key").unwrap();
        fs::set_permissions(path.join("cluster/tls"), Permissions::from_mode(0o000)).unwrap();
        drop(own);
        assert!(!path.exists());
    }

    #[test]
    fn links_and_pipes_are_refused() {
        let (work, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("secret"), "secret").unwrap();
        let own = directory(work.path());
        symlink(elsewhere.path().join("secret"), own.cluster().join("file")).unwrap();
        symlink(elsewhere.path(), own.cluster().join("folder")).unwrap();
        nix::unistd::mkfifo(&own.cluster().join("pipe"), Mode::S_IRUSR).unwrap();
        assert!(matches!(own.read("file"), Err(DirectoryError::Link { .. })));
        assert!(matches!(own.read("pipe"), Err(DirectoryError::Special { .. })));
        assert!(own.read("folder/secret").is_err() && own.names("folder").is_err());
        assert!(own.write("folder/new", b"").is_err() && own.remove("folder/secret").is_err());
        // The link is replaced, and what it leads to stays.
        own.write("file", b"ours").unwrap();
        for name in ["", ".", "..", "../up", "a/../b", "a/", "/etc/passwd", "a\0b", "a/.."] {
            assert!(matches!(own.read(name), Err(DirectoryError::Name { .. })), "{name}");
            assert!(matches!(own.write(name, b""), Err(DirectoryError::Name { .. })), "{name}");
        }
        drop(own);
        assert_eq!(fs::read_to_string(elsewhere.path().join("secret")).unwrap(), "secret");
    }

    #[test]
    fn what_is_in_it_is_measured() {
        let work = tempfile::tempdir().unwrap();
        let own = directory(work.path());
        own.write("a", &[0; 100_000]).unwrap();
        assert_eq!(own.fill(1 << 20), Fill::Within);
        assert_eq!(own.fill(100_000), Fill::TooManyBytes);
        // Sparse, as large as it would be when read.
        File::create(own.temporary().join("hole")).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(own.fill(1 << 30), Fill::TooManyBytes);
        for number in 0..=MAX_ENTRIES {
            File::create(own.home().join(number.to_string())).unwrap();
        }
        fs::remove_file(own.temporary().join("hole")).unwrap();
        assert_eq!(own.fill(u64::MAX), Fill::TooManyEntries { max: MAX_ENTRIES });
    }

    #[test]
    fn leftovers_are_removed_and_nothing_else() {
        let (work, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("file"), "").unwrap();
        let left = directory(work.path());
        symlink(elsewhere.path(), left.cluster().join("link")).unwrap();
        let run = left.path().to_owned();
        std::mem::forget(left);
        let link = work.path().join(format!("{}.0123456789abcdef", ClusterId::random()));
        symlink(elsewhere.path(), &link).unwrap();
        fs::create_dir(work.path().join("installers")).unwrap();
        clean(work.path()).unwrap();
        assert!(!run.exists() && link.is_symlink() && work.path().join("installers").exists());
        assert!(elsewhere.path().join("file").exists());
        clean(&work.path().join("missing")).unwrap();
    }
}
