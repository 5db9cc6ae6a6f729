//! What would be done, and what can't be.

use super::entries::{Entry, What};
use super::error::{ApplyError, Unsupported};
use super::root::Root;
use super::units::presets;
use crate::model::{Document, Owner, PasswdUser, Resource};
use crate::redact::redact_url;
use serde::Serialize;
use std::fmt;

const SELINUX_CONFIG: &str = "/etc/selinux/config";
const CONFIG_BYTES: u64 = 64 << 10;

/// A step of applying a config. It contains nothing secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    pub at: String,
    /// What is done, `write file`.
    pub what: &'static str,
    /// To which path below the root, user, group or unit.
    pub to: String,
    /// How: mode, owner, where the contents come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.to)?;
        if !self.with.is_empty() {
            write!(f, " ({})", self.with.join(", "))?;
        }
        Ok(())
    }
}

/// The steps in their order, as far as the present tree shows them, and what is not done.
pub fn plan(root: &Root, config: &Document<'_>) -> Result<(Vec<Action>, Vec<Unsupported>), ApplyError> {
    let mut actions = Vec::new();
    for (number, group) in config.passwd.groups.iter().enumerate() {
        let with = [group.gid.map(|gid| format!("number {gid}")), flag(group.system, "system")];
        let what = if group.should_exist == Some(false) { "delete group" } else { "add or change group" };
        actions.push(action(format!("$.passwd.groups.{number}"), what, &group.name, with));
    }
    for (number, user) in config.passwd.users.iter().enumerate() {
        plan_user(&format!("$.passwd.users.{number}"), user, &mut actions);
    }
    for entry in Entry::all(root, config)? {
        actions.push(plan_entry(&entry));
    }
    for (number, unit) in config.systemd.units.iter().enumerate() {
        let at = format!("$.systemd.units.{number}");
        let has_text = |text: &Option<_>| text.as_deref().is_some_and(|text: &str| !text.is_empty());
        for (number, dropin) in unit.dropins.iter().enumerate().filter(|(_, dropin)| dropin.contents.is_some()) {
            let to = format!("{}.d/{}", unit.name, dropin.name);
            actions.push(action(format!("{at}.dropins.{number}"), "write drop-in", &to, []));
        }
        if has_text(&unit.contents) {
            actions.push(action(at.clone(), "write unit", &unit.name, []));
        }
        match unit.mask {
            Some(true) => actions.push(action(at, "mask unit", &unit.name, [])),
            Some(false) => actions.push(action(at, "unmask unit", &unit.name, [Some("if it is masked".to_owned())])),
            None => {}
        }
    }
    for preset in presets(&config.systemd.units) {
        let condition = (!preset.enabled).then(|| "if it is enabled".to_owned());
        actions.push(action("$.systemd.units".to_owned(), "preset", &preset.line(), [condition]));
    }
    Ok((actions, unsupported(root, config)))
}

fn action(at: String, what: &'static str, to: &str, with: impl IntoIterator<Item = Option<String>>) -> Action {
    Action { at, what, to: to.to_owned(), with: with.into_iter().flatten().collect() }
}

fn flag(flag: Option<bool>, name: &str) -> Option<String> {
    (flag == Some(true)).then(|| name.to_owned())
}

fn plan_user(at: &str, user: &PasswdUser<'_>, actions: &mut Vec<Action>) {
    if user.should_exist == Some(false) {
        actions.push(action(at.to_owned(), "delete user", &user.name, []));
        return;
    }
    let groups = (!user.groups.is_empty()).then(|| format!("groups {}", user.groups.join(" ")));
    let with = [
        user.uid.map(|uid| format!("number {uid}")),
        user.primary_group.as_deref().map(|group| format!("primary group {group}")),
        groups,
        user.home_dir.as_deref().map(|home| format!("home {home}")),
        user.shell.as_deref().map(|shell| format!("shell {shell}")),
        user.password_hash.as_deref().map(|_| "a password".to_owned()),
        flag(user.system, "system"),
        flag(user.no_create_home, "no home"),
        flag(user.no_user_group, "no user group"),
        flag(user.no_log_init, "not in lastlog"),
    ];
    actions.push(action(at.to_owned(), "add or change user", &user.name, with));
    if !user.ssh_authorized_keys.is_empty() {
        let keys = format!("{} keys", user.ssh_authorized_keys.len());
        actions.push(action(format!("{at}.sshAuthorizedKeys"), "write SSH keys of", &user.name, [Some(keys)]));
    }
}

