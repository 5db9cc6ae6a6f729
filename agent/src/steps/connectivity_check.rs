//! Who of the other hosts is reached: `landfall netcheck mesh` (docs/compatibility.md#connectivity-check).

use super::{IN_PROCESS, Kind, Refusal, Run, check};
use crate::{
    dry::{self, Dry},
    settings::Settings,
};
use api::{
    ConnectivityCheckHost, ConnectivityRemoteHost, ConnectivityReport, HostId, L2Connectivity, L3Connectivity, Step,
    StepType, kinds,
};

const WHAT: &str = "connectivity check request";

pub(super) static KIND: Kind = Kind {
    step_type: StepType::ConnectivityCheck,
    fields: &[],
    act,
    dry: Dry::Answered(|step| dry::answer(step, WHAT, connectivity)),
    failed: IN_PROCESS,
    prints_json: true,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    check::<kinds::ConnectivityCheck>(step, settings, "mesh", WHAT)
}

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
