//! The root's settings for new accounts: `/etc/login.defs` and `/etc/default/useradd`.

use super::super::root::Root;
use std::{collections::HashMap, io};

const LOGIN_DEFS: &str = "/etc/login.defs";
const USERADD: &str = "/etc/default/useradd";
const FILE_BYTES: u64 = 1 << 20;
/// Debian's; other systems name theirs in `/etc/default/useradd`.
const DEFAULT_GROUP: &str = "100";
const DEFAULT_SHELL: &str = "/bin/bash";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    User,
    Group,
}

/// The settings, with the defaults of shadow-utils.
#[derive(Debug, Default)]
pub(super) struct Settings {
    login: HashMap<String, String>,
    useradd: HashMap<String, String>,
}

/// Numbers to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub min: u32,
    pub max: u32,
    /// The smallest that is taken when it is asked for.
    pub preferred_min: u32,
}

impl Settings {
    pub(super) fn read(root: &Root) -> io::Result<Self> {
        let text = |path| -> io::Result<String> {
            let bytes = root.read(path, FILE_BYTES)?.unwrap_or_default();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Self {
            login: parse(&text(LOGIN_DEFS)?, |c| c.is_whitespace()),
            useradd: parse(&text(USERADD)?, |c| c == '='),
        })
    }

    /// Decimal, or octal and hexadecimal as C writes them.
    fn number(&self, name: &str) -> Option<u32> {
        let text = self.login.get(name)?;
        match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
            None => text.parse().ok(),
        }
    }

    pub(super) fn range(&self, kind: Kind, system: bool) -> Range {
        let name = |key: &str| match kind {
            Kind::User => key.replace("ID", "UID"),
            Kind::Group => key.replace("ID", "GID"),
        };
        let number = |key: &str, default: u32| self.number(&name(key)).unwrap_or(default);
        let min = number("ID_MIN", 1000);
        if system {
            let max = number("SYS_ID_MAX", min.saturating_sub(1));
            Range { min: number("SYS_ID_MIN", 101), max, preferred_min: 1 }
        } else {
            Range { min, max: number("ID_MAX", 60000), preferred_min: min }
        }
    }

    /// First number, last number and how many a user gets; None if it gets none.
    pub(super) fn subordinate(&self, kind: Kind) -> Option<(u32, u32, u32)> {
        let name = if kind == Kind::User { "SUB_UID" } else { "SUB_GID" };
        let number = |key: &str, default| self.number(&format!("{name}_{key}")).unwrap_or(default);
        let count = number("COUNT", 65536);
        (count > 0).then(|| (number("MIN", 100_000), number("MAX", 600_100_000), count))
    }

    pub(super) fn has_user_groups(&self) -> bool {
        self.login.get("USERGROUPS_ENAB").is_some_and(|value| value.eq_ignore_ascii_case("yes"))
    }

    pub(super) fn home_mode(&self) -> u32 {
        let mode = self.number("HOME_MODE").unwrap_or_else(|| 0o777 & !self.number("UMASK").unwrap_or(0o022));
        mode & 0o7777
    }

    /// Days of a password's least age, greatest age and warning, as shadow has them.
    pub(super) fn password_days(&self) -> [String; 3] {
        ["PASS_MIN_DAYS", "PASS_MAX_DAYS", "PASS_WARN_AGE"]
            .map(|name| self.number(name).map(|days| days.to_string()).unwrap_or_default())
    }

    fn useradd(&self, name: &str, default: &str) -> String {
        self.useradd.get(name).map_or(default, String::as_str).to_owned()
    }

    pub(super) fn group(&self) -> String {
        self.useradd("GROUP", DEFAULT_GROUP)
    }

    pub(super) fn shell(&self) -> String {
        self.useradd("SHELL", DEFAULT_SHELL)
    }

    pub(super) fn homes(&self) -> String {
        self.useradd("HOME", "/home")
    }

    pub(super) fn skeleton(&self) -> String {
        self.useradd("SKEL", "/etc/skel")
    }

    pub(super) fn has_mail_spool(&self) -> bool {
        self.useradd("CREATE_MAIL_SPOOL", "no").eq_ignore_ascii_case("yes")
    }

    pub(super) fn has_login_records(&self) -> bool {
        !self.useradd("LOG_INIT", "yes").eq_ignore_ascii_case("no")
    }

    pub(super) fn mail_spool(&self, name: &str) -> String {
        let dir = self.login.get("MAIL_DIR").map_or("/var/mail", String::as_str);
        format!("{dir}/{name}")
    }
}

fn parse(text: &str, separates: impl Fn(char) -> bool) -> HashMap<String, String> {
    let line = |line: &str| {
        let (key, value) = line.split_once(&separates)?;
        Some((key.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
    };
    text.lines().map(str::trim).filter(|line| !line.starts_with('#')).filter_map(line).collect()
}
