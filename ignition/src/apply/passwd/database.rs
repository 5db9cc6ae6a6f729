//! All the files of accounts together.

use super::super::root::{Access, Root};
use super::numbers;
use super::settings::{Kind, Settings};
use super::table::{Row, Table};
use kernel::order::Gather;
use nix::{errno::Errno, fcntl::FcntlArg, fcntl::OFlag};
use std::{collections::BTreeSet, fs::File, io};

pub(super) const PASSWORD_IN_SHADOW: &str = "x";
/// Taken by every program that changes accounts (`lckpwdf(3)`).
pub(super) const LOCK: &str = "/etc/.pwd.lock";
const NSSWITCH: &str = "/etc/nsswitch.conf";
const NSSWITCH_BYTES: u64 = 64 << 10;

/// Keeps other programs from changing accounts until it is dropped.
pub(super) struct Lock(#[allow(dead_code)] File);

impl Lock {
    pub(super) fn take(root: &Root) -> io::Result<Self> {
        let place = root.follow(LOCK)?;
        if root.stat(&place)?.is_none() {
            root.write(&place, Access { uid: 0, gid: 0, mode: 0o600 }, &[])?;
        }
        let file = root.open_file(&place, OFlag::O_RDWR)?;
        let (kind, whence) = (nix::libc::F_WRLCK, nix::libc::SEEK_SET);
        let fit = |number: i32| i16::try_from(number).map_err(|_| io::Error::from(Errno::EINVAL));
        let whole = nix::libc::flock { l_type: fit(kind)?, l_whence: fit(whence)?, l_start: 0, l_len: 0, l_pid: 0 };
        nix::fcntl::fcntl(&file, FcntlArg::F_SETLK(&whole))?;
        Ok(Self(file))
    }
}

/// The files; missing ones are empty.
pub(super) struct Database {
    pub passwd: Table,
    pub shadow: Table,
    pub group: Table,
    pub gshadow: Table,
    pub subuid: Table,
    pub subgid: Table,
    /// Users and groups of the image itself, which ostree systems store apart and never change.
    more_users: Option<Table>,
    more_groups: Option<Table>,
}

type FileError = (String, io::Error);

impl Database {
    pub(super) fn read(root: &Root) -> Result<Self, FileError> {
        let table = |path| Table::read(root, path).map_err(|source| (String::from(path), source));
        let nsswitch =
            root.read(NSSWITCH, NSSWITCH_BYTES).map_err(|source| (NSSWITCH.to_owned(), source))?.unwrap_or_default();
        let has_more = String::from_utf8_lossy(&nsswitch)
            .lines()
            .any(|line| line.starts_with("passwd:") && line.split_whitespace().any(|source| source == "altfiles"));
        let more = |path| has_more.then(|| table(path)).transpose();
        Ok(Self {
            passwd: table("/etc/passwd")?,
            shadow: table("/etc/shadow")?,
            group: table("/etc/group")?,
            gshadow: table("/etc/gshadow")?,
            subuid: table("/etc/subuid")?,
            subgid: table("/etc/subgid")?,
            more_users: more("/usr/lib/passwd")?,
            more_groups: more("/usr/lib/group")?,
        })
    }

    pub(super) fn user(&self, name: &str) -> Option<Row> {
        self.passwd.find(name).or_else(|| self.more_users.as_ref()?.find(name))
    }

    pub(super) fn group(&self, name: &str) -> Option<Row> {
        self.group.find(name).or_else(|| self.more_groups.as_ref()?.find(name))
    }

    /// Those that are taken.
    pub(super) fn numbers(&self, kind: Kind) -> BTreeSet<u32> {
        let (own, more) = match kind {
            Kind::User => (&self.passwd, &self.more_users),
            Kind::Group => (&self.group, &self.more_groups),
        };
        own.rows().chain(more.iter().flat_map(Table::rows)).filter_map(|row| row.number(2)).gather()
    }

    pub(super) fn add_group(&mut self, name: &str, gid: u32, password: &str) {
        let in_group = if self.gshadow.exists() { PASSWORD_IN_SHADOW } else { password };
        self.group.push(&[name, in_group, &gid.to_string(), ""]);
        self.gshadow.push(&[name, password, "", ""]);
    }

    /// Gives a group in /etc/group another number, also for its users, or another password.
    pub(super) fn change_group(&mut self, name: &str, numbers: Option<(u32, u32)>, password: Option<&str>) {
        let is_it = |row: &Row| row.get(0) == name;
        let before = self.group.find(name);
        let is_in_shadow = self.gshadow.exists();
        self.group.change(|row| {
            if is_it(row) {
                numbers.iter().for_each(|(_, new)| row.set(2, &new.to_string()));
                if let Some(password) = password.filter(|_| !is_in_shadow || row.get(1) != PASSWORD_IN_SHADOW) {
                    row.set(1, password);
                }
            }
            is_it(row)
        });
        if let Some((old, new)) = numbers {
            self.passwd.change(|row| {
                let is_user = row.number(3) == Some(old);
                if is_user {
                    row.set(3, &new.to_string());
                }
                is_user
            });
        }
        let Some(password) = password else { return };
        if self.gshadow.find(name).is_some() {
            self.gshadow.change(|row| {
                if is_it(row) {
                    row.set(1, password);
                }
                is_it(row)
            });
        } else if let Some(before) = before.filter(|before| before.get(1) == PASSWORD_IN_SHADOW) {
            self.gshadow.push(&[name, password, "", before.get(3)]);
        }
    }

    /// Adds a user to these groups.
    pub(super) fn join(&mut self, user: &str, groups: &[String]) {
        for table in [&mut self.group, &mut self.gshadow] {
            table.change(|row| groups.iter().any(|group| group == row.get(0)) && row.set_member(3, user, true));
        }
    }

    /// Puts a user into these groups and out of all others.
    pub(super) fn set_groups(&mut self, user: &str, groups: &[String]) {
        for table in [&mut self.group, &mut self.gshadow] {
            table.change(|row| {
                let is_member = groups.iter().any(|group| group == row.get(0));
                row.set_member(3, user, is_member)
            });
        }
    }

    pub(super) fn set_password(&mut self, name: &str, hash: &str, today: u64) {
        let today = today.to_string();
        if self.shadow.find(name).is_none() {
            self.shadow.push(&[name, hash, &today, "", "", "", "", "", ""]);
            return;
        }
        self.shadow.change(|row| {
            let is_it = row.get(0) == name;
            if is_it {
                row.set(1, hash);
                row.set(2, &today);
            }
            is_it
        });
    }

    /// Subordinate numbers for a user's containers, if the root assigns them. The error is the file that is full.
    pub(super) fn add_subordinates(
        &mut self,
        name: &str,
        asked: Option<u32>,
        settings: &Settings,
    ) -> Result<(), &'static str> {
        let range = settings.range(Kind::User, false);
        if asked.is_some_and(|uid| !(range.min..=range.max).contains(&uid)) {
            return Ok(());
        }
        let tables = [(&mut self.subuid, Kind::User, "/etc/subuid"), (&mut self.subgid, Kind::Group, "/etc/subgid")];
        for (table, kind, file) in tables {
            let Some((min, max, count)) = settings.subordinate(kind).filter(|_| table.exists()) else { continue };
            let taken = |row: Row| {
                let (start, count) = (u64::from(row.number(1)?), u64::from(row.number(2)?));
                (count > 0).then(|| (start, start.saturating_add(count).saturating_sub(1)))
            };
            let mut ranges: Vec<_> = table.rows().filter_map(taken).collect();
            let start = numbers::choose_range(&mut ranges, min, max, count).ok_or(file)?;
            table.push(&[name, &start.to_string(), &count.to_string()]);
        }
        Ok(())
    }

    pub(super) fn save(&self, root: &Root) -> Result<(), FileError> {
        let tables = [
            ("/etc/passwd", &self.passwd),
            ("/etc/shadow", &self.shadow),
            ("/etc/group", &self.group),
            ("/etc/gshadow", &self.gshadow),
            ("/etc/subuid", &self.subuid),
            ("/etc/subgid", &self.subgid),
        ];
        tables.into_iter().try_for_each(|(path, table)| table.save(root).map_err(|source| (path.to_owned(), source)))
    }
}
