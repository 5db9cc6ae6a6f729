//! The config that a running cluster gives new workers: `landfall netcheck endpoint`
//! (docs/compatibility.md#api-vip-connectivity-check).

use super::{IN_PROCESS, Kind, Refusal, Run, check, fields::Format::Any};
use crate::{dry::Dry, settings::Settings};
use api::{HostId, Step, StepType, kinds};

pub(super) static KIND: Kind = Kind {
    step_type: StepType::ApiVipConnectivityCheck,
    fields: &[("url", true, Any)],
    act,
    dry: Dry::Earnest,
    failed: IN_PROCESS,
    prints_json: true,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    let run = check::<kinds::ApiVipConnectivityCheck>(step, settings, "endpoint", "api vip connectivity request")?;
    // It succeeds also when nothing could be fetched, and says so on standard error.
    Ok(Run { answers_on_stderr: true, ..run })
}
