//! The config of a live host: it starts the agent with the address of the service. [`build`] makes ours; [`assisted`]
//! makes the one that the service itself would.

pub mod assisted;
pub mod ramdisk;
mod units;

use crate::model::{Document, Version};
use crate::parts::{self, AgentBinary, CA_PATH};
use crate::redact::redact_url;
use crate::{BuildError, environment::Environment};
use api::{InfraEnvId, Proxy, Secret};
use std::fmt;

/// Where the agent's settings are. The agent.service of our own live ISO does nothing without this file.
pub const ENVIRONMENT_PATH: &str = "/etc/landfall/agent.env";

/// Settings of a live host.
#[derive(Clone, Default)]
pub struct Discovery {
    /// Base URL of the service.
    pub service_url: String,
    /// Environment the host is discovered in.
    pub infra_env_id: InfraEnvId,
    /// Reported by the agent as its version.
    pub agent_version: String,
    /// Whether the service's certificate goes unchecked.
    pub insecure: bool,
    /// Certificates the service's own is checked against, PEM.
    pub ca_pem: Option<String>,
    /// Sent with every request, if set.
    pub token: Option<Secret>,
    /// Proxies of the environment.
    pub proxy: Proxy,
    /// Public keys of user `core`, one a line.
    pub ssh_authorized_key: String,
    /// For a base ISO that doesn't carry landfall: where Ignition gets it. None for our own.
    pub deliver_agent: Option<AgentBinary>,
    /// The infra-env's override, JSON text; empty for none.
    pub ignition_override: String,
}

impl fmt::Debug for Discovery {
    /// Keys, proxies and overrides may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discovery")
            .field("service_url", &redact_url(&self.service_url))
            .field("infra_env_id", &self.infra_env_id)
            .field("agent_version", &self.agent_version)
            .finish_non_exhaustive()
    }
}

/// The config of a live host, spec 3.1.0 unless the override says otherwise.
pub fn build(discovery: &Discovery) -> Result<Document<'_>, BuildError> {
    build_for_site(discovery, None)
}

/// The same with what its site needs: networks of hosts, which our own program applies; certificates to trust; registries that
/// replace others; time sources. The rest of `site` is ignored.
pub fn build_for_site<'a>(
    discovery: &'a Discovery,
    site: Option<&'a assisted::Assisted>,
) -> Result<Document<'a>, BuildError> {
    let mut config = parts::empty(Version::V3_1);
    parts::check_url("what the agent reports to", &discovery.service_url)?;
    config.ignition.proxy = parts::proxy_settings(&discovery.proxy);
    config.passwd.users.extend(parts::core_user(&discovery.ssh_authorized_key));

    let environment = environment(discovery)?;
    config.storage.files.push(parts::bytes_file(ENVIRONMENT_PATH, 0o600, environment.as_bytes()));
    if let Some(ca_pem) = &discovery.ca_pem {
        config.storage.files.push(parts::bytes_file(CA_PATH, 0o644, ca_pem.as_bytes()));
    }
    if let Some(binary) = &discovery.deliver_agent {
        config.storage.files.push(binary.file()?);
        config.systemd.units.push(parts::unit("agent.service", AGENT_UNIT));
        config.systemd.units.push(parts::unit("landfall-status.service", STATUS_UNIT));
        if let Some(ca_pem) = &discovery.ca_pem {
            parts::trust(&mut config, ca_pem);
        }
    }
    if let Some(site) = site {
        let program = if discovery.deliver_agent.is_some() { parts::BINARY_PATH } else { "/usr/bin/landfall" };
        add_site(&mut config, site, program)?;
    }
    parts::finish(config, &discovery.ignition_override)
}

fn add_site<'a>(config: &mut Document<'a>, site: &'a assisted::Assisted, program: &str) -> Result<(), BuildError> {
    let (files, units) = (&mut config.storage.files, &mut config.systemd.units);
    if let Some(bundle) = &site.trust_bundle_pem {
        files.push(parts::bytes_file(assisted::TRUST_BUNDLE_PATH, 0o644, bundle.as_bytes()));
    }
    for (path, content) in site.mirror.iter().flat_map(assisted::Mirror::files) {
        files.push(parts::bytes_file(path, 0o644, content.as_bytes()));
    }
    if let Some(network) = &site.static_network {
        files.extend(network.files.iter().map(crate::network::NetworkFile::ignition_file));
        let unit = units::native_network(program, network.discovery_delay_s);
        units.push(parts::unit("pre-network-manager-config.service", unit));
    }
    if let Some(ntp) = site.ntp.as_ref().filter(|ntp| !ntp.sources.is_empty()) {
        let script = assisted::ntp_script(ntp)?;
        files.push(parts::bytes_file("/usr/local/bin/add-ntp-sources.sh", 0o755, script.as_bytes()));
        units.push(parts::unit("add-ntp-sources.service", units::NTP));
    }
    Ok(())
}

