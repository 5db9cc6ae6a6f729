//! Gives up capabilities once the sockets are open, before the first byte from the network is parsed.

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::prctl;
use std::io;

/// Why capabilities could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The kernel would not change them.
    #[error("cannot drop the capabilities of this thread")]
    Capabilities { source: caps::errors::CapsError },
    /// The kernel would not promise that none come back.
    #[error("cannot forbid new privileges for this thread (PR_SET_NO_NEW_PRIVS)")]
    NoNewPrivileges { source: io::Error },
}

/// Leaves this thread without any capability, for good: also a program it starts gets none (capabilities(7), prctl(2)).
///
/// What the kernel checked when a socket was opened is not checked again at its use.
pub(crate) fn drop_all() -> Result<(), PrivilegeError> {
    keep(&[])
}

/// As [`drop_all`], but for `needed`, as far as the thread has them.
pub(crate) fn keep(needed: &[Capability]) -> Result<(), PrivilegeError> {
    prctl::set_no_new_privs().map_err(|errno| PrivilegeError::NoNewPrivileges { source: errno.into() })?;
    let capabilities = |source| PrivilegeError::Capabilities { source };
    let needed: CapsHashSet = needed.iter().copied().collect();
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        caps::clear(None, set).map_err(capabilities)?;
    }
    let permitted = caps::read(None, CapSet::Permitted).map_err(capabilities)?;
    let remaining: CapsHashSet = permitted.intersection(&needed).copied().collect();
    caps::set(None, CapSet::Effective, &remaining).map_err(capabilities)?;
    caps::set(None, CapSet::Permitted, &remaining).map_err(capabilities)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, process::Command, thread};

    /// Capabilities are a thread's own, so the other tests keep theirs.
    fn on_a_thread(work: impl FnOnce() + Send + 'static) {
        thread::spawn(work).join().unwrap();
    }

    fn effective() -> String {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|line| line.starts_with("CapEff:")).unwrap().split_whitespace().nth(1).unwrap().to_owned()
    }

    #[test]
    fn nothing_is_left_and_nothing_comes_back() {
        on_a_thread(|| {
            drop_all().unwrap();
            assert_eq!(effective(), "0000000000000000");
            assert!(keep(&[Capability::CAP_NET_RAW]).is_ok());
            assert_eq!(effective(), "0000000000000000", "what is gone is gone");
            let child = Command::new("grep").args(["CapEff", "/proc/self/status"]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&child.stdout), "CapEff:\t0000000000000000\n");
        });
    }

    #[test]
    fn only_the_needed_capability_is_retained() {
        if !testkit::skip::unless("root, which alone has capabilities to keep", nix::unistd::geteuid().is_root()) {
            return;
        }
        on_a_thread(|| {
            keep(&[Capability::CAP_NET_RAW]).unwrap();
            assert_eq!(effective(), "0000000000002000");
        });
    }
}
