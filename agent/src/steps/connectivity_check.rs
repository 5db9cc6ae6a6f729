//! Which of the other hosts are reached: `landfall netcheck mesh` (docs/compatibility.md#connectivity-check).

use super::kind::{Dry, Kind, answer};
use crate::privileges::PROBES;
use api::{
    ConnectivityCheckHost, ConnectivityRemoteHost, ConnectivityReport, L2Connectivity, L3Connectivity,
    kinds::ConnectivityCheck,
};

const WHAT: &str = "connectivity check request";

pub(super) static KIND: Kind = Kind::check::<ConnectivityCheck>("mesh", WHAT, &[], PROBES)
    .pretended(Dry::Answered(|step| answer(step, WHAT, connectivity)));

/// All others are reached at each of their addresses.
fn connectivity(hosts: Vec<ConnectivityCheckHost>) -> ConnectivityReport {
    let remote = |host: ConnectivityCheckHost| {
        let (mut l2, mut l3) = (Vec::new(), Vec::new());
        for nic in &host.nics {
            for address in &nic.ip_addresses {
                let address = address.split('/').next().unwrap_or_default().to_owned();
                l2.push(L2Connectivity {
                    outgoing_ip_address: String::new(),
                    outgoing_nic: nic.name.clone(),
                    remote_ip_address: address.clone(),
                    remote_mac: nic.mac.clone(),
                    successful: true,
                });
                l3.push(L3Connectivity {
                    average_rtt_ms: 0.0,
                    outgoing_nic: nic.name.clone(),
                    packet_loss_percentage: 0.0,
                    remote_ip_address: address,
                    successful: true,
                });
            }
        }
        ConnectivityRemoteHost {
            host_id: host.host_id,
            l2_connectivity: Some(l2),
            l3_connectivity: Some(l3),
            mtu_report: None,
        }
    };
    ConnectivityReport { remote_hosts: hosts.into_iter().map(remote).collect() }
}
