//! `landfall apply`: a rack's documents, on a service.
//!
//! Parse ([`crate::rendezvous`] reads the documents), then plan (what differs from the service's records), then apply: one call for each
//! change.

use super::{
    Console, Reach, Session, display_name,
    explain::explain,
    read_small,
    table::{Column, Table},
};
use crate::handlers::{cluster_settings, digests, infra_envs, new_cluster};
use crate::http::body::BodyShape;
use crate::planned::{HostChange, HostNow, PlannedHost};
use crate::releases::normal_architecture;
use crate::rendezvous::{self, Document, Rack, Unknown};
use crate::text::{at, plain};
use anyhow::{Context, ensure};
use api::endpoint::{
    CREATE_MANIFEST, DOWNLOAD_MANIFEST, Endpoint, GET_CLUSTER, GET_CLUSTER_DIGESTS, GET_INFRA_ENV,
    GET_INFRA_ENV_DIGESTS, LIST_CLUSTERS, LIST_HOSTS, LIST_INFRA_ENVS, LIST_MANIFESTS, REGISTER_CLUSTER,
    REGISTER_INFRA_ENV, SET_PLAN, Target, UPDATE_CLUSTER, UPDATE_HOST, UPDATE_HOST_IGNITION, UPDATE_INFRA_ENV,
    UPDATE_INSTALL_CONFIG, UPDATE_INSTALLER_ARGS,
};
use api::{ClientError, Inventory};
use ignition::yaml;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

/// A larger file is not a manifest.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Create a rack on a service from its documents, or change it
///
/// Takes what `serve --rendezvous` takes: a rack.toml, an AgentConfig with an install-config, or the manifests of zero-touch provisioning.
/// A cluster and infra-env of that name are created if they are missing, and changed where they differ. Hosts get the name, role and disk
/// that the documents give to their MAC addresses, those that register later too; for a service that is not Landfall's apply again when
/// more have come. Nothing is deleted, and the installation is not started. `landfall cluster export` prints a rack as such documents.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall apply -f rack.toml
  landfall apply -f ./manifests --dry-run
  landfall apply -f ./manifests && landfall wait rack --for ready")]
pub struct Apply {
    #[command(flatten)]
    reach: Reach,
    /// File or directory with the documents, in YAML, JSON or TOML
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    path: PathBuf,
    /// Version to install if no document names one
    #[arg(long, value_name = "VERSION")]
    openshift_version: Option<String>,
    /// Show what would be created or changed
    #[arg(long)]
    dry_run: bool,
    /// Ignore fields that are not known, with a warning; never those about machines, disks and encryption
    #[arg(long)]
    ignore_unknown: bool,
}

/// A kind of record that documents create and change.
struct Kind {
    name: &'static str,
    create: &'static Endpoint,
    update: &'static Endpoint,
    /// What a request that makes one may say, and one that changes it.
    new: &'static BodyShape,
    changed: &'static BodyShape,
    /// Fields of new ones that a record shows under another name.
    shown: &'static [(&'static str, &'static str)],
}

const CLUSTER: Kind = Kind {
    name: "cluster",
    create: &REGISTER_CLUSTER,
    update: &UPDATE_CLUSTER,
    new: &new_cluster::BODY,
    changed: &cluster_settings::BODY,
    shown: &[],
};
const INFRA_ENV: Kind = Kind {
    name: "infra-env",
    create: &REGISTER_INFRA_ENV,
    update: &UPDATE_INFRA_ENV,
    new: &infra_envs::NEW_INFRA_ENV,
    changed: &infra_envs::CHANGED_INFRA_ENV,
    shown: &[("image_type", "type")],
};
/// Of a host that the service does not know.
const NOT_REGISTERED: &str = "has not registered";
/// The same, where the service keeps the plan.
const KEPT: &str = "kept until it registers";
/// They say which record it is.
const IDENTITY: [&str; 2] = ["name", "cluster_id"];
/// It is not shown: a service of ours has its digest. Another service gets it each time.
const PULL_SECRET: &str = digests::PULL_SECRET;

