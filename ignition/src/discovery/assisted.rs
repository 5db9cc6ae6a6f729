//! The config of a live host in the shape that the service itself gives it (docs/compatibility.md#discovery-config): its
//! units, paths, modes and encodings, for an unchanged base ISO and agent image. The texts of scripts and messages are
//! ours.

use super::{Discovery, units};
use crate::data_url;
use crate::environment::Environment;
use crate::model::{Document, File, Owner, PasswdUser, Text, Unit, Version};
use crate::network::{Flow, NetworkFile};
use crate::{BuildError, parts};
use api::Secret;
use std::fmt;

/// Where the service's certificates are on a host.
pub const CA_PATH: &str = "/etc/assisted-service/service-ca-cert.crt";
/// Where a host has additional trusted certificates.
const ANCHORS: &str = "/etc/pki/ca-trust/source/anchors";
/// Where the certificates that users want trusted are.
pub(super) const TRUST_BUNDLE_PATH: &str =
    "/etc/pki/ca-trust/source/anchors/assisted-infraenv-additional-trust-bundle.pem";
/// Where a host is told to identify itself the same way in every DHCP request over IPv6.
pub const IPV6_PATH: &str = "/etc/NetworkManager/conf.d/01-ipv6.conf";
/// What is there.
pub const IPV6_CONF: &str = include_str!("files/01-ipv6.conf");
/// Time for the agent's image to be pulled.
pub const AGENT_TIMEOUT_START_S: u32 = 600;

/// Settings of a live host besides [`Discovery`].
#[derive(Clone)]
pub struct Assisted {
    /// Credentials for image registries: one JSON object.
    pub pull_secret: Secret,
    /// For agent.service to start, in seconds.
    pub agent_timeout_start_s: u32,
    /// A certificate of the company that runs the service, PEM.
    pub company_ca_pem: Option<String>,
    /// Certificates that users want trusted, PEM.
    pub trust_bundle_pem: Option<String>,
    /// Registries that replace others.
    pub mirror: Option<Mirror>,
    pub ntp: Option<Ntp>,
    /// Network settings of hosts.
    pub static_network: Option<StaticNetwork>,
    /// The operator's override, JSON text; empty for none. With it the agent is left for the operator to start.
    pub internal_override: String,
}

impl Default for Assisted {
    fn default() -> Self {
        Self {
            pull_secret: Secret::default(),
            agent_timeout_start_s: AGENT_TIMEOUT_START_S,
            company_ca_pem: None,
            trust_bundle_pem: None,
            mirror: None,
            ntp: None,
            static_network: None,
            internal_override: String::new(),
        }
    }
}

impl fmt::Debug for Assisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assisted").field("ntp", &self.ntp).finish_non_exhaustive()
    }
}

/// Registries that replace others.
#[derive(Clone, Default)]
pub struct Mirror {
    /// containers-registries.conf(5).
    pub registries_conf: String,
    /// CA of the mirror's certificate, PEM.
    pub ca_pem: Option<String>,
    /// containers-policy.json(5).
    pub policy_json: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Ntp {
    pub sources: Vec<String>,
    /// Without those that the base ISO has.
    pub only: bool,
}

/// Network settings of hosts.
#[derive(Clone)]
pub struct StaticNetwork {
    /// How they are applied.
    pub flow: Flow,
    /// Files of all hosts.
    pub files: Vec<NetworkFile>,
    /// To wait for slow hardware before interfaces are looked at.
    pub discovery_delay_s: u32,
}

/// The config of a live host, spec 3.1.0 unless an override says otherwise. [`Discovery::deliver_agent`] is ignored: the
/// agent comes as the image that is its version.
pub fn build<'a>(discovery: &'a Discovery, assisted: &'a Assisted) -> Result<Document<'a>, BuildError> {
    let mut config = parts::empty(Version::V3_1);
    parts::check_url("what the agent reports to", &discovery.service_url)?;
    config.ignition.proxy = parts::proxy_settings(&discovery.proxy);
    let user = parts::core_user(&discovery.ssh_authorized_key);
    config.passwd.users.extend(user.map(|user| PasswdUser {
        password_hash: Some("!".into()),
        groups: vec!["sudo".into()],
        ..user
    }));
    config.systemd.units = units(discovery, assisted)?;
    config.storage.files = files(discovery, assisted)?;
    let config = parts::finish(config, &assisted.internal_override)?;
    parts::finish(config, &discovery.ignition_override)
}

fn units<'a>(discovery: &'a Discovery, assisted: &'a Assisted) -> Result<Vec<Unit<'a>>, BuildError> {
    let agent = units::agent(discovery, assisted.agent_timeout_start_s, discovery.ca_pem.as_ref().map(|_| CA_PATH))?;
    let is_enabled = assisted.internal_override.trim().is_empty();
    let mut units = vec![
        Unit { enabled: Some(is_enabled), ..parts::unit("agent.service", agent) },
        parts::unit("selinux.service", units::SELINUX),
        Unit { name: "multipathd.service".into(), enabled: Some(true), ..Unit::default() },
        parts::unit("iscsistart.service", units::ISCSI_START),
        parts::unit("oci-eval-user-data.service", units::OCI_USER_DATA),
    ];
    if let Some(network) = &assisted.static_network {
        let unit = units::network(network.flow, network.discovery_delay_s);
        units.push(parts::unit("pre-network-manager-config.service", unit));
    }
    if has_sources(assisted) {
        units.push(parts::unit("add-ntp-sources.service", units::NTP));
    }
    Ok(units)
}

fn has_sources(assisted: &Assisted) -> bool {
    assisted.ntp.as_ref().is_some_and(|ntp| !ntp.sources.is_empty())
}

/// How the service encodes a content.
#[derive(Clone, Copy)]
enum Encoding {
    Percent,
    Base64,
    Utf8Base64,
}

fn file<'a>(path: impl Into<Text<'a>>, mode: u32, encoding: Encoding, content: &[u8]) -> File<'a> {
    let url = match encoding {
        Encoding::Percent => data_url::percent(content),
        Encoding::Base64 => data_url::base64_of("text/plain", content),
        Encoding::Utf8Base64 => data_url::base64_of("text/plain;charset=utf-8", content),
    };
    let user = Owner { id: None, name: Some("root".into()) };
    File { user, contents: parts::resource(url), ..parts::file(path, mode) }
}

