//! An installation: `landfall install` (docs/compatibility.md#install-step).

use super::{
    fields::Format::{Any, Image, MustGather, Role, Uuid, Version},
    kind::{Act, Deadline, Dry, Kind, Run, only_arg, read, service, write},
    refusal::Refusal,
};
use crate::{
    confine::{
        Named,
        calls::{DONE_BY_ASSISTANTS, NO_INSTALLATION},
    },
    privileges::{Assistant, Calls, FETCH, GATHERERS, Privileges, Reach, Rules, SELF, When},
    settings::Settings,
};
use api::{HostId, InstallDocument, InstallRequest, REBOOT_DELAY_SECONDS, Step, StepType, proxy::VARIABLES};
use assist::{HostProgram, INSTALLATION_DIRECTORY, INSTALLATION_LOCK, Program, TRANSPOSE_SCRIPT};
use caps::Capability::{self, *};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

const WHAT: &str = "install request";
/// A worker waits for its masters as long as they take, and the image writer notices a stall itself; but the certificates that a
/// bootstrap config holds are good for a day, and after that waiting is pointless.
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
    act: Act::Run(act),
    deadline: Deadline::After(DEADLINE),
    dry: Dry::Refused,
    failed: 1,
    prints_json: false,
    answers_on_stderr: false,
    privileges: Privileges {
        capabilities: CAPABILITIES,
        memory_bytes: 16 << 30,
        oom_score_adj: 0,
        proxies: true,
        reach: Reach::Assisted(RULES, INSTALLS),
    },
};

/// Disks, file systems, boot entries, a reboot, and the programs that the node's first system is prepared with.
const CAPABILITIES: &[Capability] = &[
    CAP_CHOWN,
    CAP_DAC_OVERRIDE,
    CAP_DAC_READ_SEARCH,
    CAP_FOWNER,
    CAP_FSETID,
    CAP_IPC_LOCK,
    CAP_KILL,
    CAP_LINUX_IMMUTABLE,
    CAP_MAC_ADMIN,
    CAP_MKNOD,
    CAP_NET_ADMIN,
    CAP_SETFCAP,
    CAP_SETGID,
    CAP_SETUID,
    CAP_SYS_ADMIN,
    CAP_SYS_BOOT,
    CAP_SYS_CHROOT,
    CAP_SYS_RAWIO,
];

/// Disks and what lies on them, boot entries, any file to read but other processes'; an installed system's files through mounts that
/// only it sees, and the end of this system.
const RULES: Rules = Rules {
    reads: &[
        SELF,
        &["/proc/cmdline", "/proc/cpuinfo", "/proc/meminfo", "/proc/misc", "/proc/swaps", "/proc/sys", "/proc/uptime"],
    ],
    reads_live_system: true,
    reads_of_processes: &["comm", "mountinfo", "stat"],
    reads_disks: true,
    writes: &["/dev/null", "/dev/mapper/control", "/sys/fs/selinux/enforce"],
    makes: &[INSTALLATION_LOCK],
    // Mounts; logs that are gathered, and what their scripts have made.
    trees: &[INSTALLATION_DIRECTORY, "/mnt", "/sys/firmware/efi/efivars", "/var/log"],
    takes: &["/root"],
    writes_its_disks: true,
    takes_down: true,
    changes_live_system: true,
    signals_others: true,
    calls: Calls::AllBut(&[DONE_BY_ASSISTANTS, NO_INSTALLATION]),
    ..FETCH
};

/// Mounts partitions of the written disk and puts a newer system on them; makes the live system a bootstrap host, or deploys another
/// system beside it, where the request asks for that.
const INSTALLS: Assistant = Assistant {
    programs: &[
        (When::Always, GATHERERS),
        (
            When::Always,
            &[
                Program {
                    name: HostProgram::Systemctl.path(),
                    arguments: &[&["list-units", "--no-legend", "*"], &["--no-block", "stop", "agent.service"]],
                    variables: &VARIABLES,
                },
                Program {
                    name: HostProgram::Ostree.path(),
                    arguments: &[&[
                        "container",
                        "image",
                        "deploy",
                        "--sysroot",
                        "/mnt",
                        "--authfile",
                        "*",
                        "--imgref",
                        "*",
                        "--karg **",
                        "--stateroot",
                        "*",
                        "--karg **",
                    ]],
                    variables: &VARIABLES,
                },
                Program {
                    name: HostProgram::Bootlist.path(),
                    arguments: &[&["-m", "normal", "-o", "*"]],
                    variables: &VARIABLES,
                },
            ],
        ),
        // A medium that carries a registry.
        (
            When::There("/mnt/agentdata"),
            &[Program {
                name: HostProgram::Shell.path(),
                arguments: &[&[TRANSPOSE_SCRIPT, "*"]],
                variables: &VARIABLES,
            }],
        ),
        (
            When::LiveSystemChanges,
            &[
                Program {
                    name: HostProgram::Systemctl.path(),
                    arguments: &[
                        &["daemon-reload"],
                        &["disable", "**"],
                        &["enable", "**"],
                        &["restart", "*"],
                        &["show", "-P", "*", "*"],
                        &["start", "**"],
                        &["start", "--no-block", "**"],
                        &["stop", "**"],
                    ],
                    variables: &VARIABLES,
                },
                Program {
                    name: HostProgram::Hostnamectl.path(),
                    arguments: &[&["set-hostname", "*"]],
                    variables: &VARIABLES,
                },
                Program {
                    name: HostProgram::Ostree.path(),
                    arguments: &[
                        &["admin", "finalize-staged"],
                        &["admin", "stateroot-init", "*"],
                        &[
                            "container",
                            "image",
                            "deploy",
                            "--stateroot",
                            "*",
                            "--sysroot",
                            "/",
                            "--authfile",
                            "*",
                            "--karg **",
                            "--image",
                            "*",
                        ],
                        &["refs", "--repo", "/ostree/repo", "--delete", "coreos/node-image"],
                    ],
                    variables: &VARIABLES,
                },
                Program {
                    name: HostProgram::RpmOstree.path(),
                    arguments: &[&["kargs", "--os", "*", "--append **", "--delete-if-present **"]],
                    variables: &VARIABLES,
                },
            ],
        ),
    ],
    remounts: &["boot", "sysroot"],
    mount_points: &["/mnt", INSTALLATION_DIRECTORY],
    forbidden: &[],
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
    let stage_file = settings.stage_file();
    let document = InstallDocument {
        request,
        service: service(settings),
        reboot: settings.reboot,
        reboot_delay_seconds: REBOOT_DELAY_SECONDS,
        stage_file: stage_file.clone(),
    };
    let run = Run::new(["install", "--request", "-"], write(&document, WHAT)?);
    let request = document.request;
    let named = Named {
        changes_live_system: request.changes_live_system(),
        targets: request.disks_to_format.into_iter().chain([request.boot_device]).map(PathBuf::from).collect(),
        ca_cert: settings.http.ca_cert.clone(),
        progress: stage_file.and_then(|file| Some(file.parent()?.to_owned())),
        ..Named::default()
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
