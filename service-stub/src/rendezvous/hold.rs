//! The machine we run on is installed last, because this service ends with it.

use crate::model::{ClusterRecord, HostRecord, Model};
use crate::state::{ClusterState, HostState, host as host_state};
use api::HostId;
use kernel::order;

/// The step of our own prepared host, instead of its table's; `None` for all others.
pub(crate) fn step(
    own_host: Option<HostId>,
    model: &Model,
    record: &HostRecord,
    cluster: Option<&ClusterRecord>,
) -> Option<host_state::Step> {
    let cluster = cluster?;
    if own_host != Some(record.host.id) || record.state != HostState::PreparingSuccessful {
        return None;
    }
    if !matches!(
        cluster.state,
        ClusterState::Installing | ClusterState::InstallingPendingUserAction | ClusterState::Finalizing
    ) {
        return None;
    }
    let hosts = model.hosts_of_cluster(cluster.cluster.id);
    let others = hosts.iter().filter(|host| host.host.id != record.host.id);
    let mut unfinished: Vec<&str> = others
        .filter(|host| host.state != HostState::Installed)
        .map(|host| host.hostname().unwrap_or("a host without a name"))
        .collect();
    order::sort(&mut unfinished);
    let to = |to, info: String| host_state::Step { id: "rendezvous", to, info: Some(info), effects: &[] };
    Some(if unfinished.is_empty() {
        to(Some(HostState::Installing), host_state::info::INSTALLING.to_owned())
    } else {
        let list: String = unfinished.join(", ").chars().take(500).collect();
        to(None, format!("The service runs on this host, which is installed last: waiting for {list}"))
    })
}
