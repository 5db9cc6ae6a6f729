//! A directory that stands for `/`: all writes go below it, whatever links are in it.
//!
//! A path is first freed of links, each read from an open directory and followed inside the root; then its directories are opened
//! one by one, none through a link. So a hostile tree, or one that changes meanwhile, causes an error at worst.

use kernel::order;
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag, openat, readlinkat, renameat},
    sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat},
    unistd::{LinkatFlags, UnlinkatFlags, fchown, fchownat, linkat, symlinkat, unlinkat},
};
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path},
};

/// The kernel's own limit.
const MAX_LINKS: usize = 40;
/// Depth of directories that are removed, copied or change their owner; each is held open.
const MAX_DEPTH: usize = 256;
/// How directories are opened: never through a link, and not for reading.
const HANDLE: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// How files are opened for reading or for permissions; a pipe doesn't block.
const OPEN: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);
/// Directories that had to be made on the way.
const DIRECTORY_MODE: u32 = 0o755;
const FILE_TYPE: u32 = 0o170_000;

#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
}

/// A path below a root; only the last part may be a link.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(Vec<OsString>);

/// Owner and permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
}

impl Place {
    pub(super) fn depth(&self) -> usize {
        self.0.len()
    }

    /// What is in it by this name.
    pub(crate) fn join(&self, name: impl AsRef<OsStr>) -> Self {
        let mut parts = self.0.clone();
        parts.push(name.as_ref().to_owned());
        Self(parts)
    }

    pub(super) fn parent(&self) -> Option<Self> {
        let (_, parent) = self.0.split_last()?;
        Some(Self(parent.to_vec()))
    }

    pub(super) fn name(&self) -> Option<&OsStr> {
        self.0.last().map(OsString::as_os_str)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|part| write!(f, "/{}", part.to_string_lossy()))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub(crate) fn is_link(stat: &FileStat) -> bool {
    stat.st_mode & FILE_TYPE == SFlag::S_IFLNK.bits()
}

pub(crate) fn is_directory(stat: &FileStat) -> bool {
    stat.st_mode & FILE_TYPE == SFlag::S_IFDIR.bits()
}

pub(crate) fn is_regular(stat: &FileStat) -> bool {
    stat.st_mode & FILE_TYPE == SFlag::S_IFREG.bits()
}

impl Root {
    /// An existing directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self { dir: nix::fcntl::open(path, flags, Mode::empty())? })
    }

    /// Where a path leads, links in all but its last part followed; missing parts are taken as they are. As in Ignition,
    /// `..` removes the part before it even if that came from a link.
    pub(super) fn resolve(&self, path: impl AsRef<Path>) -> io::Result<Place> {
        self.walk(path.as_ref(), false)
    }

    /// Where a path leads in the end.
    pub(crate) fn follow(&self, path: impl AsRef<Path>) -> io::Result<Place> {
        self.walk(path.as_ref(), true)
    }

