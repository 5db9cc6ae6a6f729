//! The types of steps, each in a file with all that the agent knows of it: what its request must have, the command that carries it
//! out and for how long, what its exit code means, and what a host that is only pretended answers. Nothing runs here.

mod api_vip_connectivity_check;
mod connectivity_check;
mod container_image_availability;
mod dhcp_lease_allocate;
mod domain_resolution;
mod download_boot_artifacts;
mod fields;
mod free_network_addresses;
mod install;
mod installation_disk_speed_check;
mod inventory;
mod logs_gather;
mod ntp_synchronizer;
mod reboot_for_reclaim;
mod stop_installation;
mod tang_connectivity_check;
mod upgrade_agent;
mod verify_vips;

pub(crate) use installation_disk_speed_check::dry_answer as dry_disk_speed;
pub(crate) use upgrade_agent::{STAGED, succeeded as upgrade_succeeded};

pub use crate::confine::Named;
use crate::{dry::Dry, settings::Settings};
use api::{HostId, ServiceDocument, Step, StepKind, StepType};
use fields::Field;
use serde::{Serialize, de::DeserializeOwned};
use std::{borrow::Cow, fmt, time::Duration};

/// What the agent knows of a type of step.
pub(crate) struct Kind {
    pub step_type: StepType,
    /// Of its request, what must be there and in which form.
    pub fields: &'static [Field],
    /// The child that carries it out.
    pub act: fn(&Step, &Settings, HostId) -> Result<Run, Refusal>,
    /// On a host that is only pretended.
    pub dry: Dry,
    /// What the service gets for exit code 1 (docs/compatibility.md#replies): what it knows from the real agent, that is [`IN_PROCESS`] or [`IN_CONTAINER`], or
    /// the code itself.
    pub failed: i64,
    /// Whether it prints a document, of which the line end that a terminal wants is no part.
    pub prints_json: bool,
}

/// Of what the real agent does in its own process.
pub(crate) const IN_PROCESS: i64 = -1;
/// Of what it runs in a container.
pub(crate) const IN_CONTAINER: i64 = 255;

static KINDS: [&Kind; 17] = [
    &api_vip_connectivity_check::KIND,
    &connectivity_check::KIND,
    &container_image_availability::KIND,
    &dhcp_lease_allocate::KIND,
    &domain_resolution::KIND,
    &download_boot_artifacts::KIND,
    &free_network_addresses::KIND,
    &install::KIND,
    &installation_disk_speed_check::KIND,
    &inventory::KIND,
    &logs_gather::KIND,
    &ntp_synchronizer::KIND,
    &reboot_for_reclaim::KIND,
    &stop_installation::KIND,
    &tang_connectivity_check::KIND,
    &upgrade_agent::KIND,
    &verify_vips::KIND,
];

/// `None` for a type without an action here.
pub(crate) fn kind(step_type: &StepType) -> Option<&'static Kind> {
    KINDS.into_iter().find(|kind| kind.step_type == *step_type)
}

/// A child process of this program.
#[derive(Clone, PartialEq, Eq)]
pub struct Run {
    /// Its arguments.
    pub args: Vec<Cow<'static, str>>,
    /// Its standard input; may hold the token.
    pub stdin: Vec<u8>,
    /// How long it may run.
    pub deadline: Option<Duration>,
    /// Whether it ends with the agent. An installation doesn't: a half-written disk helps nobody, and the installer
    /// reports to the service itself.
    pub dies_with_agent: bool,
    /// Whether its standard error is part of the answer also when it succeeds; else that is a log, and ours alone.
    pub answers_on_stderr: bool,
    /// What its rules depend on.
    pub named: Named,
}

impl fmt::Debug for Run {
    /// Of the input only its length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("args", &self.args)
            .field("stdin_bytes", &self.stdin.len())
            .field("deadline", &self.deadline)
            .field("dies_with_agent", &self.dies_with_agent)
            .field("answers_on_stderr", &self.answers_on_stderr)
            .field("named", &self.named)
            .finish()
    }
}