fn environment(discovery: &Discovery) -> Result<String, BuildError> {
    let mut environment = Environment::default();
    environment
        .set("LANDFALL_URL", &discovery.service_url)?
        .set("LANDFALL_INFRA_ENV_ID", &discovery.infra_env_id.to_string())?
        .set("LANDFALL_AGENT_VERSION", &discovery.agent_version)?
        .set_some("LANDFALL_INSECURE", discovery.insecure.then_some("true"))?
        .set_some("LANDFALL_CACERT", discovery.ca_pem.as_ref().map(|_| CA_PATH))?
        .set_some("PULL_SECRET_TOKEN", discovery.token.as_ref().map(Secret::expose))?;
    for (name, value) in proxy_variables(&discovery.proxy) {
        environment.set_some(name, Some(value))?;
    }
    Ok(environment.into_text())
}

/// The proxy variables of programs, empty without proxies. Programs disagree about the case, so both are set.
fn proxy_variables(proxy: &Proxy) -> Vec<(&'static str, &str)> {
    let values = [&proxy.http_proxy, &proxy.https_proxy, &proxy.no_proxy];
    let names = [["HTTP_PROXY", "http_proxy"], ["HTTPS_PROXY", "https_proxy"], ["NO_PROXY", "no_proxy"]];
    let each = names.into_iter().zip(values);
    each.flat_map(|(names, value)| names.map(|name| (name, value.as_deref().unwrap_or_default()))).collect()
}

/// For a base ISO without landfall; our own has the like with `/usr/bin/landfall` under rootfs-overlay/overlay.
const AGENT_UNIT: &str = "\
[Unit]
Description=Landfall agent: report this machine to the service and run its instructions
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
EnvironmentFile=/etc/landfall/agent.env
ExecStart=/usr/local/bin/landfall agent
Restart=always
RestartSec=3
WatchdogSec=6min
KillMode=process
RuntimeDirectory=landfall
RuntimeDirectoryPreserve=yes
LimitCORE=0

[Install]
WantedBy=multi-user.target
";
const STATUS_UNIT: &str = "\
[Unit]
Description=Landfall status: show on the console what this host does
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
EnvironmentFile=-/etc/landfall/agent.env
UnsetEnvironment=PULL_SECRET_TOKEN HTTP_PROXY HTTPS_PROXY http_proxy https_proxy
ExecStart=/usr/local/bin/landfall agent status --console
Restart=always
RestartSec=3
CapabilityBoundingSet=
NoNewPrivileges=yes

