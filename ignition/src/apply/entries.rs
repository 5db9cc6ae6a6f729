//! Directories, files and links.

use super::ApplyError;
use super::passwd::Accounts;
use super::root::{Access, Place, Root, is_directory, is_link, is_regular};
use crate::fetch::{Fetcher, Location};
use crate::model::{Directory, Document, File, Link, Owner, Resource};
use kernel::order;
use nix::fcntl::OFlag;
use std::{borrow::Cow, collections::HashMap, io, io::Write, os::unix::ffi::OsStrExt};

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// An entry of `storage` and where it goes.
pub(super) struct Entry<'c> {
    pub at: String,
    pub place: Place,
    pub what: What<'c>,
}

#[derive(Clone, Copy)]
pub(super) enum What<'c> {
    Directory(&'c Directory<'c>),
    File(&'c File<'c>),
    Link(&'c Link<'c>),
}

impl What<'_> {
    fn path(&self) -> &str {
        match self {
            Self::Directory(directory) => &directory.path,
            Self::File(file) => &file.path,
            Self::Link(link) => &link.path,
        }
    }

    fn is_hard(&self) -> bool {
        matches!(self, Self::Link(link) if link.hard == Some(true))
    }

    fn overwrites(&self) -> bool {
        let overwrite = match self {
            Self::Directory(directory) => directory.overwrite,
            Self::File(file) => file.overwrite,
            Self::Link(link) => link.overwrite,
        };
        overwrite == Some(true)
    }

    pub(super) fn owners(&self) -> (&Owner<'_>, &Owner<'_>) {
        match self {
            Self::Directory(directory) => (&directory.user, &directory.group),
            Self::File(file) => (&file.user, &file.group),
            Self::Link(link) => (&link.user, &link.group),
        }
    }
}

impl<'c> Entry<'c> {
    /// All of them in the order they are made: parents first, hard links after all they may lead to.
    pub(super) fn all(root: &Root, config: &'c Document<'_>) -> Result<Vec<Self>, ApplyError> {
        let storage = &config.storage;
        let directories = storage.directories.iter().map(What::Directory).enumerate();
        let files = storage.files.iter().map(What::File).enumerate();
        let links = storage.links.iter().map(What::Link).enumerate();
        let lists = directories.map(|entry| ("directories", entry));
        let lists = lists.chain(files.map(|entry| ("files", entry))).chain(links.map(|entry| ("links", entry)));
        let mut known: HashMap<Place, String> = HashMap::new();
        let mut entries = Vec::new();
        for (list, (number, what)) in lists {
            let at = format!("$.storage.{list}.{number}");
            let place = root.resolve(what.path()).map_err(|source| ApplyError::Path {
                at: at.clone(),
                doing: "following links to",
                path: what.path().to_owned(),
                source,
            })?;
            if let Some(other) = known.insert(place.clone(), at.clone()) {
                return Err(ApplyError::SamePlace { at, other, path: place.to_string() });
            }
            entries.push(Self { at, place, what });
        }
        order::sort_by_key(&mut entries, |entry| if entry.what.is_hard() { usize::MAX } else { entry.place.depth() });
        Ok(entries)
    }

    pub(super) fn write(&self, root: &Root, accounts: &Accounts<'_>, fetcher: &Fetcher) -> Result<(), ApplyError> {
        if self.what.overwrites() && !self.is_replaced(root)? {
            root.remove(&self.place).map_err(|source| self.fail("removing", source))?;
        }
        match self.what {
            What::Directory(directory) => self.write_directory(directory, root, accounts),
            What::File(file) => self.write_file(file, root, accounts, fetcher),
            What::Link(link) if self.what.is_hard() => self.write_hard_link(link, root),
            What::Link(link) => self.write_symlink(link, root, accounts),
        }
    }

    /// Whether it replaces another file atomically: that may be in use.
    fn is_replaced(&self, root: &Root) -> Result<bool, ApplyError> {
        let What::File(file) = self.what else { return Ok(false) };
        let found = root.stat(&self.place).map_err(|source| self.fail("looking for", source))?;
        Ok(file.contents.source.is_some() && found.is_some_and(|found| is_regular(&found)))
    }

    fn write_directory(
        &self,
        directory: &Directory<'_>,
        root: &Root,
        accounts: &Accounts<'_>,
    ) -> Result<(), ApplyError> {
        let fail = |source| self.fail("making the directory", source);
        let found = root.stat(&self.place).map_err(fail)?;
        if found.is_some_and(|found| !is_directory(&found)) {
            return Err(self.exists("and is not a directory"));
        }
        let mode = self.mode(directory.mode)?;
        let uid = self.owner(&directory.user, accounts, Kind::User)?;
        let gid = self.owner(&directory.group, accounts, Kind::Group)?;
        match found {
            Some(found) => root.give(&self.place, uid.unwrap_or(found.st_uid), gid.unwrap_or(found.st_gid), mode),
            None => {
                let mode = mode.unwrap_or(DIRECTORY_MODE);
                let access = Access { uid: uid.unwrap_or(0), gid: gid.unwrap_or(0), mode };
                root.make_directory(&self.place, access).map(drop)
            }
        }
        .map_err(fail)
    }

