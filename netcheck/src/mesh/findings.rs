//! What a check found, host by host, and the report the service understands. Pure.

use super::{
    path_mtu::PathMtu,
    request::{OddAddress, RemoteHost},
    run::{MtuTally, Outcome},
    tally::{EchoStatistics, Responders},
};
use api::{ConnectivityRemoteHost, ConnectivityReport, HostId, L2Connectivity, L3Connectivity, Mac, MtuReport};
use kernel::order;
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
};

/// All that a check found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// One entry for each host asked for, sorted by its id.
    pub hosts: Vec<HostFindings>,
}

/// What was found about one remote host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostFindings {
    pub host_id: HostId,
    /// Who answered for its addresses, sorted by the text of address and MAC, then by interface.
    pub responders: Vec<Responder>,
    /// Echoes, sorted by the text of the address.
    pub echoes: Vec<EchoFinding>,
    /// Path MTUs, sorted by the text of the address, then by interface.
    pub mtus: Vec<MtuFinding>,
    /// What stands for an address of the host and can't be probed, sorted.
    pub unprobed: Vec<Unprobed>,
}

/// What is not the address of one host: unspecified, loopback, multicast, broadcast or no address at all. Reported as lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprobed {
    /// As it came, without its prefix: any text.
    pub text: String,
    /// Our interfaces whose path MTU to it is reported as failed.
    pub failed_mtus: Vec<String>,
}

/// A station that answered for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Responder {
    /// The address asked for.
    pub address: IpAddr,
    /// Our interface.
    pub interface: String,
    /// Our address; IPv4 only.
    pub source: Option<Ipv4Addr>,
    /// Who answered.
    pub mac: Mac,
    /// Whether that is the remote host; if not, another holds its address.
    pub expected: bool,
}

/// Echoes of an address.
#[derive(Clone, Debug, PartialEq)]
pub struct EchoFinding {
    pub address: IpAddr,
    /// Loss and delay; at least one echo was sent.
    pub statistics: EchoStatistics,
}

/// A path MTU that was tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MtuFinding {
    pub address: IpAddr,
    /// Our interface.
    pub interface: String,
    pub mtu: u32,
    /// Whether packets of that size came through unfragmented and back.
    pub passed: bool,
    /// The largest size that does, where that one does not and the search had time.
    pub path: Option<PathMtu>,
}

/// Sorts the outcome of a check by host.
pub(crate) fn findings(hosts: &[RemoteHost], outcome: &Outcome) -> Findings {
    let mut responders: HashMap<IpAddr, Vec<Responder>> = HashMap::new();
    let name = |position: usize| outcome.plan.interfaces.get(position).map(|i| i.name.clone()).unwrap_or_default();
    let mut add = |address: IpAddr, interface: usize, source, found: &Responders| {
        let responder =
            |mac: &Mac| Responder { address, interface: name(interface), source, mac: *mac, expected: false };
        responders.entry(address).or_default().extend(found.macs.iter().map(responder));
    };
    for (ask, found) in outcome.plan.arps.iter().zip(&outcome.arps) {
        add(ask.target.into(), ask.interface, Some(ask.source), found);
    }
    for (ask, found) in outcome.plan.ndps.iter().zip(&outcome.ndps) {
        add(ask.target.into(), ask.interface, None, found);
    }
    let echoes = outcome.plan.echoes.iter().zip(&outcome.echoes);
    let echoes: HashMap<IpAddr, EchoStatistics> = echoes.map(|(target, tally)| (*target, tally.statistics())).collect();
    let mut mtus: HashMap<IpAddr, Vec<MtuFinding>> = HashMap::new();
    for (ask, tally) in outcome.plan.mtus.iter().zip(&outcome.mtus) {
        if let Some(passed) = mtu_passed(tally) {
            let path = tally.path.filter(|_| !passed);
            let finding =
                MtuFinding { address: ask.target, interface: name(ask.interface), mtu: ask.mtu, passed, path };
            mtus.entry(ask.target).or_default().push(finding);
        }
    }

    // What is not an address can't pass, whatever the MTU: the address is judged first.
    let all: Vec<_> = outcome.plan.interfaces.iter().map(|interface| interface.name.clone()).collect();
    let unprobed = |odd: &OddAddress| Unprobed {
        text: odd.text.clone(),
        failed_mtus: if odd.is_address { Vec::new() } else { all.clone() },
    };
    let host = |host: &RemoteHost| {
        let expected = |responder: &Responder| host.macs.contains(&responder.mac.to_string());
        let stations = host.addresses.iter().filter_map(|address| responders.get(address)).flatten();
        let mut stations: Vec<_> =
            stations.map(|station| Responder { expected: expected(station), ..station.clone() }).collect();
        order::sort_by_key(&mut stations, |s| (format!("{}{}", s.address, s.mac), s.interface.clone()));
        let statistics = |address: &IpAddr| {
            let statistics = *echoes.get(address)?;
            (statistics.sent > 0).then_some(EchoFinding { address: *address, statistics })
        };
        let mut tested: Vec<_> =
            host.addresses.iter().filter_map(|address| mtus.get(address)).flatten().cloned().collect();
        order::sort_by_key(&mut tested, |mtu| (mtu.address.to_string(), mtu.interface.clone()));
        HostFindings {
            host_id: host.id,
            responders: stations,
            echoes: host.addresses.iter().filter_map(statistics).collect(),
            mtus: tested,
            unprobed: host.odd.iter().map(unprobed).collect(),
        }
    };
    let mut hosts: Vec<_> = hosts.iter().map(host).collect();
    order::sort_by_key(&mut hosts, |host| host.host_id);
    Findings { hosts }
}

