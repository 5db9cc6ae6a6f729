//! Time sources of nodes: those that any host of the cluster uses or is to use.

use super::generated::{Generated, file};
use crate::model::{ClusterRecord, HostRecord, Model};
use crate::text::at;
use serde_json::{Value, json};
use std::sync::Arc;

/// More would only slow nodes down.
const MAX_SOURCES: usize = 256;
const POOL: &str = "pool 0.rhel.pool.ntp.org iburst";
const SETTINGS: [&str; 5] = [
    "sourcedir /run/chrony-dhcp",
    "driftfile /var/lib/chrony/drift",
    "makestep 1.0 3",
    "rtcsync",
    "logdir /var/log/chrony",
];

pub(super) fn manifests(
    cluster: &ClusterRecord,
    hosts: &[Arc<HostRecord>],
    model: &Model,
    roles: &[&str],
) -> Vec<Generated> {
    let conf = conf(setting(cluster, "ntp_sources").is_some(), &sources(cluster, hosts, model));
    let of_role = |role: &&str| {
        let config = json!({
            "ignition": {"version": "3.1.0"},
            "storage": {"files": [file("/etc/chrony.conf", 0o644, &conf)]},
        });
        Generated::machine_config(&format!("50-{role}s-chrony-configuration"), role, config)
    };
    roles.iter().map(of_role).collect()
}

fn conf(only_these: bool, sources: &[String]) -> String {
    let servers = sources.iter().map(|source| format!("server {source} iburst"));
    let pool = (!only_these).then(|| POOL.to_owned());
    let lines = std::iter::once(String::new()).chain(pool).chain(SETTINGS.map(str::to_owned)).chain(servers);
    lines.collect::<Vec<_>>().join("\n")
}

fn setting<'a>(cluster: &'a ClusterRecord, name: &str) -> Option<&'a str> {
    cluster.settings.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Those that each host reports, then those that are set for it.
fn sources(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>], model: &Model) -> Vec<String> {
    let of_cluster = setting(cluster, "ntp_sources").or_else(|| setting(cluster, "additional_ntp_source"));
    let mut all: Vec<String> = Vec::new();
    for host in hosts {
        let infra_env = model.infra_envs.get(&host.host.infra_env_id).map(|record| &record.infra_env);
        let of_infra_env = infra_env
            .map(|infra_env| [infra_env.additional_ntp_sources.as_str(), infra_env.ntp_sources.as_str()])
            .and_then(|lists| lists.into_iter().find(|list| !list.is_empty()));
        let set = of_cluster.or(of_infra_env).unwrap_or_default().split(',').map(|source| source.trim().to_owned());
        for source in reported(host).into_iter().chain(set) {
            if is_plain(&source) && !all.contains(&source) && all.len() < MAX_SOURCES {
                all.push(source);
            }
        }
    }
    all
}

/// Whether it is synchronised with them or not.
fn reported(host: &HostRecord) -> Vec<String> {
    let list: Option<Vec<Value>> = host.texts.ntp_sources.as_deref().and_then(|text| serde_json::from_str(text).ok());
    list.unwrap_or_default().iter().map(|source| at(source, "/source_name").to_owned()).collect()
}

/// A name or an address. Hosts report them, and every node reads them: nothing else may get into the file.
fn is_plain(source: &str) -> bool {
    (1..=253).contains(&source.len()) && source.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:%".contains(&b))
}
