//! Copying.

use super::{options::Options, quoted};
use nix::sys::stat::{Mode, SFlag, mknod};
use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, FileTimes, Metadata, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, lchown, symlink},
    path::{Path, PathBuf},
};

/// What cp says, in its words.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("cannot {what} {}: {}", quoted(path), said(source))]
    System { what: &'static str, path: PathBuf, source: io::Error },
    /// The system said no to what needs two names.
    #[error("{what} {}: {}", quoted(path), said(source))]
    Failed { what: &'static str, path: PathBuf, source: io::Error },
    /// The source can't be read.
    #[error("cannot open {} for reading: {}", quoted(path), said(source))]
    Open { path: PathBuf, source: io::Error },
    /// Several sources, or -t, and this is no directory.
    #[error("target {}: {}", quoted(path), said(source))]
    Target { path: PathBuf, source: io::Error },
    #[error("-r not specified; omitting directory {}", quoted(.0))]
    Directory(PathBuf),
    #[error("{} and {} are the same file", quoted(.0), quoted(.1))]
    Same(PathBuf, PathBuf),
    /// A directory stands where a file should.
    #[error("cannot overwrite directory {} with non-directory", quoted(.0))]
    OverDirectory(PathBuf),
    /// A file stands where a directory should.
    #[error("cannot overwrite non-directory {} with directory {}", quoted(.0), quoted(.1))]
    OverFile(PathBuf, PathBuf),
    #[error("cannot copy a directory, {}, into itself, {}", quoted(.0), quoted(.1))]
    IntoItself(PathBuf, PathBuf),
    /// Nobody knows what would come into being.
    #[error("not writing through dangling symlink {}", quoted(.0))]
    Dangling(PathBuf),
}

/// The cause without the number that Rust adds.
fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A copy made, from and to, or why not.
type Said<'a> = &'a mut dyn FnMut(Result<(PathBuf, PathBuf), CopyError>);

struct Copier<'a> {
    options: &'a Options,
    say: Said<'a>,
    /// Copies of files with several links, by device and number: -a makes links of them too.
    linked: HashMap<(u64, u64), PathBuf>,
    /// Directories made here, which may lie in what is copied.
    made: Vec<(u64, u64)>,
}

/// Copies all sources; goes on after an error.
pub(super) fn copy_all(options: &Options, say: Said) {
    let target = fs::metadata(&options.target);
    let is_directory = target.as_ref().is_ok_and(Metadata::is_dir);
    if !is_directory && (options.into_directory || options.sources.len() > 1) {
        let source = target.err().unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENOTDIR));
        return say(Err(CopyError::Target { path: options.target.clone(), source }));
    }
    let mut copier = Copier { options, say, linked: HashMap::new(), made: Vec::new() };
    for source in &options.sources {
        let to = if is_directory && !options.plain_target { options.inside(source) } else { options.target.clone() };
        copier.copy(source, &to, true);
    }
}

