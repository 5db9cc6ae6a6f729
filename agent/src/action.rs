//! What a step means: the command that carries it out, or why it is refused. Nothing runs here.

use crate::{disk, logs, network, request, settings::Settings, upgrade};
use api::{BootArtifactsRequest, HostId, InstallRequest, RebootForReclaimRequest, Secret, Step, StepType};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

/// A child process of this program.
#[derive(Clone, PartialEq, Eq)]
pub struct Run {
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

/// Files that a child's rules depend on. It learns of them beside its request: it reads that once the rules hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The disk that it may write to, or the root of the node that it may change.
    pub target: Option<PathBuf>,
    /// Certificates that the agent was told to trust.
    pub ca_cert: Option<PathBuf>,
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
        step: StepType,
        /// How many it takes.
        expected: usize,
        given: Vec<String>,
    },
    /// An argument that is not what it should be.
    #[error("validation failure list:\n{what} in body must be of type {kind}: \"{value}\"")]
    Type { what: &'static str, kind: &'static str, value: String },
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
    #[error("validation failure list:\n{what} {device} {reason}")]
    Device { what: &'static str, device: String, reason: &'static str },
    #[error("validation failure list:\nhost_id {asked} is not this host, which is {ours}")]
    OtherHost { asked: HostId, ours: HostId },
}

/// Flags a service may add to an inventory, each with a number of bytes.
const INVENTORY_WISHES: [&str; 2] = ["--output-max-size", "--disk-min-size"];

/// A worker waits for its masters as long as they take, and the image writer notices a stall itself; but the certificates that a
/// bootstrap config holds are good for a day, and after it there is nothing to wait for.
const INSTALL_DEADLINE: Duration = Duration::from_secs(24 * 3600);
/// A stopped installer puts its disk in order first; it is not waited for much longer than podman would.
const STOP_DEADLINE: Duration = Duration::from_secs(60);

/// Two files of a few hundred megabytes, each with retries.
const RECLAIM_DOWNLOAD_DEADLINE: Duration = Duration::from_secs(3600);
const RECLAIM_REBOOT_DEADLINE: Duration = Duration::from_secs(600);

/// What the installer reads on its standard input.
#[derive(Serialize)]
struct InstallDocument<'a> {
    request: &'a InstallRequest,
    service: ServiceDocument<'a>,
    reboot: bool,
    stage_file: Option<PathBuf>,
}

/// How a child reaches the service.
#[derive(Serialize)]
pub(crate) struct ServiceDocument<'a> {
    url: &'a str,
    token: &'a Secret,
    ca_cert: Option<&'a PathBuf>,
    insecure: bool,
    agent_version: &'a str,
}

/// What `landfall reclaim` reads on its standard input.
#[derive(Serialize)]
struct ReclaimDocument<'a, R> {
    request: R,
    ca_cert: Option<&'a PathBuf>,
    insecure: bool,
    reboot: bool,
}

impl<'a> ServiceDocument<'a> {
    pub(crate) fn of(settings: &'a Settings) -> Self {
        Self {
            url: &settings.url,
            token: &settings.token,
            ca_cert: settings.http.ca_cert.as_ref(),
            insecure: settings.http.insecure,
            agent_version: &settings.agent_version,
        }
    }
}

/// Decides on `step` for `host`.
pub fn action(step: &Step, settings: &Settings, host: HostId) -> Result<Run, Refusal> {
    request::check(step)?;
    match step.step_type {
        StepType::Inventory => inventory(step, settings),
        StepType::Install => install(step, settings, host),
        StepType::StopInstallation => stop_installation(step),
        StepType::InstallationDiskSpeedCheck => disk::speed(step),
        StepType::DownloadBootArtifacts => reclaim(
            step,
            settings,
            |request: &BootArtifactsRequest| &request.host_fs_mount_dir,
            "download",
            RECLAIM_DOWNLOAD_DEADLINE,
        ),
        StepType::RebootForReclaim => reclaim(
            step,
            settings,
            |request: &RebootForReclaimRequest| &request.host_fs_mount_dir,
            "reboot",
            RECLAIM_REBOOT_DEADLINE,
        ),
        StepType::LogsGather => logs::step::action(step, settings, host),
        StepType::UpgradeAgent => upgrade::action(step),
        _ => network::action(step, &settings.pace).unwrap_or_else(|| Err(Refusal::Unknown(step.step_type.clone()))),
    }
}

