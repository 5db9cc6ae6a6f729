//! Which entries are wanted.

/// Entries with all fields of any alternative. Without alternatives: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    alternatives: Vec<Vec<Vec<u8>>>,
}

/// `MESSAGE_ID` of entries about crashed programs (`SD_MESSAGE_COREDUMP`).
const COREDUMP: &str = "MESSAGE_ID=fc2e22bc6ee647b6b90729ab34a250b1";

impl Query {
    pub fn everything() -> Self {
        Self::default()
    }

    /// Entries in which the field `name` is `value`.
    pub fn field(name: &str, value: &str) -> Self {
        Self::any_of([vec![format!("{name}={value}")]])
    }

    /// Entries by and about a unit, as `journalctl -u` finds them.
    pub fn unit(unit: &str) -> Self {
        Self::any_of([
            vec![format!("_SYSTEMD_UNIT={unit}")],
            vec![COREDUMP.to_owned(), "_UID=0".to_owned(), format!("COREDUMP_UNIT={unit}")],
            vec!["_PID=1".to_owned(), format!("UNIT={unit}")],
            vec!["_UID=0".to_owned(), format!("OBJECT_SYSTEMD_UNIT={unit}")],
        ])
    }

    /// Entries about crashed programs, from systemd-coredump alone: others may claim what they like.
    pub fn coredumps() -> Self {
        Self::any_of([vec![COREDUMP.to_owned(), "_UID=0".to_owned()]])
    }

    fn any_of(alternatives: impl IntoIterator<Item = Vec<String>>) -> Self {
        let bytes = |terms: Vec<String>| terms.into_iter().map(String::into_bytes).collect();
        Self { alternatives: alternatives.into_iter().map(bytes).collect() }
    }

    pub(super) fn is_everything(&self) -> bool {
        self.alternatives.is_empty()
    }

    pub(super) fn alternatives(&self) -> &[Vec<Vec<u8>>] {
        &self.alternatives
    }
}
