//! Homes, mailboxes, keys: what belongs to a user besides the lines of the files.

use super::super::root::{Access, Place, Root, is_directory, is_regular};
use super::settings::Settings;
use nix::{errno::Errno, fcntl::OFlag};
use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// `struct lastlog` of Linux on 64-bit machines, and where they lie.
const LASTLOG: (&str, u64) = ("/var/log/lastlog", 292);
/// `struct faillog`.
const FAILLOG: (&str, u64) = ("/var/log/faillog", 32);

pub(super) struct Owner<'u> {
    pub name: &'u str,
    pub uid: u32,
    pub gid: u32,
}

/// Why a home can't be removed.
pub(super) enum Kept {
    /// It belongs to another user.
    Foreign,
    /// Another home is in it.
    Shared(String),
    Io(io::Error),
}

impl From<io::Error> for Kept {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Creates a home with what every new user gets, unless it exists.
pub(super) fn create(root: &Root, home: &str, owner: &Owner<'_>, settings: &Settings) -> io::Result<()> {
    let place = root.follow(home)?;
    if root.stat(&place)?.is_some() {
        return Ok(());
    }
    let access = Access { uid: owner.uid, gid: owner.gid, mode: settings.home_mode() };
    root.make_directory(&place, access)?;
    let skeleton = root.follow(settings.skeleton())?;
    match root.stat(&skeleton)? {
        Some(stat) if is_directory(&stat) => root.copy_into(&skeleton, &place, owner.uid, owner.gid),
        _ => Ok(()),
    }
}

/// Whether a missing home can be created.
pub(super) fn check_move(root: &Root, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (root.follow(from)?, root.follow(to)?);
    let has_home = root.stat(&from)?.is_some_and(|stat| is_directory(&stat));
    if has_home && root.stat(&to)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    Ok(())
}

pub(super) fn rename(root: &Root, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (root.follow(from)?, root.follow(to)?);
    if !root.stat(&from)?.is_some_and(|stat| is_directory(&stat)) {
        return Ok(());
    }
    root.rename(&from, &to)
}

/// Sets the owner of a home to the new number of its user or group.
pub(super) fn give(root: &Root, home: &str, user: (u32, u32), group: (u32, u32)) -> io::Result<()> {
    if user.0 == user.1 && group.0 == group.1 {
        return Ok(());
    }
    let place = root.follow(home)?;
    if root.stat(&place)?.is_some_and(|stat| is_directory(&stat)) && place.depth() > 0 {
        root.give_tree(&place, user, group)?;
    }
    Ok(())
}

pub(super) fn give_mail(root: &Root, spool: &str, from: u32, to: u32) -> io::Result<()> {
    let place = root.resolve(spool)?;
    match root.stat(&place)? {
        Some(stat) if is_regular(&stat) && stat.st_uid == from => root.give(&place, to, stat.st_gid, None),
        _ => Ok(()),
    }
}

pub(super) fn create_mail(root: &Root, spool: &str, owner: &Owner<'_>, mail_group: Option<u32>) -> io::Result<()> {
    let place = root.resolve(spool)?;
    if root.stat(&place)?.is_some() {
        return Ok(());
    }
    let (gid, mode) = mail_group.map_or((owner.gid, 0o600), |gid| (gid, 0o660));
    root.write(&place, Access { uid: owner.uid, gid, mode }, &[])
}

pub(super) fn check_removal<'h>(
    root: &Root,
    home: &str,
    uid: u32,
    mut others: impl Iterator<Item = &'h str>,
) -> Result<(), Kept> {
    let place = root.follow(home)?;
    let Some(stat) = root.stat(&place)? else { return Ok(()) };
    if stat.st_uid != uid || place.depth() == 0 {
        return Err(Kept::Foreign);
    }
    let inside = others.find(|other| Path::new(other).starts_with(home));
    inside.map_or(Ok(()), |other| Err(Kept::Shared(other.to_owned())))
}

