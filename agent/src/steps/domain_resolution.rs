//! What names resolve to: `landfall netcheck dns` (docs/compatibility.md#domain-resolution).

use super::{IN_PROCESS, Kind, Refusal, Run, check, fields::Format::Any};
use crate::{dry::Dry, settings::Settings};
use api::{HostId, Step, StepType, kinds};

pub(super) static KIND: Kind = Kind {
    step_type: StepType::DomainResolution,
    fields: &[("domains", true, Any)],
    act,
    dry: Dry::Earnest,
    failed: IN_PROCESS,
    prints_json: true,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    check::<kinds::DomainResolution>(step, settings, "dns", "domain resolution request")
}
