//! An installed node's reboot into discovery: `landfall reclaim reboot` (docs/compatibility.md#reclaim-steps).

use super::{IN_PROCESS, Kind, Refusal, Run, download_boot_artifacts::reclaim, fields::Format::Any};
use crate::{dry::Dry, settings::Settings};
use api::{HostId, RebootForReclaimRequest, Step, StepType};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(600);

pub(super) static KIND: Kind = Kind {
    step_type: StepType::RebootForReclaim,
    fields: &[("host_fs_mount_dir", true, Any)],
    act,
    dry: Dry::Refused,
    failed: IN_PROCESS,
    prints_json: false,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    reclaim(step, settings, |request: &RebootForReclaimRequest| &request.host_fs_mount_dir, "reboot", DEADLINE)
}
