//! From the service's request to a list of actions, without touching anything.

use crate::args::{self, ArgsError};
use api::{ClusterId, HostId, HostRole, HostStage, InfraEnvId, InstallRequest};
use diskwrite::Source;
use serde::{Serialize, Serializer};
use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

/// Masters that must be done before a worker reboots into the cluster (installer contract A.7).
const READY_MASTERS: usize = 2;
/// Attempts of writing the image when the cause may pass.
const WRITE_ATTEMPTS: u32 = 3;

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Image {
    /// http or https. Shown and serialized without user, password and query, which may be secret.
    Url(#[serde(serialize_with = "public_url")] String),
    /// A file of the running system.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl From<Image> for Source {
    fn from(image: Image) -> Self {
        match image {
            Image::Url(url) => Self::Url(url),
            Image::File(path) => Self::File(path),
            Image::Stdin => Self::Stdin,
        }
    }
}

fn public_url<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Source::Url(url.to_owned()))
}

/// Writing one disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageWrite {
    /// The disk, as named by who asked; resolved just before writing.
    pub device: PathBuf,
    /// Source.
    pub image: Image,
    /// Kernel arguments to add.
    pub append_kargs: Vec<String>,
    /// Kernel arguments to remove.
    pub delete_kargs: Vec<String>,
    /// Network profiles to copy.
    pub network_dir: Option<PathBuf>,
    /// Partitions to keep, by GPT name.
    pub save_partlabels: Vec<String>,
    /// Partitions to keep, by number.
    pub save_partindexes: Vec<String>,
    /// Leave a half-written disk as it is.
    pub preserve_on_error: bool,
    /// Attempts in all when the cause may pass.
    pub attempts: u32,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "action")]
pub enum Action {
    /// Zero the first 512 bytes of a disk, so that firmware does not boot it. Failures are only logged.
    ClearBootSector {
        /// The disk.
        device: PathBuf,
    },
    /// Tell the service.
    Report {
        /// Stage reached.
        stage: HostStage,
        /// Its detail.
        info: String,
    },
    /// Get the host's Ignition config.
    FetchIgnition {
        /// Its infra-env.
        infra_env_id: InfraEnvId,
        /// The host.
        host_id: HostId,
    },
    /// Write the disk.
    WriteImage(ImageWrite),
    /// Wait until so many masters are done.
    WaitForMasters {
        /// Of this cluster.
        cluster_id: ClusterId,
        /// How many.
        ready: usize,
    },
    /// Reboot.
    Reboot {
        /// Pause before it, so that the reply of this step gets out.
        delay_seconds: u64,
        /// Whether it may be done; otherwise it is only announced.
        allowed: bool,
    },
}

/// The actions, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What to do.
    pub actions: Vec<Action>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A disk that is not below `/dev`.
    #[error("{field} '{device}' must start with /dev/")]
    Device {
        /// Field of the request.
        field: &'static str,
        /// As given.
        device: String,
    },
    /// Arguments.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// No image.
    #[error(
        "no image to install: add [\"--image-url\",\"http://…\"] or [\"--image-file\",\"/path\"] to the host's \
         installer_args (this version doesn't carry an image of its own)"
    )]
    NoImage,
    /// A role that needs the bootstrap payload.
    #[error(
        "role {role} with {control_plane_count} control plane hosts needs a bootstrap control plane, which this version does not run; install with role master, arbiter or worker"
    )]
    Bootstrap {
        /// As requested.
        role: HostRole,
        /// As requested; 0 when not said.
        control_plane_count: u32,
    },
    /// A role that is none.
    #[error("role {0} can't be installed: the service must decide for master, arbiter or worker first")]
    Role(HostRole),
    /// Into the running root.
    #[error(
        "installing {image} into the running system is not supported by this version; boot the live image and install to a disk"
    )]
    RunningRoot {
        /// The container image.
        image: String,
    },
}