fn files<'a>(discovery: &'a Discovery, assisted: &'a Assisted) -> Result<Vec<File<'a>>, BuildError> {
    use Encoding::{Base64, Percent, Utf8Base64};
    let pull_secret = assisted.pull_secret.expose();
    let always: [(&str, u32, Encoding, &[u8]); 8] = [
        ("/usr/local/bin/agent-fix-bz1964591", 0o755, Percent, include_bytes!("files/agent-fix-bz1964591")),
        ("/usr/local/bin/agent-pull-image", 0o755, Percent, include_bytes!("files/agent-pull-image")),
        ("/etc/motd", 0o644, Percent, include_bytes!("files/motd")),
        ("/etc/multipath.conf", 0o644, Utf8Base64, include_bytes!("files/multipath.conf")),
        ("/usr/local/bin/oci-eval-user-data.sh", 0o755, Utf8Base64, include_bytes!("files/oci-eval-user-data.sh")),
        (IPV6_PATH, 0o644, Percent, IPV6_CONF.as_bytes()),
        ("/root/.docker/config.json", 0o644, Percent, pull_secret.as_bytes()),
        ("/root/assisted.te", 0o644, Base64, include_bytes!("files/assisted.te")),
    ];
    let mut files: Vec<_> =
        always.into_iter().map(|(path, mode, encoding, content)| file(path, mode, encoding, content)).collect();
    let mut optional = |path: &str, encoding: Encoding, content: Option<&str>| {
        files.extend(content.map(|content| file(path.to_owned(), 0o644, encoding, content.as_bytes())));
    };
    optional(&format!("{ANCHORS}/rh-it-root-ca.crt"), Utf8Base64, assisted.company_ca_pem.as_deref());
    optional(CA_PATH, Utf8Base64, discovery.ca_pem.as_deref());
    optional(TRUST_BUNDLE_PATH, Utf8Base64, assisted.trust_bundle_pem.as_deref());
    if let Some(mirror) = &assisted.mirror {
        optional("/etc/containers/registries.conf", Utf8Base64, Some(&mirror.registries_conf));
        optional(&format!("{ANCHORS}/domain.crt"), Utf8Base64, mirror.ca_pem.as_deref());
        optional("/etc/containers/policy.json", Utf8Base64, mirror.policy_json.as_deref());
    }
    if let Some(network) = &assisted.static_network {
        let script: &[u8] = match network.flow {
            Flow::Keyfiles => include_bytes!("files/pre-network-manager-config-keyfiles.sh"),
            Flow::Policy => include_bytes!("files/pre-network-manager-config-nmpolicy.sh"),
        };
        let common = include_bytes!("files/common_network_script.sh");
        files.push(file("/usr/local/bin/pre-network-manager-config.sh", 0o755, Base64, script));
        files.push(file("/usr/local/bin/common_network_script.sh", 0o755, Base64, common));
        files.extend(network.files.iter().map(|of_host| file(&*of_host.path, of_host.mode, Base64, &of_host.bytes)));
    }
    let mut proxy = super::proxy_variables(&discovery.proxy);
    proxy.retain(|(_, value)| !value.is_empty());
    if !proxy.is_empty() {
        let mut profile = Environment::default();
        for (name, value) in proxy {
            profile.export(name, value)?;
        }
        // Read as a decimal number: the service's own mistake, which hosts show as 01204.
        files.push(file("/etc/profile.d/proxy.sh", 644, Percent, profile.into_text().as_bytes()));
    }
    if let Some(ntp) = assisted.ntp.as_ref().filter(|_| has_sources(assisted)) {
        files.push(file("/usr/local/bin/add-ntp-sources.sh", 0o755, Base64, ntp_script(ntp)?.as_bytes()));
    }
    Ok(files)
}

pub(super) fn ntp_script(ntp: &Ntp) -> Result<String, BuildError> {
    for source in &ntp.sources {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        if source.is_empty() || !source.chars().all(is_good) {
            return Err(BuildError::NtpSource { source_chars: source.chars().count() });
        }
    }
    let only = if ntp.only { "yes" } else { "no" };
    let script = include_str!("files/add-ntp-sources.sh");
    Ok(script.replace("@SOURCES@", &ntp.sources.join(" ")).replace("@ONLY@", only))
}

#[cfg(test)]
#[path = "assisted_tests.rs"]
mod tests;
