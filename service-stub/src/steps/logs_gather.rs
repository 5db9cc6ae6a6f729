//! `logs-gather`: the logs of an installation that ended badly.

use super::kind::{Kind, Situation};
use crate::model::HostRecord;
use crate::net::Cidr;
use crate::state::HostState;
use api::{HostRole, LogsGatherRequest, kinds};
use serde_json::Value;
use std::net::IpAddr;

pub(crate) fn kind() -> Kind {
    Kind {
        // They are cut off then.
        limit_s: Some(3600),
        ..Kind::new::<kinds::LogsGather>(asked_in, ask)
    }
}

fn asked_in(state: HostState, _: bool) -> bool {
    matches!(state, HostState::Error | HostState::Cancelled)
}

/// Asks for all logs until they have arrived; a bootstrap host also for those of the other masters.
fn ask(situation: &Situation) -> Option<Vec<String>> {
    let host = &situation.record.host;
    let masters = situation
        .peers
        .iter()
        .filter(|peer| host.bootstrap && peer.host.id != host.id && peer.effective_role() == HostRole::Master);
    if !host.logs_collected_at.is_zero() {
        return None;
    }
    let request = LogsGatherRequest {
        cluster_id: situation.cluster?.cluster.id,
        host_id: host.id,
        infra_env_id: host.infra_env_id,
        bootstrap: host.bootstrap,
        installer_gather: true,
        master_ips: masters.filter_map(|peer| address(peer, situation.machine_networks)).collect(),
    };
    let mut request = api::json::to_value(request).ok()?;
    // The field is there for every host, with null where there is nothing to gather from.
    request.as_object_mut()?.entry("master_ips").or_insert(Value::Null);
    Some(vec![request.to_string()])
}

/// A host's address in the machine networks; its first address if none are known.
fn address(record: &HostRecord, networks: &[Cidr]) -> Option<IpAddr> {
    let addresses = &record.facts().addresses;
    let inside = |address: &&IpAddr| networks.iter().any(|network| network.contains(**address));
    if networks.is_empty() { addresses.first() } else { addresses.iter().find(inside) }.copied()
}