/// Nothing is said of the MTU of a path that carries no ordinary packet either, nor of one whose full-size packets the end of
/// the check overtook. Those that our own device keeps refusing, while it takes ordinary ones, do not pass: so `ping` has it
/// too.
fn mtu_passed(tally: &MtuTally) -> Option<bool> {
    tally.full.passed().filter(|_| tally.ordinary.statistics().received > 0)
}

impl Findings {
    /// The report in the service's terms.
    pub fn report(&self) -> ConnectivityReport {
        ConnectivityReport { remote_hosts: self.hosts.iter().map(HostFindings::report).collect() }
    }
}

impl HostFindings {
    fn report(&self) -> ConnectivityRemoteHost {
        let mut echoes: Vec<_> = self.echoes.iter().map(EchoFinding::report).collect();
        echoes.extend(self.unprobed.iter().map(Unprobed::report));
        order::sort_by(&mut echoes, |a, b| a.remote_ip_address.cmp(&b.remote_ip_address));
        let mut mtus: Vec<_> = self.mtus.iter().map(MtuFinding::report).collect();
        mtus.extend(self.unprobed.iter().flat_map(Unprobed::failed));
        order::sort_by(&mut mtus, |a, b| a.remote_ip_address.cmp(&b.remote_ip_address));
        ConnectivityRemoteHost {
            host_id: self.host_id,
            l2_connectivity: null_if_empty(self.responders.iter().map(Responder::report)),
            l3_connectivity: null_if_empty(echoes),
            mtu_report: null_if_empty(mtus),
        }
    }
}

impl Responder {
    fn report(&self) -> L2Connectivity {
        L2Connectivity {
            outgoing_ip_address: self.source.map(|source| source.to_string()).unwrap_or_default(),
            outgoing_nic: self.interface.clone(),
            remote_ip_address: self.address.to_string(),
            remote_mac: self.mac.to_string(),
            successful: self.expected,
        }
    }
}

impl EchoFinding {
    fn report(&self) -> L3Connectivity {
        let mean = self.statistics.round_trip.map(|trip| milliseconds(trip.mean));
        L3Connectivity {
            average_rtt_ms: mean.unwrap_or_default(),
            outgoing_nic: String::new(),
            packet_loss_percentage: self.statistics.loss_percent(),
            remote_ip_address: self.address.to_string(),
            successful: self.statistics.received > 0,
        }
    }
}

