//! The end of a running installation: `landfall install --stop` (docs/compatibility.md#stop-installation).

use super::{
    kind::{Act, Deadline, Dry, Kind, Run, args},
    refusal::Refusal,
};
use crate::{
    confine::calls::SIGNAL,
    privileges::{CHECK, Calls, NOTHING, Privileges, Reach, Rules},
    settings::Settings,
};
use api::{HostId, Step, StepType};
use assist::INSTALLATION_LOCK;
use caps::Capability::CAP_KILL;
use std::time::Duration;

pub(super) static KIND: Kind = Kind {
    step_type: StepType::StopInstallation,
    fields: &[],
    act: Act::Run(act),
    // A stopped installer puts its disk in order first; it is not waited for much longer than podman would.
    deadline: Deadline::After(Duration::from_secs(60)),
    dry: Dry::Answered(|_| Ok(String::new())),
    failed: 1,
    prints_json: false,
    answers_on_stderr: false,
    privileges: Privileges { capabilities: &[CAP_KILL], reach: Reach::Only(RULES), ..CHECK },
};

/// The running installation's lock and process.
const RULES: Rules = Rules {
    reads_of_processes: &["stat"],
    writes: &["/dev/null", INSTALLATION_LOCK],
    signals_others: true,
    calls: Calls::Only(&[SIGNAL]),
    ..NOTHING
};

fn act(step: &Step, _: &Settings, _: HostId) -> Result<Run, Refusal> {
    let [] = args(step)?;
    Ok(Run::new(["install", "--stop"], Vec::new()))
}