/// The host's id and, from newer services, wishes about the size of the answer. Those we don't know are left to services
/// that can do without.
fn inventory(step: &Step, settings: &Settings) -> Result<Run, Refusal> {
    let Some((id, wishes)) = step.args.split_first() else { return Err(arg_count(step, 1)) };
    if id.parse::<HostId>().is_err() {
        return Err(Refusal::Type { what: "host_id", kind: "uuid", value: id.chars().take(80).collect() });
    }
    let known = wishes.iter().filter_map(|wish| {
        let (name, bytes) = wish.split_once('=')?;
        let bytes: u64 = bytes.parse().ok()?;
        INVENTORY_WISHES.contains(&name).then(|| Cow::from(format!("{name}={bytes}")))
    });
    let quick = settings.dry.as_ref().map(|_| Cow::from("--skip-bmc"));
    Ok(Run {
        args: std::iter::once("inventory".into()).chain(quick).chain(known).collect(),
        stdin: Vec::new(),
        deadline: Some(settings.pace.inventory),
        dies_with_agent: true,
        answers_on_stderr: false,
        named: Named::default(),
    })
}

fn install(step: &Step, settings: &Settings, host: HostId) -> Result<Run, Refusal> {
    let json = |error| Refusal::Json { what: "install request", error };
    let request: InstallRequest = serde_json::from_str(only_arg(step)?).map_err(json)?;
    check_device("boot_device", &request.boot_device)?;
    for disk in &request.disks_to_format {
        check_device("disks_to_format", disk)?;
    }
    if request.host_id != host {
        return Err(Refusal::OtherHost { asked: request.host_id, ours: host });
    }
    let document = InstallDocument {
        request: &request,
        service: ServiceDocument::of(settings),
        reboot: settings.reboot,
        stage_file: settings.outputs.stage_file(),
    };
    let stdin = serde_json::to_vec(&document).map_err(json)?;
    Ok(Run {
        args: ["install", "--request", "-"].map(Cow::from).into(),
        stdin,
        deadline: Some(INSTALL_DEADLINE),
        dies_with_agent: false,
        answers_on_stderr: false,
        named: Named { target: Some(request.boot_device.clone().into()), ca_cert: settings.http.ca_cert.clone() },
    })
}

fn stop_installation(step: &Step) -> Result<Run, Refusal> {
    let [] = args(step)?;
    Ok(Run {
        args: ["install", "--stop"].map(Cow::from).into(),
        stdin: Vec::new(),
        deadline: Some(STOP_DEADLINE),
        dies_with_agent: true,
        answers_on_stderr: false,
        named: Named::default(),
    })
}

fn reclaim<R: Serialize + DeserializeOwned>(
    step: &Step,
    settings: &Settings,
    node: fn(&R) -> &Path,
    command: &'static str,
    deadline: Duration,
) -> Result<Run, Refusal> {
    let json = |error| Refusal::Json { what: "reclaim request", error };
    let request: R = serde_json::from_str(only_arg(step)?).map_err(json)?;
    let target = Some(node(&request).to_owned());
    let document = ReclaimDocument {
        request,
        ca_cert: settings.http.ca_cert.as_ref(),
        insecure: settings.http.insecure,
        reboot: settings.reboot,
    };
    Ok(Run {
        args: ["reclaim", command, "--request", "-"].map(Cow::from).into(),
        stdin: serde_json::to_vec(&document).map_err(json)?,
        deadline: Some(deadline),
        dies_with_agent: true,
        answers_on_stderr: false,
        named: Named { target, ca_cert: settings.http.ca_cert.clone() },
    })
}

pub(crate) fn only_arg(step: &Step) -> Result<&String, Refusal> {
    args(step).map(|[arg]| arg)
}

/// Exactly so many.
pub(crate) fn args<const N: usize>(step: &Step) -> Result<&[String; N], Refusal> {
    step.args.as_slice().try_into().map_err(|_| arg_count(step, N))
}