/// What is done about a record.
#[derive(Debug)]
struct Step {
    kind: &'static str,
    name: String,
    result: String,
    request: Option<(Target, Value)>,
}

impl Step {
    fn nothing(kind: &'static str, name: &str, result: &str) -> Self {
        Self { kind, name: name.to_owned(), result: result.to_owned(), request: None }
    }

    /// Creates a record, or changes the fields that are wanted otherwise.
    ///
    /// # Errors
    /// Some of them can't be changed.
    fn of_record(kind: &Kind, name: &str, known: Option<&Value>, wanted: Value) -> anyhow::Result<Self> {
        let Some(known) = known else {
            return Ok(Self {
                request: Some((kind.create.at(&[]), wanted)),
                ..Self::nothing(kind.name, name, "created")
            });
        };
        let Differences { changes, fixed } = differences(kind, &wanted, known);
        ensure!(
            fixed.is_empty(),
            "{} {name} cannot be changed in {}: give what it has, or delete it and apply again",
            kind.name,
            fixed.join(", ")
        );
        if changes.is_empty() {
            return Ok(Self::nothing(kind.name, name, "unchanged"));
        }
        let target = kind.update.at(&[&at(known, "/id")]);
        Ok(Self::change(kind.name, name, &names(&changes), target, Value::Object(changes)))
    }

    fn change(kind: &'static str, name: &str, what: &str, target: Target, body: Value) -> Self {
        Self { request: Some((target, body)), ..Self::nothing(kind, name, &format!("changed ({what})")) }
    }

    /// What a cluster has beside its parameters: overrides of its install configuration, and manifests.
    fn of_additions(
        session: &Session,
        rack: &Rack,
        now: Option<&Value>,
        cluster: Option<&str>,
    ) -> anyhow::Result<Vec<Self>> {
        let (name, id) = (&rack.cluster.name, cluster.unwrap_or_default());
        let mut steps = Vec::new();
        if !rack.overrides.is_empty() {
            let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
            let shown = now.and_then(|now| parsed(at(now, "/install_config_overrides")));
            let body = Value::from(rack.overrides.as_str());
            steps.push(match (now, shown == parsed(&rack.overrides)) {
                (Some(_), true) => Self::nothing("install-config", name, "unchanged"),
                (Some(_), false) => {
                    Self::change("install-config", name, "overrides", UPDATE_INSTALL_CONFIG.at(&[&id]), body)
                }
                (None, _) => Self {
                    request: Some((UPDATE_INSTALL_CONFIG.at(&[&id]), body)),
                    ..Self::nothing("install-config", name, "created")
                },
            });
        }
        if rack.manifests.is_empty() {
            return Ok(steps);
        }
        let list = if now.is_some() { session.list(&LIST_MANIFESTS.at(&[&id]))? } else { Vec::new() };
        for manifest in &rack.manifests {
            let request = Some((CREATE_MANIFEST.at(&[&id]), manifest.body()));
            let step = Self::nothing("manifest", manifest.file(), "created");
            let is_there = list
                .iter()
                .any(|one| at(one, "/folder") == rendezvous::MANIFESTS && at(one, "/file_name") == manifest.file());
            if !is_there {
                steps.push(Self { request, ..step });
                continue;
            }
            let target =
                DOWNLOAD_MANIFEST.at(&[&id]).with("file_name", manifest.file()).with("folder", rendezvous::MANIFESTS);
            steps.push(match session.client.file(&target)? == manifest.content().as_bytes() {
                true => Self { result: "unchanged".into(), ..step },
                false => Self { result: "changed (content)".into(), request, ..step },
            });
        }
        Ok(steps)
    }

