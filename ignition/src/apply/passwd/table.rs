//! The files of accounts: lines of fields between colons.

use super::super::root::{Access, Root};
use std::io;

/// Larger account files than any there are.
const TABLE_BYTES: u64 = 64 << 20;

/// One of the files. Unchanged lines stay as they are, whatever is in them.
#[derive(Debug)]
pub(super) struct Table {
    path: &'static str,
    access: Option<Access>,
    before: Vec<u8>,
    lines: Vec<String>,
    changed: bool,
}

impl Table {
    pub(super) fn read(root: &Root, path: &'static str) -> io::Result<Self> {
        let Some(before) = root.read(path, TABLE_BYTES)? else {
            return Ok(Self { path, access: None, before: Vec::new(), lines: Vec::new(), changed: false });
        };
        let stat = root.stat(&root.follow(path)?)?;
        let access = stat.map(|stat| Access { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode & 0o7777 });
        let text = std::str::from_utf8(&before)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8, so a change would damage it"))?;
        let lines = text.lines().map(str::to_owned).collect();
        Ok(Self { path, access, lines, before, changed: false })
    }

    /// Whether the root has it.
    pub(super) fn exists(&self) -> bool {
        self.access.is_some()
    }

    /// The fields of each line.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.lines.iter().map(|line| Row::parse(line))
    }

    /// The line whose first field is `name`.
    pub(super) fn find(&self, name: &str) -> Option<Row> {
        self.rows().find(|row| row.get(0) == name)
    }

    pub(super) fn push(&mut self, fields: &[&str]) {
        self.lines.push(fields.join(":"));
        self.changed = true;
    }

    /// Changes the lines for which `change` returns true.
    pub(super) fn change(&mut self, mut change: impl FnMut(&mut Row) -> bool) {
        for line in &mut self.lines {
            let mut row = Row::parse(line);
            if change(&mut row) {
                *line = row.0.join(":");
                self.changed = true;
            }
        }
    }

    /// Writes it even if nothing has changed.
    pub(super) fn touch(&mut self) {
        self.changed = true;
    }

    pub(super) fn remove(&mut self, name: &str) {
        let before = self.lines.len();
        self.lines.retain(|line| Row::parse(line).get(0) != name);
        self.changed |= self.lines.len() != before;
    }

    /// Writes it if it has changed, with a backup of the old one beside it, as all such programs do.
    pub(super) fn save(&self, root: &Root) -> io::Result<()> {
        let Some(access) = self.access.filter(|_| self.changed) else { return Ok(()) };
        let place = root.follow(self.path)?;
        let backup = root.resolve(format!("{}-", self.path))?;
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        root.write(&backup, access, &[&self.before])?;
        root.write(&place, access, &[text.as_bytes()])
    }
}

/// The fields of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row(Vec<String>);

impl Row {
    fn parse(line: &str) -> Self {
        Self(line.split(':').map(str::to_owned).collect())
    }

    /// A field; empty if there is none.
    pub(super) fn get(&self, field: usize) -> &str {
        self.0.get(field).map_or("", String::as_str)
    }

    pub(super) fn number(&self, field: usize) -> Option<u32> {
        self.get(field).parse().ok()
    }

    pub(super) fn set(&mut self, field: usize, value: &str) {
        if let Some(field) = self.0.get_mut(field) {
            *field = value.to_owned();
        }
    }

    /// A field that is a list of names.
    pub(super) fn list(&self, field: usize) -> Vec<&str> {
        self.get(field).split(',').filter(|name| !name.is_empty()).collect()
    }

    /// Adds a name to a list or removes it; false if that changes nothing.
    pub(super) fn set_member(&mut self, field: usize, name: &str, is_member: bool) -> bool {
        let mut list = self.list(field);
        if list.contains(&name) == is_member {
            return false;
        }
        if is_member {
            list.push(name);
        } else {
            list.retain(|other| *other != name);
        }
        let list = list.join(",");
        self.set(field, &list);
        true
    }
}
