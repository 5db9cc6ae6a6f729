//! Which addresses of networks are free: `landfall netcheck sweep` (docs/compatibility.md#free-network-addresses).

use super::{IN_CONTAINER, Kind, Refusal, Run, check};
use crate::{dry::Dry, settings::Settings};
use api::{HostId, Step, StepType, kinds};

pub(super) static KIND: Kind = Kind {
    step_type: StepType::FreeNetworkAddresses,
    fields: &[],
    act,
    dry: Dry::Earnest,
    failed: IN_CONTAINER,
    prints_json: true,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    check::<kinds::FreeNetworkAddresses>(step, settings, "sweep", "free addresses request")
}
