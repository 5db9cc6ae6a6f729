//! The tree that facts are read from: the running system, or one captured from another machine.

use crate::{
    order,
    record::{self, Kind, Recorder},
};
use nix::{
    dir::Dir,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat},
    sys::stat::{Mode, SFlag, fstat},
};
use std::{
    collections::{BTreeMap, VecDeque},
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

/// Longest attribute read by [`Root::attribute`]; a sysfs attribute is one page.
const ATTRIBUTE_BYTES: usize = 4096;
/// The kernel's own limit.
const MAX_LINKS: usize = 40;
/// Directories held open at once while a path is followed; sysfs stays under twenty.
const MAX_DEPTH: usize = 64;
/// Entries of one directory. The largest are the memory blocks of a machine with many terabytes.
const MAX_ENTRIES: usize = 200_000;

/// A sysfs attribute is a page at most: most files are read into this much of the stack, and stored in as much as they need.
const FIRST_READ_BYTES: usize = 4096;

/// Longest list of files that a captured machine refused to read.
const REFUSED_BYTES: usize = 64 << 20;

/// A directory that stands for `/`: the running system, or one captured from another machine.
///
/// Every path is followed component by component from the directory's own handle, absolute links and `..` included, so
/// that nothing outside it is ever opened: a captured tree whose `/proc/self` or `/sys` links lead to absolute paths is
/// still only that tree. Only regular files are read, and never more of them than the caller asked for.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    live: bool,
    recorder: Option<Recorder>,
    /// Files a captured machine refused to read.
    refused: BTreeMap<PathBuf, i32>,
}

/// The end of a followed path.
struct Found {
    /// `O_PATH` handle.
    handle: OwnedFd,
    /// Handle of the directory it is in; `None` for the root itself.
    parent: Option<OwnedFd>,
    /// Absolute within the root, without links.
    path: PathBuf,
}

