//! The step `logs-gather` (agent contract §6.13).

use crate::{
    action::{Named, Refusal, Run, ServiceDocument, only_arg},
    settings::Settings,
};
use api::{HostId, LogsGatherRequest, Step};
use serde::Serialize;
use std::{borrow::Cow, time::Duration};

/// What `landfall logs send` reads on its standard input.
#[derive(Serialize)]
struct Document<'a> {
    request: LogsGatherRequest,
    service: ServiceDocument<'a>,
}

/// Gathering ends itself before.
const DEADLINE: Duration = Duration::from_secs(3600);

/// Whether `step` is for `host`, and the child that carries it out.
pub(crate) fn action(step: &Step, settings: &Settings, host: HostId) -> Result<Run, Refusal> {
    let json = |error| Refusal::Json { what: "logs gather request", error };
    let request: LogsGatherRequest = serde_json::from_str(only_arg(step)?).map_err(json)?;
    if request.host_id != host {
        return Err(Refusal::OtherHost { asked: request.host_id, ours: host });
    }
    let document = Document { request, service: ServiceDocument::of(settings) };
    Ok(Run {
        args: ["logs", "send", "--request", "-"].map(Cow::from).into(),
        stdin: serde_json::to_vec(&document).map_err(json)?,
        deadline: Some(DEADLINE),
        dies_with_agent: true,
        answers_on_stderr: false,
        named: Named { target: None, ca_cert: settings.http.ca_cert.clone() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::tests::{HOST, settings};
    use api::StepType;

    fn act(args: &[&str]) -> Result<Run, Refusal> {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let step = Step { args, step_id: "x-1".into(), step_type: StepType::LogsGather };
        action(&step, &settings(), HOST.parse().unwrap())
    }

    fn request(host: &str) -> String {
        format!(
            r#"{{"cluster_id":"11111111-2222-3333-4444-555555555555","infra_env_id":"bbbbbbbb-0000-0000-0000-000000000001",
            "host_id":"{host}","bootstrap":true,"installer_gather":true,"master_ips":["192.0.2.1","2001:db8::1"],"new":1}}"#
        )
    }

    #[test]
    fn the_child_understands_what_it_is_given() {
        let run = act(&[&request(HOST)]).unwrap();
        assert_eq!(run.args, ["logs", "send", "--request", "-"]);
        let settings = crate::logs::cli::read_document(&run.stdin).unwrap();
        assert_eq!(settings.client.token.expose(), "t0ken");
        assert_eq!(settings.client.url, "http://s");
        assert_eq!(settings.wanted.masters.len(), 2);
        assert!(settings.wanted.bootstrap && settings.wanted.installer_gather && !settings.keep);
        assert!(!format!("{run:?}{settings:?}").contains("t0ken"));
    }

    #[test]
    fn a_request_for_another_host_or_without_what_it_needs_is_refused() {
        let refused = |args: &[&str]| act(args).unwrap_err().to_string();
        assert!(refused(&[&request("aaaaaaaa-0000-0000-0000-000000000009")]).contains("is not this host"));
        let text = refused(&["{}"]);
        assert!(text.starts_with("validation failure list:\nlogs gather request: missing field"), "{text}");
        assert_eq!(refused(&[]), "logs-gather cmd accepts 1 params in args, given args []");
    }
}
