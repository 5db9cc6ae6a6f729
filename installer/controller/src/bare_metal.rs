//! BareMetalHosts of an installed cluster are taken over by the cluster's own management, each with its Machine.

use crate::{
    Context,
    cluster::{
        CallError, Cluster,
        objects::{self, BARE_METAL_HOST, MACHINE, PROVISIONING, text},
    },
};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{collections::HashSet, time::Duration};

const INTERVAL: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "openshift-machine-api";
const ROLE_LABEL: &str = "machine.openshift.io/cluster-api-machine-role";
const PAUSED: &str = "baremetalhost.metal3.io/paused";
const STATUS: &str = "baremetalhost.metal3.io/status";

#[derive(Debug, thiserror::Error)]
enum BareMetalError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("{host}: no free worker Machine yet: its MachineSet's controller makes one")]
    NoMachine { host: String },
    #[error("{host}: its annotation {STATUS} is not a status")]
    Status { host: String, source: serde_json::Error },
}

/// Ends once all of them are taken over.
pub(crate) async fn run(ctx: &Context) {
    loop {
        match take_over(&ctx.cluster).await {
            Ok(()) => return,
            Err(error) => tracing::info!(error = &error as &dyn std::error::Error, "BareMetalHosts: again"),
        }
        tokio::select! {
            () = ctx.clock.sleep(INTERVAL) => {}
            () = ctx.end.wait() => return,
        }
    }
}

/// The first error, after all hosts were tried.
async fn take_over(cluster: &Cluster) -> Result<(), BareMetalError> {
    let hosts = cluster.list(BARE_METAL_HOST, Some(NAMESPACE), "").await?;
    if hosts.is_empty() {
        return Ok(());
    }
    let mut machines = free_machines(&hosts, cluster.list(MACHINE, Some(NAMESPACE), "").await?).into_iter();
    let is_provisioned_here = cluster.get(PROVISIONING, None, "provisioning-configuration").await?.is_some();
    let mut failed = None;
    for host in hosts {
        let taken = match is_provisioned_here {
            true => adopt(cluster, host, &mut machines).await,
            false => hand_over(cluster, host, &mut machines).await,
        };
        if let Err(error) = taken {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Machines of workers that no host has.
fn free_machines(hosts: &[DynamicObject], machines: Vec<DynamicObject>) -> Vec<DynamicObject> {
    let taken: HashSet<&str> = hosts.iter().map(|host| text(host, "/spec/consumerRef/name")).collect();
    let is_worker = |machine: &DynamicObject| {
        let labels = machine.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(ROLE_LABEL)).map(String::as_str) == Some("worker")
    };
    machines
        .into_iter()
        .filter(|machine| is_worker(machine) && !taken.contains(objects::name(&machine.metadata)))
        .collect()
}

/// The cluster provisions hosts itself: this one came from elsewhere.
async fn adopt(
    cluster: &Cluster,
    mut host: DynamicObject,
    machines: &mut impl Iterator<Item = DynamicObject>,
) -> Result<(), BareMetalError> {
    if !matches!(text(&host, "/status/provisioning/state"), "" | "unmanaged") {
        return Ok(());
    }
    let before = host.clone();
    set(&mut host, "externallyProvisioned", true.into());
    drop_annotation(&mut host, PAUSED);
    consume(&mut host, machines)?;
    update(cluster, &before, &host).await
}

/// It does not: the status that the hub wrote down becomes the host's own.
async fn hand_over(
    cluster: &Cluster,
    mut host: DynamicObject,
    machines: &mut impl Iterator<Item = DynamicObject>,
) -> Result<(), BareMetalError> {
    let annotations = host.metadata.annotations.clone().unwrap_or_default();
    if let Some(status) = annotations.get(STATUS).filter(|status| !status.is_empty()) {
        let failed = |source| BareMetalError::Status { host: objects::name(&host.metadata).to_owned(), source };
        let mut status: serde_json::Map<String, Value> = serde_json::from_str(status).map_err(failed)?;
        if status.get("lastUpdated").is_none_or(Value::is_null) {
            status.insert("lastUpdated".to_owned(), json!(api::Timestamp::now()));
        }
        if let Some(data) = host.data.as_object_mut() {
            data.insert("status".to_owned(), status.into());
        }
        cluster.replace(BARE_METAL_HOST, &host, "status").await?;
        host = cluster.read(BARE_METAL_HOST, Some(NAMESPACE), objects::name(&host.metadata)).await?;
    }
    let before = host.clone();
    drop_annotation(&mut host, STATUS);
    consume(&mut host, machines)?;
    update(cluster, &before, &host).await
}

/// A host without a Machine takes a free one.
fn consume(host: &mut DynamicObject, machines: &mut impl Iterator<Item = DynamicObject>) -> Result<(), BareMetalError> {
    if host.data.pointer("/spec/consumerRef").is_some_and(|consumer| !consumer.is_null()) {
        return Ok(());
    }
    let no_machine = || BareMetalError::NoMachine { host: objects::name(&host.metadata).to_owned() };
    let machine = machines.next().ok_or_else(no_machine)?;
    let consumer = json!({
        "apiVersion": MACHINE.api_version(), "kind": MACHINE.name(),
        "namespace": objects::namespace(&machine.metadata), "name": objects::name(&machine.metadata),
    });
    set(host, "consumerRef", consumer);
    Ok(())
}

/// Sets a member of `spec`.
fn set(host: &mut DynamicObject, member: &str, value: Value) {
    if let Some(spec) = host.data.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.insert(member.to_owned(), value);
    } else if let Some(data) = host.data.as_object_mut() {
        data.insert("spec".to_owned(), json!({ member: value }));
    }
}

fn drop_annotation(host: &mut DynamicObject, key: &str) {
    if let Some(annotations) = &mut host.metadata.annotations {
        annotations.remove(key);
    }
}

async fn update(cluster: &Cluster, before: &DynamicObject, host: &DynamicObject) -> Result<(), BareMetalError> {
    if before != host {
        cluster.replace(BARE_METAL_HOST, host, "").await?;
        tracing::info!(host = objects::name(&host.metadata), "BareMetalHost taken over");
    }
    Ok(())
}
