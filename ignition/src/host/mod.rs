//! The config of an installed host: its role's, its name, its users, where the rest of its config comes from, and a sign of life
//! (docs/compatibility.md#host-config).

mod role;

use crate::model::{Document, HttpHeader, Reference, Version};
use crate::parts::{self, AgentBinary, CA_PATH};
use crate::redact::redact_url;
use crate::{BuildError, environment::Environment};
use api::{HostId, InfraEnvId, Secret};
use std::{fmt, net::IpAddr};

/// Where the settings of the sign of life are.
pub const ENVIRONMENT_PATH: &str = "/etc/landfall/node.env";

/// Settings of an installed host.
#[derive(Clone, Default)]
pub struct HostConfig {
    /// The config of its role, into which everything else is merged: a control plane's or worker's, with all that is in it.
    pub role_config: Option<Vec<u8>>,
    /// Its name; untouched when empty.
    pub hostname: String,
    /// Public keys of user `core`, one a line.
    pub ssh_authorized_key: String,
    /// A config to be fetched and merged on first boot.
    pub pointer: Option<Pointer>,
    /// The address among the host's that the kubelet is to use.
    pub nodeip_hint: Option<IpAddr>,
    /// The pool of machines whose config it fetches in place of `worker`'s.
    pub pool: Option<String>,
    /// Whether it was installed from a system on its own disk, which must be removed.
    pub persistent_boot: bool,
    /// The sign of life after the first boot.
    pub beacon: Option<Beacon>,
    /// Certificates of the servers above, PEM: trusted by Ignition and by the sign of life.
    pub ca_pem: Option<String>,
    /// The host's override, JSON text; empty for none.
    pub ignition_override: String,
}

/// Where the rest of a host's config is.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pointer {
    /// URL of the config: http, https, tftp or data.
    pub source: String,
    /// Sent with the request: names and values.
    pub headers: Vec<(String, Secret)>,
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pointer({})", redact_url(&self.source))
    }
}

impl fmt::Debug for HostConfig {
    /// Keys, configs and overrides may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostConfig")
            .field("hostname", &self.hostname)
            .field("pointer", &self.pointer)
            .field("nodeip_hint", &self.nodeip_hint)
            .field("pool", &self.pool)
            .field("persistent_boot", &self.persistent_boot)
            .finish_non_exhaustive()
    }
}

/// How an installed host says that it has booted from its disk.
#[derive(Clone, Debug)]
pub struct Beacon {
    /// The program, fetched by Ignition.
    pub binary: AgentBinary,
    pub env: BeaconEnv,
}

/// Settings of the sign of life.
#[derive(Clone)]
pub struct BeaconEnv {
    /// Base URL of the service.
    pub service_url: String,
    /// Environment the host was discovered in.
    pub infra_env_id: InfraEnvId,
    pub host_id: HostId,
    /// Whether the service's certificate goes unchecked.
    pub insecure: bool,
    /// Sent with every request, if set.
    pub token: Option<Secret>,
}

impl fmt::Debug for BeaconEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BeaconEnv({}, host {})", redact_url(&self.service_url), self.host_id)
    }
}

/// The config of an installed host, of its role's version, or of its override's; 3.2.0 without either.
pub fn build(host: &HostConfig) -> Result<Document<'_>, BuildError> {
    let mut config = host_part(host)?;
    if let Some(role_config) = &host.role_config {
        config = role::merged(role_config, config)?;
    }
    let mut config = parts::finish(config, &host.ignition_override)?;
    if let Some(pool) = &host.pool {
        role::point_to_pool(&mut config, pool)?;
    }
    if host.persistent_boot {
        config = role::with_cleanup(config);
    }
    if host.pool.is_some() || host.persistent_boot {
        config = parts::finish(config, "")?;
    }
    Ok(config)
}

/// This host's own settings.
fn host_part(host: &HostConfig) -> Result<Document<'_>, BuildError> {
    let mut config = parts::empty(Version::V3_2);
    config.passwd.users.extend(parts::core_user(&host.ssh_authorized_key));
    if !host.hostname.is_empty() {
        config.storage.files.push(parts::text_file("/etc/hostname", 0o644, &host.hostname));
    }
    if let Some(address) = host.nodeip_hint {
        let text = format!("KUBELET_NODEIP_HINT={address}");
        config.storage.files.push(parts::text_file("/etc/default/nodeip-configuration", 0o644, &text));
    }
    if let Some(pointer) = &host.pointer {
        let headers = pointer
            .headers
            .iter()
            .map(|(name, value)| HttpHeader { name: name.into(), value: Some(value.expose().into()) });
        let http_headers = headers.collect();
        config.ignition.config.merge.push(Reference { http_headers, ..parts::reference(&*pointer.source) });
    }
    if let Some(beacon) = &host.beacon {
        let environment = environment(&beacon.env, host.ca_pem.is_some())?;
        config.storage.files.push(beacon.binary.file()?);
        config.storage.files.push(parts::bytes_file(ENVIRONMENT_PATH, 0o600, environment.as_bytes()));
        config.systemd.units.push(parts::unit("landfall-beacon.service", BEACON_UNIT));
    }
    if let Some(ca_pem) = &host.ca_pem {
        if host.beacon.is_some() {
            config.storage.files.push(parts::bytes_file(CA_PATH, 0o644, ca_pem.as_bytes()));
        }
        parts::trust(&mut config, ca_pem);
    }
    Ok(config)
}

