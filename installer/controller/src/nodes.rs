//! Hosts become nodes: which stages to report of whom.

use crate::{
    Context,
    cluster::{
        CallError,
        objects::{self, Node, NodeFacts},
    },
    hosts::{Host, Matcher, Snapshot},
    taint,
};
use api::HostStage;
use futures_util::future::join_all;
use installer::bootstrap::mcs_log;
use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// Changes that come together are looked at together.
const TOGETHER: Duration = Duration::from_secs(2);
/// Of the machine-config server's log so much is read.
const LOG_SPAN: Duration = Duration::from_secs(300);
/// Between two looks at that log.
const LOG_INTERVAL: Duration = Duration::from_secs(30);
const MCS_NAMESPACE: &str = "openshift-machine-config-operator";
const MCS_LABEL: &str = "k8s-app=machine-config-server";

/// Stages to report of a host whose node is `node`, in this order. `Done` is reported from any stage: a node that is ready is one.
pub(crate) fn reports(stage: Option<HostStage>, is_ready: bool) -> Vec<HostStage> {
    use HostStage as S;
    let joins = matches!(stage, Some(S::Configuring | S::Rebooting)).then_some(S::Joined);
    let done = (is_ready && stage != Some(S::Done)).then_some(S::Done);
    joins.into_iter().chain(done).collect()
}

/// Whether nothing is left to do: all are installed, or all that are left have failed.
fn is_over(snapshot: &Snapshot) -> bool {
    snapshot.remaining().all(|host| host.is("error"))
}

/// Reports until all hosts are installed, or all that are left have failed.
pub(crate) async fn run(ctx: &Context, untaints: bool) {
    let mut nodes = ctx.nodes.clone();
    let mut seen = ctx.follow.subscribe();
    let mut known = Known::default();
    let mut log_read = None;
    loop {
        let snapshot = seen.borrow_and_update().clone();
        if let Some(snapshot) = &snapshot {
            known.forget_what_is_older_than(snapshot);
            if is_over(snapshot) {
                tracing::info!("no host is left that could become a node");
                return;
            }
            if let Some(nodes) = nodes.all().await {
                report_nodes(ctx, snapshot, &nodes, untaints, &mut known).await;
            }
            let now = ctx.clock.now();
            let is_due = log_read.is_none_or(|read: Duration| now.saturating_sub(read) >= LOG_INTERVAL);
            if is_due
                && !ctx.config.is_single_node()
                && snapshot.hosts.iter().any(|host| known.awaits_configuration(host))
            {
                log_read = Some(now);
                report_configured(ctx, snapshot, &mut known).await;
            }
        }
        tokio::select! {
            () = nodes.changed() => ctx.clock.sleep(TOGETHER).await,
            _ = seen.changed() => {}
            () = ctx.end.wait() => return,
        }
    }
}

/// What the service has taken since it was last asked, and what was said in the log, once each.
#[derive(Default)]
struct Known {
    sent: HashMap<api::HostId, (HostStage, Instant)>,
    strangers: HashSet<String>,
    moved: HashSet<api::HostId>,
    /// Hosts that were nodes when nodes were last read.
    joined: HashSet<api::HostId>,
}

impl Known {
    /// A snapshot that was asked for after a report tells more than that.
    fn forget_what_is_older_than(&mut self, snapshot: &Snapshot) {
        self.sent.retain(|_, (_, at)| snapshot.asked.is_none_or(|asked| asked <= *at));
    }

    fn stage(&self, host: &Host) -> Option<HostStage> {
        self.sent.get(&host.id).map(|(stage, _)| *stage).or(host.stage)
    }

    /// Whether the host has not got its configuration yet, as far as is known. A node has got it: to report that now could undo what the
    /// service has taken, if its reply was lost.
    fn awaits_configuration(&self, host: &Host) -> bool {
        use HostStage as S;
        let is_past = matches!(self.stage(host), Some(S::Configuring | S::Joined | S::Done));
        !host.is("disabled") && !is_past && !self.joined.contains(&host.id)
    }
}

