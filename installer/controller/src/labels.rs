//! Labels that users gave their hosts go to the nodes; the pool of workers waits until they are there.

use crate::{
    Context,
    clock::Reason,
    cluster::objects::{self, MACHINE_CONFIG_POOL, NODE, Node, NodeFacts},
    hosts::{Host, Matcher, Snapshot},
};
use api::HostRole;
use serde_json::{Value, json};
use std::{collections::HashSet, sync::Arc, time::Duration};

/// Until another try.
const INTERVAL: Duration = Duration::from_secs(30);
/// Changes that come together are looked at together.
const TOGETHER: Duration = Duration::from_secs(2);
const POOL: &str = "worker";

/// Hosts whose nodes get labels.
fn labelled(snapshot: &Snapshot) -> Vec<&Host> {
    let usable = snapshot.hosts.iter().filter(|host| !host.is("disabled") && !host.is("error"));
    usable.filter(|host| !host.labels.is_empty()).collect()
}

/// Workers of a pool of their own must not get the configuration of all workers before they have its label.
fn needs_pause(hosts: &[&Host]) -> bool {
    hosts.iter().any(|host| host.role == HostRole::Worker && !host.pool.is_empty())
}

fn has_all(node: &Node, labels: &serde_json::Map<String, Value>) -> bool {
    let present = node.metadata.labels.as_ref();
    labels.iter().all(|(key, value)| present.and_then(|present| present.get(key)).map(String::as_str) == value.as_str())
}

/// Labels nodes until all labelled hosts have theirs.
pub(crate) async fn run(ctx: &Context) {
    let mut seen = ctx.follow.subscribe();
    let first = tokio::select! {
        // What is known counts even at the end: an earlier run may have left the pool paused.
        biased;
        first = seen.wait_for(Option::is_some) => first.ok().and_then(|snapshot| snapshot.clone()),
        () = ctx.end.wait() => None,
    };
    if first.is_none_or(|snapshot| labelled(&snapshot).is_empty()) {
        return;
    }
    let mut nodes = ctx.nodes.clone();
    let mut is_paused = false;
    loop {
        let snapshot = seen.borrow_and_update().clone().unwrap_or_default();
        let hosts = labelled(&snapshot);
        let wants_pause = needs_pause(&hosts);
        if wants_pause && !is_paused {
            is_paused = set_paused(ctx, true).await;
        }
        if is_paused || !wants_pause {
            let done = label(ctx, &hosts, &nodes.all().await.unwrap_or_default()).await;
            if done && (!is_paused || set_paused(ctx, false).await) {
                return;
            }
        }
        tokio::select! {
            () = nodes.changed() => ctx.clock.sleep(TOGETHER).await,
            () = ctx.clock.sleep(INTERVAL) => {}
            () = ctx.end.wait() => break,
        }
    }
    // Another run finds the pool as this one leaves it; after the last one, nothing else would let it go on.
    if is_paused && ctx.end.reason() == Some(Reason::Finished) {
        set_paused(ctx, false).await;
    }
}

/// True once each of these hosts has a ready node with all its labels.
async fn label(ctx: &Context, hosts: &[&Host], nodes: &[Arc<Node>]) -> bool {
    let matcher = Matcher::new(hosts.iter().copied(), hosts.iter().copied());
    let mut labelled = HashSet::new();
    for node in nodes.iter().filter(|node| node.is_ready()) {
        let Some(host) = matcher.host(node) else { continue };
        let name = objects::name(&node.metadata);
        if has_all(node, &host.labels) {
            labelled.insert(host.id);
            continue;
        }
        match ctx.cluster.merge(NODE, None, name, &json!({"metadata": {"labels": host.labels}})).await {
            Ok(()) => {
                tracing::info!(node = name, "labelled");
                labelled.insert(host.id);
            }
            Err(error) => tracing::warn!(node = name, error = &error as &dyn std::error::Error, "not labelled"),
        }
    }
    hosts.iter().all(|host| labelled.contains(&host.id))
}

async fn set_paused(ctx: &Context, paused: bool) -> bool {
    let set = async {
        let pool = ctx.cluster.read(MACHINE_CONFIG_POOL, None, POOL).await?;
        if pool.data.pointer("/spec/paused").and_then(Value::as_bool).unwrap_or_default() == paused {
            return Ok(());
        }
        ctx.cluster.merge(MACHINE_CONFIG_POOL, None, POOL, &json!({"spec": {"paused": paused}})).await
    };
    match set.await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(paused, error = &error as &dyn std::error::Error, "the pool of workers stays as it is");
            false
        }
    }
}
