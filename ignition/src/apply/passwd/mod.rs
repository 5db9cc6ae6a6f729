//! Users and groups: what useradd, usermod, userdel, groupadd and groupdel do when Ignition calls them, done to the root's own files.
//!
//! The programs are those of shadow-utils 4.13 (`src/useradd.c` and its neighbours), so that an account has the same
//! numbers, home and lines as if they created it. Expiry dates and access lists, which Ignition never sets, are left out.

mod database;
mod home;
mod numbers;
mod settings;
mod table;

use super::ApplyError;
use super::root::Root;
use crate::model::{PasswdGroup, PasswdUser};
use database::{Database, Lock, PASSWORD_IN_SHADOW};
use home::Owner;
use settings::{Kind, Settings};
use std::{cell::OnceCell, io};

/// A password that matches nothing.
const NO_PASSWORD: &str = "*";
/// The same as groupadd writes it.
const NO_GROUP_PASSWORD: &str = "!";

/// Makes, changes and removes accounts below a root.
pub(super) struct Accounts<'r> {
    root: &'r Root,
    /// Days since 1970.
    today: u64,
    lock: OnceCell<Lock>,
}

/// What is wrong with an account, without where.
enum Fault {
    /// It can't be as asked for.
    Wrong(String),
    /// Something fails while doing this.
    System(&'static str, String, io::Error),
}

impl Fault {
    fn at(self, at: &str) -> ApplyError {
        match self {
            Self::Wrong(message) => ApplyError::Account { at: at.to_owned(), message },
            Self::System(doing, path, source) => ApplyError::Path { at: at.to_owned(), doing, path, source },
        }
    }
}

fn wrong(message: impl Into<String>) -> Fault {
    Fault::Wrong(message.into())
}

impl<'r> Accounts<'r> {
    pub(super) fn new(root: &'r Root, today: u64) -> Self {
        Self { root, today, lock: OnceCell::new() }
    }

    pub(super) fn user_id(&self, name: &str) -> Result<Option<u32>, ApplyError> {
        let found = self.read().map(|database| database.user(name)?.number(2));
        found.map_err(|fault| fault.at("$.storage"))
    }

    pub(super) fn group_id(&self, name: &str) -> Result<Option<u32>, ApplyError> {
        let found = self.read().map(|database| database.group(name)?.number(2));
        found.map_err(|fault| fault.at("$.storage"))
    }

