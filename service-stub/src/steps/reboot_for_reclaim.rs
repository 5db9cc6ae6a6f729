//! `reboot-for-reclaim`: an installed host boots into discovery.

use super::kind::{Kind, Situation, json};
use crate::state::HostState;
use api::{RebootForReclaimRequest, kinds};

pub(crate) fn kind() -> Kind {
    Kind::new::<kinds::RebootForReclaim>(|state, _| state == HostState::ReclaimingRebooting, ask)
}

fn ask(_: &Situation) -> Option<Vec<String>> {
    json::<kinds::RebootForReclaim>(&RebootForReclaimRequest { host_fs_mount_dir: "/host".into() })
}
