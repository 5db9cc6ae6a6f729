//! `connectivity-check`: whether the host reaches the others of its cluster.

use super::kind::{Kind, Outcome, Replied, Situation, document, json};
use super::outputs;
use crate::check::connectivity::addresses;
use crate::http::Refusal;
use crate::state::HostState;
use api::{ConnectivityCheckHost, ConnectivityCheckNic, ConnectivityReport, HostId, Interface, Inventory, kinds};
use serde_json::Value;

/// The report of 1000 peers with four addresses each is 2 MB.
const MAX_REPORT_BYTES: usize = 4 << 20;

pub(crate) fn kind() -> Kind {
    Kind { max_output_bytes: MAX_REPORT_BYTES, succeeded, ..Kind::new::<kinds::ConnectivityCheck>(asked_in, ask) }
}

fn asked_in(state: HostState, _: bool) -> bool {
    matches!(state, HostState::Insufficient | HostState::PendingForInput | HostState::Known)
}

/// The other hosts of the cluster that can answer; none when there are none.
fn ask(situation: &Situation) -> Option<Vec<String>> {
    let others = situation.peers.iter().filter(|peer| {
        peer.host.id != situation.record.host.id
            && !matches!(peer.state, HostState::Discovering | HostState::Disconnected)
    });
    let hosts: Vec<ConnectivityCheckHost> = others
        .filter_map(|peer| {
            let inventory = peer.facts().inventory.as_ref()?;
            let nics = inventory.interfaces.iter().filter(|nic| !nic.mac_address.is_empty()).map(interface);
            let nics: Vec<_> = nics.filter(|nic| !nic.ip_addresses.is_empty()).collect();
            Some(ConnectivityCheckHost { host_id: peer.host.id, nics })
        })
        .collect();
    if hosts.is_empty() { None } else { json::<kinds::ConnectivityCheck>(&hosts) }
}

fn interface(nic: &Interface) -> ConnectivityCheckNic {
    let alone = Inventory { interfaces: vec![nic.clone()], ..Inventory::default() };
    ConnectivityCheckNic {
        ip_addresses: addresses(&alone).map(|address| address.to_string()).collect(),
        mac: nic.mac_address.clone(),
        name: nic.name.clone(),
    }
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let text = document(&parse(&replied.reply.output)?)?;
    Ok(Outcome::set(|record| record.set_connectivity(text)))
}

/// Drops entries without a host.
fn parse(text: &str) -> Result<ConnectivityReport, Refusal> {
    let mut report = outputs::fields(text, "ConnectivityReport")?;
    if let Some(Value::Array(hosts)) = report.get_mut("remote_hosts") {
        hosts.retain(|host| host["host_id"].as_str().is_some_and(|id| id.parse::<HostId>().is_ok()));
    }
    outputs::typed(Value::Object(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_without_a_host_are_left_out() {
        let id = HostId::random();
        let report = json!({"remote_hosts": [
            {"l3_connectivity": [{"remote_ip_address": "192.0.2.1", "successful": true}]},
            {"host_id": "", "l2_connectivity": null},
            {"host_id": id, "l2_connectivity": null, "new": 1},
        ]});
        let hosts: Vec<_> =
            parse(&report.to_string()).unwrap().remote_hosts.into_iter().map(|host| host.host_id).collect();
        assert_eq!(hosts, [id]);
        assert_eq!(parse("{}").unwrap().remote_hosts, []);
        assert_eq!(parse("null").unwrap().remote_hosts, []);
        assert!(matches!(parse("{bad json"), Err(Refusal::Application(status, _)) if status == 400));
    }
}
