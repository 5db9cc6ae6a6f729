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
use crate::rendezvous::{self, Document, HostChange, PlannedHost};
use crate::text::at;
use anyhow::{Context, ensure};
use api::endpoint::{
    Endpoint, GET_CLUSTER, GET_INFRA_ENV, LIST_CLUSTERS, LIST_INFRA_ENVS, REGISTER_CLUSTER, REGISTER_INFRA_ENV, Target,
    UPDATE_CLUSTER, UPDATE_HOST, UPDATE_HOST_IGNITION, UPDATE_INFRA_ENV, UPDATE_INSTALLER_ARGS,
};
use api::{ClientError, Host, Inventory};
use serde_json::{Map, Value, json};
use std::{path::PathBuf, process::ExitCode};

/// A larger file is not a manifest.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Create a rack on a service from its documents, or change it
///
/// Takes what `serve --rendezvous` takes: a rack.toml, an AgentConfig with an install-config, or the manifests of zero-touch provisioning.
/// A cluster and infra-env of that name are created if they are missing, and changed where they differ. Hosts that have registered get the
/// name, role and disk that the documents give to their MAC addresses; apply again when more have come. Nothing is deleted, and the
/// installation is not started. `landfall cluster export` prints a rack as such documents.
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
}

/// A kind of record that documents create and change.
struct Kind {
    name: &'static str,
    create: &'static Endpoint,
    update: &'static Endpoint,
    /// Fields that may be changed and are shown. Secrets are not shown, so they cannot be compared.
    fields: &'static [&'static str],
}