    fn write_file(
        &self,
        file: &File<'_>,
        root: &Root,
        accounts: &Accounts<'_>,
        fetcher: &Fetcher,
    ) -> Result<(), ApplyError> {
        let fail = |source| self.fail("writing the file", source);
        let found = if self.what.overwrites() && file.contents.source.is_some() {
            None
        } else {
            root.stat(&self.place).map_err(fail)?
        };
        if found.is_some_and(|found| !is_regular(&found)) {
            return Err(self.exists("and is not a regular file"));
        }
        if found.is_some() && file.contents.source.is_some() {
            return Err(self.exists("as a file with its own contents"));
        }
        let mode = self.mode(file.mode)?;
        let uid = self.owner(&file.user, accounts, Kind::User)?;
        let gid = self.owner(&file.group, accounts, Kind::Group)?;
        let mut pieces = Vec::new();
        if file.contents.source.is_some() {
            pieces.push(self.fetch(&file.contents, "contents", fetcher)?);
        }
        for (number, appended) in file.append.iter().enumerate() {
            if appended.source.is_some() {
                pieces.push(self.fetch(appended, &format!("append.{number}"), fetcher)?);
            }
        }
        match found {
            // In place, as it may have other names.
            Some(found) => {
                if !pieces.is_empty() {
                    let flags = OFlag::O_WRONLY | OFlag::O_APPEND;
                    let mut open = root.open_file(&self.place, flags).map_err(fail)?;
                    pieces.iter().try_for_each(|piece| open.write_all(piece)).map_err(fail)?;
                }
                root.give(&self.place, uid.unwrap_or(found.st_uid), gid.unwrap_or(found.st_gid), mode)
            }
            None => {
                let access = Access { uid: uid.unwrap_or(0), gid: gid.unwrap_or(0), mode: mode.unwrap_or(FILE_MODE) };
                let pieces: Vec<&[u8]> = pieces.iter().map(AsRef::as_ref).collect();
                root.write(&self.place, access, &pieces)
            }
        }
        .map_err(fail)
    }

    fn write_symlink(&self, link: &Link<'_>, root: &Root, accounts: &Accounts<'_>) -> Result<(), ApplyError> {
        let fail = |source| self.fail("making the link", source);
        let target = link.target.as_deref().unwrap_or_default();
        if let Some(found) = root.stat(&self.place).map_err(fail)? {
            let same = is_link(&found) && root.link_target(&self.place).map_err(fail)?.as_bytes() == target.as_bytes();
            if same {
                return Ok(());
            }
            let found = if is_link(&found) { "a link that leads elsewhere" } else { "and is not a link" };
            return Err(self.exists(found));
        }
        let uid = self.owner(&link.user, accounts, Kind::User)?.unwrap_or(0);
        let gid = self.owner(&link.group, accounts, Kind::Group)?.unwrap_or(0);
        root.symlink(target, &self.place, uid, gid).map_err(fail)
    }

    fn write_hard_link(&self, link: &Link<'_>, root: &Root) -> Result<(), ApplyError> {
        let fail = |source| self.fail("making the hard link", source);
        let target = root.resolve(link.target.as_deref().unwrap_or_default()).map_err(fail)?;
        if let Some(found) = root.stat(&self.place).map_err(fail)? {
            let other = root.stat(&target).map_err(fail)?;
            let id = |stat: nix::sys::stat::FileStat| (stat.st_dev, stat.st_ino);
            if other.map(id) == Some(id(found)) {
                return Ok(());
            }
            return Err(self.exists("and is not what the link leads to"));
        }
        root.hard_link(&target, &self.place).map_err(fail)
    }

    fn fetch<'r>(
        &self,
        resource: &'r Resource<'r>,
        field: &str,
        fetcher: &Fetcher,
    ) -> Result<Cow<'r, [u8]>, ApplyError> {
        fetcher.fetch(&Location::from(resource)).map_err(|source| ApplyError::Fetch {
            at: format!("{}.{field}", self.at),
            path: self.place.to_string(),
            source: Box::new(source),
        })
    }

    fn mode(&self, mode: Option<i64>) -> Result<Option<u32>, ApplyError> {
        let wrong = |found| ApplyError::Number { at: format!("{}.mode", self.at), what: "a mode", found };
        mode.map(|mode| u32::try_from(mode).ok().filter(|mode| *mode <= 0o7777).ok_or_else(|| wrong(mode))).transpose()
    }

    fn owner(&self, owner: &Owner<'_>, accounts: &Accounts<'_>, kind: Kind) -> Result<Option<u32>, ApplyError> {
        let (field, what, file) = match kind {
            Kind::User => ("user", "a user's number", "/etc/passwd"),
            Kind::Group => ("group", "a group's number", "/etc/group"),
        };
        let at = || format!("{}.{field}", self.at);
        if let Some(found) = owner.id {
            return u32::try_from(found).map(Some).map_err(|_| ApplyError::Number { at: at(), what, found });
        }
        let Some(name) = owner.name.as_deref().filter(|name| !name.is_empty()) else { return Ok(None) };
        let id = match kind {
            Kind::User => accounts.user_id(name)?,
            Kind::Group => accounts.group_id(name)?,
        };
        let unknown = || ApplyError::UnknownOwner { at: at(), kind: field, name: name.to_owned(), file };
        id.map(Some).ok_or_else(unknown)
    }

    fn fail(&self, doing: &'static str, source: io::Error) -> ApplyError {
        ApplyError::Path { at: self.at.clone(), doing, path: self.place.to_string(), source }
    }

    fn exists(&self, found: &'static str) -> ApplyError {
        ApplyError::Exists { at: self.at.clone(), path: self.place.to_string(), found }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    User,
    Group,
}