async fn report_nodes(ctx: &Context, snapshot: &Snapshot, nodes: &[Arc<Node>], untaints: bool, known: &mut Known) {
    known.joined.clear();
    let hosts = || snapshot.hosts.iter().filter(|host| !host.is("disabled"));
    // Of two hosts of one name, that which is still to be installed counts.
    let installed = hosts().filter(|host| host.is("installed"));
    let matcher = Matcher::new(installed.chain(snapshot.remaining()), hosts());
    for node in nodes {
        let Some(host) = matcher.host(node) else {
            let name = node.host_name();
            if known.strangers.insert(name.clone()) {
                tracing::warn!(node = name, "the service has no host of this name or these addresses");
            }
            continue;
        };
        known.joined.insert(host.id);
        if host.is("installed") {
            continue;
        }
        let first = node.internal_ips().first().copied();
        if first.is_some_and(|ip| !host.addresses.contains(&ip)) && known.moved.insert(host.id) {
            tracing::warn!(host = host.name, address = ?first, "the node has an address that its inventory did not have");
        }
        report_node(ctx, host, node, untaints, known).await;
    }
}

/// Whatever fails here is tried again with the next snapshot.
async fn report_node(ctx: &Context, host: &Host, node: &Node, untaints: bool, known: &mut Known) {
    for stage in reports(known.stage(host), node.is_ready()) {
        if !send(ctx, host, stage, known).await {
            return;
        }
        if stage == HostStage::Done {
            ctx.reboots.note_done(ctx, host, objects::name(&node.metadata));
        }
    }
    if untaints && !node.is_ready() {
        taint::remove(&ctx.cluster, node).await;
    }
}

async fn send(ctx: &Context, host: &Host, stage: HostStage, known: &mut Known) -> bool {
    match ctx.service.put_host_stage(host.infra_env, host.id, stage).await {
        Ok(()) => {
            tracing::info!(host = host.name, %stage, "reported");
            known.sent.insert(host.id, (stage, Instant::now()));
            ctx.follow.look_soon();
            true
        }
        Err(error) => {
            tracing::warn!(host = host.name, %stage, error = &error as &dyn std::error::Error, "the service did not take the stage");
            false
        }
    }
}

/// Hosts whose Ignition has asked the machine-config server are being configured.
async fn report_configured(ctx: &Context, snapshot: &Snapshot, known: &mut Known) {
    let asked = match addresses_that_asked(ctx).await {
        Ok(asked) => asked,
        Err(error) => {
            tracing::info!(error = &error as &dyn std::error::Error, "machine-config servers can't be found");
            return;
        }
    };
    for host in &snapshot.hosts {
        let has_asked = host.addresses.iter().any(|address| asked.contains(&address.to_canonical()));
        if has_asked && known.awaits_configuration(host) {
            send(ctx, host, HostStage::Configuring, known).await;
        }
    }
}

/// By all logs that can be read: what one server says is true without the others, whose nodes may be down.
async fn addresses_that_asked(ctx: &Context) -> Result<HashSet<IpAddr>, CallError> {
    let pods = ctx.cluster.list(objects::POD, Some(MCS_NAMESPACE), MCS_LABEL).await?;
    let logs = pods.iter().map(|pod| async {
        let log = ctx.cluster.pod_log(MCS_NAMESPACE, objects::name(&pod.metadata), Some(LOG_SPAN)).await;
        log.inspect_err(|error| tracing::debug!(error = error as &dyn std::error::Error, "no log")).unwrap_or_default()
    });
    let logs = join_all(logs).await;
    Ok(logs.iter().flat_map(|log| log.split(|byte| *byte == b'\n')).flat_map(mcs_log::requests).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_ready_is_done_whatever_its_host_said_last() {
        use HostStage as S;
        for (stage, ready, wanted) in [
            (Some(S::Configuring), true, vec![S::Joined, S::Done]),
            (Some(S::Rebooting), false, vec![S::Joined]),
            (Some(S::Joined), false, vec![]),
            (Some(S::Joined), true, vec![S::Done]),
            (Some(S::Done), true, vec![]),
            (Some(S::WaitingForIgnition), true, vec![S::Done]),
            (Some(S::WaitingForIgnition), false, vec![]),
            (None, true, vec![S::Done]),
        ] {
            assert_eq!(reports(stage, ready), wanted, "{stage:?}");
        }
    }
}
