//! An installation: `landfall install` (docs/compatibility.md#install-step).

use super::{
    Kind, Named, Refusal, Run,
    fields::Format::{Any, Image, MustGather, Role, Uuid, Version},
    only_arg, read, service, write,
};
use crate::{dry::Dry, settings::Settings};
use api::{HostId, InstallDocument, InstallRequest, REBOOT_DELAY_SECONDS, Step, StepType};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

const WHAT: &str = "install request";
/// A worker waits for its masters as long as they take, and the image writer notices a stall itself; but the certificates that a
/// bootstrap config holds are good for a day, and after it there is nothing to wait for.
const DEADLINE: Duration = Duration::from_secs(24 * 3600);

pub(super) static KIND: Kind = Kind {
    step_type: StepType::Install,
    fields: &[
        ("boot_device", true, Any),
        ("cluster_id", true, Uuid),
        ("controller_image", true, Image),
        ("host_id", true, Uuid),
        ("infra_env_id", true, Uuid),
        ("installer_image", true, Image),
        ("must_gather_image", false, MustGather),
        ("openshift_version", false, Version),
        ("role", true, Role),
    ],
    act,
    dry: Dry::Refused,
    failed: 1,
    prints_json: false,
};

fn act(step: &Step, settings: &Settings, host: HostId) -> Result<Run, Refusal> {
    let request: InstallRequest = read(only_arg(step)?, WHAT)?;
    check_device("boot_device", &request.boot_device)?;
    for disk in &request.disks_to_format {
        check_device("disks_to_format", disk)?;
    }
    if request.host_id != host {
        return Err(Refusal::OtherHost { asked: request.host_id, ours: host });
    }
    let stage_file = settings.outputs.stage_file();
    let document = InstallDocument {
        request,
        service: service(settings),
        reboot: settings.reboot,
        reboot_delay_seconds: REBOOT_DELAY_SECONDS,
        stage_file: stage_file.clone(),
    };
    let run = Run::new(["install", "--request", "-"], write(&document, WHAT)?, DEADLINE);
    let request = document.request;
    let named = Named {
        changes_live_system: request.changes_live_system(),
        targets: request.disks_to_format.into_iter().chain([request.boot_device]).map(PathBuf::from).collect(),
        ca_cert: settings.http.ca_cert.clone(),
        progress: stage_file.and_then(|file| Some(file.parent()?.to_owned())),
    };
    Ok(Run { dies_with_agent: false, named, ..run })
}

fn check_device(what: &'static str, device: &str) -> Result<(), Refusal> {
    let fail = |reason| Err(Refusal::Device { what, device: device.chars().take(200).collect(), reason });
    if !device.starts_with("/dev/") {
        return fail("must start with /dev/");
    }
    if !Path::new(device).exists() {
        return fail("does not exist on this host");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{HOST, act, refused},
        *,
    };
    use serde_json::{Value, json};

    fn a_request(change: impl Fn(&mut Value)) -> String {
        let mut request = json!({
            "boot_device": "/dev/null", "check_cvo": false, "cluster_id": "11111111-2222-3333-4444-555555555555",
            "control_plane_count": 3, "controller_image": "r.io/c:1", "disks_to_format": ["/dev/zero"], "host_id": HOST,
            "infra_env_id": "bbbbbbbb-0000-0000-0000-000000000001", "installer_image": "r.io/i:1", "role": "master",
            "service_ips": null, "from_a_newer_service": 1
        });
        change(&mut request);
        request.to_string()
    }

    #[test]
    fn the_installer_understands_what_it_is_given() {
        let run = act(StepType::Install, &[&a_request(|_| ())]).unwrap();
        let document: InstallDocument = serde_json::from_slice(&run.stdin).unwrap();
        assert!(document.reboot && document.stage_file.is_none());
        assert_eq!(document.request.boot_device, "/dev/null");
        assert_eq!(document.service.token.expose(), "t0ken");
        assert_eq!(document.service.ca_cert.as_deref(), Some(Path::new("/ca.pem")));
        assert_eq!((run.deadline, run.dies_with_agent), (Some(DEADLINE), false));
        assert!(!run.args.iter().any(|arg| arg.contains("t0ken")));
        assert!(!format!("{run:?}").contains("t0ken"));
        assert_eq!(run.named.targets, [Path::new("/dev/zero"), Path::new("/dev/null")]);
        assert!(!run.named.changes_live_system);
        for change in [("role", "bootstrap"), ("coreos_image", "quay.io/os:1")] {
            let run = act(StepType::Install, &[&a_request(|request| request[change.0] = change.1.into())]).unwrap();
            assert!(run.named.changes_live_system, "{change:?}");
        }
    }

    #[test]
    fn an_install_request_that_does_not_fit_this_host_is_refused() {
        let text = |change: &dyn Fn(&mut Value)| refused(StepType::Install, &[&a_request(change)]);
        assert!(text(&|r| r["boot_device"] = "sda".into()).ends_with("boot_device sda must start with /dev/"));
        assert!(text(&|r| r["boot_device"] = "/dev/landfall-none".into()).ends_with("does not exist on this host"));
        assert!(text(&|r| r["disks_to_format"] = json!(["/etc/x"])).contains("disks_to_format /etc/x"));
        assert!(text(&|r| r["host_id"] = "aaaaaaaa-0000-0000-0000-000000000002".into()).contains("is not this host"));
        assert!(
            text(&|r| r["role"] = "king".into())
                .starts_with("validation failure list:\nrole in body should be one of ")
        );
        assert!(text(&|r| r["check_cvo"] = 5.into()).starts_with("validation failure list:\ninstall request: "));
        assert!(refused(StepType::Install, &["{"]).starts_with("validation failure list:\n"));
        assert_eq!(refused(StepType::Install, &[]), "install cmd accepts 1 params in args, given args []");
    }
}
