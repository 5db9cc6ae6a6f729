//! A config carried out on a directory, as Ignition's `files` stage does it (installer contract E.6, E.7): groups and users,
//! directories, files, links, units, and the file that says so.
//!
//! No program is started: accounts are made by editing the root's own files, as useradd and its kin would (`passwd`). What the
//! other stages do (disks, file systems, kernel arguments) and SELinux labels are not done; a config that needs them is refused
//! unless the caller says otherwise.

mod entries;
mod error;
mod passwd;
mod plan;
mod root;
mod units;

pub use error::ApplyError;
pub use plan::{Action, Unsupported, plan};
pub use root::Root;

use crate::fetch::Fetcher;
use crate::model::{Document, Version};
use entries::Entry;
use passwd::Accounts;
use root::Access;
use serde_json::json;

/// The kernel's identifier of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Where Ignition says that it was here.
const RESULT: &str = "/etc/.ignition-result.json";

/// When it is, for the account files and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// Days since 1970.
    pub days: u64,
    /// By RFC 3339.
    pub date: String,
    /// The kernel's identifier of this boot, if there is one.
    pub boot_id: String,
}

impl Now {
    /// Now.
    pub fn read() -> Self {
        let now = time::OffsetDateTime::now_utc();
        let days = u64::try_from(now.unix_timestamp()).unwrap_or_default() / 86_400;
        let date = now.format(&time::format_description::well_known::Rfc3339).unwrap_or_default();
        let boot_id = std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        Self { days, date, boot_id }
    }
}

/// Carries out a config: its files stage. The config is valid and of the newest version (see [`newest`]).
pub fn apply(root: &Root, config: &Document<'_>, now: &Now, fetcher: &Fetcher) -> Result<(), ApplyError> {
    let accounts = Accounts::new(root, now.days);
    accounts.groups(&config.passwd.groups)?;
    accounts.users(&config.passwd.users)?;
    // Only now, as users bring directories with them.
    for entry in Entry::all(root, config)? {
        entry.write(root, &accounts, fetcher)?;
    }
    units::write(root, &config.systemd)?;
    write_result(root, now)
}

/// A config of any version as one of the newest stable, by Ignition's own translation.
pub fn newest(mut config: Document<'_>, from: Version) -> Document<'_> {
    let to = Version::NEWEST_STABLE;
    if from < to {
        crate::translate::upgrade(&mut config, from, to);
    }
    config
}

fn write_result(root: &Root, now: &Now) -> Result<(), ApplyError> {
    let result = json!({"provisioningBootID": now.boot_id, "provisioningDate": now.date, "userConfigProvided": true});
    let bytes = format!("{result:#}\n").into_bytes();
    let fail =
        |source| ApplyError::Path { at: "the result".to_owned(), doing: "writing", path: RESULT.to_owned(), source };
    let place = root.resolve(RESULT).map_err(fail)?;
    root.write(&place, Access { uid: 0, gid: 0, mode: 0o600 }, &[&bytes]).map_err(fail)
}
