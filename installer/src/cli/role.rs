//! A role's flow by hand: the options of the program that services start for it (docs/compatibility.md#installer-command-line), as a
//! document.

use super::Install;
use anyhow::bail;
use api::{
    ClusterId, HostId, HostRole, InfraEnvId, InstallDocument, InstallRequest, Proxy, REBOOT_DELAY_SECONDS, Secret,
    ServiceDocument,
};

const ROLE: &str = "A role's whole flow";
const CONTROLLER: &str = "The controller, with --role";
const PROXIES: &str = "Proxies, with --role";
/// As the real installer has it.
const CONTROLLER_IMAGE: &str = "quay.io/ocpmetal/assisted-installer-controller:latest";
const VERSION: &str = "4.4";

/// What a service would request. Their names are those of the real installer.
#[derive(Debug, clap::Args)]
pub(super) struct RoleArgs {
    /// Install this host as bootstrap, master, arbiter or worker of a cluster, as a service would request it
    ///
    /// With --dry-run each action is printed with its target, and no service is needed. The token is taken from
    /// PULL_SECRET_TOKEN; --cacert and --insecure are for the service's certificate.
    #[arg(long, value_name = "ROLE", value_parser = role, help_heading = ROLE, conflicts_with_all = ["request", "live", "stop", "dest_device", "disk", "config_file"])]
    pub role: Option<HostRole>,
    /// Base URL of the service
    #[arg(long, help_heading = ROLE, requires = "role")]
    url: Option<String>,
    /// The cluster
    #[arg(long, value_name = "UUID", help_heading = ROLE, requires = "role")]
    cluster_id: Option<ClusterId>,
    /// The infra-env [default: the cluster's id]
    #[arg(long, value_name = "UUID", help_heading = ROLE, requires = "role")]
    infra_env_id: Option<InfraEnvId>,
    /// This host
    #[arg(long, value_name = "UUID", help_heading = ROLE, requires = "role")]
    host_id: Option<HostId>,
    /// The disk to install to. Its contents are destroyed
    // A requirement is ignored where it conflicts with a given argument.
    #[arg(long, value_name = "DEVICE", help_heading = ROLE, requires = "role", conflicts_with_all = ["dest_device", "disk"])]
    boot_device: Option<String>,
    /// Control plane hosts of the cluster; 1 for a single node
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = ROLE, requires = "role")]
    control_plane_count: u32,
    /// Another disk whose boot sector is cleared; may be repeated
    #[arg(long, value_name = "DEVICE", help_heading = ROLE, requires = "role")]
    format_disk: Vec<String>,
    /// Arguments of coreos-installer: a JSON list of strings
    #[arg(long, value_name = "JSON", help_heading = ROLE, requires = "role")]
    installer_args: Option<String>,
    /// Leave volumes, arrays and signatures on the disk as they are
    #[arg(long, help_heading = ROLE, requires = "role")]
    skip_installation_disk_cleanup: bool,
    /// Put the cluster's own version of the system on the new disk, which saves a reboot
    #[arg(long, help_heading = ROLE, requires = "role")]
    enable_skip_mco_reboot: bool,
    /// Install this container image into the running system's root, instead of writing a disk
    #[arg(long, value_name = "IMAGE", help_heading = ROLE, requires = "role")]
    coreos_image: Option<String>,
    /// Version of the cluster
    #[arg(long, value_name = "VERSION", default_value = VERSION, help_heading = ROLE, requires = "role")]
    openshift_version: String,
    /// Image of the controller that finishes the installation in the cluster
    #[arg(long, value_name = "IMAGE", default_value = CONTROLLER_IMAGE, help_heading = CONTROLLER, requires = "role")]
    controller_image: String,
    /// Image with which the controller gathers the cluster's logs, or a JSON map of images
    #[arg(long, value_name = "IMAGE", help_heading = CONTROLLER, requires = "role")]
    must_gather_image: Option<String>,
    /// Image of the machine-config operator; accepted for compatibility, not used
    #[arg(long, value_name = "IMAGE", hide = true, requires = "role")]
    mco_image: Option<String>,
    /// Image of the agent; accepted for compatibility, not used
    #[arg(long, value_name = "IMAGE", hide = true, requires = "role")]
    agent_image: Option<String>,
    /// Let the controller wait for the cluster version operator
    #[arg(long, help_heading = CONTROLLER, requires = "role")]
    check_cluster_version: bool,
    /// Let the controller report how often hosts were rebooted
    #[arg(long, help_heading = CONTROLLER, requires = "role")]
    notify_num_reboots: bool,
    /// Addresses by which the controller reaches the service
    #[arg(long, value_name = "IP", value_delimiter = ',', help_heading = CONTROLLER, requires = "role")]
    service_ips: Vec<String>,
    /// Proxy for http, of the image and of the host's programs
    #[arg(long, value_name = "URL", help_heading = PROXIES, requires = "role")]
    http_proxy: Option<String>,
    /// Proxy for https
    #[arg(long, value_name = "URL", help_heading = PROXIES, requires = "role")]
    https_proxy: Option<String>,
    /// Hosts and networks to reach without a proxy
    #[arg(long, value_name = "LIST", help_heading = PROXIES, requires = "role")]
    no_proxy: Option<String>,
    /// Reboot into the installed system at the end
    #[arg(long, help_heading = ROLE, requires = "role")]
    reboot: bool,
}

fn role(text: &str) -> Result<HostRole, String> {
    let roles = [HostRole::Bootstrap, HostRole::Master, HostRole::Arbiter, HostRole::Worker];
    let found = roles.into_iter().find(|role| role.as_str() == text);
    found.ok_or_else(|| format!("expected one of {}", roles.map(|role| role.as_str()).join(", ")))
}

