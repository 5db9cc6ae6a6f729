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
use crate::rendezvous::{self, HostChange, PlannedHost, Rack};
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
/// installation is not started.
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
    fields: &["additional_ntp_sources", "ssh_authorized_key", "ignition_config_override"],
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
        let rack = self.read()?;
        rack.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let session = self.reach.session()?;
        let mut done = Vec::new();
        let name = &rack.cluster.name;
        let all = session.list(&LIST_CLUSTERS.at(&[]))?;
        let known = only("cluster", &all, name)?.map(|known| at(known, "/id").to_owned());
        let now = known.as_deref().map(|id| session.client.document(&GET_CLUSTER.at(&[&id]))).transpose()?;
        let step = Step::of_record(&CLUSTER, name, now.as_ref(), json!(rack.cluster));
        let cluster = known.or(self.carry_out(&session, &mut done, step)?);

        let name = &rack.infra_env.name;
        let all = session.list(&LIST_INFRA_ENVS.at(&[]))?;
        let known = infra_env_of(&all, cluster.as_deref(), name)?.map(|known| at(known, "/id").to_owned());
        let now = known.as_deref().map(|id| session.client.document(&GET_INFRA_ENV.at(&[&id]))).transpose()?;
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

    fn read(&self) -> anyhow::Result<Rack> {
        let version = self.openshift_version.as_deref();
        let failed = || format!("{} is not a rack's documents", self.path.display());
        if self.path.is_dir() {
            return rendezvous::directory(&self.path, version).with_context(failed);
        }
        let text = read_small(&self.path, MAX_FILE_BYTES)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let documents = rendezvous::parse(&name, &text).with_context(failed)?;
        rendezvous::plan(&documents, version).with_context(failed)
    }
}

/// The infra-env of a cluster: the only one that is bound to it, else the one of its name.
fn infra_env_of<'a>(all: &'a [Value], cluster: Option<&str>, name: &str) -> anyhow::Result<Option<&'a Value>> {
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
    use super::*;

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
