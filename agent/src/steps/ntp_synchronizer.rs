//! Sources of time: `landfall netcheck ntp` (docs/compatibility.md#ntp-synchronizer).

use super::{IN_PROCESS, Kind, Refusal, Run, check, fields::Format::Any};
use crate::{dry::Dry, settings::Settings};
use api::{HostId, Step, StepType, kinds};

pub(super) static KIND: Kind = Kind {
    step_type: StepType::NtpSynchronizer,
    fields: &[("ntp_source", true, Any)],
    act,
    dry: Dry::Earnest,
    failed: IN_PROCESS,
    prints_json: true,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    check::<kinds::NtpSynchronizer>(step, settings, "ntp", "ntp synchronization request")
}