fn environment(env: &BeaconEnv, with_ca: bool) -> Result<String, BuildError> {
    parts::check_url("what the host reports to", &env.service_url)?;
    let mut environment = Environment::default();
    environment
        .set("LANDFALL_URL", &env.service_url)?
        .set("LANDFALL_INFRA_ENV_ID", &env.infra_env_id.to_string())?
        .set("LANDFALL_HOST_ID", &env.host_id.to_string())?
        .set_some("LANDFALL_INSECURE", env.insecure.then_some("true"))?
        .set_some("LANDFALL_CACERT", with_ca.then_some(CA_PATH))?
        .set_some("PULL_SECRET_TOKEN", env.token.as_ref().map(Secret::expose))?;
    Ok(environment.into_text())
}

/// Retried forever, as no user is there to restart it; the time-out ends an attempt that hangs.
const BEACON_UNIT: &str = "\
[Unit]
Description=Landfall: tell the service that this host has booted from its disk
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
EnvironmentFile=/etc/landfall/node.env
ExecStart=/usr/local/bin/landfall agent beacon
Restart=on-failure
RestartSec=5
TimeoutStartSec=300

[Install]
WantedBy=multi-user.target
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_url;

    fn beacon() -> Beacon {
        Beacon {
            binary: AgentBinary { url: "http://10.0.2.2:8090/landfall".into(), sha512_hex: "cd".repeat(64) },
            env: BeaconEnv {
                service_url: "http://10.0.2.2:8090".into(),
                infra_env_id: InfraEnvId::default(),
                host_id: HostId::default(),
                insecure: false,
                token: Some(Secret::new("hunter2")),
            },
        }
    }

    #[test]
    fn a_bare_host_has_a_name_only() {
        let host = HostConfig { hostname: "node-1".into(), ..HostConfig::default() };
        assert_eq!(
            String::from_utf8(build(&host).unwrap().to_json()).unwrap(),
            r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"overwrite":true,"path":"/etc/hostname","contents":{"source":"data:,node-1"},"mode":420}]}}"#
        );
    }

    #[test]
    fn the_sign_of_life_is_a_verified_program_with_its_settings() {
        let host = HostConfig { beacon: Some(beacon()), ca_pem: Some("PEM".into()), ..HostConfig::default() };
        let config = build(&host).unwrap();
        let file = |path: &str| config.storage.files.iter().find(|file| file.path == path).unwrap();
        let environment = file(ENVIRONMENT_PATH);
        assert_eq!(environment.mode, Some(0o600));
        let text = data_url::decode(environment.contents.source.as_deref().unwrap()).unwrap().data.into_owned();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "LANDFALL_URL=http://10.0.2.2:8090\n\
             LANDFALL_INFRA_ENV_ID=00000000-0000-0000-0000-000000000000\n\
             LANDFALL_HOST_ID=00000000-0000-0000-0000-000000000000\n\
             LANDFALL_CACERT=/etc/landfall/ca.pem\n\
             PULL_SECRET_TOKEN=hunter2\n"
        );
        assert!(
            file("/usr/local/bin/landfall").contents.verification.hash.as_deref().unwrap().starts_with("sha512-cdcd")
        );
        assert_eq!(config.systemd.units[0].name, "landfall-beacon.service");
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn a_pointer_and_the_override_come_after() {
        let host = HostConfig {
            hostname: "node-1".into(),
            pointer: Some(Pointer {
                source: "https://10.0.0.5:22623/config/worker".into(),
                headers: vec![("Authorization".into(), Secret::new("Bearer hunter2"))],
            }),
            ca_pem: Some("PEM".into()),
            ignition_override:
                r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/hostname","mode":384}]}}"#.into(),
            ..HostConfig::default()
        };
        let config = build(&host).unwrap();
        assert_eq!(config.ignition.config.merge[0].source.as_deref(), Some("https://10.0.0.5:22623/config/worker"));
        let header = &config.ignition.config.merge[0].http_headers[0];
        assert_eq!((&*header.name, header.value.as_deref()), ("Authorization", Some("Bearer hunter2")));
        assert_eq!(config.ignition.security.tls.certificate_authorities.len(), 1);
        assert_eq!(config.storage.files.len(), 1);
        assert_eq!(config.storage.files[0].mode, Some(0o600));
        assert_eq!(config.storage.files[0].contents.source.as_deref(), Some("data:,node-1"));
    }
}
