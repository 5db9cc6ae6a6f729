//! The steps that look at the network: each is a subcommand of `landfall netcheck`, fed with the step's own document.

use crate::{
    action::{Named, Refusal, Run, only_arg},
    settings::Pace,
};
use api::{
    ApiVipConnectivityRequest, ConnectivityCheckHost, ContainerImageAvailabilityRequest, DhcpAllocationRequest,
    DomainResolutionRequest, NtpSynchronizationRequest, Step, StepType, TangConnectivityRequest, VerifyVip,
};
use serde::de::DeserializeOwned;
use std::{borrow::Cow, time::Duration};

/// What the service allows the images of one step when it says nothing (agent contract §6.6), seconds.
const IMAGES_SECONDS: i64 = 960;
/// A check watches its own time; it is ended only when it fails to.
const IMAGES_GRACE: Duration = Duration::from_secs(60);
/// Nobody waits a day for an image.
const MAX_IMAGES_SECONDS: i64 = 86_400;

/// The child process for `step`; `None` when it is no check of the network.
pub(crate) fn action(step: &Step, pace: &Pace) -> Option<Result<Run, Refusal>> {
    let check = |subcommand: &'static str, read: fn(&str) -> serde_json::Result<()>, what: &'static str| {
        only_arg(step).and_then(|request| {
            read(request).map_err(|error| Refusal::Json { what, error })?;
            Ok(run(subcommand, request, pace.network))
        })
    };
    Some(match step.step_type {
        StepType::ConnectivityCheck => check("mesh", reads::<Vec<ConnectivityCheckHost>>, "connectivity check request"),
        StepType::FreeNetworkAddresses => check("sweep", reads::<Vec<String>>, "free addresses request"),
        StepType::VerifyVips => check("vip", reads::<Vec<VerifyVip>>, "verify vips request"),
        StepType::NtpSynchronizer => check("ntp", reads::<NtpSynchronizationRequest>, "ntp synchronization request"),
        StepType::DomainResolution => check("dns", reads::<DomainResolutionRequest>, "domain resolution request"),
        StepType::DhcpLeaseAllocate => check("dhcp", reads::<DhcpAllocationRequest>, "dhcp allocation request"),
        StepType::ApiVipConnectivityCheck => {
            // It succeeds also when nothing could be fetched, and says so on standard error (agent contract §6.9).
            check("endpoint", reads::<ApiVipConnectivityRequest>, "api vip connectivity request")
                .map(|run| Run { answers_on_stderr: true, ..run })
        }
        StepType::TangConnectivityCheck => check("tang", reads::<TangConnectivityRequest>, "tang connectivity request"),
        StepType::ContainerImageAvailability => only_arg(step).and_then(|request| {
            let parsed: ContainerImageAvailabilityRequest = serde_json::from_str(request)
                .map_err(|error| Refusal::Json { what: "container image availability request", error })?;
            let seconds = parsed.timeout.unwrap_or(IMAGES_SECONDS).clamp(0, MAX_IMAGES_SECONDS);
            let deadline = Duration::from_secs(seconds.unsigned_abs()) + IMAGES_GRACE;
            Ok(run("image", request, deadline))
        }),
        _ => return None,
    })
}

fn run(subcommand: &'static str, request: &str, deadline: Duration) -> Run {
    Run {
        args: ["netcheck", subcommand, "--request", "-", "--json"].map(Cow::from).into(),
        stdin: request.as_bytes().to_vec(),
        deadline: Some(deadline),
        dies_with_agent: true,
        answers_on_stderr: false,
        named: Named::default(),
    }
}

fn reads<T: DeserializeOwned>(request: &str) -> serde_json::Result<()> {
    serde_json::from_str::<T>(request).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: &str = "00:1a:4a:00:00:01";

    fn act(kind: StepType, request: &str) -> Result<Run, Refusal> {
        let step = Step { args: vec![request.to_owned()], step_id: "x-1".into(), step_type: kind };
        action(&step, &Pace::default()).unwrap()
    }

    #[test]
    fn each_check_gets_its_request_on_standard_input() {
        let dhcp = format!(r#"{{"interface":"e0","api_vip_mac":"{MAC}","ingress_vip_mac":"{MAC}"}}"#);
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
            let run = act(kind.clone(), request).unwrap();
            assert_eq!(run.args, ["netcheck", subcommand, "--request", "-", "--json"]);
            assert_eq!(run.stdin, request.as_bytes());
            assert!(run.dies_with_agent);
            let refused = act(kind, r#""neither""#).unwrap_err().to_string();
            assert!(refused.starts_with("validation failure list:\n"), "{refused}");
        }
    }

    #[test]
    fn images_have_the_time_the_service_gives_them() {
        let seconds =
            |request: &str| act(StepType::ContainerImageAvailability, request).unwrap().deadline.unwrap().as_secs();
        assert_eq!(seconds(r#"{"images":[]}"#), 1020);
        assert_eq!(seconds(r#"{"images":[],"timeout":5}"#), 65);
        assert_eq!(seconds(r#"{"images":[],"timeout":-5}"#), 60);
        assert_eq!(seconds(r#"{"images":[],"timeout":9223372036854775807}"#), 86_460);
    }

    #[test]
    fn other_steps_are_not_of_the_network() {
        let step = Step { args: Vec::new(), step_id: "x-1".into(), step_type: StepType::LogsGather };
        assert!(action(&step, &Pace::default()).is_none());
    }
}