impl Copier<'_> {
    fn copy(&mut self, from: &Path, to: &Path, named: bool) {
        if let Err(error) = self.try_copy(from, to, named) {
            (self.say)(Err(error));
        }
    }

    fn try_copy(&mut self, from: &Path, to: &Path, named: bool) -> Result<(), CopyError> {
        let system = |what, path: &Path| {
            let path = path.to_owned();
            move |source| CopyError::System { what, path, source }
        };
        let looked = if self.options.follows(named) { fs::metadata(from) } else { fs::symlink_metadata(from) };
        let meta = looked.map_err(system("stat", from))?;
        if meta.is_dir() {
            return self.directory(from, to, &meta);
        }
        let existing = fs::symlink_metadata(to).ok();
        let behind = fs::metadata(to).ok();
        if let Some(behind) = &behind {
            if (behind.dev(), behind.ino()) == (meta.dev(), meta.ino()) && !meta.is_symlink() {
                return Err(CopyError::Same(from.to_owned(), to.to_owned()));
            }
            if behind.is_dir() {
                return Err(CopyError::OverDirectory(to.to_owned()));
            }
        }
        if self.options.recursive && self.options.preserve && meta.nlink() > 1 {
            if let Some(first) = self.linked.get(&(meta.dev(), meta.ino())) {
                let _ = fs::remove_file(to);
                fs::hard_link(first, to).map_err(system("create hard link", to))?;
                self.made_copy(from, to);
                return Ok(());
            }
            self.linked.insert((meta.dev(), meta.ino()), to.to_owned());
        }
        let kind = meta.file_type();
        if kind.is_symlink() {
            let points_to = fs::read_link(from).map_err(system("read symbolic link", from))?;
            if existing.is_some() {
                fs::remove_file(to).map_err(system("remove", to))?;
            }
            symlink(points_to, to).map_err(system("create symbolic link", to))?;
            if self.options.preserve {
                let _ = lchown(to, Some(meta.uid()), Some(meta.gid()));
            }
        } else if kind.is_file() || !self.options.recursive {
            if existing.is_some_and(|existing| existing.is_symlink()) && behind.is_none() {
                return Err(CopyError::Dangling(to.to_owned()));
            }
            self.file(from, to, &meta, behind.as_ref())?;
        } else {
            if existing.is_some() {
                fs::remove_file(to).map_err(system("remove", to))?;
            }
            let what = if kind.is_fifo() { "create fifo" } else { "create special file" };
            special(&meta, to).map_err(io::Error::from).map_err(system(what, to))?;
            self.keep(to, &meta)?;
        }
        self.made_copy(from, to);
        Ok(())
    }

    fn made_copy(&mut self, from: &Path, to: &Path) {
        if self.options.verbose {
            (self.say)(Ok((from.to_owned(), to.to_owned())));
        }
    }

    /// The content of what is no directory, into a regular file in general.
    fn file(&self, from: &Path, to: &Path, meta: &Metadata, behind: Option<&Metadata>) -> Result<(), CopyError> {
        let open = |source| CopyError::Open { path: from.to_owned(), source };
        let mut reader = File::open(from).map_err(open)?;
        let create = |source| CopyError::System { what: "create regular file", path: to.to_owned(), source };
        // Through a link to what it names.
        let place = if behind.is_some() { fs::canonicalize(to).map_err(create)? } else { to.to_owned() };
        let write = |source| CopyError::Failed { what: "error writing", path: to.to_owned(), source };
        if behind.is_none_or(Metadata::is_file) {
            // A name with a slash at its end stands for a directory.
            if to.as_os_str().as_encoded_bytes().ends_with(b"/") {
                return Err(create(io::Error::from_raw_os_error(libc::ENOTDIR)));
            }
            let new_mode = behind.map_or(meta.mode() & 0o777, |existing| existing.mode() & 0o7777);
            match Draft::new(&place, new_mode, behind) {
                Ok(draft) => {
                    io::copy(&mut reader, &mut &draft.file).map_err(write)?;
                    self.keep(&draft.path, meta)?;
                    match draft.put(&place) {
                        Ok(()) => return Ok(()),
                        // A mount point can't be replaced.
                        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                        Err(error) => return Err(create(error)),
                    }
                    reader = File::open(from).map_err(open)?;
                }
                // Where no file can be made one may still be writable.
                Err(error) if behind.is_none() => return Err(create(error)),
                Err(_) => {}
            }
        }
        let mut existing = OpenOptions::new().write(true).truncate(true).open(&place).map_err(create)?;
        io::copy(&mut reader, &mut existing).map_err(write)?;
        self.keep(&place, meta)
    }

    fn directory(&mut self, from: &Path, to: &Path, meta: &Metadata) -> Result<(), CopyError> {
        if !self.options.recursive {
            return Err(CopyError::Directory(from.to_owned()));
        }
        if self.made.contains(&(meta.dev(), meta.ino())) {
            let root = self.options.sources.first().map_or(from, PathBuf::as_path);
            return Err(CopyError::IntoItself(root.to_owned(), self.options.inside(root)));
        }
        let create = |source| CopyError::System { what: "create directory", path: to.to_owned(), source };
        let is_new = match fs::metadata(to) {
            Ok(existing) if !existing.is_dir() => return Err(CopyError::OverFile(to.to_owned(), from.to_owned())),
            Ok(_) => false,
            Err(_) => {
                // Ours to write into, whatever its mode is to be.
                DirBuilder::new().mode(meta.mode() & 0o777 | 0o700).create(to).map_err(create)?;
                true
            }
        };
        let made = fs::metadata(to).map_err(create)?;
        if is_new {
            self.made.push((made.dev(), made.ino()));
            self.made_copy(from, to);
        }
        let access = |source| CopyError::System { what: "access", path: from.to_owned(), source };
        let mut entries = fs::read_dir(from).map_err(access)?.collect::<Result<Vec<_>, _>>().map_err(access)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            self.copy(&entry.path(), &to.join(entry.file_name()), false);
        }
        if self.options.preserve {
            return self.keep(to, meta);
        }
        if is_new && meta.mode() & 0o700 != 0o700 {
            let bits = made.mode() & (meta.mode() | !0o700) & 0o7777;
            fs::set_permissions(to, Permissions::from_mode(bits)).map_err(create)?;
        }
        Ok(())
    }

    /// Owner, mode and times of the source, if wanted.
    fn keep(&self, path: &Path, meta: &Metadata) -> Result<(), CopyError> {
        if !self.options.preserve {
            return Ok(());
        }
        let failed = |what| {
            let path = path.to_owned();
            move |source| CopyError::Failed { what, path, source }
        };
        // Only root may give files away; others keep what they may.
        let kept_owner = chown(path, Some(meta.uid()), Some(meta.gid())).is_ok();
        let bits = if kept_owner { meta.mode() & 0o7777 } else { meta.mode() & 0o777 };
        fs::set_permissions(path, Permissions::from_mode(bits)).map_err(failed("preserving permissions for"))?;
        let times = [meta.accessed(), meta.modified()];
        if let [Ok(accessed), Ok(modified)] = times
            && (meta.is_file() || meta.is_dir())
        {
            let times = FileTimes::new().set_accessed(accessed).set_modified(modified);
            let set = File::open(path).and_then(|file| file.set_times(times));
            set.map_err(failed("preserving times for"))?;
        }
        Ok(())
    }
}