impl MtuFinding {
    fn report(&self) -> MtuReport {
        MtuReport {
            mtu_successful: self.passed,
            outgoing_nic: self.interface.clone(),
            remote_ip_address: self.address.to_string(),
        }
    }
}

impl Unprobed {
    fn report(&self) -> L3Connectivity {
        L3Connectivity {
            average_rtt_ms: 0.0,
            outgoing_nic: String::new(),
            packet_loss_percentage: 100.0,
            remote_ip_address: self.text.clone(),
            successful: false,
        }
    }

    fn failed(&self) -> impl Iterator<Item = MtuReport> {
        self.failed_mtus.iter().map(|interface| MtuReport {
            mtu_successful: false,
            outgoing_nic: interface.clone(),
            remote_ip_address: self.text.clone(),
        })
    }
}

/// Whole microseconds, as `ping` prints them; never zero, which the wire leaves out as if it had not been measured.
fn milliseconds(duration: std::time::Duration) -> f64 {
    let microseconds = u32::try_from(duration.as_micros()).unwrap_or(u32::MAX).max(1);
    f64::from(microseconds) / 1000.0
}

fn null_if_empty<T>(entries: impl IntoIterator<Item = T>) -> Option<Vec<T>> {
    let entries: Vec<T> = entries.into_iter().collect();
    (!entries.is_empty()).then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        interfaces::{Interface, InterfaceAddress},
        mesh::{
            MeshOptions,
            plan::plan,
            tally::{EchoTally, Stamp},
        },
    };
    use std::time::{Duration, Instant};

    fn tally(answered: &[bool]) -> EchoTally {
        let mut tally = EchoTally::new(u16::try_from(answered.len()).unwrap());
        let start = Stamp::now();
        for (sequence, answered) in (0..).zip(answered) {
            tally.sent(sequence, start);
            if *answered {
                tally.answered(sequence, start.steady + Duration::from_micros(412), None);
            }
        }
        tally
    }

    fn responders(last: &[u8]) -> Responders {
        let mut responders = Responders::default();
        responders.asked(Instant::now());
        for last in last {
            responders.answered(Mac([0x52, 0x54, 0, 0xaa, 0xbb, *last]));
        }
        responders
    }

    fn host(id: &str, last: u8, addresses: &[&str]) -> RemoteHost {
        RemoteHost {
            id: id.parse().unwrap(),
            macs: [format!("52:54:00:aa:bb:{last:02x}")].into(),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            odd: Vec::new(),
        }
    }

    #[test]
    fn the_report_is_the_services_json() {
        let addresses = ["192.168.127.10/24", "fd00:127::10/64"].map(|text| {
            let (ip, bits) = text.split_once('/').unwrap();
            InterfaceAddress { ip: ip.parse().unwrap(), prefix_bits: bits.parse().unwrap() }
        });
        let mac = Some(Mac([0x52, 0x54, 0, 0xaa, 0xbb, 0x10]));
        let addresses = addresses.to_vec();
        let nic = Interface { name: "enp1s0".into(), index: 2, mac, mtu: Some(9000), has_link: true, addresses };
        let hosts = [
            host("b28954e9-3896-4eeb-953a-89d6a44b04ea", 3, &["192.168.127.12"]),
            host("856f4f9c-3c08-4d97-8ec7-ea0ad7d4cadf", 2, &["192.168.127.11", "fd00:127::11"]),
            host("0a8954e9-3896-4eeb-953a-89d6a44b04ea", 4, &["192.168.127.12"]),
            host("ffffffff-3896-4eeb-953a-89d6a44b04ea", 5, &[]),
        ];
        let plan = plan(&hosts, vec![nic.clone()], &[nic], &MeshOptions::default()).unwrap();
        let none = [false; 10];
        let mut all_but_one = [true; 10];
        all_but_one[4] = false;
        let outcome = Outcome {
            echoes: vec![tally(&[true; 10]), tally(&none), tally(&all_but_one)],
            arps: vec![responders(&[2]), responders(&[4, 3])],
            ndps: vec![responders(&[2])],
            mtus: [(true, true), (false, true), (true, false)]
                .map(|(ordinary, full)| MtuTally { ordinary: tally(&[ordinary]), full: tally(&[full]), path: None })
                .into(),
            plan,
        };
        let report = serde_json::to_value(findings(&hosts, &outcome).report()).unwrap();
        let twelve = |last: &str, successful: bool| {
            let mut entry = serde_json::json!({
                "outgoing_ip_address": "192.168.127.10", "outgoing_nic": "enp1s0",
                "remote_ip_address": "192.168.127.12", "remote_mac": format!("52:54:00:aa:bb:{last}"),
            });
            if successful {
                entry["successful"] = true.into();
            }
            entry
        };
        let total_loss = serde_json::json!([{"packet_loss_percentage": 100.0, "remote_ip_address": "192.168.127.12"}]);
        let expected = serde_json::json!({"remote_hosts": [
            {"host_id": "0a8954e9-3896-4eeb-953a-89d6a44b04ea",
             "l2_connectivity": [twelve("03", false), twelve("04", true)], "l3_connectivity": total_loss, "mtu_report": null},
            {"host_id": "856f4f9c-3c08-4d97-8ec7-ea0ad7d4cadf",
             "l2_connectivity": [
                {"outgoing_ip_address": "192.168.127.10", "outgoing_nic": "enp1s0",
                 "remote_ip_address": "192.168.127.11", "remote_mac": "52:54:00:aa:bb:02", "successful": true},
                {"outgoing_nic": "enp1s0",
                 "remote_ip_address": "fd00:127::11", "remote_mac": "52:54:00:aa:bb:02", "successful": true}],
             "l3_connectivity": [
                {"average_rtt_ms": 0.412, "remote_ip_address": "192.168.127.11", "successful": true},
                {"average_rtt_ms": 0.412, "packet_loss_percentage": 10.0,
                 "remote_ip_address": "fd00:127::11", "successful": true}],
             "mtu_report": [
                {"mtu_successful": true, "outgoing_nic": "enp1s0", "remote_ip_address": "192.168.127.11"},
                {"outgoing_nic": "enp1s0", "remote_ip_address": "fd00:127::11"}]},
            {"host_id": "b28954e9-3896-4eeb-953a-89d6a44b04ea",
             "l2_connectivity": [twelve("03", true), twelve("04", false)], "l3_connectivity": total_loss, "mtu_report": null},
            {"host_id": "ffffffff-3896-4eeb-953a-89d6a44b04ea",
             "l2_connectivity": null, "l3_connectivity": null, "mtu_report": null},
        ]});
        assert_eq!(report, expected);
    }

    #[test]
    fn a_device_that_refuses_the_full_size_fails_the_mtu() {
        let passed = |ordinary: &[bool], full| mtu_passed(&MtuTally { ordinary: tally(ordinary), full, path: None });
        let mut full = EchoTally::new(3);
        (0..3).for_each(|sequence| full.not_sent(sequence));
        assert_eq!(passed(&[true], full), Some(false));
        assert_eq!(passed(&[false], tally(&[true])), None);
    }

    #[test]
    fn nothing_is_said_of_a_full_size_that_was_not_tested_to_the_end() {
        let passed = |full| mtu_passed(&MtuTally { ordinary: tally(&[true]), full, path: None });
        assert_eq!(passed(EchoTally::new(3)), None, "never sent");
        let mut full = tally(&[false; 3]);
        full.forget_waiting(None);
        assert_eq!(passed(full), None, "under way at the end");
        assert_eq!(passed(tally(&[false; 3])), Some(false), "lost");
        let mut full = tally(&[false, true, false]);
        full.forget_waiting(None);
        assert_eq!(passed(full), Some(true));
    }

    #[test]
    fn a_round_trip_below_a_microsecond_is_still_measured() {
        assert!(milliseconds(Duration::from_nanos(3)) > 0.0);
    }
}
