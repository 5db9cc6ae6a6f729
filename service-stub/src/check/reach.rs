//! What a host sees of the others: its connectivity report, parsed once and kept small.

use api::{ConnectivityReport, HostId};
use std::{collections::BTreeMap, net::IpAddr};

/// A report by remote host. Entries whose address doesn't parse are left out.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    by_host: BTreeMap<HostId, Seen>,
}

/// What is seen of one host.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Who answered to ARP or neighbour solicitations.
    pub(crate) l2: Vec<Neighbour>,
    pub(crate) l3: Vec<Echo>,
    /// Packets of full size.
    pub(crate) mtu: Vec<FullSize>,
}

/// One who answered to an address.
#[derive(Debug)]
pub(crate) struct Neighbour {
    /// The address asked for.
    pub(crate) address: IpAddr,
    /// Who answered, in lower case.
    pub(crate) mac: Box<str>,
    /// It is the remote host.
    pub(crate) successful: bool,
}

/// Echoes of one address.
#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) address: IpAddr,
    /// Any came back.
    pub(crate) successful: bool,
    /// Mean round trip, milliseconds.
    pub(crate) average_rtt_ms: f64,
    /// Lost, percent.
    pub(crate) packet_loss_percentage: f64,
}

/// A packet of the interface's full MTU to one address.
#[derive(Debug)]
pub(crate) struct FullSize {
    pub(crate) address: IpAddr,
    /// It passed unfragmented.
    pub(crate) successful: bool,
}

impl Reach {
    /// What is seen of a host; none where the report has nothing about it.
    pub(crate) fn seen(&self, host: HostId) -> Option<&Seen> {
        self.by_host.get(&host)
    }

    /// By remote host.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (HostId, &Seen)> {
        self.by_host.iter().map(|(host, seen)| (*host, seen))
    }
}

impl From<ConnectivityReport> for Reach {
    fn from(report: ConnectivityReport) -> Self {
        let mut by_host: BTreeMap<HostId, Seen> = BTreeMap::new();
        for remote in report.remote_hosts {
            let seen = by_host.entry(remote.host_id).or_default();
            seen.l2.extend(remote.l2_connectivity.into_iter().flatten().filter_map(|entry| {
                let address = entry.remote_ip_address.parse().ok()?;
                Some(Neighbour { address, mac: entry.remote_mac.to_lowercase().into(), successful: entry.successful })
            }));
            seen.l3.extend(remote.l3_connectivity.into_iter().flatten().filter_map(|entry| {
                let address = entry.remote_ip_address.parse().ok()?;
                let (average_rtt_ms, packet_loss_percentage) = (entry.average_rtt_ms, entry.packet_loss_percentage);
                Some(Echo { address, successful: entry.successful, average_rtt_ms, packet_loss_percentage })
            }));
            seen.mtu.extend(remote.mtu_report.into_iter().flatten().filter_map(|entry| {
                let address = entry.remote_ip_address.parse().ok()?;
                Some(FullSize { address, successful: entry.mtu_successful })
            }));
        }
        Self { by_host }
    }
}