/// Why a step isn't run; the text is the reply's.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A type without an action here. The service looks for the start of this text.
    #[error("failed to find action for step type {0}")]
    Unknown(StepType),
    /// Arguments missing or too many.
    #[error("{step} cmd accepts {expected} params in args, given args [{}]", given.join(" "))]
    ArgCount {
        /// Type of the step.
        step: StepType,
        /// How many it takes.
        expected: usize,
        /// What came.
        given: Vec<String>,
    },
    /// An argument that is not what it should be.
    #[error("validation failure list:\n{what} in body must be of type {kind}: \"{value}\"")]
    Type {
        /// Its name.
        what: &'static str,
        /// Its type.
        kind: &'static str,
        /// As given, cut.
        value: String,
    },
    /// What the request lacks, or has in another form.
    #[error("validation failure list:\n{}", .0.join("\n"))]
    Fields(Vec<String>),
    /// JSON that doesn't fit.
    #[error("validation failure list:\n{what}: {error}")]
    Json {
        /// What it should be.
        what: &'static str,
        /// Cause. Part of the text, since the text is all the service gets.
        error: serde_json::Error,
    },
    /// No such disk.
    #[error("validation failure list:\n{what} {device} {reason}")]
    Device {
        /// Its name.
        what: &'static str,
        /// As given.
        device: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Meant for another host.
    #[error("validation failure list:\nhost_id {asked} is not this host, which is {ours}")]
    OtherHost {
        /// In the request.
        asked: HostId,
        /// Ours.
        ours: HostId,
    },
}

/// Decides on `step` for `host`.
pub fn action(step: &Step, settings: &Settings, host: HostId) -> Result<Run, Refusal> {
    let kind = kind(&step.step_type).ok_or_else(|| Refusal::Unknown(step.step_type.clone()))?;
    fields::check(kind.fields, step)?;
    (kind.act)(step, settings, host)
}

impl Run {
    /// A child that ends with the agent, answers on standard output and writes to no disk.
    fn new<const N: usize>(args: [&'static str; N], stdin: Vec<u8>, deadline: Duration) -> Self {
        Self {
            args: args.map(Cow::from).into(),
            stdin,
            deadline: Some(deadline),
            dies_with_agent: true,
            answers_on_stderr: false,
            named: Named::default(),
        }
    }
}

/// A check of the network: a subcommand of `landfall netcheck` that is fed with the step's own document. `what` names that in
/// errors.
fn check<K: StepKind<Request: DeserializeOwned>>(
    step: &Step,
    settings: &Settings,
    subcommand: &'static str,
    what: &'static str,
) -> Result<Run, Refusal> {
    let request = only_arg(step)?;
    read::<K::Request>(request, what)?;
    let words = ["netcheck", subcommand, "--request", "-", "--json"];
    Ok(Run::new(words, request.as_bytes().to_vec(), settings.pace.network))
}

fn read<R: DeserializeOwned>(request: &str, what: &'static str) -> Result<R, Refusal> {
    serde_json::from_str(request).map_err(|error| Refusal::Json { what, error })
}

fn write(document: &impl Serialize, what: &'static str) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(document).map_err(|error| Refusal::Json { what, error })
}

/// How a child reaches the service.
fn service(settings: &Settings) -> ServiceDocument {
    ServiceDocument {
        url: settings.url.clone(),
        token: settings.token.clone(),
        ca_cert: settings.http.ca_cert.clone(),
        insecure: settings.http.insecure,
        agent_version: settings.agent_version.clone(),
    }
}

pub(crate) fn only_arg(step: &Step) -> Result<&String, Refusal> {
    args(step).map(|[arg]| arg)
}

/// Exactly so many.
fn args<const N: usize>(step: &Step) -> Result<&[String; N], Refusal> {
    step.args.as_slice().try_into().map_err(|_| arg_count(step, N))
}

fn arg_count(step: &Step, expected: usize) -> Refusal {
    let given = step.args.iter().take(8).map(|arg| arg.chars().take(80).collect()).collect();
    Refusal::ArgCount { step: step.step_type.clone(), expected, given }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{child::Limits, media::Media, settings::Pace};

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
            outputs: crate::status::Outputs::default(),
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
        (kind.act)(&step, &settings(), HOST.parse().unwrap()).map_err(|refusal| refusal.to_string())
    }

    pub(crate) fn refused(kind: StepType, args: &[&str]) -> String {
        act(kind, args).unwrap_err().to_string()
    }

    #[test]
    fn types_without_an_action_get_the_text_the_service_looks_for() {
        let refused_types = ["execute", "next-step-runner", "step-not-exists"];
        for name in StepType::NAMES.into_iter().chain(["step-not-exists"]) {
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
}
