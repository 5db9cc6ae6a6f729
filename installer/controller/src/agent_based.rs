//! The agent-based installer: its service runs on one of the hosts, and ends when that host reboots.

use crate::{
    Context,
    clock::{Look, until},
    cluster::objects::{self, CLUSTER_VERSION, CONFIG_MAP, CSV, SUBSCRIPTION, text},
    finalize,
    manifests::CustomManifest,
    taint,
};
use serde::Deserialize;
use std::{cell::Cell, collections::HashSet, time::Duration};

const INTERVAL: Duration = Duration::from_secs(60);
const MASTER_LABEL: &str = "node-role.kubernetes.io/master";
const MANIFESTS: &str = "olm-operator-manifests";

/// Waits until the cluster is available and all its control plane nodes exist, the host of the service among them.
pub(crate) async fn wait(ctx: &Context, untaints: bool, expected: u32) {
    let is_available = Cell::new(false);
    let look = || async {
        let all = ctx.nodes.all().await;
        if untaints {
            for node in all.iter().flatten() {
                taint::remove(&ctx.cluster, node).await;
            }
        }
        if !is_available.get() {
            let version = ctx.cluster.read(CLUSTER_VERSION, None, "version").await;
            let version = version
                .inspect_err(|error| tracing::warn!(error = error as &dyn std::error::Error, "no ClusterVersion"));
            let conditions = version.as_ref().map(objects::conditions).unwrap_or_default();
            is_available.set(conditions.iter().any(|c| c.kind == "Available" && c.status == "True"));
        }
        if !is_available.get() {
            return Look::Again;
        }
        let is_master = |labels: &std::collections::BTreeMap<String, String>| labels.contains_key(MASTER_LABEL);
        let masters = all.iter().flatten().filter(|node| node.metadata.labels.as_ref().is_some_and(is_master)).count();
        let masters = u32::try_from(masters).unwrap_or(u32::MAX);
        if masters < expected {
            tracing::info!(masters, expected, "waiting for control plane nodes");
        }
        Look::from(masters >= expected)
    };
    let _ = until(&ctx.clock, &ctx.end, INTERVAL, None, look).await;
}

/// An operator's part of the ConfigMap.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Operator {
    namespace: String,
    subscription_name: String,
    #[serde(default)]
    manifests: Vec<String>,
}

/// Applies the manifests that the installer left in the cluster, each once its operator is there.
pub(crate) async fn apply_manifests(ctx: &Context) {
    let look = || async { Look::from(try_to_apply(ctx).await) };
    let _ = until(&ctx.clock, &ctx.end, finalize::INTERVAL, None, look).await;
}

/// True once nothing is left to apply.
async fn try_to_apply(ctx: &Context) -> bool {
    let map = match ctx.cluster.read(CONFIG_MAP, Some(&ctx.config.namespace), MANIFESTS).await {
        Ok(map) => map,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "no manifests of operators");
            return matches!(error.status(), Some(401 | 403));
        }
    };
    let data = map.data.get("data").and_then(|data| data.as_object()).cloned().unwrap_or_default();
    let mut all = true;
    for (key, text) in &data {
        let Some(name) = key.strip_suffix(".metadata.yaml") else { continue };
        let operator = match serde_norway::from_str::<Operator>(text.as_str().unwrap_or_default()) {
            Ok(operator) => operator,
            Err(error) => {
                tracing::warn!(operator = name, %error, "its manifests can't be applied: the metadata is not what the installer writes");
                continue;
            }
        };
        let contents = operator.manifests.iter().map(|key| data.get(key).and_then(|content| content.as_str()));
        let Some(contents) = contents.collect::<Option<Vec<_>>>() else {
            tracing::warn!(operator = name, "a manifest that its metadata names is not there yet");
            all = false;
            continue;
        };
        if !is_there(ctx, &operator).await {
            all = false;
            continue;
        }
        let manifest = |content: &str| CustomManifest { name: name.to_owned(), content: content.to_owned() };
        let list: Vec<_> = contents.into_iter().map(manifest).collect();
        all &= finalize::apply_of(ctx, &list, &HashSet::from([name])).await;
    }
    all
}

async fn is_there(ctx: &Context, operator: &Operator) -> bool {
    let there = async {
        let subscription =
            ctx.cluster.read(SUBSCRIPTION, Some(&operator.namespace), &operator.subscription_name).await?;
        match text(&subscription, "/status/currentCSV") {
            "" => Ok(false),
            csv => ctx.cluster.get(CSV, Some(&operator.namespace), csv).await.map(|csv| csv.is_some()),
        }
    };
    there.await.unwrap_or_else(|error: crate::cluster::CallError| {
        tracing::info!(error = &error as &dyn std::error::Error, "an operator can't be read");
        false
    })
}
