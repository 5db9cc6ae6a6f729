//! The agent-based installer: its service runs on one of the hosts, and ends when that host reboots.

use crate::{
    Context,
    clock::{Look, until},
    cluster::objects::{self, CLUSTER_VERSION, CONFIG_MAP},
    finalize,
    manifests::CustomManifest,
    service::MonitoredOperator,
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

/// How the installer describes an operator in the ConfigMap.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: String,
    subscription_name: String,
    #[serde(default)]
    manifests: Vec<String>,
}

/// How far the manifests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manifests {
    /// Nothing is left to apply.
    Applied,
    Left,
    /// No operator was chosen, or the installer has not come to them.
    Absent,
}

/// Applies the manifests that the installer left in the cluster, each once its operator is there. Where there are none, it ends as soon as
/// `none_will_come`.
pub(crate) async fn apply_manifests(ctx: &Context, none_will_come: impl Fn() -> bool) {
    let look = || async {
        match try_to_apply(ctx).await {
            Manifests::Applied => Look::Done,
            Manifests::Left => Look::Again,
            Manifests::Absent => Look::from(none_will_come()),
        }
    };
    let _ = until(&ctx.clock, &ctx.end, finalize::INTERVAL, None, look).await;
}

async fn try_to_apply(ctx: &Context) -> Manifests {
    let map = match ctx.cluster.get(CONFIG_MAP, Some(&ctx.config.namespace), MANIFESTS).await {
        Ok(Some(map)) => map,
        Ok(None) => return Manifests::Absent,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the operators' manifests can't be read");
            // This controller's rights will not change.
            let is_refused = matches!(error.status(), Some(401 | 403));
            return if is_refused { Manifests::Applied } else { Manifests::Left };
        }
    };
    let data = map.data.get("data").and_then(|data| data.as_object()).cloned().unwrap_or_default();
    let operators: Vec<_> = data.iter().filter_map(|(key, text)| operator(key, text)).collect();
    if operators.is_empty() {
        return Manifests::Applied;
    }
    // At once: later the service is gone.
    if let Err(error) = ctx.admin.cluster().await {
        tracing::warn!(error = &error as &dyn std::error::Error, "no administrator's access yet");
        return Manifests::Left;
    }
    let mut all = true;
    for (known, keys) in operators {
        let contents = keys.iter().map(|key| data.get(key).and_then(|content| content.as_str()));
        let Some(contents) = contents.collect::<Option<Vec<_>>>() else {
            tracing::warn!(operator = known.name, "a manifest that its metadata names is not there yet");
            all = false;
            continue;
        };
        let manifest = |content: &str| CustomManifest { name: known.name.clone(), content: content.to_owned() };
        let list: Vec<_> = contents.into_iter().map(manifest).collect();
        all &= finalize::are_initialized(ctx, std::slice::from_ref(&known)).await
            && finalize::apply_of(ctx, &list, &HashSet::from([known.name.as_str()])).await;
    }
    if all { Manifests::Applied } else { Manifests::Left }
}

/// An operator and the keys of its manifests, by an entry of the ConfigMap that describes one.
fn operator(key: &str, text: &serde_json::Value) -> Option<(MonitoredOperator, Vec<String>)> {
    let name = key.strip_suffix(".metadata.yaml")?;
    let metadata = serde_norway::from_str::<Metadata>(text.as_str().unwrap_or_default());
    let metadata = metadata.inspect_err(|error| {
        tracing::warn!(operator = name, %error, "its manifests can't be applied: the metadata is not what the installer writes");
    });
    let metadata = metadata.ok()?;
    let known = MonitoredOperator {
        name: name.to_owned(),
        namespace: Some(metadata.namespace),
        subscription_name: Some(metadata.subscription_name),
        ..MonitoredOperator::default()
    };
    Some((known, metadata.manifests))
}
