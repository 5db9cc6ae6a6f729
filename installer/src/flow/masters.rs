//! What a worker waits for: two masters that are done (docs/compatibility.md#waiting-for-masters).

use super::{FlowError, Pace};
use api::{Client, ClientError, ClusterId, HostRole, HostStage};
use kernel::Cancel;
use std::error::Error;

/// The kind of a cluster that exists already and gets more hosts.
const ADD_HOSTS_KIND: &str = "AddHostsCluster";

/// Without a limit, as the service has its own for this stage, and there is no user to press a key.
pub(super) fn wait(
    client: &Client,
    cluster: ClusterId,
    needed: usize,
    cancel: &Cancel,
    pace: Pace,
) -> Result<(), FlowError> {
    let mut kind = None;
    let mut last = None;
    loop {
        match ready(client, cluster, &mut kind) {
            Ok(None) => return Ok(()),
            Ok(Some(ready)) => {
                if last.replace(ready) != Some(ready) {
                    tracing::info!(ready, needed, "waiting for masters");
                }
                if ready >= needed {
                    return Ok(());
                }
            }
            Err(error) => tracing::warn!(error = &error as &dyn Error, "cannot get the masters, trying again"),
        }
        if cancel.sleep(pace.masters_poll) {
            return Err(FlowError::Cancelled("waiting for the control plane"));
        }
    }
}

/// Masters and arbiters that are done, or none where a running cluster is added to. The cluster's kind is asked for once.
fn ready(client: &Client, cluster: ClusterId, kind: &mut Option<String>) -> Result<Option<usize>, ClientError> {
    let client = client.session();
    let kind = match kind {
        Some(kind) => kind,
        None => kind.insert(client.cluster_without_hosts(cluster)?.kind),
    };
    if kind == ADD_HOSTS_KIND {
        return Ok(None);
    }
    let done = |hosts: Vec<api::Host>| {
        let stage = |host: &api::Host| host.progress.as_ref().and_then(|progress| progress.current_stage);
        hosts.iter().filter(|host| stage(host) == Some(HostStage::Done)).count()
    };
    // An older service doesn't know arbiters.
    let arbiters = client.cluster_hosts(cluster, HostRole::Arbiter).map(done).unwrap_or(0);
    Ok(Some(done(client.cluster_hosts(cluster, HostRole::Master)?) + arbiters))
}