    pub(super) fn groups(&self, groups: &[PasswdGroup<'_>]) -> Result<(), ApplyError> {
        groups.iter().enumerate().try_for_each(|(number, group)| {
            let done =
                if group.should_exist == Some(false) { self.delete_group(&group.name) } else { self.put_group(group) };
            done.map_err(|fault| fault.at(&format!("$.passwd.groups.{number}")))
        })
    }

    pub(super) fn users(&self, users: &[PasswdUser<'_>]) -> Result<(), ApplyError> {
        users.iter().enumerate().try_for_each(|(number, user)| {
            let at = format!("$.passwd.users.{number}");
            let exists = || Ok(self.read()?.user(&user.name).is_some());
            let done = match (exists().map_err(|fault: Fault| fault.at(&at))?, user.should_exist) {
                (true, Some(false)) => self.delete_user(&user.name),
                (false, Some(false)) => Ok(()),
                (true, _) => self.change_user(user),
                (false, _) => self.add_user(user),
            };
            done.and_then(|()| self.set_password(user)).map_err(|fault| fault.at(&at))?;
            if user.should_exist != Some(false) && !user.ssh_authorized_keys.is_empty() {
                self.write_keys(user).map_err(|fault| fault.at(&format!("{at}.sshAuthorizedKeys")))?;
            }
            Ok(())
        })
    }

    fn read(&self) -> Result<Database, Fault> {
        Database::read(self.root).map_err(|(path, source)| Fault::System("reading", path, source))
    }

    /// The files, locked against other programs.
    fn open(&self) -> Result<Database, Fault> {
        if self.lock.get().is_none() {
            let lock =
                Lock::take(self.root).map_err(|source| Fault::System("locking", database::LOCK.to_owned(), source))?;
            let _ = self.lock.set(lock);
        }
        self.read()
    }

    fn save(&self, database: &Database) -> Result<(), Fault> {
        database.save(self.root).map_err(|(path, source)| Fault::System("writing", path, source))
    }

    fn settings(&self) -> Result<Settings, Fault> {
        Settings::read(self.root)
            .map_err(|source| Fault::System("reading", "/etc/login.defs or /etc/default/useradd".to_owned(), source))
    }

    /// Adds a group, or changes what the config says of an existing one, as groupmod does.
    fn put_group(&self, group: &PasswdGroup<'_>) -> Result<(), Fault> {
        let mut database = self.open()?;
        let name = &*group.name;
        check_name(name)?;
        let password = group.password_hash.as_deref().filter(|hash| !hash.is_empty());
        check_field("passwordHash", password.unwrap_or_default())?;
        if database.group(name).is_some() {
            let not_here = || wrong(format!("the group {name} is not in /etc/group, so it can't be changed"));
            let old_gid = database.group.find(name).and_then(|row| row.number(2)).ok_or_else(not_here)?;
            let gid = match group.gid {
                Some(gid) if gid != i64::from(old_gid) => Some(free_number(gid, &database.numbers(Kind::Group))?),
                _ => None,
            };
            database.change_group(name, gid.map(|gid| (old_gid, gid)), password);
            return self.save(&database);
        }
        let system = group.system == Some(true);
        let used = database.numbers(Kind::Group);
        let gid = match group.gid {
            Some(gid) => free_number(gid, &used)?,
            None => self.choose(Kind::Group, &database, system, None)?,
        };
        database.add_group(name, gid, password.unwrap_or(NO_GROUP_PASSWORD));
        self.save(&database)
    }

    fn delete_group(&self, name: &str) -> Result<(), Fault> {
        if self.read()?.group(name).is_none() {
            return Ok(());
        }
        let mut database = self.open()?;
        let Some(gid) = database.group.find(name).and_then(|group| group.number(2)) else {
            return Err(wrong(format!("the group {name} is not in /etc/group, so it can't be deleted")));
        };
        if let Some(user) = database.passwd.rows().find(|user| user.number(3) == Some(gid)) {
            return Err(wrong(format!("{name} is the primary group of {}; delete that user first", user.get(0))));
        }
        database.group.remove(name);
        database.gshadow.remove(name);
        self.save(&database)
    }

    fn add_user(&self, user: &PasswdUser<'_>) -> Result<(), Fault> {
        let mut database = self.open()?;
        let settings = self.settings()?;
        let name = &*user.name;
        check_name(name)?;
        check_fields(user)?;
        let system = user.system == Some(true);
        let primary = user.primary_group.as_deref().filter(|group| !group.is_empty());
        let has_own_group = primary.is_none() && user.no_user_group != Some(true) && settings.has_user_groups();
        if has_own_group && database.group(name).is_some() {
            return Err(wrong(format!("a group {name} exists already; set it as primaryGroup, or set noUserGroup")));
        }
        let groups = known_groups(&database, user)?;
        let uid = match user.uid {
            Some(uid) => free_number(uid, &database.numbers(Kind::User))?,
            None => self.choose(Kind::User, &database, system, None)?,
        };
        let gid = match primary {
            Some(primary) => known_group(&database, primary)?,
            None if has_own_group => self.choose(Kind::Group, &database, system, Some(uid))?,
            None => {
                let group = settings.group();
                known_group(&database, &group).ok().or(group.parse().ok()).ok_or_else(|| {
                    wrong(format!("{group}, the group of new users in /etc/default/useradd, is not in /etc/group"))
                })?
            }
        };
        let home = match user.home_dir.as_deref().filter(|home| !home.is_empty()) {
            Some(home) => home.to_owned(),
            None => format!("{}/{name}", settings.homes()),
        };
        let shell = user.shell.as_deref().filter(|shell| !shell.is_empty()).map_or(settings.shell(), str::to_owned);
        let hash = user.password_hash.as_deref().filter(|hash| !hash.is_empty()).unwrap_or(NO_PASSWORD);
        let gecos = user.gecos.as_deref().unwrap_or_default();
        let in_shadow = if database.shadow.exists() { PASSWORD_IN_SHADOW } else { hash };
        let (uid_text, gid_text) = (uid.to_string(), gid.to_string());
        database.passwd.push(&[name, in_shadow, &uid_text, &gid_text, gecos, &home, &shell]);
        let [least, most, warn] = if system { Default::default() } else { settings.password_days() };
        let today = self.today.to_string();
        database.shadow.push(&[name, hash, &today, &least, &most, &warn, "", "", ""]);
        if has_own_group {
            database.add_group(name, gid, NO_GROUP_PASSWORD);
        }
        database.join(name, &groups);
        if !system {
            let asked = user.uid.is_some().then_some(uid);
            database
                .add_subordinates(name, asked, &settings)
                .map_err(|file| wrong(format!("{file} has no free subordinate numbers for {name}")))?;
        }
        self.save(&database)?;
        let owner = Owner { name, uid, gid };
        if user.no_log_init != Some(true) && settings.has_login_records() {
            home::reset_logs(self.root, uid).map_err(|(path, source)| Fault::System("writing", path, source))?;
        }
        if user.no_create_home != Some(true) {
            home::create(self.root, &home, &owner, &settings)
                .map_err(|source| Fault::System("making the home", home.clone(), source))?;
        }
        if !system && settings.has_mail_spool() {
            let mail_group = database.group("mail").and_then(|group| group.number(2));
            let spool = settings.mail_spool(name);
            home::create_mail(self.root, &spool, &owner, mail_group)
                .map_err(|source| Fault::System("making the mailbox", spool.clone(), source))?;
        }
        Ok(())
    }

    /// Whether an existing user has all it should have.
    fn is_as_asked(&self, user: &PasswdUser<'_>) -> Result<bool, Fault> {
        let database = self.read()?;
        let Some(row) = database.passwd.find(&user.name) else { return Ok(false) };
        let is_same = |asked: &Option<crate::model::Text<'_>>, field| {
            asked.as_deref().is_none_or(|asked| asked.is_empty() || asked == row.get(field))
        };
        let group = user.primary_group.as_deref().filter(|group| !group.is_empty());
        let has_group = match group {
            Some(group) => row.number(3) == Some(known_group(&database, group)?),
            None => true,
        };
        let has_number = user.uid.is_none_or(|uid| row.number(2).map(i64::from) == Some(uid));
        let has_fields = is_same(&user.gecos, 4) && is_same(&user.home_dir, 5) && is_same(&user.shell, 6);
        Ok(has_group && has_number && has_fields && user.password_hash.is_none() && user.groups.is_empty())
    }

    fn change_user(&self, user: &PasswdUser<'_>) -> Result<(), Fault> {
        check_fields(user)?;
        if self.is_as_asked(user)? {
            return Ok(());
        }
        let mut database = self.open()?;
        let name = &*user.name;
        let not_here = || wrong(format!("the user {name} is not in /etc/passwd, so it can't be changed"));
        let before = database.passwd.find(name).ok_or_else(not_here)?;
        let (Some(old_uid), Some(old_gid)) = (before.number(2), before.number(3)) else { return Err(not_here()) };
        let set = |text: &Option<crate::model::Text<'_>>| text.as_deref().filter(|t| !t.is_empty()).map(str::to_owned);
        let uid = match user.uid {
            Some(uid) if i64::from(old_uid) != uid => free_number(uid, &database.numbers(Kind::User))?,
            _ => old_uid,
        };
        let gid = match set(&user.primary_group) {
            Some(group) => known_group(&database, &group)?,
            None => old_gid,
        };
        let groups = known_groups(&database, user)?;
        let home = set(&user.home_dir).unwrap_or_else(|| before.get(5).to_owned());
        let moves = home != before.get(5);
        if moves {
            home::check_move(self.root, before.get(5), &home)
                .map_err(|source| Fault::System("moving the home to", home.clone(), source))?;
        }
        let hash = user.password_hash.as_deref().map(|hash| if hash.is_empty() { NO_PASSWORD } else { hash });
        let hash_in_passwd = hash.filter(|_| !database.shadow.exists());
        let mut after = before.clone();
        after.set(2, &uid.to_string());
        after.set(3, &gid.to_string());
        after.set(5, &home);
        set(&user.gecos).iter().for_each(|gecos| after.set(4, gecos));
        set(&user.shell).iter().for_each(|shell| after.set(6, shell));
        hash_in_passwd.iter().for_each(|hash| after.set(1, hash));
        let is_changed = after != before || hash.is_some();
        database.passwd.change(|row| {
            let is_it = row.get(0) == name && is_changed;
            if is_it {
                *row = after.clone();
            }
            is_it
        });
        if let Some(hash) = hash {
            database.set_password(name, hash, self.today);
        }
        if !user.groups.is_empty() {
            database.set_groups(name, &groups);
        }
        self.save(&database)?;
        if moves {
            home::rename(self.root, before.get(5), &home)
                .map_err(|source| Fault::System("moving the home to", home.clone(), source))?;
        }
        home::give(self.root, &home, (old_uid, uid), (old_gid, gid))
            .map_err(|source| Fault::System("changing the owner of the home", home.clone(), source))?;
        if uid != old_uid {
            home::move_logs(self.root, old_uid, uid)
                .map_err(|(path, source)| Fault::System("writing", path, source))?;
            let spool = self.settings()?.mail_spool(name);
            home::give_mail(self.root, &spool, old_uid, uid)
                .map_err(|source| Fault::System("changing the owner of the mailbox", spool.clone(), source))?;
        }
        Ok(())
    }

    /// Ignition sets every password a second time, which shows in the copies of the files.
    fn set_password(&self, user: &PasswdUser<'_>) -> Result<(), Fault> {
        let Some(hash) = user.password_hash.as_deref().filter(|_| user.should_exist != Some(false)) else {
            return Ok(());
        };
        let mut database = self.open()?;
        database.passwd.touch();
        database.set_password(&user.name, if hash.is_empty() { NO_PASSWORD } else { hash }, self.today);
        self.save(&database)
    }

    fn delete_user(&self, name: &str) -> Result<(), Fault> {
        let mut database = self.open()?;
        let settings = self.settings()?;
        let found = database.passwd.find(name);
        let Some((row, (uid, gid))) = found.and_then(|row| Some((row.clone(), (row.number(2)?, row.number(3)?))))
        else {
            return Err(wrong(format!("the user {name} is not in /etc/passwd, so it can't be deleted")));
        };
        let home = row.get(5);
        let others: Vec<_> = database.passwd.rows().filter(|row| row.get(0) != name).collect();
        home::check_removal(self.root, home, uid, others.iter().map(|row| row.get(5))).map_err(
            |error| match error {
                home::Kept::Foreign => {
                    wrong(format!("the home {home} does not belong to {name}; delete it or change its owner first"))
                }
                home::Kept::Shared(other) => wrong(format!("the home {other} of another user is inside {home}")),
                home::Kept::Io(source) => Fault::System("checking the home", home.to_owned(), source),
            },
        )?;
        database.passwd.remove(name);
        database.shadow.remove(name);
        database.set_groups(name, &[]);
        let own = database.group.find(name);
        if let Some(own) = own.filter(|_| settings.has_user_groups()) {
            let is_needed = others.iter().any(|row| row.number(3) == Some(gid));
            if own.number(2) == Some(gid) && own.list(3).is_empty() && !is_needed {
                database.group.remove(name);
                database.gshadow.remove(name);
            }
        }
        database.subuid.remove(name);
        database.subgid.remove(name);
        self.save(&database)?;
        let spool = settings.mail_spool(name);
        home::remove_mail(self.root, &spool, uid)
            .map_err(|source| Fault::System("removing the mailbox", spool.clone(), source))?;
        home::remove(self.root, home).map_err(|source| Fault::System("removing the home", home.to_owned(), source))
    }

    fn choose(&self, kind: Kind, database: &Database, system: bool, preferred: Option<u32>) -> Result<u32, Fault> {
        let range = self.settings()?.range(kind, system);
        numbers::choose(&database.numbers(kind), range, system, preferred)
            .ok_or_else(|| wrong(format!("no free number between {} and {}", range.min, range.max)))
    }

    fn write_keys(&self, user: &PasswdUser<'_>) -> Result<(), Fault> {
        let database = self.read()?;
        let row = database.user(&user.name);
        let (uid, gid) = row.as_ref().and_then(|row| Some((row.number(2)?, row.number(3)?))).unwrap_or((0, 0));
        let home = row.as_ref().map_or("", |row| row.get(5));
        let mut keys = user.ssh_authorized_keys.join("\n");
        if !keys.ends_with('\n') {
            keys.push('\n');
        }
        let owner = Owner { name: &user.name, uid, gid };
        home::write_keys(self.root, home, &owner, keys.as_bytes())
            .map_err(|source| Fault::System("writing the SSH keys in", home.to_owned(), source))
    }
}

/// What would break a line of the files, a path, or the command lines that programs make of names.
fn check_name(name: &str) -> Result<(), Fault> {
    const MAX_BYTES: usize = 32;
    let fits = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, ':' | ',' | '/');
    let starts = name.chars().next().is_some_and(|c| !matches!(c, '-' | '+' | '~'));
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    if starts && name.len() <= MAX_BYTES && name.chars().all(fits) && !is_number && name != "." && name != ".." {
        Ok(())
    } else {
        Err(wrong(format!("{name:?} is not a valid name of a user or group")))
    }
}

/// The text of a field must stay in it. It may be secret.
fn check_field(field: &str, text: &str) -> Result<(), Fault> {
    let breaks = text.chars().any(|c| c == ':' || c.is_control());
    if breaks { Err(wrong(format!("{field} has a colon or a control character in it"))) } else { Ok(()) }
}

fn check_fields(user: &PasswdUser<'_>) -> Result<(), Fault> {
    let fields = [
        ("passwordHash", &user.password_hash),
        ("gecos", &user.gecos),
        ("homeDir", &user.home_dir),
        ("shell", &user.shell),
    ];
    for (field, text) in fields {
        check_field(field, text.as_deref().unwrap_or_default())?;
    }
    for (field, path) in [("homeDir", &user.home_dir), ("shell", &user.shell)] {
        if path.as_deref().is_some_and(|path| !path.is_empty() && !path.starts_with('/')) {
            return Err(wrong(format!("{field} is not an absolute path")));
        }
    }
    Ok(())
}

fn free_number(number: i64, used: &std::collections::BTreeSet<u32>) -> Result<u32, Fault> {
    // The greatest means "no number" to chown.
    let valid = u32::try_from(number).ok().filter(|number| *number < u32::MAX);
    let free = valid.filter(|number| !used.contains(number));
    free.ok_or_else(|| {
        wrong(if valid.is_none() {
            format!("{number} is not a valid number")
        } else {
            format!("the number {number} is taken")
        })
    })
}

/// A group by name or number.
fn known_group(database: &Database, group: &str) -> Result<u32, Fault> {
    let by_number = || {
        let number = group.parse().ok()?;
        database.numbers(Kind::Group).contains(&number).then_some(number)
    };
    let found = by_number().or_else(|| database.group(group)?.number(2));
    found.ok_or_else(|| wrong(format!("no group {group} in /etc/group")))
}

/// The supplementary groups by name.
fn known_groups(database: &Database, user: &PasswdUser<'_>) -> Result<Vec<String>, Fault> {
    let names = user.groups.iter().flat_map(|groups| groups.split(',')).filter(|group| !group.is_empty());
    names
        .map(|group| {
            let gid = known_group(database, group)?;
            let by_number = database.group.rows().find(|row| row.number(2) == Some(gid));
            Ok(by_number.map_or_else(|| group.to_owned(), |row| row.get(0).to_owned()))
        })
        .collect()
}
