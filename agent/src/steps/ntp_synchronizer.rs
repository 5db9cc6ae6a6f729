//! Sources of time: `landfall netcheck ntp` (docs/compatibility.md#ntp-synchronizer).

use super::{fields::Format::Any, kind::Kind};
use crate::{
    confine::calls::{CHANGE_FILES, FILE_USER},
    privileges::{CHECK, Calls, Privileges, RESOLVE, Reach, Rules},
};
use api::kinds::NtpSynchronizer;
use caps::Capability::{CAP_SETGID, CAP_SETUID};

pub(super) static KIND: Kind = Kind::check::<NtpSynchronizer>(
    "ntp",
    "ntp synchronization request",
    &[("ntp_source", true, Any)],
    Privileges {
        // chronyd listens to its own user.
        capabilities: &[CAP_SETGID, CAP_SETUID],
        reach: Reach::Only(RULES),
        ..CHECK
    },
);

/// Servers by name, and chronyd, which answers to sockets in its own directory.
const RULES: Rules =
    Rules { writes: &["/dev/null", "/run/chrony"], calls: Calls::Only(&[CHANGE_FILES, FILE_USER]), ..RESOLVE };
