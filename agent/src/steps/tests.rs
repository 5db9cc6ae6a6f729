//! What the steps have in common.

use super::*;
use crate::{
    media::Media,
    settings::{Limits, Pace},
};

pub(crate) const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";

pub(crate) fn settings() -> Settings {
    Settings {
        url: "http://s".into(),
        token: api::Secret::new("t0ken"),
        http: api::http::HttpConfig { ca_cert: Some("/ca.pem".into()), insecure: false, proxies: None },
        infra_env_id: "bbbbbbbb-0000-0000-0000-000000000001".parse().unwrap(),
        agent_version: "r.io/agent:1".into(),
        host_id: Some(HOST.parse().unwrap()),
        program: "/nonexistent/landfall".into(),
        media: Media::default(),
        reboot: true,
        dry: None,
        limits: Limits::default(),
        state_dir: None,
        pace: Pace::default(),
    }
}

pub(crate) fn act(kind: StepType, args: &[&str]) -> Result<Run, Refusal> {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    action(&Step { args, step_id: "x-1".into(), step_type: kind }, &settings(), HOST.parse().unwrap())
}

/// The same without a look at the fields of the request.
pub(crate) fn act_on(kind: &Kind, args: &[&str]) -> Result<Run, String> {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    let step = Step { args, step_id: "x-1".into(), step_type: kind.step_type.clone() };
    kind.run(&step, &settings(), HOST.parse().unwrap()).map_err(|refusal| refusal.to_string())
}

pub(crate) fn refused(kind: StepType, args: &[&str]) -> String {
    act(kind, args).unwrap_err().to_string()
}

#[test]
fn types_without_an_action_get_the_text_the_service_looks_for() {
    let refused_types = ["execute", "next-step-runner", "step-not-exists"];
    for name in StepType::NAMES.into_iter().chain(StepType::EXTENSIONS).chain(["step-not-exists"]) {
        let step_type: StepType = serde_json::from_value(name.into()).unwrap();
        assert_eq!(kind(&step_type).is_none(), refused_types.contains(&name), "{name}");
        if kind(&step_type).is_none() {
            assert_eq!(refused(step_type, &[]), format!("failed to find action for step type {name}"));
        }
    }
}

#[test]
fn each_check_of_the_network_gets_its_request_on_standard_input() {
    let mac = "00:1a:4a:00:00:01";
    let dhcp = format!(r#"{{"interface":"e0","api_vip_mac":"{mac}","ingress_vip_mac":"{mac}"}}"#);
    for (kind, subcommand, request) in [
        (StepType::ConnectivityCheck, "mesh", "[]"),
        (StepType::FreeNetworkAddresses, "sweep", r#"["192.168.126.0/24"]"#),
        (StepType::VerifyVips, "vip", r#"[{"vip":"192.168.126.100","vip_type":"api","new":1}]"#),
        (StepType::NtpSynchronizer, "ntp", r#"{"ntp_source":""}"#),
        (StepType::DomainResolution, "dns", r#"{"domains":[{"domain_name":"api.x.y."}]}"#),
        (StepType::DhcpLeaseAllocate, "dhcp", &dhcp),
        (StepType::ApiVipConnectivityCheck, "endpoint", r#"{"url":"http://x","request_headers":null}"#),
        (StepType::TangConnectivityCheck, "tang", r#"{"tang_servers":"[]"}"#),
        (StepType::ContainerImageAvailability, "image", r#"{"images":["r.io/a:1"]}"#),
    ] {
        let run = act(kind.clone(), &[request]).unwrap();
        assert_eq!(run.args, ["netcheck", subcommand, "--request", "-", "--json"]);
        assert_eq!(run.stdin, request.as_bytes());
        assert!(run.dies_with_agent);
        let text = refused(kind, &[r#""neither""#]);
        assert!(text.starts_with("validation failure list:\n"), "{text}");
    }
}