fn plan_entry(entry: &Entry<'_>) -> Action {
    let mode = |mode: Option<i64>| mode.map(|mode| format!("mode {mode:04o}"));
    let (user, group) = entry.what.owners();
    let owners = [owner("user", user), owner("group", group)];
    let (what, overwrite, own) = match entry.what {
        What::Directory(directory) => ("make directory", directory.overwrite, vec![mode(directory.mode)]),
        What::File(file) => {
            let contents = source(&file.contents).map(|source| format!("from {source}"));
            let appended = file.append.iter().filter_map(source).map(|source| Some(format!("then {source}")));
            ("write file", file.overwrite, [mode(file.mode), contents].into_iter().chain(appended).collect())
        }
        What::Link(link) => {
            let target = Some(format!("to {}", link.target.as_deref().unwrap_or_default()));
            let what = if link.hard == Some(true) { "make hard link" } else { "make link" };
            (what, link.overwrite, vec![target])
        }
    };
    let with = own.into_iter().chain(owners).chain([flag(overwrite, "replacing what is there")]);
    action(entry.at.clone(), what, &entry.place.to_string(), with)
}

fn owner(kind: &str, owner: &Owner<'_>) -> Option<String> {
    let name = owner.name.as_deref().filter(|name| !name.is_empty()).map(str::to_owned);
    owner.id.map(|id| id.to_string()).or(name).map(|who| format!("{kind} {who}"))
}

/// Where it comes from, without what may be secret.
fn source(resource: &Resource<'_>) -> Option<String> {
    let source = resource.source.as_deref()?;
    Some(match source.split_once(':') {
        None => "nothing".to_owned(),
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("data") => "the config".to_owned(),
        Some(_) => redact_url(source),
    })
}

fn unsupported(root: &Root, config: &Document<'_>) -> Vec<Unsupported> {
    let (ignition, storage) = (&config.ignition, &config.storage);
    let kernel = &config.kernel_arguments;
    let selinux = "the root has SELinux enabled, but labels are not set; relabel it (restorecon -R, or /.autorelabel)";
    [
        (
            !ignition.config.merge.is_empty(),
            "$.ignition.config.merge",
            "other configs are not fetched; merge them first",
        ),
        (ignition.config.replace.source.is_some(), "$.ignition.config.replace", "the other config is not fetched"),
        (!storage.disks.is_empty(), "$.storage.disks", "partitions are not created"),
        (!storage.raid.is_empty(), "$.storage.raid", "arrays are not created"),
        (!storage.luks.is_empty(), "$.storage.luks", "encrypted devices are not created"),
        (!storage.filesystems.is_empty(), "$.storage.filesystems", "file systems are neither created nor mounted"),
        (
            !kernel.should_exist.is_empty() || !kernel.should_not_exist.is_empty(),
            "$.kernelArguments",
            "the boot loader's configuration is not changed",
        ),
        (has_selinux(root), SELINUX_CONFIG, selinux),
    ]
    .into_iter()
    .filter(|(asked, ..)| *asked)
    .map(|(_, at, why)| Unsupported { at: at.to_owned(), why })
    .collect()
}

fn has_selinux(root: &Root) -> bool {
    let config = root.read(SELINUX_CONFIG, CONFIG_BYTES).ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&config);
    let mode = text.lines().filter_map(|line| line.trim().strip_prefix("SELINUX=")).next_back();
    mode.is_some_and(|mode| matches!(mode.trim(), "enforcing" | "permissive"))
}