fn special(meta: &Metadata, to: &Path) -> nix::Result<()> {
    let kind = meta.file_type();
    let flag = match () {
        () if kind.is_fifo() => SFlag::S_IFIFO,
        () if kind.is_char_device() => SFlag::S_IFCHR,
        () if kind.is_block_device() => SFlag::S_IFBLK,
        () => SFlag::S_IFSOCK,
    };
    mknod(to, flag, Mode::from_bits_truncate(meta.mode() & 0o777), meta.rdev())
}

/// A file beside its place, gone unless it is put there.
struct Draft {
    path: PathBuf,
    file: File,
    put: bool,
}

impl Draft {
    fn new(place: &Path, mode: u32, existing: Option<&Metadata>) -> io::Result<Self> {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let short: String = name.chars().take(40).collect();
        let path = place.with_file_name(format!(".{short}.{}.cp", std::process::id()));
        // What another of our number left is nobody's.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode & 0o777).open(&path)?;
        let draft = Self { path, file, put: false };
        if let Some(existing) = existing {
            let _ = chown(&draft.path, Some(existing.uid()), Some(existing.gid()));
            draft.file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok(draft)
    }

    fn put(mut self, place: &Path) -> io::Result<()> {
        fs::rename(&self.path, place)?;
        self.put = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.put {
            let _ = fs::remove_file(&self.path);
        }
    }
}
