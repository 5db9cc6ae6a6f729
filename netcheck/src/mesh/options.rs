//! How hard to look, and through which interfaces.

use crate::Selection;
use std::{path::PathBuf, time::Duration};

/// How hard to look, and through which interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshOptions {
    /// Echoes to each address, and the most ARP or NDP requests from each interface to it. 1 to 100.
    pub count: u16,
    /// Pause between two probes of one address.
    pub interval: Duration,
    /// How long an echo may take. A round trip above the service's limit of one second must still be measured.
    pub timeout: Duration,
    /// Packets sent a second at most, all together.
    pub packets_per_second: u32,
    /// Nothing takes longer than this, whatever the number of hosts.
    pub deadline: Duration,
    /// Where probes leave from.
    pub interfaces: Selection,
    /// Where sysfs is mounted.
    pub sysfs: PathBuf,
}

impl Default for MeshOptions {
    fn default() -> Self {
        Self {
            count: 10,
            interval: Duration::from_millis(100),
            timeout: Duration::from_secs(3),
            packets_per_second: 5000,
            deadline: Duration::from_secs(30),
            interfaces: Selection::Automatic,
            sysfs: PathBuf::from("/sys"),
        }
    }
}

/// An option out of its range.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{option} is {value}, but must be from {least} to {most}")]
pub struct MeshOptionsError {
    pub option: &'static str,
    pub value: u128,
    pub least: u128,
    pub most: u128,
}

impl MeshOptions {
    pub(crate) fn check(&self) -> Result<(), MeshOptionsError> {
        let ranges = [
            ("the number of probes", u128::from(self.count), 1, 100),
            ("the interval in milliseconds", self.interval.as_millis(), 1, 10_000),
            ("the timeout in milliseconds", self.timeout.as_millis(), 1, 60_000),
            ("packets per second", u128::from(self.packets_per_second), 10, 1_000_000),
            ("the deadline in milliseconds", self.deadline.as_millis(), 1, 600_000),
        ];
        match ranges.into_iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
            Some((option, value, least, most)) => Err(MeshOptionsError { option, value, least, most }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        assert_eq!(MeshOptions::default().check(), Ok(()));
        let none = MeshOptions { count: 0, ..MeshOptions::default() };
        assert_eq!(none.check().unwrap_err().to_string(), "the number of probes is 0, but must be from 1 to 100");
        let endless = MeshOptions { timeout: Duration::MAX, ..MeshOptions::default() };
        assert!(endless.check().is_err());
    }
}
