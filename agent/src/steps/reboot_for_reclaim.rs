//! An installed node's reboot into discovery: `landfall reclaim reboot` (docs/compatibility.md#reclaim-steps).

use super::{
    download_boot_artifacts::reclaim,
    fields::Format::Any,
    kind::{Act, Deadline, Dry, IN_PROCESS, Kind, Run},
    refusal::Refusal,
};
use crate::{
    confine::calls::{FORK, REBOOT, SIGNAL, SYNC},
    privileges::{Assistant, CHECK, Calls, InTree, NO_HELP, NOTHING, Privileges, Reach, Rules, SELF, When},
    settings::Settings,
};
use api::{HostId, RebootForReclaimRequest, Step, StepType};
use assist::{HostProgram, Program};
use caps::Capability::{CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, CAP_SYS_BOOT, CAP_SYS_CHROOT};
use std::time::Duration;

pub(super) static KIND: Kind = Kind {
    step_type: StepType::RebootForReclaim,
    fields: &[("host_fs_mount_dir", true, Any)],
    act: Act::Run(act),
    deadline: Deadline::After(Duration::from_secs(600)),
    dry: Dry::Refused,
    failed: IN_PROCESS,
    prints_json: false,
    answers_on_stderr: false,
    privileges: Privileges {
        capabilities: &[CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, CAP_SYS_BOOT, CAP_SYS_CHROOT],
        reach: Reach::Assisted(RULES, WRITES_BOOT_RECORD),
        ..CHECK
    },
};

/// The node's loader entry, and the end of this system.
const RULES: Rules = Rules {
    reads: &[SELF, &["/proc/cmdline"]],
    node: &[("boot", InTree::Reads)],
    signals_others: true,
    calls: Calls::Only(&[FORK, REBOOT, SIGNAL, SYNC]),
    ..NOTHING
};

/// Writes the boot record of s390x.
const WRITES_BOOT_RECORD: Assistant = Assistant {
    programs: &[(
        When::Always,
        &[Program {
            name: HostProgram::Zipl.path(),
            arguments: &[&["-V", "-t", "/boot", "-i", "/discovery/vmlinuz", "-r", "/discovery/initrd", "-P", "*"]],
            variables: &[],
        }],
    )],
    ..NO_HELP
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    reclaim(step, settings, |request: &RebootForReclaimRequest| &request.host_fs_mount_dir, "reboot")
}