impl Root {
    /// The running system when `path` is `/`, else a captured tree.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let dir = nix::fcntl::open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        let live = std::fs::canonicalize(path)? == Path::new("/");
        let mut root = Self { dir, live, recorder: None, refused: BTreeMap::new() };
        if !live {
            root.refused = record::parse_refused(&root.text(record::REFUSED, REFUSED_BYTES).unwrap_or_default());
        }
        Ok(root)
    }

    /// Records all that is read from now on.
    pub fn recording(mut self) -> Self {
        self.recorder = Some(Recorder::default());
        self
    }

    /// What was read since.
    pub fn into_record(self) -> Option<Recorder> {
        self.recorder
    }

    /// What records the reads, if anything does.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Whether this is the running system, whose devices and netlink may be asked too.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The whole of a regular file; `FileTooLarge` if it is longer than `limit_bytes`.
    pub fn read(&self, path: impl AsRef<Path>, limit_bytes: usize) -> io::Result<Vec<u8>> {
        if let Some(at_once) = self.at_once(path.as_ref(), OFlag::O_PATH) {
            if !has_type(at_once?.as_fd(), SFlag::S_IFREG)? {
                return Err(not_regular());
            }
            if let Some(file) = self.at_once(path.as_ref(), READ) {
                return read_file(File::from(file?), limit_bytes);
            }
        }
        let found = self.follow(path.as_ref(), true)?;
        let read = match self.refused.get(&found.path) {
            Some(errno) => Err(io::Error::from_raw_os_error(*errno)),
            None => self.read_found(&found, limit_bytes),
        };
        if let Some(recorder) = &self.recorder {
            recorder.file(&found.path, &read);
        }
        read
    }

    fn read_found(&self, found: &Found, limit_bytes: usize) -> io::Result<Vec<u8>> {
        if !has_type(found.handle.as_fd(), SFlag::S_IFREG)? {
            return Err(not_regular());
        }
        read_file(File::from(self.reopen(found, READ)?), limit_bytes)
    }

    /// Opens by a single call, where the kernel itself keeps the path below the root (Linux 5.6) and the entries on the way
    /// need not be recorded. `None` where that is not available; errors are about the path.
    fn at_once(&self, path: &Path, flags: OFlag) -> Option<io::Result<OwnedFd>> {
        if self.recorder.is_some() || !self.refused.is_empty() {
            return None;
        }
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        match openat2(&self.dir, path, how) {
            // Forbidden or unknown here, a file renamed meanwhile, or a link of procfs that is followed word by word.
            Err(
                nix::Error::ENOSYS | nix::Error::EPERM | nix::Error::EAGAIN | nix::Error::EXDEV | nix::Error::ELOOP,
            ) => None,
            other => Some(other.map_err(Into::into)),
        }
    }

    /// A text file of at most `limit_bytes`; bytes that are not UTF-8 become U+FFFD. `None` when it can't be read.
    pub fn text(&self, path: impl AsRef<Path>, limit_bytes: usize) -> Option<String> {
        let path = path.as_ref();
        match self.read(path, limit_bytes) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "cannot be read");
                None
            }
        }
    }

    /// A sysfs attribute without surrounding white space; `None` when it can't be read.
    pub fn attribute(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = self.text(path, ATTRIBUTE_BYTES)?;
        Some(trimmed(&text).to_owned())
    }

    /// A sysfs attribute that is a decimal number.
    pub fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.attribute(path)?.parse().ok()
    }

    /// Names in a directory, sorted; empty if it is missing. Names that are not UTF-8 are left out.
    pub fn list(&self, path: impl AsRef<Path>) -> Vec<String> {
        let path = path.as_ref();
        match self.try_list(path) {
            Ok(names) => names,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::debug!(path = %path.display(), %error, "cannot be listed");
                }
                Vec::new()
            }
        }
    }

    /// The same, for callers to which a directory that can't be listed is not an empty one.
    pub fn try_list(&self, path: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let path = path.as_ref();
        let at_once = self.at_once(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY).transpose()?;
        let (fd, found) = match at_once {
            Some(fd) => (fd, None),
            None => {
                let found = self.follow(path, true)?;
                (self.reopen(&found, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?, Some(found))
            }
        };
        let mut dir = Dir::from_fd(fd)?;
        let mut names = Vec::new();
        for entry in dir.iter().take(MAX_ENTRIES) {
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        order::sort(&mut names);
        if let Some(found) = found.filter(|_| self.recorder.is_some()) {
            // What is listed must exist on a replay, read or not.
            for name in &names {
                let _ = self.follow(&found.path.join(name), false);
            }
        }
        Ok(names)
    }

    /// Whether a directory of that name exists, links followed.
    pub fn is_dir(&self, path: impl AsRef<Path>) -> bool {
        self.handle(path.as_ref()).and_then(|handle| has_type(handle.as_fd(), SFlag::S_IFDIR)).unwrap_or(false)
    }

    /// Whether anything of that name exists, links followed.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.handle(path.as_ref()).is_ok()
    }

    fn handle(&self, path: &Path) -> io::Result<OwnedFd> {
        match self.at_once(path, OFlag::O_PATH) {
            Some(at_once) => at_once,
            None => Ok(self.follow(path, true)?.handle),
        }
    }

    /// The path without links, absolute within this root; `None` when it leads nowhere.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        Some(self.follow(path.as_ref(), true).ok()?.path)
    }

    /// Where a symbolic link points, made absolute within this root word by word: the target need not exist, as the device
    /// nodes of a captured tree don't.
    pub fn link_target(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let found = self.follow(path.as_ref(), false).ok()?;
        let target = PathBuf::from(readlinkat(&found.handle, "").ok()?);
        let mut absolute = found.path.parent()?.to_owned();
        for part in target.components() {
            match part {
                Component::RootDir => absolute = PathBuf::from("/"),
                Component::ParentDir => {
                    absolute.pop();
                }
                Component::Normal(name) => absolute.push(name),
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Some(absolute)
    }

    /// Whether a block device node of that name exists.
    pub fn is_block_device(&self, path: &Path) -> bool {
        self.handle(path).and_then(|handle| has_type(handle.as_fd(), SFlag::S_IFBLK)).unwrap_or(false)
    }

    fn reopen(&self, found: &Found, flags: OFlag) -> io::Result<OwnedFd> {
        let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let fd = match (&found.parent, found.path.file_name()) {
            (Some(parent), Some(name)) => openat(parent, name, flags, Mode::empty())?,
            _ => openat(&found.handle, ".", flags, Mode::empty())?,
        };
        Ok(fd)
    }

    fn record(&self, above: &[(OsString, OwnedFd)], name: &OsStr, kind: impl FnOnce() -> Kind) {
        if let Some(recorder) = &self.recorder {
            let mut path = PathBuf::from("/");
            path.extend(above.iter().map(|(name, _)| name));
            recorder.entry(&path.join(name), kind());
        }
    }

    fn follow(&self, path: &Path, follow_last: bool) -> io::Result<Found> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut at: Vec<(OsString, OwnedFd)> = Vec::new();
        let mut todo: VecDeque<OsString> = VecDeque::new();
        push_front(&mut todo, path);
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let here = at.last().map_or(self.dir.as_fd(), |(_, fd)| fd.as_fd());
            let fd = openat(here, name.as_os_str(), flags, Mode::empty())?;
            if has_type(fd.as_fd(), SFlag::S_IFLNK)? && (follow_last || !todo.is_empty()) {
                links += 1;
                if links > MAX_LINKS {
                    return Err(nix::Error::ELOOP.into());
                }
                let target = PathBuf::from(readlinkat(&fd, "")?);
                self.record(&at, &name, || Kind::Link(target.clone()));
                if target.is_absolute() {
                    at.clear();
                }
                push_front(&mut todo, &target);
                continue;
            }
            if at.len() >= MAX_DEPTH {
                return Err(nix::Error::ENAMETOOLONG.into());
            }
            self.record(&at, &name, || kind(&fd));
            at.push((name, fd));
        }
        let mut path = PathBuf::from("/");
        path.extend(at.iter().map(|(name, _)| name));
        Ok(match at.pop() {
            Some((_, handle)) => {
                let parent = match at.pop() {
                    Some((_, fd)) => fd,
                    None => self.dir.try_clone()?,
                };
                Found { handle, parent: Some(parent), path }
            }
            None => Found { handle: self.dir.try_clone()?, parent: None, path },
        })
    }
}

