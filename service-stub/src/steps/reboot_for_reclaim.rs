//! `reboot-for-reclaim`: an installed host boots into discovery.

use super::kind::Kind;
use crate::state::HostState;
use api::StepType;

pub fn kind() -> Kind {
    Kind::new(
        StepType::RebootForReclaim,
        |state, _| state == HostState::ReclaimingRebooting,
        |_| Some(vec![r#"{"host_fs_mount_dir":"/host"}"#.to_owned()]),
    )
}