fn arg_count(step: &Step, expected: usize) -> Refusal {
    let given = step.args.iter().take(8).map(|arg| arg.chars().take(80).collect()).collect();
    Refusal::ArgCount { step: step.step_type.clone(), expected, given }
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
pub(crate) mod tests {
    use super::*;
    use crate::{child::Limits, media::Media, settings::Pace};
    use serde_json::{Value, json};

    pub(crate) const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";

    pub(crate) fn settings() -> Settings {
        Settings {
            url: "http://s".into(),
            token: Secret::new("t0ken"),
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

    fn act(kind: StepType, args: &[&str]) -> Result<Run, Refusal> {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        action(&Step { args, step_id: "x-1".into(), step_type: kind }, &settings(), HOST.parse().unwrap())
    }

    fn refused(kind: StepType, args: &[&str]) -> String {
        act(kind, args).unwrap_err().to_string()
    }

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
    fn an_inventory_takes_the_host_id_and_whatever_newer_services_add() {
        let wishes = [HOST, "--output-max-size=100000", "--new=1", "--disk-min-size=x", "--root=/etc", "disk-min-size"];
        let run = act(StepType::Inventory, &wishes).unwrap();
        assert_eq!(run.args, ["inventory", "--output-max-size=100000"]);
        assert_eq!(refused(StepType::Inventory, &[]), "inventory cmd accepts 1 params in args, given args []");
        let text = refused(StepType::Inventory, &["no-uuid"]);
        assert_eq!(text, "validation failure list:\nhost_id in body must be of type uuid: \"no-uuid\"");
    }

    #[test]
    fn the_installer_understands_what_it_is_given() {
        let run = act(StepType::Install, &[&a_request(|_| ())]).unwrap();
        let document: installer::document::Document = serde_json::from_slice(&run.stdin).unwrap();
        assert!(document.reboot && document.stage_file.is_none());
        assert_eq!(document.request.boot_device, "/dev/null");
        assert_eq!(document.service.token.expose(), "t0ken");
        assert_eq!(document.service.ca_cert.as_deref(), Some(Path::new("/ca.pem")));
        assert_eq!((run.deadline, run.dies_with_agent), (Some(INSTALL_DEADLINE), false));
        assert!(!run.args.iter().any(|arg| arg.contains("t0ken")));
        assert!(!format!("{run:?}").contains("t0ken"));
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

    #[test]
    fn reclaiming_gets_its_request_and_reboots_only_where_the_agent_may() {
        let urls = r#""kernel_url":"http://s/k","initrd_url":"http://s/i","rootfs_url":"http://s/r""#;
        let request = format!(r#"{{{urls},"host_fs_mount_dir":"/host","new":1}}"#);
        let run = act(StepType::DownloadBootArtifacts, &[&request]).unwrap();
        assert_eq!(run.args, ["reclaim", "download", "--request", "-"]);
        assert_eq!(run.named, Named { target: Some("/host".into()), ca_cert: Some("/ca.pem".into()) });
        let document: installer::reclaim::Document<BootArtifactsRequest> = serde_json::from_slice(&run.stdin).unwrap();
        assert_eq!(document.request.initrd_url, "http://s/i");
        assert_eq!(document.http().ca_cert.as_deref(), Some(Path::new("/ca.pem")));
        let run = act(StepType::RebootForReclaim, &[r#"{"host_fs_mount_dir":"/host"}"#]).unwrap();
        assert_eq!(run.args, ["reclaim", "reboot", "--request", "-"]);
        let document: installer::reclaim::Document<RebootForReclaimRequest> =
            serde_json::from_slice(&run.stdin).unwrap();
        assert!(document.reboot);
        let text = refused(StepType::DownloadBootArtifacts, &[&format!("{{{urls}}}")]);
        assert_eq!(text, "validation failure list:\nhost_fs_mount_dir in body is required");
        let text = refused(StepType::RebootForReclaim, &[]);
        assert_eq!(text, "reboot-for-reclaim cmd accepts 1 params in args, given args []");
    }

    #[test]
    fn types_without_an_action_get_the_text_the_service_looks_for() {
        for name in StepType::NAMES.into_iter().chain(["step-not-exists"]) {
            let kind: StepType = serde_json::from_value(name.into()).unwrap();
            let known = matches!(
                kind,
                StepType::Inventory
                    | StepType::Install
                    | StepType::InstallationDiskSpeedCheck
                    | StepType::StopInstallation
                    | StepType::DownloadBootArtifacts
                    | StepType::RebootForReclaim
                    | StepType::LogsGather
                    | StepType::UpgradeAgent
            ) || network::action(
                &Step { args: Vec::new(), step_id: String::new(), step_type: kind.clone() },
                &Pace::default(),
            )
            .is_some();
            if !known {
                assert_eq!(refused(kind, &[]), format!("failed to find action for step type {name}"));
            }
        }
    }
}
