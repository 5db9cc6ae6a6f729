//! What an installed node boots into discovery with: `landfall reclaim download` (docs/compatibility.md#reclaim-steps).

use super::{
    fields::Format::Any,
    kind::{Act, Deadline, Dry, IN_PROCESS, Kind, Run, only_arg, read, write},
    refusal::Refusal,
};
use crate::{
    confine::{
        Named,
        calls::{CHANGE_FILES, REPLACE_FILES, SYNC},
    },
    privileges::{Assistant, Calls, FETCH, FETCHES, InTree, NO_HELP, Privileges, Reach, Rules, When},
    settings::Settings,
};
use api::{BootArtifactsRequest, HostId, ReclaimDocument, Step, StepType};
use assist::{HostProgram, Program};
use caps::Capability::{CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, CAP_SYS_CHROOT};
use serde::{Serialize, de::DeserializeOwned};
use std::{path::Path, time::Duration};

const WHAT: &str = "reclaim request";

pub(super) static KIND: Kind = Kind {
    step_type: StepType::DownloadBootArtifacts,
    fields: &[
        ("host_fs_mount_dir", true, Any),
        ("initrd_url", true, Any),
        ("kernel_url", true, Any),
        ("rootfs_url", true, Any),
    ],
    act: Act::Run(act),
    // Two files of a few hundred megabytes, each with retries.
    deadline: Deadline::After(Duration::from_secs(3600)),
    dry: Dry::Refused,
    failed: IN_PROCESS,
    prints_json: false,
    answers_on_stderr: false,
    privileges: Privileges {
        // To make /boot writable, and for the node's own rpm-ostree.
        capabilities: &[CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, CAP_SYS_CHROOT],
        reach: Reach::Assisted(RULES, CLEANS_UP),
        ..FETCHES
    },
};

/// The node's boot file system, and a directory for what arrives.
const RULES: Rules = Rules {
    trees: &["/run/landfall/reclaim"],
    node: &[("boot", InTree::Changes)],
    calls: Calls::Only(&[CHANGE_FILES, REPLACE_FILES, SYNC]),
    ..FETCH
};

/// Makes room for boot artifacts.
const CLEANS_UP: Assistant = Assistant {
    programs: &[(
        When::Always,
        &[Program {
            name: HostProgram::RpmOstree.path(),
            arguments: &[&["cleanup", "--os=rhcos", "-r"]],
            variables: &[],
        }],
    )],
    remounts: &["boot"],
    ..NO_HELP
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    reclaim(step, settings, |request: &BootArtifactsRequest| &request.host_fs_mount_dir, "download")
}

/// A command of `landfall reclaim`; `node` is where the root of the node is.
pub(super) fn reclaim<R: Serialize + DeserializeOwned>(
    step: &Step,
    settings: &Settings,
    node: fn(&R) -> &Path,
    command: &'static str,
) -> Result<Run, Refusal> {
    let document = ReclaimDocument::<R> {
        request: read(only_arg(step)?, WHAT)?,
        ca_cert: settings.http.ca_cert.clone(),
        insecure: settings.http.insecure,
        reboot: settings.reboot,
    };
    let run = Run::new(["reclaim", command, "--request", "-"], write(&document, WHAT)?);
    let targets = vec![node(&document.request).to_owned()];
    Ok(Run { named: Named { targets, ca_cert: document.ca_cert, ..Named::default() }, ..run })
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{act, refused},
        *,
    };
    use api::RebootForReclaimRequest;

    #[test]
    fn reclaiming_gets_its_request_and_reboots_only_where_the_agent_may() {
        let urls = r#""kernel_url":"http://s/k","initrd_url":"http://s/i","rootfs_url":"http://s/r""#;
        let request = format!(r#"{{{urls},"host_fs_mount_dir":"/host","new":1}}"#);
        let run = act(StepType::DownloadBootArtifacts, &[&request]).unwrap();
        assert_eq!(run.args, ["reclaim", "download", "--request", "-"]);
        assert_eq!((run.named.targets, run.named.ca_cert), (vec!["/host".into()], Some("/ca.pem".into())));
        let document: ReclaimDocument<BootArtifactsRequest> = serde_json::from_slice(&run.stdin).unwrap();
        assert_eq!(document.request.initrd_url, "http://s/i");
        assert_eq!(document.ca_cert.as_deref(), Some(Path::new("/ca.pem")));
        let run = act(StepType::RebootForReclaim, &[r#"{"host_fs_mount_dir":"/host"}"#]).unwrap();
        assert_eq!(run.args, ["reclaim", "reboot", "--request", "-"]);
        let document: ReclaimDocument<RebootForReclaimRequest> = serde_json::from_slice(&run.stdin).unwrap();
        assert!(document.reboot);
        let text = refused(StepType::DownloadBootArtifacts, &[&format!("{{{urls}}}")]);
        assert_eq!(text, "validation failure list:\nhost_fs_mount_dir in body is required");
        let text = refused(StepType::RebootForReclaim, &[]);
        assert_eq!(text, "reboot-for-reclaim cmd accepts 1 params in args, given args []");
    }
}
