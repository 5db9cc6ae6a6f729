//! What the TPM proves of the boot: `landfall attest`, an extension of Landfall's (docs/service.md#attestation).

use super::{
    kind::{Act, Deadline, Dry, Kind, Run, only_arg, read},
    refusal::Refusal,
};
use crate::{
    privileges::{CHECK, NOTHING, Privileges, Reach, Rules, SELF},
    settings::Settings,
};
use api::{HostId, Step, StepType, attest::AttestRequest};
use caps::Capability::CAP_DAC_OVERRIDE;
use std::time::Duration;

pub(super) static KIND: Kind = Kind {
    step_type: StepType::Attest,
    fields: &[],
    act: Act::Run(act),
    // Some TPMs take a minute for a key.
    deadline: Deadline::After(Duration::from_secs(300)),
    dry: Dry::Refused,
    failed: 1,
    prints_json: true,
    answers_on_stderr: false,
    privileges: Privileges {
        // The device may belong to another user.
        capabilities: &[CAP_DAC_OVERRIDE],
        reach: Reach::Only(RULES),
        ..CHECK
    },
};

/// The TPM, which answers what was written to it, and the firmware's log.
const RULES: Rules = Rules {
    reads: &[SELF, &["/sys/class/tpm", "/sys/devices", "/sys/kernel/security"]],
    writes: &["/dev/null", "/dev/tpmrm0", "/dev/tpm0"],
    ..NOTHING
};

fn act(step: &Step, _: &Settings, _: HostId) -> Result<Run, Refusal> {
    let request = only_arg(step)?;
    read::<AttestRequest>(request, "attest request")?;
    Ok(Run::new(["attest", "--request", "-", "--json"], request.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::act_on;
    use super::KIND;

    #[test]
    fn a_request_goes_in_as_it_came() {
        let request = format!(r#"{{"nonce":"{}"}}"#, "ab".repeat(32));
        let run = act_on(&KIND, &[&request]).unwrap();
        assert_eq!((run.args.join(" ").as_str(), run.stdin), ("attest --request - --json", request.into_bytes()));
        assert!(run.dies_with_agent);
        for wrong in ["{}", r#"{"nonce":"ab"}"#, "x"] {
            let refused = act_on(&KIND, &[wrong]).unwrap_err();
            assert!(refused.starts_with("validation failure list:\nattest request: "), "{refused}");
        }
    }
}
