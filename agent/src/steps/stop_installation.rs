//! The end of a running installation: `landfall install --stop` (docs/compatibility.md#stop-installation).

use super::{Kind, Refusal, Run, args};
use crate::{dry::Dry, settings::Settings};
use api::{HostId, Step, StepType};
use std::time::Duration;

/// A stopped installer puts its disk in order first; it is not waited for much longer than podman would.
const DEADLINE: Duration = Duration::from_secs(60);

pub(super) static KIND: Kind = Kind {
    step_type: StepType::StopInstallation,
    fields: &[],
    act,
    dry: Dry::Answered(|_| Ok(String::new())),
    failed: 1,
    prints_json: false,
};

fn act(step: &Step, _: &Settings, _: HostId) -> Result<Run, Refusal> {
    let [] = args(step)?;
    Ok(Run::new(["install", "--stop"], Vec::new(), DEADLINE))
}
