//! `dhcp-lease-allocate`: leases of the cluster's virtual addresses.

use super::kind::{Kind, Outcome, Replied, Situation, json};
use super::outputs;
use crate::dhcp_vips;
use crate::http::Refusal;
use crate::machine_networks;
use crate::net::Cidr;
use crate::state::HostState;
use api::{DhcpAllocationRequest, DhcpAllocationResponse, Interface, kinds};
use axum::http::StatusCode;
use serde_json::Value;

pub(crate) fn kind() -> Kind {
    Kind { succeeded, ..Kind::new::<kinds::DhcpLeaseAllocate>(asked_in, ask) }
}

fn asked_in(state: HostState, added: bool) -> bool {
    use HostState as S;
    let asked = matches!(
        state,
        S::Insufficient
            | S::PendingForInput
            | S::Known
            | S::PreparingForInstallation
            | S::Installing
            | S::InstallingInProgress
    );
    asked && !added
}

/// Over the host's interface in the machine network.
fn ask(situation: &Situation) -> Option<Vec<String>> {
    let record = situation.cluster.filter(|record| record.cluster.vip_dhcp_allocation && !record.day2())?;
    let network = situation.machine_networks.first()?;
    let inventory = situation.record.facts().inventory.as_ref()?;
    let inside = |nic: &&Interface| {
        let cidrs = nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses).filter_map(|text| text.parse::<Cidr>().ok());
        cidrs.into_iter().any(|cidr| network.contains(cidr.address))
    };
    let id = record.cluster.id;
    json::<kinds::DhcpLeaseAllocate>(&DhcpAllocationRequest {
        api_vip_lease: record.dhcp.api_lease.clone(),
        api_vip_mac: dhcp_vips::mac(id, "api"),
        ingress_vip_lease: record.dhcp.ingress_lease.clone(),
        ingress_vip_mac: dhcp_vips::mac(id, "ingress"),
        interface: inventory.interfaces.iter().find(inside)?.name.clone(),
    })
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let answer = parse(&replied.reply.output)?;
    Ok(Outcome::Cluster(Box::new(move |change, record| {
        let networks = machine_networks::find(record, &change.model().hosts_of_cluster(record.cluster.id));
        dhcp_vips::take(change, record, &networks, answer)
            .map_err(|why| Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, why))
    })))
}

fn parse(text: &str) -> Result<DhcpAllocationResponse, Refusal> {
    let mut answer = outputs::fields(text, "DhcpAllocationResponse")?;
    for name in ["api_vip_address", "ingress_vip_address"] {
        answer.entry(name).or_insert_with(|| Value::from(""));
    }
    outputs::typed(Value::Object(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_absent_are_empty() {
        assert_eq!(parse("{}").unwrap(), DhcpAllocationResponse::default());
    }
}
