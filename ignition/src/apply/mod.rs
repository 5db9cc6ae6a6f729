//! A config applied to a directory, as by Ignition's `files` stage (docs/compatibility.md#ignition-apply): groups and users,
//! directories, files, links, units, and the file that says so.
//!
//! No program is started: accounts are created by editing the root's own files, as useradd and related programs would
//! (`passwd`). What the other stages do (disks, file systems, kernel arguments) and SELinux labels are not done; a config
//! that needs them is refused unless the caller says otherwise, or brings a stage for disks ([`DisksStage`]).

mod disks;
mod entries;
mod error;
mod passwd;
mod plan;
mod root;
mod units;

pub use disks::{AllowedDisk, DisksDone, DisksRequest, DisksStage, add_crypttab};
pub use error::{ApplyError, Unsupported};
pub use plan::{Action, plan};
pub use root::Root;
pub(crate) use root::{Place, is_directory, is_link, is_regular};

use crate::fetch::Fetcher;
use crate::model::{Document, Version};
use entries::Entry;
use passwd::Accounts;
use root::Access;
use serde_json::json;

/// The kernel's identifier of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Where Ignition records that it ran.
const RESULT: &str = "/etc/.ignition-result.json";

/// When it is, for the account files and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// Days since 1970.
    pub days: u64,
    /// By RFC 3339, in whole seconds.
    pub date: String,
    /// The kernel's identifier of this boot, if it has one.
    pub boot_id: String,
}

impl Now {
    pub fn read() -> Self {
        Self::at(time::OffsetDateTime::now_utc())
    }

    fn at(now: time::OffsetDateTime) -> Self {
        let days = u64::try_from(now.unix_timestamp()).unwrap_or_default() / 86_400;
        let whole_seconds = now.replace_nanosecond(0).unwrap_or(now);
        let date = whole_seconds.format(&time::format_description::well_known::Rfc3339).unwrap_or_default();
        let boot_id = std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        Self { days, date, boot_id }
    }
}

/// Applies a config: its files stage. The config is valid and of the newest version (see [`newest`]).
pub fn apply(root: &Root, config: &Document<'_>, now: &Now, fetcher: &Fetcher) -> Result<(), ApplyError> {
    apply_live(root, config, now, fetcher)?;
    write_result(root, now)
}

/// The same as `ignition-apply` does it in a container's image, any number of times: without the result file.
pub fn apply_live(root: &Root, config: &Document<'_>, now: &Now, fetcher: &Fetcher) -> Result<(), ApplyError> {
    let accounts = Accounts::new(root, now.days);
    accounts.groups(&config.passwd.groups)?;
    accounts.users(&config.passwd.users)?;
    // Only now, as users create directories.
    for entry in Entry::all(root, config)? {
        entry.write(root, &accounts, fetcher)?;
    }
    units::write(root, &config.systemd)
}

/// What [`apply_running`] leaves to its caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Units to enable: only the system's own systemd knows where their links go.
    pub enable: Vec<String>,
    /// Units to disable.
    pub disable: Vec<String>,
    /// Accounts that could not be made, as text.
    pub accounts: Vec<String>,
}

/// Applies a config to a running system, any number of times, as a machine-config daemon does once: files and links
/// replace existing ones, directories keep their contents, nothing is preset, and no result is written, as this is not a
/// first boot. A failing account does not stop the rest. New files have the labels of the directories they are in.
///
/// A file that is only appended to grows each time.
pub fn apply_running(
    root: &Root,
    mut config: Document<'_>,
    now: &Now,
    fetcher: &Fetcher,
) -> Result<Running, ApplyError> {
    let storage = &mut config.storage;
    for file in storage.files.iter_mut().filter(|file| file.contents.source.is_some()) {
        file.overwrite = Some(true);
    }
    storage.links.iter_mut().for_each(|link| link.overwrite = Some(true));
    storage.directories.iter_mut().for_each(|directory| directory.overwrite = None);
    let mut running = Running::default();
    for unit in &mut config.systemd.units {
        // What is masked can't be enabled.
        match unit.enabled.take() {
            Some(true) if unit.mask != Some(true) => running.enable.push(unit.name.to_string()),
            Some(false) => running.disable.push(unit.name.to_string()),
            _ => {}
        }
    }
    let accounts = Accounts::new(root, now.days);
    let made = accounts.groups(&config.passwd.groups).and_then(|()| accounts.users(&config.passwd.users));
    if let Err(error) = made {
        running.accounts.push(kernel::in_full(&error));
    }
    for entry in Entry::all(root, &config)? {
        entry.write(root, &accounts, fetcher)?;
    }
    units::write(root, &config.systemd)?;
    Ok(running)
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

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn the_date_of_the_result_is_in_whole_seconds() {
        let now = Now::at(datetime!(2026-02-03 04:05:06.789 UTC));
        assert_eq!((now.date.as_str(), now.days), ("2026-02-03T04:05:06Z", 20_487));
    }
}
