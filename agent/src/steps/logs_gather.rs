//! The host's logs: `landfall logs send` (docs/compatibility.md#logs-gather).

use super::{
    fields::Format::{Any, Uuid},
    kind::{Act, Deadline, Dry, IN_CONTAINER, Kind, Run, only_arg, read, service, write},
    refusal::Refusal,
};
use crate::{
    confine::{
        Named,
        calls::{CHANGE_FILES, REPLACE_FILES, SIGNALS_BY_FILE},
    },
    privileges::{
        Assistant, CERTIFICATES, Calls, FETCH, FETCHES, GATHERERS, NO_HELP, Privileges, RESOLVER, Reach, Rules, SELF,
        When,
    },
    settings::Settings,
};
use api::{HostId, LogsDocument, LogsGatherRequest, Step, StepType};
use caps::Capability::*;
use std::time::Duration;

const WHAT: &str = "logs gather request";

pub(super) static KIND: Kind = Kind {
    step_type: StepType::LogsGather,
    fields: &[
        ("bootstrap", true, Any),
        ("cluster_id", true, Uuid),
        ("host_id", true, Uuid),
        ("infra_env_id", true, Uuid),
        ("installer_gather", true, Any),
    ],
    act: Act::Run(act),
    // Gathering ends by itself before.
    deadline: Deadline::After(Duration::from_secs(3600)),
    dry: Dry::Refused,
    failed: IN_CONTAINER,
    prints_json: false,
    answers_on_stderr: false,
    privileges: Privileges {
        // The kernel's log, what others have written, and the cluster's own gathering scripts, which ask its containers.
        capabilities: &[
            CAP_CHOWN,
            CAP_DAC_OVERRIDE,
            CAP_DAC_READ_SEARCH,
            CAP_FOWNER,
            CAP_NET_ADMIN,
            CAP_SETGID,
            CAP_SETUID,
            CAP_SYSLOG,
            CAP_SYS_ADMIN,
            CAP_SYS_PTRACE,
        ],
        reach: Reach::Assisted(RULES, GATHERS),
        ..FETCHES
    },
};

/// Journals, crashes, and facts of this host; and what the cluster's own scripts have made of theirs, in /root and /tmp.
const RULES: Rules = Rules {
    reads: &[
        SELF,
        RESOLVER,
        CERTIFICATES,
        &[
            "/dev/disk",
            "/dev/kmsg",
            "/etc/localtime",
            "/run/log/journal",
            "/run/udev/data",
            "/sys",
            "/tmp",
            "/usr/share/zoneinfo",
            "/var/lib/systemd/coredump",
        ],
    ],
    trees: &["/var/log"],
    takes: &["/root"],
    calls: Calls::Only(&[CHANGE_FILES, REPLACE_FILES, SIGNALS_BY_FILE]),
    ..FETCH
};

/// LVM's facts, and the cluster's gathering.
const GATHERS: Assistant = Assistant { programs: &[(When::Always, GATHERERS)], ..NO_HELP };

fn act(step: &Step, settings: &Settings, host: HostId) -> Result<Run, Refusal> {
    let request: LogsGatherRequest = read(only_arg(step)?, WHAT)?;
    if request.host_id != host {
        return Err(Refusal::OtherHost { asked: request.host_id, ours: host });
    }
    let document = LogsDocument { request, service: service(settings) };
    let run = Run::new(["logs", "send", "--request", "-"], write(&document, WHAT)?);
    Ok(Run { named: Named { ca_cert: settings.http.ca_cert.clone(), ..Named::default() }, ..run })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOST, act, act_on};
    use super::*;
    use api::StepType::LogsGather;

    fn request(host: &str) -> String {
        format!(
            r#"{{"cluster_id":"11111111-2222-3333-4444-555555555555","infra_env_id":"bbbbbbbb-0000-0000-0000-000000000001",
            "host_id":"{host}","bootstrap":true,"installer_gather":true,"master_ips":["192.0.2.1","2001:db8::1"],"new":1}}"#
        )
    }

    #[test]
    fn the_child_understands_what_it_is_given() {
        let run = act(LogsGather, &[&request(HOST)]).unwrap();
        assert_eq!(run.args, ["logs", "send", "--request", "-"]);
        let document: LogsDocument = serde_json::from_slice(&run.stdin).unwrap();
        assert_eq!(document.service.token.expose(), "t0ken");
        assert_eq!(document.service.url, "http://s");
        assert_eq!(document.request.master_ips.len(), 2);
        assert!(document.request.bootstrap && document.request.installer_gather);
        assert!(!format!("{run:?}{document:?}").contains("t0ken"));
    }

    #[test]
    fn a_request_for_another_host_or_without_what_it_needs_is_refused() {
        let refused = |args: &[&str]| act_on(&KIND, args).unwrap_err();
        assert!(refused(&[&request("aaaaaaaa-0000-0000-0000-000000000009")]).contains("is not this host"));
        let text = refused(&["{}"]);
        assert!(text.starts_with("validation failure list:\nlogs gather request: missing field"), "{text}");
        assert_eq!(refused(&[]), "logs-gather cmd accepts 1 params in args, given args []");
    }
}