/// Plans `request`. `reboot` says whether the machine may be rebooted.
pub fn plan(request: &InstallRequest, reboot: bool, reboot_delay: Duration) -> Result<Plan, PlanError> {
    check_device("boot_device", &request.boot_device)?;
    for disk in &request.disks_to_format {
        check_device("disks_to_format", disk)?;
    }
    let role = request.role;
    if let Some(image) = request.coreos_image.clone().filter(|image| !image.is_empty()) {
        return Err(PlanError::RunningRoot { image });
    }
    match role {
        HostRole::AutoAssign => return Err(PlanError::Role(role)),
        // A worker of a single-node cluster exists: the count says nothing about it.
        HostRole::Worker => {}
        HostRole::Master | HostRole::Arbiter if request.control_plane_count != 1 => {}
        _ => return Err(PlanError::Bootstrap { role, control_plane_count: request.control_plane_count }),
    }
    let args = args::parse(request.installer_args.as_deref())?;
    let image = args.image.ok_or(PlanError::NoImage)?;

    let report = |stage, info: &str| Action::Report { stage, info: info.to_owned() };
    let mut actions: Vec<_> =
        request.disks_to_format.iter().map(|disk| Action::ClearBootSector { device: disk.into() }).collect();
    actions.push(report(HostStage::StartingInstallation, role.as_str()));
    actions.push(report(HostStage::Installing, role.as_str()));
    actions.push(Action::FetchIgnition { infra_env_id: request.infra_env_id, host_id: request.host_id });
    actions.push(report(HostStage::WritingImageToDisk, ""));
    actions.push(Action::WriteImage(ImageWrite {
        device: request.boot_device.clone().into(),
        image,
        append_kargs: args.append_kargs,
        delete_kargs: args.delete_kargs,
        network_dir: args.network_dir,
        save_partlabels: args.save_partlabels,
        save_partindexes: args.save_partindexes,
        preserve_on_error: false,
        attempts: WRITE_ATTEMPTS,
    }));
    if role == HostRole::Worker {
        actions.push(report(HostStage::WaitingForControlPlane, ""));
        actions.push(Action::WaitForMasters { cluster_id: request.cluster_id, ready: READY_MASTERS });
    }
    actions.push(report(HostStage::Rebooting, ""));
    actions.push(Action::Reboot { delay_seconds: reboot_delay.as_secs(), allowed: reboot });
    Ok(Plan { actions })
}

fn check_device(field: &'static str, device: &str) -> Result<(), PlanError> {
    // `..` would walk out of /dev again; no service sends it.
    let below_dev = device.starts_with("/dev/") && !Path::new(device).components().any(|part| part.as_os_str() == "..");
    if below_dev { Ok(()) } else { Err(PlanError::Device { field, device: device.to_owned() }) }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Source::from(self.clone()).fmt(f)
    }
}

