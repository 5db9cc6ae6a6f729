//! `landfall apply`: a rack's documents, on a service.
//!
//! Parse ([`crate::rendezvous`] reads the documents), then plan (what differs from the service's records), then apply: one call for each
//! change.

use super::{
    Console, Reach, Session, display_name,
    explain::explain,
    host_name, host_target, inventory, read_small,
    table::{Column, Table},
};
use crate::rendezvous::{self, PlannedHost, Rack};
use crate::text::at;
use anyhow::{Context, ensure};
use api::HostRole;
use api::endpoint::{
    GET_CLUSTER, GET_INFRA_ENV, LIST_CLUSTERS, LIST_INFRA_ENVS, REGISTER_CLUSTER, REGISTER_INFRA_ENV, Target,
    UPDATE_CLUSTER, UPDATE_HOST, UPDATE_HOST_IGNITION, UPDATE_INFRA_ENV, UPDATE_INSTALLER_ARGS,
};
use serde_json::{Map, Value, json};
use std::{path::PathBuf, process::ExitCode};

/// A larger file is not a manifest.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Fields of a cluster that may be changed and are shown. Secrets are not shown, so they cannot be compared.
const CLUSTER_FIELDS: [&str; 11] = [
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
];
const INFRA_ENV_FIELDS: [&str; 3] = ["additional_ntp_sources", "ssh_authorized_key", "ignition_config_override"];

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

/// What was done so far.
struct Run<'a> {
    session: &'a Session,
    dry_run: bool,
    /// Kind, name, result.
    done: Vec<[String; 3]>,
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
        let mut run = Run { session: &session, dry_run: self.dry_run, done: Vec::new() };
        let cluster = run.cluster(&rack)?;
        let infra_env = run.infra_env(&rack, cluster)?;
        let hosts = infra_env.map(|id| session.hosts(Some(&id))).transpose()?.unwrap_or_default();
        rack.hosts.iter().try_for_each(|plan| run.host(plan, &hosts))?;
        let done = run.done;
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

impl Run<'_> {
    fn note(&mut self, kind: &str, name: &str, result: &str) {
        self.done.push([kind, name, result].map(str::to_owned));
    }

    /// The service's reply; none in a dry run.
    fn send(
        &mut self,
        kind: &str,
        name: &str,
        result: &str,
        target: &Target,
        body: &Value,
    ) -> anyhow::Result<Option<Value>> {
        if self.dry_run {
            self.note(kind, name, &format!("would be {result}"));
            return Ok(None);
        }
        let sent = self.session.client.send(target, Some(body));
        let reply =
            sent.map_err(|error| anyhow::anyhow!("{kind} {name} cannot be {result}: {:#}", explain(error.into())))?;
        self.note(kind, name, result);
        Ok(Some(reply))
    }

    /// Its id; none if it would be created.
    fn cluster(&mut self, rack: &Rack) -> anyhow::Result<Option<String>> {
        let name = &rack.cluster.name;
        let all = self.session.list(&LIST_CLUSTERS.at(&[]))?;
        let wanted = json!(rack.cluster);
        let Some(known) = only("cluster", &all, name)? else {
            let made = self.send("cluster", name, "created", &REGISTER_CLUSTER.at(&[]), &wanted)?;
            return Ok(made.map(|made| at(&made, "/id").to_owned()));
        };
        let id = at(known, "/id").to_owned();
        let now = self.session.client.document(&GET_CLUSTER.at(&[&id]))?;
        self.change("cluster", name, &UPDATE_CLUSTER.at(&[&id]), differences(&wanted, &now, &CLUSTER_FIELDS))?;
        Ok(Some(id))
    }

    fn infra_env(&mut self, rack: &Rack, cluster: Option<String>) -> anyhow::Result<Option<String>> {
        let name = &rack.infra_env.name;
        let all = self.session.list(&LIST_INFRA_ENVS.at(&[]))?;
        let mut wanted = json!(rack.infra_env);
        let Some(known) = only("infra-env", &all, name)? else {
            wanted["cluster_id"] = cluster.into();
            let made = self.send("infra-env", name, "created", &REGISTER_INFRA_ENV.at(&[]), &wanted)?;
            return Ok(made.map(|made| at(&made, "/id").to_owned()));
        };
        let id = at(known, "/id").to_owned();
        let now = self.session.client.document(&GET_INFRA_ENV.at(&[&id]))?;
        self.change("infra-env", name, &UPDATE_INFRA_ENV.at(&[&id]), differences(&wanted, &now, &INFRA_ENV_FIELDS))?;
        Ok(Some(id))
    }

    fn change(&mut self, kind: &str, name: &str, target: &Target, changes: Map<String, Value>) -> anyhow::Result<()> {
        if changes.is_empty() {
            self.note(kind, name, "unchanged");
            return Ok(());
        }
        let result = format!("changed ({})", changes.keys().cloned().collect::<Vec<_>>().join(", "));
        self.send(kind, name, &result, target, &Value::Object(changes)).map(drop)
    }

    /// Gives a host its part of the plan, if it has registered.
    fn host(&mut self, plan: &PlannedHost, hosts: &[Value]) -> anyhow::Result<()> {
        let label = plan.label();
        let found =
            hosts.iter().find_map(|host| Some((host, inventory(host)?)).filter(|(_, inventory)| plan.is(inventory)));
        let Some((host, inventory)) = found else {
            self.note("host", &label, "has not registered");
            return Ok(());
        };
        let mut changes = Map::new();
        if !plan.name.is_empty() && plan.name != host_name(host) {
            changes.insert("host_name".into(), plan.name.as_str().into());
        }
        if plan.role != HostRole::AutoAssign && json!(plan.role) != host["role"] {
            changes.insert("host_role".into(), json!(plan.role));
        }
        if !plan.hints.is_empty() {
            let fitting = plan.hints.matching(&inventory);
            let first = fitting.first().with_context(|| format!("host {label}: no disk fits its root device hints"))?;
            let chosen = at(host, "/installation_disk_path");
            if !fitting.iter().any(|disk| disk.path == chosen) {
                let id = if first.id.is_empty() { &first.path } else { &first.id };
                changes.insert("disks_selected_config".into(), json!([{"id": id, "role": "install"}]));
            }
        }
        self.change("host", &label, &host_target(host, &UPDATE_HOST), changes)?;
        let args = json!(plan.installer_args).to_string();
        if !plan.installer_args.is_empty() && args != at(host, "/installer_args") {
            let body = json!({"args": plan.installer_args});
            let target = host_target(host, &UPDATE_INSTALLER_ARGS);
            self.send("host", &label, "changed (installer_args)", &target, &body)?;
        }
        if !plan.ignition_override.is_empty() && plan.ignition_override != at(host, "/ignition_config_overrides") {
            let body = json!({"config": plan.ignition_override});
            let target = host_target(host, &UPDATE_HOST_IGNITION);
            self.send("host", &label, "changed (ignition_config_overrides)", &target, &body)?;
        }
        Ok(())
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
        let changes = differences(&wanted, &now, &CLUSTER_FIELDS);
        assert_eq!(Value::Object(changes), json!({"base_dns_domain": "b.example"}));
        let two = json!({"api_vips": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]});
        assert_eq!(differences(&two, &now, &CLUSTER_FIELDS).len(), 1);
    }
}