    /// Gives a host its part of the plan, if it has registered.
    fn of_host(plan: &PlannedHost, hosts: &[HostNow], kept: bool) -> anyhow::Result<Vec<Self>> {
        let label = plan.label();
        let inventory = |now: &HostNow| serde_json::from_str::<Inventory>(&now.host.inventory).ok();
        let mut registered = hosts.iter().filter_map(|now| Some((now, inventory(now)?)));
        let Some((now, inventory)) = registered.find(|(_, inventory)| plan.is(inventory)) else {
            return Ok(vec![Self::nothing("host", &label, if kept { KEPT } else { NOT_REGISTERED })]);
        };
        let host = &now.host;
        let changes = plan.changes(now, &inventory).with_context(|| format!("host {label}"))?;
        if changes.is_empty() {
            return Ok(vec![Self::nothing("host", &label, "unchanged")]);
        }
        let step = |(change, body): (HostChange, Value)| {
            let (endpoint, what) = match change {
                HostChange::Settings => (&UPDATE_HOST, body.as_object().map(names).unwrap_or_default()),
                HostChange::InstallerArgs => (&UPDATE_INSTALLER_ARGS, "installer_args".to_owned()),
                HostChange::Ignition => (&UPDATE_HOST_IGNITION, "ignition_config_overrides".to_owned()),
            };
            Self::change("host", &label, &what, endpoint.at(&[&host.infra_env_id, &host.id]), body)
        };
        Ok(changes.into_iter().map(step).collect())
    }
}

fn names(fields: &Map<String, Value>) -> String {
    fields.keys().cloned().collect::<Vec<_>>().join(", ")
}