impl fmt::Display for ImageWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DESTROY the contents of {}", self.device.display())?;
        let labels = self.save_partlabels.iter().map(|label| format!("named '{label}'"));
        let kept: Vec<_> = labels.chain(self.save_partindexes.iter().map(|index| format!("number {index}"))).collect();
        if !kept.is_empty() {
            write!(f, " except partitions {}", kept.join(" or "))?;
        }
        write!(f, ": write {}", self.image)?;
        for karg in &self.append_kargs {
            write!(f, ", add '{karg}'")?;
        }
        for karg in &self.delete_kargs {
            write!(f, ", remove '{karg}'")?;
        }
        match &self.network_dir {
            Some(dir) => write!(f, ", copy {}", dir.display()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClearBootSector { device } => write!(f, "zero the first sector of {}", device.display()),
            Self::Report { stage, info } if info.is_empty() => write!(f, "report '{stage}'"),
            Self::Report { stage, info } => write!(f, "report '{stage}', {info}"),
            Self::FetchIgnition { host_id, .. } => write!(f, "get the Ignition config of host {host_id}"),
            Self::WriteImage(write) => write.fmt(f),
            Self::WaitForMasters { ready, .. } => write!(f, "wait until {ready} masters are done"),
            Self::Reboot { delay_seconds, allowed: true } => write!(f, "reboot after {delay_seconds} s"),
            Self::Reboot { .. } => f.write_str("leave the machine running (rebooting was not asked for)"),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, action) in self.actions.iter().enumerate() {
            writeln!(f, "{}. {action}", index + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A request as a service sends it.
    pub(crate) const REQUEST: &str = r#"{"boot_device":"/dev/disk/by-id/wwn-0x5000","check_cvo":false,
        "cluster_id":"11111111-2222-3333-4444-555555555555","control_plane_count":3,"controller_image":"r.io/c:1",
        "disks_to_format":["/dev/vdz"],"host_id":"aaaaaaaa-0000-0000-0000-000000000001",
        "infra_env_id":"bbbbbbbb-0000-0000-0000-000000000001",
        "installer_args":"[\"--append-karg\",\"ip=52-54-00-00-00-01:dhcp\",\"--image-url\",\"http://10.0.0.1/i.raw.gz\"]",
        "installer_image":"r.io/i:1","role":"master","service_ips":null}"#;

    pub(crate) fn request() -> InstallRequest {
        serde_json::from_str(REQUEST).unwrap()
    }

    fn planned(request: &InstallRequest) -> Result<Plan, PlanError> {
        plan(request, false, Duration::from_secs(10))
    }

    #[test]
    fn a_master_is_planned_in_the_order_of_the_contract() {
        let text = planned(&request()).unwrap().to_string();
        let expected = "\
1. zero the first sector of /dev/vdz
2. report 'Starting installation', master
3. report 'Installing', master
4. get the Ignition config of host aaaaaaaa-0000-0000-0000-000000000001
5. report 'Writing image to disk'
6. DESTROY the contents of /dev/disk/by-id/wwn-0x5000: write http://10.0.0.1/i.raw.gz, add 'ip=52-54-00-00-00-01:dhcp'
7. report 'Rebooting'
8. leave the machine running (rebooting was not asked for)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_plan_is_json_that_names_each_action() {
        let value = serde_json::to_value(plan(&request(), true, Duration::from_secs(3)).unwrap()).unwrap();
        let names: Vec<_> =
            value["actions"].as_array().unwrap().iter().map(|a| a["action"].as_str().unwrap()).collect();
        let expected =
            ["clear-boot-sector", "report", "report", "fetch-ignition", "report", "write-image", "report", "reboot"];
        assert_eq!(names, expected);
        assert_eq!(value["actions"][1]["stage"], "Starting installation");
        assert_eq!(value["actions"][5]["image"]["url"], "http://10.0.0.1/i.raw.gz");
        assert_eq!(value["actions"][7], serde_json::json!({"action": "reboot", "delay_seconds": 3, "allowed": true}));
    }

    #[test]
    fn a_shown_plan_says_which_partitions_are_kept() {
        let args = r#"["--save-partlabel","data*,var","--save-partindex","5-","--image-file","/i"]"#;
        let plan = planned(&InstallRequest { installer_args: Some(args.into()), ..request() }).unwrap().to_string();
        let expected = "6. DESTROY the contents of /dev/disk/by-id/wwn-0x5000 except partitions named 'data*' or named 'var' \
                        or number 5-: write /i\n";
        assert!(plan.contains(expected), "{plan}");
    }

    #[test]
    fn a_shown_plan_holds_no_password_of_an_url() {
        let args = r#"["--image-url","https://user:pa55@h/i.raw"]"#;
        let plan = planned(&InstallRequest { installer_args: Some(args.into()), ..request() }).unwrap();
        assert!(
            plan.actions.iter().any(
                |a| matches!(a, Action::WriteImage(w) if w.image == Image::Url("https://user:pa55@h/i.raw".into()))
            )
        );
        assert!(!plan.to_string().contains("pa55"));
        assert!(!serde_json::to_string(&plan).unwrap().contains("pa55"));
    }

    #[test]
    fn a_worker_waits_between_writing_and_rebooting() {
        let worker = InstallRequest { role: HostRole::Worker, control_plane_count: 1, ..request() };
        let actions = planned(&worker).unwrap().actions;
        let wait = actions.iter().position(|a| matches!(a, Action::WaitForMasters { ready: 2, .. })).unwrap();
        assert_eq!(actions[wait - 1], Action::Report { stage: HostStage::WaitingForControlPlane, info: String::new() });
        assert!(matches!(actions[wait - 2], Action::WriteImage(_)));
        assert_eq!(actions[wait + 1], Action::Report { stage: HostStage::Rebooting, info: String::new() });
    }

    #[test]
    fn reports_follow_the_stages_the_service_expects_of_the_role() {
        for role in [HostRole::Master, HostRole::Arbiter, HostRole::Worker] {
            let stages = api::StageList::of(role, false, false).stages();
            let plan = planned(&InstallRequest { role, ..request() }).unwrap();
            let reported = plan.actions.iter().filter_map(|action| match action {
                Action::Report { stage, .. } => {
                    Some(stages.iter().position(|s| s == stage).expect("in the role's list"))
                }
                _ => None,
            });
            assert!(reported.is_sorted_by(|a, b| a < b), "{role}");
        }
    }

    #[test]
    fn what_this_version_cannot_do_is_refused_before_anything_happens() {
        let refused = |change: &dyn Fn(&mut InstallRequest)| {
            let mut request = request();
            change(&mut request);
            planned(&request).unwrap_err()
        };
        assert!(matches!(refused(&|r| r.role = HostRole::Bootstrap), PlanError::Bootstrap { .. }));
        assert!(matches!(refused(&|r| r.control_plane_count = 1), PlanError::Bootstrap { .. }));
        assert!(matches!(refused(&|r| r.role = HostRole::AutoAssign), PlanError::Role(_)));
        assert!(matches!(refused(&|r| r.coreos_image = Some("r.io/os:1".into())), PlanError::RunningRoot { .. }));
        assert!(matches!(refused(&|r| r.installer_args = None), PlanError::NoImage));
        assert!(matches!(refused(&|r| r.installer_args = Some("[\"-x\"]".into())), PlanError::Args(_)));
        for device in ["vdb", "/sys/x", "/dev/../etc/passwd", "/devx"] {
            assert!(matches!(
                refused(&|r| r.boot_device = device.into()),
                PlanError::Device { field: "boot_device", .. }
            ));
            assert!(matches!(refused(&|r| r.disks_to_format = vec![device.into()]), PlanError::Device { .. }));
        }
        let text = refused(&|r| r.installer_args = None).to_string();
        assert!(text.contains("--image-url") && text.contains("installer_args"), "{text}");
    }
}
