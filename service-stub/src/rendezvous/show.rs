//! Prints a plan as text or JSON.

use super::{PlannedManifest, Rack, Rendezvous};
use crate::planned::PlannedHost;
use crate::text::plain;
use api::Secret;
use serde_json::{Value, json};

/// The plan as JSON; credentials are left out.
pub(crate) fn as_json(rendezvous: &Rendezvous) -> Value {
    let rack = &rendezvous.rack;
    let mut cluster = rack.cluster.clone();
    let mut infra_env = rack.infra_env.clone();
    cluster.pull_secret = Secret::default();
    infra_env.pull_secret = Secret::default();
    let bare = |value: serde_json::Result<Value>| {
        let mut value = value.unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            // A proxy URL may contain a password.
            for name in ["pull_secret", "http_proxy", "https_proxy", "proxy"] {
                fields.remove(name);
            }
        }
        value
    };
    json!({
        "schema_version": 1,
        "cluster_id": rendezvous.cluster,
        "infra_env_id": rendezvous.infra_env,
        "cluster": bare(api::json::to_value(cluster)),
        "infra_env": bare(api::json::to_value(infra_env)),
        "hosts": rack.hosts.iter().map(host).collect::<Vec<_>>(),
        "control_plane": rack.masters,
        "total": rack.total,
        "rendezvous_ip": rack.address,
        "rendezvous_key": rendezvous.key.as_ref().map(|key| key.public_text()),
        "hold": rack.hold,
        "existing_cluster_id": rack.existing.as_ref().map(|existing| existing.id),
        "expires_at": rack.existing.as_ref().and_then(|existing| existing.expires_at),
        "install_config_overrides": rack.overrides,
        "manifests": rack.manifests.iter().map(PlannedManifest::file).collect::<Vec<_>>(),
        "does_nothing": rack.idle,
        "warnings": rack.warnings,
    })
}

/// Without its override, which may hold secrets.
fn host(host: &PlannedHost) -> Value {
    json!(PlannedHost { ignition_override: String::new(), place: String::new(), ..host.clone() })
}

/// The plan as lines of text.
pub(crate) fn lines(rendezvous: &Rendezvous) -> Vec<String> {
    let Rack { cluster, hosts, masters, total, address, hold, existing, warnings, idle, overrides, manifests, .. } =
        &rendezvous.rack;
    let domain = cluster.base_dns_domain.as_deref().unwrap_or_default();
    let disk = |host: &PlannedHost| match host.hints.is_empty() {
        true => "the service's choice".to_owned(),
        false => serde_json::to_string(&host.hints).unwrap_or_default(),
    };
    let known = hosts.iter().map(|host| format!("host         {}: {}, disk {}", host.label(), host.role, disk(host)));
    if let Some(existing) = existing {
        let expires = existing.expires_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        let mut lines = vec![
            format!("cluster      {}.{domain} (exists, id {})", cluster.name, existing.id),
            format!("version      {}", existing.version),
            format!("infra-env    {}", rendezvous.infra_env),
            format!("configs      {}", existing.endpoint_url),
            format!("hosts        {total} workers to add"),
            format!("expires      {expires}"),
            "rendezvous   each new node, for itself alone".to_owned(),
            "start        when the node is ready".to_owned(),
        ];
        lines.extend(known);
        lines.extend(idle.iter().map(|text| format!("nothing      {text}")));
        return lines;
    }
    let mut lines = vec![
        format!("cluster      {}.{domain} (id {})", cluster.name, rendezvous.cluster),
        format!("version      {}", cluster.openshift_version),
        format!("infra-env    {}", rendezvous.infra_env),
        format!("hosts        {total}, {masters} of them control plane; {} known by address", hosts.len()),
        match address {
            Some(address) => format!("rendezvous   the machine with {address}"),
            None => "rendezvous   this machine".to_owned(),
        },
        match hold {
            true => "start        by hand (holdInstallation)".to_owned(),
            false => "start        when all hosts are present and ready".to_owned(),
        },
    ];
    lines.extend(rendezvous.key.as_ref().map(|key| format!("agent.toml   rendezvous_key = '{}'", key.public_text())));
    lines.extend(known);
    if !overrides.is_empty() {
        lines.push(format!("overrides    {}", plain(overrides)));
    }
    lines.extend(manifests.iter().map(|manifest| format!("manifest     {}", plain(manifest.file()))));
    lines.extend(idle.iter().map(|text| format!("nothing      {text}")));
    lines.extend(warnings.iter().map(|warning| format!("warning      {warning}")));
    lines
}