impl Apply {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        Console::standard(|console| self.run_on(console))
    }

    /// The same, with results elsewhere.
    pub fn run_on(self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let documents = self.documents()?;
        let version = self.openshift_version.as_deref();
        let failed = || format!("{} is not a rack's documents", self.path.display());
        let unknown = if self.ignore_unknown { Unknown::Ignored } else { Unknown::Refused };
        let rack = rendezvous::changes(&documents, version, unknown).with_context(failed)?;
        rack.tell();
        let session = self.reach.session()?;
        let mut done = Vec::new();
        let name = &rack.cluster.name;
        let all = session.list(&LIST_CLUSTERS.at(&[]))?;
        let known = only("cluster", &all, name)?.map(|known| at(known, "/id").to_owned());
        let cluster_now =
            known.as_deref().map(|id| record(&session, &GET_CLUSTER, &GET_CLUSTER_DIGESTS, id)).transpose()?;
        let infra_env_name = &rack.infra_env.name;
        let all = session.list(&LIST_INFRA_ENVS.at(&[]))?;
        let known_infra_env =
            infra_env_of(&all, known.as_deref(), infra_env_name)?.map(|known| at(known, "/id").to_owned());
        let infra_env_now = known_infra_env
            .as_deref()
            .map(|id| record(&session, &GET_INFRA_ENV, &GET_INFRA_ENV_DIGESTS, id))
            .transpose()?;
        // What is created needs all that a new rack has.
        let whole = match (&cluster_now, &infra_env_now) {
            (Some(_), Some(_)) => rack.judge_itself().map(|()| None),
            _ => rendezvous::plan_with(&documents, version, unknown)
                .and_then(|whole| whole.judge().map(|()| Some(whole))),
        };
        let whole = whole.with_context(failed)?;
        let wanted = |now: &Option<Value>| whole.as_ref().filter(|_| now.is_none()).unwrap_or(&rack);
        // Both before anything is sent: what can't be changed stops all.
        let step = Step::of_record(&CLUSTER, name, cluster_now.as_ref(), json!(wanted(&cluster_now).cluster))?;
        let mut wanted = json!(wanted(&infra_env_now).infra_env);
        let mut infra_env_step = Step::of_record(&INFRA_ENV, infra_env_name, infra_env_now.as_ref(), wanted.clone())?;
        let cluster = known.or(self.carry_out(&session, &mut done, step)?);
        for step in Step::of_additions(&session, &rack, cluster_now.as_ref(), cluster.as_deref())? {
            self.carry_out(&session, &mut done, step)?;
        }
        wanted["cluster_id"] = cluster.into();
        if infra_env_now.is_none() {
            infra_env_step = Step::of_record(&INFRA_ENV, infra_env_name, None, wanted)?;
        }
        let infra_env = known_infra_env.or(self.carry_out(&session, &mut done, infra_env_step)?);

        let hosts = infra_env.as_ref().map(|id| session.list(&LIST_HOSTS.at(&[id]))).transpose()?.unwrap_or_default();
        let hosts: Vec<HostNow> =
            hosts.into_iter().map(serde_json::from_value).collect::<Result<_, _>>().context("the service's hosts")?;
        let kept = match &infra_env {
            Some(id) if !rack.hosts.is_empty() && !self.dry_run => keep(&session, id, &rack.hosts)?,
            _ => false,
        };
        let mut refused = 0_usize;
        for plan in &rack.hosts {
            // What stops one host stops none of those after it.
            let carried_out = Step::of_host(plan, &hosts, kept).and_then(|steps| {
                steps.into_iter().try_for_each(|step| self.carry_out(&session, &mut done, step).map(drop))
            });
            if let Err(error) = carried_out {
                refused += 1;
                done.push(["host".to_owned(), plan.label(), format!("refused: {error:#}")]);
            }
        }
        if session.json {
            let rows: Vec<Value> =
                done.iter().map(|[kind, name, result]| json!({"kind": kind, "name": name, "result": result})).collect();
            console.json(&json!({"schema_version": 1, "dry_run": self.dry_run, "applied": rows}))?;
        } else {
            let mut table =
                Table::new(&[("KIND", Column::Detail(1)), ("NAME", Column::Name), ("RESULT", Column::Reason)]);
            done.into_iter().for_each(|row| table.row(row));
            console.table(&table)?;
        }
        ensure!(refused == 0, "{refused} of {} hosts have not got their part of the plan", rack.hosts.len());
        Ok(ExitCode::SUCCESS)
    }

    /// Sends a step's request, unless this is a dry run. Notes the result in `done`; returns the id of the record that was sent.
    fn carry_out(&self, session: &Session, done: &mut Vec<[String; 3]>, step: Step) -> anyhow::Result<Option<String>> {
        let Step { kind, name, mut result, request } = step;
        let mut id = None;
        match request {
            Some(_) if self.dry_run => result = format!("would be {result}"),
            Some((target, body)) => {
                let failed = |error: ClientError| {
                    anyhow::anyhow!("{kind} {name} cannot be {result}: {:#}", explain(error.into()))
                };
                id = Some(at(&session.client.send(&target, Some(&body)).map_err(failed)?, "/id").to_owned());
            }
            None => {}
        }
        done.push([kind.to_owned(), name, result]);
        Ok(id)
    }

    fn documents(&self) -> anyhow::Result<Vec<Document>> {
        let failed = || format!("{} is not a rack's documents", self.path.display());
        if self.path.is_dir() {
            return rendezvous::documents(&self.path).with_context(failed);
        }
        let text = read_small(&self.path, MAX_FILE_BYTES)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        rendezvous::parse(&name, &text).with_context(failed)
    }
}

/// Has the service give hosts their part whenever they register. False for a service that has no such thing: apply again then.
fn keep(session: &Session, infra_env: &str, hosts: &[PlannedHost]) -> anyhow::Result<bool> {
    match session.client.send(&SET_PLAN.at(&[&infra_env]), Some(&json!({"hosts": hosts}))) {
        Ok(_) => Ok(true),
        Err(error) if error.status() == Some(404) => Ok(false),
        Err(error) => Err(explain(error.into()).context("the plan of the hosts cannot be kept")),
    }
}