impl Install {
    /// What a service would have asked for.
    pub(super) fn role_document(&self, role: HostRole) -> anyhow::Result<InstallDocument> {
        let args = &self.role;
        let Some(boot_device) = args.boot_device.clone() else { bail!("--role needs --boot-device") };
        if !self.dry_run && (args.url.is_none() || args.cluster_id.is_none() || args.host_id.is_none()) {
            bail!("--role needs --url, --cluster-id and --host-id, except with --dry-run");
        }
        let token = std::env::var("PULL_SECRET_TOKEN").unwrap_or_default();
        if token.is_empty() && !self.dry_run {
            tracing::warn!("PULL_SECRET_TOKEN is not set: a service with authentication will refuse");
        }
        let cluster_id = args.cluster_id.unwrap_or_default();
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (http_proxy, https_proxy, no_proxy) =
            (text(&args.http_proxy), text(&args.https_proxy), text(&args.no_proxy));
        let any_proxy = http_proxy.is_some() || https_proxy.is_some() || no_proxy.is_some();
        let request = InstallRequest {
            boot_device,
            check_cvo: args.check_cluster_version,
            cluster_id,
            // A worker joins what exists, or what others make.
            control_plane_count: if role == HostRole::Worker { 0 } else { args.control_plane_count },
            controller_image: args.controller_image.clone(),
            coreos_image: text(&args.coreos_image),
            disks_to_format: args.format_disk.clone(),
            enable_skip_mco_reboot: args.enable_skip_mco_reboot,
            host_id: args.host_id.unwrap_or_default(),
            infra_env_id: args.infra_env_id.unwrap_or(InfraEnvId(cluster_id.0)),
            installer_args: text(&args.installer_args),
            installer_image: String::new(),
            mco_image: text(&args.mco_image),
            must_gather_image: text(&args.must_gather_image),
            notify_num_reboots: args.notify_num_reboots,
            openshift_version: Some(args.openshift_version.clone()),
            proxy: any_proxy.then_some(Proxy { http_proxy, https_proxy, no_proxy }),
            role,
            service_ips: (!args.service_ips.is_empty()).then(|| args.service_ips.clone()),
            skip_installation_disk_cleanup: args.skip_installation_disk_cleanup,
        };
        let service = ServiceDocument {
            url: args.url.clone().unwrap_or_default(),
            token: Secret::new(token),
            ca_cert: self.config.cacert.clone(),
            insecure: self.config.insecure,
            agent_version: args.agent_image.clone().unwrap_or_default(),
        };
        Ok(InstallDocument {
            request,
            service,
            reboot: args.reboot,
            reboot_delay_seconds: REBOOT_DELAY_SECONDS,
            stage_file: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_line;
    use super::*;
    use crate::plan::plan;

    fn document(words: &str) -> anyhow::Result<InstallDocument> {
        let words: Vec<_> = words.split(' ').collect();
        let install = parse_line(&words)?;
        install.role_document(install.role.role.unwrap())
    }

    #[test]
    fn a_role_is_planned_without_a_service() {
        let document = document("--role bootstrap --dry-run --boot-device /dev/sdz --control-plane-count 3").unwrap();
        let text = plan(&document.request, document.reboot, document.reboot_delay()).unwrap().to_string();
        for line in [
            "take down the devices on /dev/sdz and wipe its signatures",
            "DESTROY the contents of /dev/sdz: write the live system's image",
            "make the firmware start from /dev/sdz",
            "leave the machine running",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }

    #[test]
    fn what_the_real_agent_gives_is_understood() {
        let line = "--role worker --infra-env-id 2f5c9a4e-0000-0000-0000-000000000001 --cluster-id \
                    1f5c9a4e-0000-0000-0000-000000000001 --host-id 3f5c9a4e-0000-0000-0000-000000000001 --boot-device \
                    /dev/sdz --url https://s --openshift-version 4.22.9 --mco-image r.io/m:1 --controller-image r.io/c:1 \
                    --agent-image r.io/a:1 --must-gather-image r.io/g:1 --control-plane-count 1 --format-disk /dev/sdx \
                    --format-disk /dev/sdy --insecure --cacert /ca.pem --installer-args [\"-n\"] --http-proxy http://p \
                    --no-proxy a,b --service-ips 10.0.0.1,10.0.0.2 --check-cluster-version --notify-num-reboots --reboot";
        let InstallDocument { request, service, reboot, .. } = document(line).unwrap();
        assert_eq!((request.role, request.control_plane_count, reboot), (HostRole::Worker, 0, true));
        assert_eq!(request.disks_to_format, ["/dev/sdx", "/dev/sdy"]);
        assert_eq!(request.service_ips.unwrap(), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(request.proxy.unwrap().no_proxy.as_deref(), Some("a,b"));
        assert!(service.insecure && service.ca_cert.is_some() && request.check_cvo);
        assert_eq!(request.infra_env_id.to_string(), "2f5c9a4e-0000-0000-0000-000000000001");
    }

    #[test]
    fn what_is_missing_is_named() {
        let text = |words: &str| document(words).unwrap_err().to_string();
        assert!(text("--role master --dry-run").contains("--boot-device"));
        assert!(text("--role master --boot-device /dev/sdz").contains("--url"));
        assert!(parse_line(&["--role", "auto-assign", "--boot-device", "/dev/sdz"]).is_err());
        assert!(parse_line(&["--role", "master", "/dev/sdz"]).is_err(), "one disk, by one name");
        assert!(parse_line(&["--boot-device", "/dev/sdz", "/dev/sdy"]).is_err(), "without a role");
    }
}