/// A handle for reading that neither blocks nor takes a terminal.
const READ: OFlag = OFlag::O_RDONLY.union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY);

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

fn read_file(mut file: File, limit_bytes: usize) -> io::Result<Vec<u8>> {
    let mut first = [0; FIRST_READ_BYTES];
    let mut len = 0;
    let is_whole = loop {
        match file.read(&mut first[len..]) {
            Ok(0) => break len < first.len(),
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    let mut bytes = first[..len].to_vec();
    if !is_whole {
        let rest = limit_bytes.saturating_sub(len).saturating_add(1);
        file.take(u64::try_from(rest).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    }
    if bytes.len() > limit_bytes {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {limit_bytes} bytes")));
    }
    Ok(bytes)
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
}

/// What an unfollowed handle is of.
fn kind(fd: &OwnedFd) -> Kind {
    let is = |wanted| has_type(fd.as_fd(), wanted).unwrap_or(false);
    if is(SFlag::S_IFDIR) {
        Kind::Directory
    } else if is(SFlag::S_IFREG) {
        Kind::Unread
    } else if is(SFlag::S_IFLNK) {
        readlinkat(fd, "").map_or(Kind::Special, |target| Kind::Link(target.into()))
    } else {
        Kind::Special
    }
}

/// Puts the names of a path before those that remain; `.` and slashes are dropped, `..` stays.
fn push_front(todo: &mut VecDeque<OsString>, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => todo.push_front(name.to_owned()),
            Component::ParentDir => todo.push_front(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

fn has_type(fd: BorrowedFd<'_>, wanted: SFlag) -> io::Result<bool> {
    let mode = fstat(fd)?.st_mode;
    Ok(SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits()) == wanted)
}

#[cfg(test)]
mod tests;
