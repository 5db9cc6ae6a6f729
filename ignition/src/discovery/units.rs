//! Units of a live host in the service's shape.

use super::{Discovery, proxy_variables};
use crate::BuildError;
use crate::network::Flow;

/// The policy that lets chronyc in the agent's container talk to chronyd.
pub(super) const SELINUX: &str = "\
[Unit]
Description=Let the agent ask chronyd for the time

[Service]
Type=oneshot
ExecStartPre=checkmodule -M -m -o /root/assisted.mod /root/assisted.te
ExecStartPre=semodule_package -o /root/assisted.pp -m /root/assisted.mod
ExecStart=semodule -i /root/assisted.pp

[Install]
WantedBy=multi-user.target
";

/// Disks that the firmware booted from over iSCSI; most machines have none, which is not a failure.
pub(super) const ISCSI_START: &str = "\
[Unit]
Description=Connect the iSCSI disks that the firmware knows

[Service]
Type=oneshot
ExecStartPre=-/usr/sbin/modprobe iscsi_ibft
ExecStartPre=-/usr/sbin/iscsistart -f
ExecStart=-/usr/sbin/iscsistart -b

[Install]
WantedBy=multi-user.target
";

pub(super) const OCI_USER_DATA: &str = "\
[Unit]
Description=Run the user data of an instance of Oracle's cloud
After=NetworkManager.service

[Service]
Type=oneshot
RemainAfterExit=yes
Environment=ASSISTED_INSTALLER_DISCOVERY_ENV=1
ExecStart=/usr/local/bin/oci-eval-user-data.sh
Restart=on-failure
RestartSec=30

[Install]
WantedBy=multi-user.target
";

/// The script is where the image's file system is writable.
pub(super) const NTP: &str = "\
[Unit]
Description=Give chrony the time sources of this environment
Before=chronyd.service
DefaultDependencies=no

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'for dir in /usr/local/bin /var/usrlocal/bin; do [ ! -x $$dir/add-ntp-sources.sh ] || exec $$dir/add-ntp-sources.sh; done'

[Install]
WantedBy=multi-user.target
";

/// What applies static network settings.
pub(super) fn network(flow: Flow, delay_s: u32) -> String {
    let order = match flow {
        Flow::Keyfiles => "Before=NetworkManager.service",
        Flow::Policy => "After=NetworkManager-wait-online.service\nBefore=nmstate.service",
    };
    let delay = if delay_s > 0 { format!("Environment=DISCOVERY_DELAY_SECONDS={delay_s}\n") } else { String::new() };
    format!(
        "\
[Unit]
Description=Give this host its static network settings
{order}
DefaultDependencies=no

[Service]
User=root
Type=oneshot
TimeoutSec={}
{delay}ExecStart=/bin/bash /usr/local/bin/pre-network-manager-config.sh
PrivateTmp=true
RemainAfterExit=no

[Install]
WantedBy=multi-user.target
",
        60_u32.saturating_add(delay_s)
    )
}

/// The same with our own program at `program`, which does what the script would.
pub(super) fn native_network(program: &str, delay_s: u32) -> String {
    let delay = if delay_s > 0 { format!("ExecStartPre=/bin/sleep {delay_s}\n") } else { String::new() };
    format!(
        "\
[Unit]
Description=Give this host its static network settings
Before=NetworkManager.service
DefaultDependencies=no

[Service]
Type=oneshot
TimeoutSec={}
{delay}ExecStart={program} ignition network apply

[Install]
WantedBy=multi-user.target
",
        60_u32.saturating_add(delay_s)
    )
}

/// The same in an initramfs, before anything there uses the network.
pub(super) fn initrd_network(delay_s: u32) -> String {
    let delay = if delay_s > 0 { format!("Environment=DISCOVERY_DELAY_SECONDS={delay_s}\n") } else { String::new() };
    format!(
        "\
[Unit]
Description=Give this host its static network settings
DefaultDependencies=no
After=systemd-udev-trigger.service
Before=nm-initrd.service NetworkManager.service coreos-livepxe-rootfs.service

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutSec={}
{delay}ExecStart=/bin/bash /usr/local/bin/pre-network-manager-config.sh
",
        60_u32.saturating_add(delay_s)
    )
}

/// agent.service: it gets the agent from its image and runs it.
pub(super) fn agent(discovery: &Discovery, timeout_start_s: u32, ca: Option<&str>) -> Result<String, BuildError> {
    let image = argument("the agent's image", &discovery.agent_version)?;
    let url = argument("the service's URL", &discovery.service_url)?;
    let mut environment = String::new();
    for (name, value) in proxy_variables(&discovery.proxy) {
        environment.push_str(&variable(name, value)?);
    }
    if let Some(token) = discovery.token.as_ref().filter(|token| !token.is_empty()) {
        environment.push_str(&variable("PULL_SECRET_TOKEN", token.expose())?);
    }
    let (id, insecure) = (discovery.infra_env_id, discovery.insecure);
    let ca = ca.map(|path| format!(" --cacert {path}")).unwrap_or_default();
    Ok(format!(
        "\
[Unit]
Description=Bring this machine to the installation service
Wants=network-online.target
After=network-online.target

[Service]
Type=simple
Restart=always
RestartSec=3
StartLimitInterval=0
{environment}TimeoutStartSec={timeout_start_s}
ExecStartPre=/usr/local/bin/agent-fix-bz1964591 {image}
ExecStartPre=/usr/local/bin/agent-pull-image {image}
ExecStartPre=podman run --pull=never --privileged --rm -v /usr/local/bin:/hostbin {image} cp /usr/bin/agent /hostbin
ExecStart=/usr/local/bin/agent --url {url} --infra-env-id {id} --agent-version {image} --insecure={insecure}{ca}

[Install]
WantedBy=multi-user.target
"
    ))
}

/// `value` as a word of a command line (systemd.service(5)).
fn argument(what: &'static str, value: &str) -> Result<String, BuildError> {
    let is_bad = |c: char| c.is_control() || c.is_whitespace() || "\"'\\;".contains(c);
    match value.char_indices().find(|(_, c)| is_bad(*c)) {
        Some((at, _)) => Err(BuildError::Argument { what, at }),
        None if value.is_empty() => Err(BuildError::Argument { what, at: 0 }),
        None => Ok(value.replace('%', "%%").replace('$', "$$")),
    }
}

/// `Environment=` with `value` as it is (systemd.exec(5)).
pub(super) fn variable(name: &'static str, value: &str) -> Result<String, BuildError> {
    if let Some((at, _)) = value.char_indices().find(|(_, c)| c.is_control()) {
        return Err(BuildError::ControlCharacter { name, at });
    }
    let value = value.replace('%', "%%");
    if value.chars().any(|c| c.is_whitespace() || matches!(c, '"' | '\'' | '\\')) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        return Ok(format!("Environment=\"{name}={value}\"\n"));
    }
    Ok(format!("Environment={name}={value}\n"))
}