pub(super) fn remove(root: &Root, home: &str) -> io::Result<()> {
    root.remove(&root.follow(home)?)
}

pub(super) fn remove_mail(root: &Root, spool: &str, uid: u32) -> io::Result<()> {
    let place = root.resolve(spool)?;
    match root.stat(&place)? {
        Some(stat) if stat.st_uid == uid => root.remove(&place),
        _ => Ok(()),
    }
}

type LogError = (String, io::Error);

/// Removes the logins of an earlier user with the number, where the root stores them.
pub(super) fn reset_logs(root: &Root, uid: u32) -> Result<(), LogError> {
    each_log(root, |log| log.reset(uid))
}

/// Moves a user's logins to its new number.
pub(super) fn move_logs(root: &Root, from: u32, to: u32) -> Result<(), LogError> {
    each_log(root, |log| if log.has(from)? { log.copy(from, to) } else { log.reset(to) })
}

fn each_log(root: &Root, work: impl Fn(&mut Log) -> io::Result<()>) -> Result<(), LogError> {
    [LASTLOG, FAILLOG].into_iter().try_for_each(|(path, size)| {
        let done = Log::open(root, path, size).and_then(|log| log.map_or(Ok(()), |mut log| work(&mut log)));
        done.map_err(|error| (path.to_owned(), error))
    })
}

/// A file of a record for each number.
struct Log {
    file: File,
    record: Vec<u8>,
    size: u64,
}

impl Log {
    fn open(root: &Root, path: &str, size: u64) -> io::Result<Option<Self>> {
        let place = root.follow(path)?;
        if !root.stat(&place)?.is_some_and(|stat| is_regular(&stat)) {
            return Ok(None);
        }
        let file = root.open_file(&place, OFlag::O_RDWR)?;
        Ok(Some(Self { file, record: vec![0; usize::try_from(size).unwrap_or_default()], size }))
    }

    fn start(&self, uid: u32) -> u64 {
        u64::from(uid).saturating_mul(self.size)
    }

    fn has(&self, uid: u32) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() >= self.start(uid).saturating_add(self.size))
    }

    fn reset(&mut self, uid: u32) -> io::Result<()> {
        if !self.has(uid)? {
            return Ok(());
        }
        self.record.fill(0);
        self.file.write_all_at(&self.record, self.start(uid))
    }

    fn copy(&mut self, from: u32, to: u32) -> io::Result<()> {
        let (source, target) = (self.start(from), self.start(to));
        self.file.read_exact_at(&mut self.record, source)?;
        self.file.write_all_at(&self.record, target)
    }
}

/// Writes a user's keys as if the user did: only into its own directories.
pub(super) fn write_keys(root: &Root, home: &str, owner: &Owner<'_>, keys: &[u8]) -> io::Result<()> {
    let file = root.resolve(format!("{home}/.ssh/authorized_keys.d/ignition"))?;
    let dir = file.parent().ok_or(Errno::EISDIR)?;
    let mut missing: Vec<Place> = Vec::new();
    let mut place = dir.clone();
    let stat = loop {
        match (root.stat(&place)?, place.parent()) {
            (Some(stat), _) => break stat,
            (None, Some(parent)) => missing.push(std::mem::replace(&mut place, parent)),
            (None, None) => return Err(Errno::ENOENT.into()),
        }
    };
    if owner.uid != 0 && stat.st_uid != owner.uid {
        let message = format!("{place} is not a directory owned by {}, who could not write there", owner.name);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let access = Access { uid: owner.uid, gid: owner.gid, mode: 0o700 };
    for place in missing.iter().rev() {
        root.make_directory(place, access)?;
    }
    let before = root.stat(&file)?.filter(is_regular).map(|stat| stat.st_mode & 0o7777);
    root.write(&file, Access { mode: before.unwrap_or(0o600), ..access }, &[keys])
}
