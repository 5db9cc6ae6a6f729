//! A host name that the cluster can use.

use super::{BootstrapError, files};
use crate::{cancel::Cancel, host::Host, programs::Program};

const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// Gives this host another name unless the one it has is good enough.
pub(super) fn ensure(host: &dyn Host, cancel: &Cancel) -> Result<(), BootstrapError> {
    let found = files::read(&files::below(host.root(), HOSTNAME))?.unwrap_or_default();
    let found = String::from_utf8_lossy(&found);
    let found = found.trim_end_matches('\n');
    if is_usable(found) {
        return Ok(());
    }
    let name = format!("random-hostname-{}", uuid::Uuid::new_v4());
    tracing::warn!(found, name, "the cluster can't use this host's name");
    host.run(Program::Hostnamectl, &["set-hostname".as_ref(), name.as_ref()], cancel)?;
    Ok(())
}

/// Lower-case letters, digits, dots and dashes, the last two not at its ends; two to 63 characters; not `localhost`.
fn is_usable(name: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (2..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| is_end(byte) || matches!(byte, b'-' | b'.'))
        && bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
        && name != "localhost"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_the_bootstrap_pattern() {
        let longest = "a".repeat(63);
        for good in ["ab", "node-1.example.com", "0a", "localhost1", "localhost.localdomain", longest.as_str()] {
            assert!(is_usable(good), "{good}");
        }
        let too_long = "a".repeat(64);
        for bad in ["", "a", "localhost", "-ab", "ab.", "Node", "a_b", "a b", "ä1", "ab\n", too_long.as_str()] {
            assert!(!is_usable(bad), "{bad}");
        }
    }
}