const CLUSTER: Kind = Kind {
    name: "cluster",
    create: &REGISTER_CLUSTER,
    update: &UPDATE_CLUSTER,
    fields: &[
        "base_dns_domain",
        "ssh_public_key",
        "api_vips",
        "ingress_vips",
        "machine_networks",
        "mirror_registry_configuration",
        "cluster_networks",
        "service_networks",
        "network_type",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    ],
};
const INFRA_ENV: Kind = Kind {
    name: "infra-env",
    create: &REGISTER_INFRA_ENV,
    update: &UPDATE_INFRA_ENV,
    fields: &[
        "additional_ntp_sources",
        "ssh_authorized_key",
        "ignition_config_override",
        "mirror_registry_configuration",
    ],
};

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
    fn of_record(kind: &Kind, name: &str, known: Option<&Value>, wanted: Value) -> Self {
        let Some(known) = known else {
            return Self { request: Some((kind.create.at(&[]), wanted)), ..Self::nothing(kind.name, name, "created") };
        };
        let changes = differences(&wanted, known, kind.fields);
        if changes.is_empty() {
            return Self::nothing(kind.name, name, "unchanged");
        }
        let target = kind.update.at(&[&at(known, "/id")]);
        Self::change(kind.name, name, &names(&changes), target, Value::Object(changes))
    }

    fn change(kind: &'static str, name: &str, what: &str, target: Target, body: Value) -> Self {
        Self { request: Some((target, body)), ..Self::nothing(kind, name, &format!("changed ({what})")) }
    }

    /// Gives a host its part of the plan, if it has registered.
    fn of_host(plan: &PlannedHost, hosts: &[Host]) -> anyhow::Result<Vec<Self>> {
        let label = plan.label();
        let inventory = |host: &Host| serde_json::from_str::<Inventory>(&host.inventory).ok();
        let mut registered = hosts.iter().filter_map(|host| Some((host, inventory(host)?)));
        let Some((host, inventory)) = registered.find(|(_, inventory)| plan.is(inventory)) else {
            return Ok(vec![Self::nothing("host", &label, "has not registered")]);
        };
        let changes = plan.changes(host, &inventory).with_context(|| format!("host {label}"))?;
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
        let rack = rendezvous::changes(&documents, version).with_context(failed)?;
        // What is created needs all that a new rack has.
        let complete = |known: Option<&Value>| match known {
            Some(_) => Ok(()),
            None => rendezvous::plan(&documents, version).map(drop).with_context(failed),
        };
        rack.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let session = self.reach.session()?;
        let mut done = Vec::new();
        let name = &rack.cluster.name;
        let all = session.list(&LIST_CLUSTERS.at(&[]))?;
        let known = only("cluster", &all, name)?.map(|known| at(known, "/id").to_owned());
        let now = known.as_deref().map(|id| session.client.document(&GET_CLUSTER.at(&[&id]))).transpose()?;
        complete(now.as_ref())?;
        let step = Step::of_record(&CLUSTER, name, now.as_ref(), json!(rack.cluster));
        let cluster = known.or(self.carry_out(&session, &mut done, step)?);

        let name = &rack.infra_env.name;
        let all = session.list(&LIST_INFRA_ENVS.at(&[]))?;
        let known = infra_env_of(&all, cluster.as_deref(), name)?.map(|known| at(known, "/id").to_owned());
        let now = known.as_deref().map(|id| session.client.document(&GET_INFRA_ENV.at(&[&id]))).transpose()?;
        complete(now.as_ref())?;
        let mut wanted = json!(rack.infra_env);
        wanted["cluster_id"] = cluster.into();
        let step = Step::of_record(&INFRA_ENV, name, now.as_ref(), wanted);
        let infra_env = known.or(self.carry_out(&session, &mut done, step)?);

        let hosts = infra_env.map(|id| anyhow::Ok(session.client.hosts(id.parse()?)?)).transpose()?.unwrap_or_default();
        for plan in &rack.hosts {
            for step in Step::of_host(plan, &hosts)? {
                self.carry_out(&session, &mut done, step)?;
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

/// The fields that are wanted otherwise than they are.
fn differences(wanted: &Value, now: &Value, fields: &[&str]) -> Map<String, Value> {
    let wanted = |name: &str| wanted.get(name).filter(|value| !value.is_null() && **value != json!("")).cloned();
    let differing = fields.iter().filter_map(|name| Some(((*name).to_owned(), wanted(name)?)));
    differing.filter(|(name, value)| !contains(now.get(name), value)).collect()
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
            "openshift_version": "4.22", "ssh_public_key": "ssh-ed25519 AAAA key", "control_plane_count": 3,
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
        let text = rendezvous::manifests(&cluster, Some(&infra_env)).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        for left_out in
            ["the pull secret", "the version, 4.22", "a proxy", "tags", "minimal-iso", "the network of host"]
        {
            assert!(text.lines().any(|line| line.starts_with("# - ") && line.contains(left_out)), "{left_out}: {text}");
        }
        let documents = rendezvous::parse("rack.yaml", &text).unwrap();
        let rack = rendezvous::changes(&documents, None).unwrap();
        assert_eq!(rack.warnings, Vec::<String>::new(), "{text}");
        assert_eq!((rack.masters, rack.total, rack.hosts.len()), (3, 3, 3), "{text}");
        let mut steps = vec![
            Step::of_record(&CLUSTER, "rack", Some(&cluster), json!(rack.cluster)),
            Step::of_record(&INFRA_ENV, "lab", Some(&infra_env), json!(rack.infra_env)),
        ];
        let hosts: Vec<Host> = serde_json::from_value(cluster["hosts"].clone()).unwrap();
        steps.extend(rack.hosts.iter().flat_map(|plan| Step::of_host(plan, &hosts).unwrap()));
        let results: Vec<&str> = steps.iter().map(|step| step.result.as_str()).collect();
        assert_eq!(results, ["unchanged", "unchanged", "unchanged", "unchanged", "has not registered"], "{text}");
        assert!(steps.iter().all(|step| step.request.is_none()), "{steps:?}");
        // A new rack needs what is left out.
        let error = rendezvous::plan(&documents, None).unwrap_err().to_string();
        assert!(error.starts_with("no version to install"), "{error}");

        // What is changed in them is all that changes.
        let text = text.replace("node-2", "blade").replace("hostPrefix: 24", "hostPrefix: 25");
        let text = text.replace("n.example.com", "o.example.com");
        let rack = rendezvous::changes(&rendezvous::parse("rack.yaml", &text).unwrap(), None).unwrap();
        let step = Step::of_record(&CLUSTER, "rack", Some(&cluster), json!(rack.cluster));
        assert_eq!(step.result, "changed (cluster_networks)");
        let step = Step::of_record(&INFRA_ENV, "lab", Some(&infra_env), json!(rack.infra_env));
        assert_eq!(step.result, "changed (mirror_registry_configuration)");
        let results = rack.hosts.iter().flat_map(|plan| Step::of_host(plan, &hosts).unwrap()).map(|step| step.result);
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
        let changes = differences(&wanted, &now, CLUSTER.fields);
        assert_eq!(Value::Object(changes), json!({"base_dns_domain": "b.example"}));
        let two = json!({"api_vips": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]});
        assert_eq!(differences(&two, &now, CLUSTER.fields).len(), 1);
    }
}