/// A record, with the digest of its pull secret if the service has one.
fn record(session: &Session, shown: &'static Endpoint, digests: &'static Endpoint, id: &str) -> anyhow::Result<Value> {
    let mut document = session.client.document(&shown.at(&[&id]))?;
    let found = session.client.document(&digests.at(&[&id])).ok();
    if let Some(digest) = found.and_then(|found| found.get(PULL_SECRET).cloned()) {
        document[PULL_SECRET] = digest;
    }
    Ok(document)
}

/// The infra-env of a cluster: the only one that is bound to it, else the one of its name.
pub(crate) fn infra_env_of<'a>(
    all: &'a [Value],
    cluster: Option<&str>,
    name: &str,
) -> anyhow::Result<Option<&'a Value>> {
    let mut bound = all.iter().filter(|one| cluster.is_some_and(|cluster| at(one, "/cluster_id") == cluster));
    match (bound.next(), bound.next()) {
        (Some(only), None) => Ok(Some(only)),
        _ => only("infra-env", all, name),
    }
}

/// The record of that name; several are not ours to choose from.
fn only<'a>(kind: &str, all: &'a [Value], name: &str) -> anyhow::Result<Option<&'a Value>> {
    let mut found = all.iter().filter(|one| display_name(one) == name);
    let first = found.next();
    ensure!(found.next().is_none(), "there are several {kind}s named '{name}': delete those that are not the rack's");
    Ok(first)
}

/// What is wanted otherwise than it is.
#[derive(Debug, Default)]
struct Differences {
    changes: Map<String, Value>,
    /// What can't be changed: each with what it is and what is wanted.
    fixed: Vec<String>,
}

/// Compares all that a new record may have. What the documents leave out stays as it is.
fn differences(kind: &Kind, wanted: &Value, now: &Value) -> Differences {
    let mut found = Differences::default();
    for field in kind.new.fields.iter().map(|field| field.name).filter(|name| !IDENTITY.contains(name)) {
        let value = wanted.get(field).filter(|value| !value.is_null() && **value != json!("") && **value != json!([]));
        let Some(value) = value else { continue };
        let name = kind.shown.iter().find(|(own, _)| *own == field).map_or(field, |(_, shown)| shown);
        let shown = now.get(name).unwrap_or(&Value::Null);
        if is_as_wanted(field, value, now, shown) {
            continue;
        }
        let value = if field == NETWORKS { &with_other_networks(value, shown) } else { value };
        if kind.changed.fields.iter().any(|known| known.name == field) {
            found.changes.insert(field.to_owned(), value.clone());
        } else {
            found.fixed.push(format!("{field} (it is {}, wanted is {})", short(shown), short(value)));
        }
    }
    found
}

/// For messages.
fn short(value: &Value) -> String {
    plain(value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str())
}

/// The networks of machines. It is a list of documents in text.
const NETWORKS: &str = "static_network_config";
/// A longer document is compared as text.
const MAX_NETWORK_BYTES: usize = 1 << 20;

/// A network, in whatever way it is written.
#[derive(Debug, PartialEq)]
struct Network {
    /// By what the machine is known.
    interfaces: BTreeMap<String, String>,
    config: Vec<Value>,
}

impl Network {
    fn new(document: &Value) -> Self {
        let map = document.get("mac_interface_map").and_then(Value::as_array).into_iter().flatten();
        let text = at(document, "/network_yaml");
        Self {
            interfaces: map
                .map(|entry| (at(entry, "/mac_address").to_lowercase(), at(entry, "/logical_nic_name").to_owned()))
                .collect(),
            config: yaml::documents(text.as_bytes(), MAX_NETWORK_BYTES).unwrap_or_else(|_| vec![text.into()]),
        }
    }
}

fn networks(text: &str) -> Vec<Network> {
    let list: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    list.iter().map(Network::new).collect()
}

