//! Keys of Tang servers: `landfall netcheck tang` (docs/compatibility.md#tang-connectivity-check).

use super::{IN_PROCESS, Kind, Refusal, Run, check, fields::Format::Any};
use crate::{dry::Dry, settings::Settings};
use api::{HostId, Step, StepType, kinds};

pub(super) static KIND: Kind = Kind {
    step_type: StepType::TangConnectivityCheck,
    fields: &[("tang_servers", true, Any)],
    act,
    dry: Dry::Earnest,
    failed: IN_PROCESS,
    prints_json: true,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    check::<kinds::TangConnectivityCheck>(step, settings, "tang", "tang connectivity request")
}