    fn walk(&self, path: &Path, follow_last: bool) -> io::Result<Place> {
        let mut pending: VecDeque<OsString> = parts(path).collect();
        let mut done: Vec<(OsString, Option<OwnedFd>)> = Vec::new();
        let mut links = 0;
        while let Some(part) = pending.pop_front() {
            if part == ".." {
                done.pop();
                continue;
            }
            let parent = match done.last() {
                None => Some(self.dir.as_fd()),
                Some((_, dir)) => dir.as_ref().map(AsFd::as_fd),
            };
            let handle = match parent.map(|parent| openat(parent, part.as_os_str(), HANDLE, Mode::empty())) {
                None | Some(Err(Errno::ENOENT | Errno::ENOTDIR)) => None,
                Some(handle) => Some(handle?),
            };
            let target = match &handle {
                Some(handle) if (follow_last || !pending.is_empty()) && is_link(&fstat(handle)?) => {
                    Some(readlinkat(handle, "")?)
                }
                _ => None,
            };
            let Some(target) = target else {
                done.push((part, handle));
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::ELOOP.into());
            }
            if Path::new(&target).is_absolute() {
                done.clear();
            }
            let target: Vec<_> = parts(Path::new(&target)).collect();
            let target = if follow_last { target } else { without_detours(target) };
            target.into_iter().rev().for_each(|part| pending.push_front(part));
        }
        Ok(Place(done.into_iter().map(|(part, _)| part).collect()))
    }

    /// The directory at a place, through no link.
    pub(super) fn directory(&self, place: &Place) -> io::Result<OwnedFd> {
        let mut dir = self.dir.try_clone()?;
        for part in &place.0 {
            dir = openat(&dir, part.as_os_str(), HANDLE | OFlag::O_DIRECTORY, Mode::empty())?;
        }
        Ok(dir)
    }

    /// The directory at a place, created with its parents where missing; parents get default access rights.
    pub(super) fn make_directory(&self, place: &Place, access: Access) -> io::Result<OwnedFd> {
        let above = Access { uid: 0, gid: 0, mode: DIRECTORY_MODE };
        let mut dir = self.dir.try_clone()?;
        for (at, part) in place.0.iter().enumerate() {
            let made = match mkdirat(&dir, part.as_os_str(), Mode::S_IRWXU) {
                Ok(()) => true,
                Err(Errno::EEXIST) => false,
                Err(error) => return Err(error.into()),
            };
            if made {
                let new = openat(&dir, part.as_os_str(), OPEN | OFlag::O_DIRECTORY, Mode::empty())?;
                set_access(&new, if at + 1 == place.depth() { access } else { above })?;
            }
            dir = openat(&dir, part.as_os_str(), HANDLE | OFlag::O_DIRECTORY, Mode::empty())?;
        }
        Ok(dir)
    }

    /// The directory a place is in, created if missing, and its name there.
    fn make_parent<'p>(&self, place: &'p Place) -> io::Result<(OwnedFd, &'p OsStr)> {
        let (Some(parent), Some(name)) = (place.parent(), place.name()) else {
            return Err(Errno::EISDIR.into());
        };
        Ok((self.make_directory(&parent, Access { uid: 0, gid: 0, mode: DIRECTORY_MODE })?, name))
    }

    /// What is at a place, also a link; None if it is missing.
    pub(crate) fn stat(&self, place: &Place) -> io::Result<Option<FileStat>> {
        let (Some(parent), Some(name)) = (place.parent(), place.name()) else {
            return Ok(Some(fstat(&self.dir)?));
        };
        match self.directory(&parent) {
            Ok(dir) => stat_at(dir.as_fd(), name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where the link at a place leads.
    pub(crate) fn link_target(&self, place: &Place) -> io::Result<OsString> {
        let parent = self.directory(&place.parent().unwrap_or(Place(Vec::new())))?;
        Ok(readlinkat(&parent, place.name().unwrap_or_default())?)
    }

    /// A regular file's bytes; an error if there are more than `limit_bytes`. None if it is missing.
    pub(crate) fn read(&self, path: &str, limit_bytes: u64) -> io::Result<Option<Vec<u8>>> {
        match self.read_at(&self.follow(path)?, limit_bytes) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same of the file at a place; it exists.
    pub(crate) fn read_at(&self, place: &Place, limit_bytes: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(place, OFlag::O_RDONLY)?;
        let mut bytes = Vec::new();
        file.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if len > limit_bytes { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    }

    /// An existing regular file.
    pub(super) fn open_file(&self, place: &Place, flags: OFlag) -> io::Result<File> {
        let parent = self.directory(&place.parent().unwrap_or(Place(Vec::new())))?;
        let file = openat(&parent, place.name().unwrap_or_default(), OPEN | flags, Mode::empty())?;
        if is_regular(&fstat(&file)?) { Ok(file.into()) } else { Err(Errno::EINVAL.into()) }
    }

    /// Writes a file of these pieces at a place, completely or not at all; directories above it are created.
    pub(super) fn write(&self, place: &Place, access: Access, pieces: &[&[u8]]) -> io::Result<()> {
        let (parent, name) = self.make_parent(place)?;
        write_at(parent.as_fd(), name, access, pieces)
    }

    /// Sets owner and mode of an existing directory or regular file; `None` leaves the mode.
    pub(super) fn give(&self, place: &Place, uid: u32, gid: u32, mode: Option<u32>) -> io::Result<()> {
        let parent = self.directory(&place.parent().unwrap_or(Place(Vec::new())))?;
        let file = match place.name() {
            Some(name) => openat(&parent, name, OPEN, Mode::empty())?,
            None => openat(&parent, ".", OPEN | OFlag::O_DIRECTORY, Mode::empty())?,
        };
        // Changing the owner clears special bits, so they come last.
        let mode = mode.unwrap_or(fstat(&file)?.st_mode & 0o7777);
        set_access(&file, Access { uid, gid, mode })
    }

    /// Creates a symbolic link at an empty place.
    pub(super) fn symlink(&self, target: &str, place: &Place, uid: u32, gid: u32) -> io::Result<()> {
        let (parent, name) = self.make_parent(place)?;
        symlinkat(target, &parent, name)?;
        chown_at(parent.as_fd(), name, Some(uid), Some(gid))
    }

    /// Creates a hard link to `target` at an empty place.
    pub(super) fn hard_link(&self, target: &Place, place: &Place) -> io::Result<()> {
        let from = self.directory(&target.parent().unwrap_or(Place(Vec::new())))?;
        let (parent, name) = self.make_parent(place)?;
        Ok(linkat(&from, target.name().unwrap_or_default(), &parent, name, LinkatFlags::empty())?)
    }

    /// Removes what is at a place, with all that is in it; a missing entry is not an error.
    pub(super) fn remove(&self, place: &Place) -> io::Result<()> {
        let (Some(parent), Some(name)) = (place.parent(), place.name()) else {
            return Err(Errno::EBUSY.into());
        };
        match self.directory(&parent) {
            Ok(dir) => remove_at(dir.as_fd(), name, 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Moves what is at a place to another, empty one on the same file system.
    pub(super) fn rename(&self, from: &Place, to: &Place) -> io::Result<()> {
        let parent = |place: &Place| self.directory(&place.parent().unwrap_or(Place(Vec::new())));
        let (source, target) = (parent(from)?, parent(to)?);
        Ok(renameat(&source, from.name().unwrap_or_default(), &target, to.name().unwrap_or_default())?)
    }

    /// Calls back for what is at a place, and all that is in it, each before what is in it: with the directory it is in, its name,
    /// and what it is.
    pub(super) fn visit(&self, place: &Place, visit: &mut Visitor<'_>) -> io::Result<()> {
        let (Some(parent), Some(name)) = (place.parent(), place.name()) else {
            return Err(Errno::EBUSY.into());
        };
        visit_at(self.directory(&parent)?.as_fd(), name, &mut Vec::new(), visit)
    }

    /// Names in a directory, in order; none if it is missing.
    pub(crate) fn names(&self, place: &Place) -> io::Result<Vec<OsString>> {
        match self.directory(place) {
            Ok(dir) => names_in(dir.as_fd(), OsStr::new(".")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Changes the owner of what is at a place, and in it, where the owner is `from`.
    pub(super) fn give_tree(&self, place: &Place, user: (u32, u32), group: (u32, u32)) -> io::Result<()> {
        self.visit(place, &mut |dir, _, name, stat| {
            let uid = (stat.st_uid == user.0 && user.0 != user.1).then_some(user.1);
            let gid = (stat.st_gid == group.0 && group.0 != group.1).then_some(group.1);
            if uid.is_none() && gid.is_none() { Ok(()) } else { chown_at(dir, name, uid, gid) }
        })
    }

    /// Copies what is in the directory `from` into the directory `to`, with a new owner. Directories, regular files and
    /// links.
    pub(super) fn copy_into(&self, from: &Place, to: &Place, uid: u32, gid: u32) -> io::Result<()> {
        self.visit(from, &mut |dir, above, name, stat| {
            // The first is the directory itself.
            let Some((_, below)) = above.split_first() else { return Ok(()) };
            let mut place = to.clone();
            place.0.extend(below.iter().cloned());
            let place = place.join(name);
            let access = Access { uid, gid, mode: stat.st_mode & 0o7777 };
            if is_directory(stat) {
                drop(self.make_directory(&place, access)?);
            } else if is_link(stat) {
                let target = readlinkat(dir, name)?;
                let parent = self.make_parent(&place)?.0;
                symlinkat(target.as_os_str(), &parent, name)?;
                chown_at(parent.as_fd(), name, Some(uid), Some(gid))?;
            } else if is_regular(stat) {
                let mut file = File::from(openat(dir, name, OPEN, Mode::empty())?);
                let parent = self.make_parent(&place)?.0;
                write_with(parent.as_fd(), name, access, |new| io::copy(&mut file, new).map(drop))?;
            }
            Ok(())
        })
    }
}

type Visitor<'v> = dyn FnMut(BorrowedFd<'_>, &[OsString], &OsStr, &FileStat) -> io::Result<()> + 'v;

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// `a/..` is nothing.
fn without_detours(parts: Vec<OsString>) -> Vec<OsString> {
    let mut short: Vec<OsString> = Vec::with_capacity(parts.len());
    for part in parts {
        if part == ".." && short.last().is_some_and(|last| last != "..") {
            short.pop();
        } else {
            short.push(part);
        }
    }
    short
}

fn stat_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<FileStat>> {
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn set_access(file: &impl AsFd, access: Access) -> io::Result<()> {
    let stat = fstat(file)?;
    if stat.st_uid != access.uid || stat.st_gid != access.gid {
        fchown(file, Some(access.uid.into()), Some(access.gid.into()))?;
    }
    Ok(fchmod(file, Mode::from_bits_truncate(access.mode))?)
}

fn chown_at(dir: BorrowedFd<'_>, name: &OsStr, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    Ok(fchownat(dir, name, uid.map(Into::into), gid.map(Into::into), AtFlags::AT_SYMLINK_NOFOLLOW)?)
}

fn write_at(dir: BorrowedFd<'_>, name: &OsStr, access: Access, pieces: &[&[u8]]) -> io::Result<()> {
    write_with(dir, name, access, |file| pieces.iter().try_for_each(|piece| file.write_all(piece)))
}

/// A file under a temporary name, which is renamed when it is complete.
fn write_with(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    access: Access,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let (mut file, partial) = new_file(dir)?;
    let written = write(&mut file).and_then(|()| set_access(&file, access));
    let placed = written.and_then(|()| Ok(renameat(dir, partial.as_str(), dir, name)?));
    if placed.is_err() {
        // The first error is reported.
        let _ = unlinkat(dir, partial.as_str(), UnlinkatFlags::NoRemoveDir);
    }
    placed
}

fn new_file(dir: BorrowedFd<'_>) -> io::Result<(File, String)> {
    const TRIES: u8 = 16;
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut tries = 0;
    loop {
        let name = format!(".landfall-{:016x}", fastrand::u64(..));
        match openat(dir, name.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(file) => return Ok((file.into(), name)),
            Err(Errno::EEXIST) if tries < TRIES => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

fn names_in(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Vec<OsString>> {
    let mut dir = Dir::openat(dir, name, OPEN | OFlag::O_DIRECTORY, Mode::empty())?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    order::sort(&mut names);
    Ok(names)
}

fn remove_at(dir: BorrowedFd<'_>, name: &OsStr, depth: usize) -> io::Result<()> {
    match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(()),
        Err(Errno::EISDIR | Errno::EPERM) => {}
        Err(error) => return Err(error.into()),
    }
    if depth >= MAX_DEPTH {
        return Err(Errno::ENAMETOOLONG.into());
    }
    let inner = openat(dir, name, OPEN | OFlag::O_DIRECTORY, Mode::empty())?;
    for name in names_in(inner.as_fd(), OsStr::new("."))? {
        remove_at(inner.as_fd(), &name, depth + 1)?;
    }
    Ok(unlinkat(dir, name, UnlinkatFlags::RemoveDir)?)
}

fn visit_at(dir: BorrowedFd<'_>, name: &OsStr, above: &mut Vec<OsString>, visit: &mut Visitor<'_>) -> io::Result<()> {
    let Some(stat) = stat_at(dir, name)? else { return Ok(()) };
    visit(dir, above, name, &stat)?;
    if !is_directory(&stat) {
        return Ok(());
    }
    if above.len() >= MAX_DEPTH {
        return Err(Errno::ENAMETOOLONG.into());
    }
    let inner = openat(dir, name, OPEN | OFlag::O_DIRECTORY, Mode::empty())?;
    above.push(name.to_owned());
    for name in names_in(inner.as_fd(), OsStr::new("."))? {
        visit_at(inner.as_fd(), &name, above, visit)?;
    }
    above.pop();
    Ok(())
}