/// With those of machines that the documents do not mention, which stay.
fn with_other_networks(wanted: &Value, now: &Value) -> Value {
    let wanted: Vec<Value> = wanted.as_array().cloned().unwrap_or_default();
    let mentioned: Vec<Network> = wanted.iter().map(Network::new).collect();
    let is_mentioned = |network: &Network| {
        mentioned.iter().any(|one| one.interfaces.keys().any(|mac| network.interfaces.contains_key(mac)))
    };
    let now: Vec<Value> = now.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let others = now.into_iter().filter(|network| !is_mentioned(&Network::new(network)));
    wanted.iter().cloned().chain(others).collect()
}

fn is_as_wanted(field: &str, wanted: &Value, record: &Value, now: &Value) -> bool {
    let texts = (wanted.as_str(), now.as_str());
    match (field, texts) {
        (PULL_SECRET, (Some(wanted), now)) => now == Some(&digests::digest(at(record, "/id"), wanted)),
        // It may be named less exactly.
        ("openshift_version", (Some(wanted), Some(now))) => {
            now == wanted || now.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
        }
        ("cpu_architecture", (Some(wanted), Some(now))) => normal_architecture(wanted) == normal_architecture(now),
        (NETWORKS, (_, Some(now))) => {
            let now = networks(now);
            let wanted = wanted.as_array().into_iter().flatten();
            wanted.map(Network::new).all(|wanted| now.contains(&wanted))
        }
        // Lists in text.
        (_, (None, Some(now))) => serde_json::from_str(now).is_ok_and(|now: Value| contains(Some(&now), wanted)),
        (_, (Some(wanted), Some(now))) => wanted.trim() == now.trim(),
        _ => contains(Some(now), wanted),
    }
}

