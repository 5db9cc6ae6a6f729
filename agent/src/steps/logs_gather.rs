//! The host's logs: `landfall logs send` (docs/compatibility.md#logs-gather).

use super::{
    IN_CONTAINER, Kind, Named, Refusal, Run,
    fields::Format::{Any, Uuid},
    only_arg, read, service, write,
};
use crate::{dry::Dry, settings::Settings};
use api::{HostId, LogsDocument, LogsGatherRequest, Step, StepType};
use std::time::Duration;

const WHAT: &str = "logs gather request";
/// Gathering ends itself before.
const DEADLINE: Duration = Duration::from_secs(3600);

pub(super) static KIND: Kind = Kind {
    step_type: StepType::LogsGather,
    fields: &[
        ("bootstrap", true, Any),
        ("cluster_id", true, Uuid),
        ("host_id", true, Uuid),
        ("infra_env_id", true, Uuid),
        ("installer_gather", true, Any),
    ],
    act,
    dry: Dry::Refused,
    failed: IN_CONTAINER,
    prints_json: false,
};

fn act(step: &Step, settings: &Settings, host: HostId) -> Result<Run, Refusal> {
    let request: LogsGatherRequest = read(only_arg(step)?, WHAT)?;
    if request.host_id != host {
        return Err(Refusal::OtherHost { asked: request.host_id, ours: host });
    }
    let document = LogsDocument { request, service: service(settings) };
    let run = Run::new(["logs", "send", "--request", "-"], write(&document, WHAT)?, DEADLINE);
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