[Install]
WantedBy=multi-user.target
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_url;

    fn sample() -> Discovery {
        Discovery {
            service_url: "http://10.0.2.2:8090".into(),
            infra_env_id: "5f8c6ef1-4b5a-4c3c-9a3e-0a6b5d3c2b1a".parse().unwrap(),
            agent_version: "landfall-0.1.0".into(),
            ..Discovery::default()
        }
    }

    fn content(config: &Document<'_>, path: &str) -> String {
        let file = config.storage.files.iter().find(|file| file.path == path).unwrap();
        String::from_utf8(data_url::decode(file.contents.source.as_deref().unwrap()).unwrap().data.into_owned())
            .unwrap()
    }

    #[test]
    fn our_own_iso_gets_its_settings_and_nothing_else() {
        let sample = sample();
        let config = build(&sample).unwrap();
        assert_eq!(
            content(&config, ENVIRONMENT_PATH),
            "LANDFALL_URL=http://10.0.2.2:8090\n\
             LANDFALL_INFRA_ENV_ID=5f8c6ef1-4b5a-4c3c-9a3e-0a6b5d3c2b1a\n\
             LANDFALL_AGENT_VERSION=landfall-0.1.0\n"
        );
        assert_eq!(config.storage.files.len(), 1);
        assert_eq!(config.storage.files[0].mode, Some(0o600));
        assert_eq!(config.ignition.version, "3.1.0");
        assert!(config.systemd.units.is_empty() && config.passwd.users.is_empty());
    }

    #[test]
    fn settings_are_in_the_config_and_secrets_stay_out_of_debug() {
        let discovery = Discovery {
            insecure: true,
            ca_pem: Some("-----BEGIN CERTIFICATE-----\n".into()),
            token: Some(Secret::new("hunter2")),
            proxy: Proxy {
                http_proxy: Some("http://p:3128".into()),
                no_proxy: Some("a, b,a".into()),
                https_proxy: None,
            },
            ssh_authorized_key: "ssh-ed25519 AAAA me".into(),
            ..sample()
        };
        let config = build(&discovery).unwrap();
        let environment = content(&config, ENVIRONMENT_PATH);
        for line in [
            "LANDFALL_INSECURE=true\n",
            "LANDFALL_CACERT=/etc/landfall/ca.pem\n",
            "PULL_SECRET_TOKEN=hunter2\n",
            "http_proxy=http://p:3128\n",
            "NO_PROXY=\"a, b,a\"\n",
        ] {
            assert!(environment.contains(line), "{line} in {environment}");
        }
        assert!(!environment.contains("HTTPS_PROXY"));
        assert_eq!(config.ignition.proxy.no_proxy, ["a", "b"]);
        assert_eq!(content(&config, CA_PATH), "-----BEGIN CERTIFICATE-----\n");
        assert!(config.ignition.security.tls.certificate_authorities.is_empty());
        assert!(!format!("{config:?}{discovery:?}").contains("hunter2"));
        assert!(!format!("{config:?}").contains("base64"));
    }

    #[test]
    fn a_foreign_iso_gets_binary_and_unit() {
        let binary = AgentBinary { url: "https://s/landfall".into(), sha512_hex: "ab".repeat(64) };
        let discovery = Discovery { deliver_agent: Some(binary), ca_pem: Some("PEM".into()), ..sample() };
        let config = build(&discovery).unwrap();
        assert!(
            config.storage.files.iter().any(|file| file.path == "/usr/local/bin/landfall" && file.mode == Some(0o755))
        );
        let units: Vec<_> = config.systemd.units.iter().map(|unit| (&*unit.name, unit.enabled)).collect();
        assert_eq!(units, [("agent.service", Some(true)), ("landfall-status.service", Some(true))]);
        assert_eq!(config.ignition.security.tls.certificate_authorities.len(), 1);
    }

    #[test]
    fn a_site_gets_its_networks_certificates_and_time() {
        let file = crate::network::NetworkFile {
            path: "/etc/assisted/network/host0/eth0.nmconnection".into(),
            mode: 0o600,
            bytes: b"[connection]".to_vec(),
        };
        let site = assisted::Assisted {
            trust_bundle_pem: Some("PEM".into()),
            ntp: Some(assisted::Ntp { sources: vec!["ntp.example.com".into()], only: false }),
            mirror: Some(assisted::Mirror {
                registries_conf: "[[registry]]".into(),
                ca_pem: Some("MIRROR".into()),
                policy_json: Some(assisted::INSECURE_POLICY.into()),
            }),
            static_network: Some(assisted::StaticNetwork {
                flow: crate::network::Flow::Keyfiles,
                files: vec![file],
                discovery_delay_s: 7,
            }),
            ..assisted::Assisted::default()
        };
        let sample = sample();
        let config = build_for_site(&sample, Some(&site)).unwrap();
        assert_eq!(content(&config, assisted::TRUST_BUNDLE_PATH), "PEM");
        assert_eq!(content(&config, "/etc/assisted/network/host0/eth0.nmconnection"), "[connection]");
        assert!(content(&config, "/usr/local/bin/add-ntp-sources.sh").contains("ntp.example.com"));
        assert_eq!(content(&config, "/etc/containers/registries.conf"), "[[registry]]");
        assert_eq!(content(&config, "/etc/pki/ca-trust/source/anchors/domain.crt"), "MIRROR");
        let policy: serde_json::Value = serde_json::from_str(&content(&config, "/etc/containers/policy.json")).unwrap();
        let accept = serde_json::json!([{"type": "insecureAcceptAnything"}]);
        assert_eq!(policy, serde_json::json!({"default": accept, "transports": {"docker-daemon": {"": accept}}}));
        let names: Vec<_> = config.systemd.units.iter().map(|unit| &*unit.name).collect();
        assert_eq!(names, ["pre-network-manager-config.service", "add-ntp-sources.service"]);
        let unit = config.systemd.units[0].contents.as_deref().unwrap();
        assert!(unit.contains("ExecStart=/usr/bin/landfall ignition network apply\n"), "{unit}");
        assert!(unit.contains("ExecStartPre=/bin/sleep 7\n"), "{unit}");
        let bad = assisted::Ntp { sources: vec!["a b".into()], only: false };
        let bad = assisted::Assisted { ntp: Some(bad), ..assisted::Assisted::default() };
        assert!(matches!(build_for_site(&sample, Some(&bad)), Err(BuildError::NtpSource { .. })));
    }

    #[test]
    fn the_override_is_merged_over_it() {
        let over = r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/x","contents":{"source":"data:,x"}}],"luks":[]}}"#;
        let discovery = Discovery { ignition_override: over.into(), ..sample() };
        let config = build(&discovery).unwrap();
        assert_eq!(config.ignition.version, "3.2.0");
        assert_eq!(config.storage.files.iter().map(|f| &*f.path).collect::<Vec<_>>(), [ENVIRONMENT_PATH, "/etc/x"]);
        let bad = Discovery { ignition_override: "{".into(), ..sample() };
        assert!(matches!(build(&bad), Err(BuildError::Override(_))));
    }
}