/// Whether a document says what is wanted; it may say more.
fn contains(now: Option<&Value>, wanted: &Value) -> bool {
    match (now, wanted) {
        (Some(Value::Object(now)), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| value.is_null() || contains(now.get(name), value))
        }
        (Some(Value::Array(now)), Value::Array(wanted)) => {
            now.len() == wanted.len() && now.iter().zip(wanted).all(|(now, wanted)| contains(Some(now), wanted))
        }
        (now, wanted) => now == Some(wanted),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::http::body::{Field, Rule};

    fn mirrors(mirror: &str) -> String {
        format!("[[registry]]\nlocation = \"quay.io/a\"\n\n[[registry.mirror]]\nlocation = \"{mirror}/a\"\n")
    }

    /// A rack as a service shows it: its cluster with two hosts, and its infra-env.
    fn state() -> (Value, Value) {
        let disk = |name: &str| {
            json!({"name": name, "path": format!("/dev/{name}"), "serial": "same", "by_path": format!("/dev/disk/by-path/{name}"),
                "installation_eligibility": {"eligible": true}})
        };
        let host = |number: u8, role: &str, args: &str| {
            let inventory = json!({"hostname": "localhost", "disks": [disk("sda"), disk("sdb")],
                "interfaces": [{"name": "eth0", "mac_address": format!("52:54:00:00:00:0{number}")}]});
            json!({"id": format!("5a1e0000-0000-4000-8000-00000000000{number}"), "infra_env_id": "5a1e0000-0000-4000-8000-000000000010",
                "status": "known", "requested_hostname": format!("node-{number}"), "role": role, "installer_args": args,
                "installation_disk_path": "/dev/sdb", "inventory": inventory.to_string(),
                "ignition_config_overrides": "{\n  \"ignition\": {\"version\": \"3.2.0\"}\n}\n"})
        };
        let cluster = json!({
            "id": "5a1e0000-0000-4000-8000-000000000011", "name": "rack", "base_dns_domain": "example.com",
            "openshift_version": "4.22", "cpu_architecture": "x86_64", "ssh_public_key": "ssh-ed25519 AAAA key", "control_plane_count": 3,
            "high_availability_mode": "Full", "platform": {"type": "baremetal"}, "user_managed_networking": false,
            "api_vips": [{"ip": "192.0.2.2", "cluster_id": "x", "verification": "succeeded"}],
            "ingress_vips": [{"ip": "192.0.2.3", "cluster_id": "x"}],
            "cluster_networks": [{"cidr": "10.128.0.0/14", "cluster_id": "x", "host_prefix": 24}],
            "service_networks": [{"cidr": "172.30.0.0/16", "cluster_id": "x"}],
            "machine_networks": [{"cidr": "192.0.2.0/24", "cluster_id": "x"}],
            "network_type": "OVNKubernetes", "no_proxy": "a.example,.b.example", "tags": "lab", "pull_secret_set": true,
            "http_proxy": "http://user:hunter2@proxy.example.com:3128",
            "mirror_registry_configuration": {"registries_conf": mirrors("m.example.com"), "ca_bundle": ""},
            "hosts": [host(1, "master", r#"["--append-karg","quiet","--copy-network"]"#), host(2, "auto-assign", "")],
        });
        let network = |mac: &str| {
            json!({"network_yaml": "interfaces:\n- name: eth0\n  type: ethernet\n",
                "mac_interface_map": [{"mac_address": mac, "logical_nic_name": "eth0"}]})
        };
        // Of a host, of a host that does not copy it, of a machine that has not registered.
        let networks = ["52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03"].map(network);
        let infra_env = json!({
            "id": "5a1e0000-0000-4000-8000-000000000010", "name": "lab", "cluster_id": "5a1e0000-0000-4000-8000-000000000011",
            "additional_ntp_sources": "192.0.2.5,ntp.example.com", "cpu_architecture": "x86_64", "type": "minimal-iso",
            "static_network_config": json!(networks).to_string(), "proxy": {},
            "kernel_arguments": json!([{"operation": "append", "value": "quiet"}]).to_string(),
            "mirror_registry_configuration": {"registries_conf": mirrors("n.example.com")},
        });
        (cluster, infra_env)
    }

    #[test]
    fn the_manifests_of_a_rack_change_nothing_of_it() {
        let (cluster, infra_env) = state();
        let text = rendezvous::manifests(&cluster, Some(&infra_env), &[]).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        for left_out in ["the pull secret", "the version, 4.22", "a proxy", "the network of host"] {
            assert!(text.lines().any(|line| line.starts_with("# - ") && line.contains(left_out)), "{left_out}: {text}");
        }
        let documents = rendezvous::parse("rack.yaml", &text).unwrap();
        let rack = rendezvous::changes(&documents, None, Unknown::Refused).unwrap();
        assert_eq!(rack.warnings, Vec::<String>::new(), "{text}");
        assert_eq!((rack.masters, rack.total, rack.hosts.len()), (3, 3, 3), "{text}");
        let mut steps = vec![
            Step::of_record(&CLUSTER, "rack", Some(&cluster), json!(rack.cluster)).unwrap(),
            Step::of_record(&INFRA_ENV, "lab", Some(&infra_env), json!(rack.infra_env)).unwrap(),
        ];
        let hosts: Vec<HostNow> = serde_json::from_value(cluster["hosts"].clone()).unwrap();
        steps.extend(rack.hosts.iter().flat_map(|plan| Step::of_host(plan, &hosts, false).unwrap()));
        let results: Vec<&str> = steps.iter().map(|step| step.result.as_str()).collect();
        assert_eq!(results, ["unchanged", "unchanged", "unchanged", "unchanged", "has not registered"], "{text}");
        assert!(steps.iter().all(|step| step.request.is_none()), "{steps:?}");
        // A new rack needs what is left out.
        let error = rendezvous::plan(&documents, None).unwrap_err().to_string();
        assert!(error.starts_with("no version to install"), "{error}");

        // What is changed in them is all that changes.
        let text = text.replace("node-2", "blade").replace("hostPrefix: 24", "hostPrefix: 25");
        let text = text.replace("n.example.com", "o.example.com");
        let rack =
            rendezvous::changes(&rendezvous::parse("rack.yaml", &text).unwrap(), None, Unknown::Refused).unwrap();
        let step = Step::of_record(&CLUSTER, "rack", Some(&cluster), json!(rack.cluster)).unwrap();
        assert_eq!(step.result, "changed (cluster_networks)");
        let step = Step::of_record(&INFRA_ENV, "lab", Some(&infra_env), json!(rack.infra_env)).unwrap();
        assert_eq!(step.result, "changed (mirror_registry_configuration)");
        let results =
            rack.hosts.iter().flat_map(|plan| Step::of_host(plan, &hosts, false).unwrap()).map(|step| step.result);
        assert_eq!(results.collect::<Vec<_>>(), ["unchanged", "changed (host_name)", "has not registered"]);
    }

    #[test]
    fn an_infra_env_is_found_by_its_cluster_or_its_name() {
        let all = [json!({"id": "1", "name": "rack"}), json!({"id": "2", "name": "lab", "cluster_id": "c"})];
        let found = |cluster, name| infra_env_of(&all, cluster, name).unwrap().map(|found| at(found, "/id").to_owned());
        assert_eq!(found(Some("c"), "rack").as_deref(), Some("2"));
        assert_eq!(found(Some("d"), "rack").as_deref(), Some("1"));
        assert_eq!(found(None, "lab").as_deref(), Some("2"));
        assert_eq!(found(None, "other"), None);
    }

    #[test]
    fn only_what_differs_is_sent() {
        let now = json!({"base_dns_domain": "a.example", "api_vips": [{"ip": "192.0.2.1", "cluster_id": "x"}], "no_proxy": ""});
        let wanted =
            json!({"base_dns_domain": "b.example", "api_vips": [{"ip": "192.0.2.1"}], "no_proxy": null, "name": "r"});
        let changes = differences(&CLUSTER, &wanted, &now).changes;
        assert_eq!(Value::Object(changes), json!({"base_dns_domain": "b.example"}));
        let two = json!({"api_vips": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]});
        assert_eq!(differences(&CLUSTER, &two, &now).changes.len(), 1);
    }

    /// A value that a field may have, and another one.
    fn values(field: &Field) -> [Value; 2] {
        match field.rule {
            Rule::Flag => [true.into(), false.into()],
            Rule::Integer(..) => [1.into(), 2.into()],
            Rule::List(_) | Rule::Texts => [json!([{"a": "1"}]), json!([{"a": "2"}])],
            Rule::Object(_) => [json!({"a": "1"}), json!({"a": "2"})],
            _ => ["1".into(), "2".into()],
        }
    }

    #[test]
    fn every_field_of_a_new_record_is_compared() {
        for kind in [&CLUSTER, &INFRA_ENV] {
            for field in kind.new.fields.iter().filter(|field| !IDENTITY.contains(&field.name)) {
                let (name, [one, other]) = (field.name, values(field));
                let shown = kind.shown.iter().find(|(own, _)| *own == name).map_or(name, |(_, shown)| shown);
                let mut now = json!({"id": "i", shown: one});
                if name == PULL_SECRET {
                    now[name] = digests::digest("i", "1").into();
                }
                let same = differences(kind, &json!({name: one}), &now);
                assert!(same.changes.is_empty() && same.fixed.is_empty(), "{name}: {same:?}");
                let differs = differences(kind, &json!({name: other}), &now);
                assert_eq!(differs.changes.len() + differs.fixed.len(), 1, "{name}: {differs:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_changed_is_named_with_both_values() {
        let now = json!({"id": "i", "openshift_version": "4.20.3", "cpu_architecture": "x86_64"});
        let step = |wanted: Value| Step::of_record(&CLUSTER, "rack", Some(&now), wanted).map(|step| step.result);
        assert_eq!(step(json!({"openshift_version": "4.20", "cpu_architecture": "x86_64"})).unwrap(), "unchanged");
        let error = step(json!({"openshift_version": "4.21.0"})).unwrap_err().to_string();
        let expected = "cluster rack cannot be changed in openshift_version (it is 4.20.3, wanted is 4.21.0): ";
        assert!(error.starts_with(expected), "{error}");
    }
}
