//! Fifty hosts on one segment, each in its own process, check each other at the same moment, as a cluster does when its
//! last host registers.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use api::{ConnectivityCheckHost, ConnectivityReport};
use netcheck::{
    Selection,
    mesh::{MeshOptions, connectivity},
};
use serde_json::json;
use std::{fs, io::stdin};
use testkit::net::{Again, Host, Segment};
use testkit::process::own_test;

const HOSTS: u8 = 50;
/// Far above what a check of a cluster needs, far below what a host notices. The bound by design: 32 bytes for each echo
/// planned (a million at most), and 16 responders and those expected for each neighbour asked for.
const PEAK_KIB: u64 = 64 << 10;

fn mac(n: u8) -> String {
    format!("52:54:00:aa:bb:{n:02x}")
}

fn addresses(n: u8) -> [String; 2] {
    [format!("10.0.0.{n}"), format!("fd00::{n:x}")]
}

fn asked(n: u8) -> ConnectivityCheckHost {
    let id = format!("00000000-0000-0000-0000-0000000000{n:02x}");
    let nics = json!([{"name": "ens3", "mac": mac(n), "ip_addresses": addresses(n)}]);
    serde_json::from_value(json!({"host_id": id, "nics": nics})).unwrap()
}

/// A limit of the machine's kernel that fifty namespaces share, though in the field each host has its own: all that these tests
/// touch outside their namespaces. Raised only, and put back when dropped; a run that is killed leaves it raised until the
/// machine starts again.
struct Lifted(&'static str, String);

impl Lifted {
    fn to(path: &'static str, value: &str) -> Self {
        let before = fs::read_to_string(path).unwrap();
        fs::write(path, value).unwrap();
        Self(path, before)
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        if let Err(error) = fs::write(self.0, &self.1) {
            eprintln!("{} is not put back to {}: {error}", self.0, self.1.trim());
        }
    }
}

/// Frames that the machine's kernel dropped between namespaces since it started (`/proc/net/softnet_stat`, column 2).
fn dropped_by_the_kernel() -> u64 {
    let text = fs::read_to_string("/proc/net/softnet_stat").unwrap();
    let column = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
    text.lines().map(column).sum()
}

fn sent_packets(host: &Host) -> u64 {
    let text = host.namespace.ip("-s -j link show ens3");
    let links: serde_json::Value = serde_json::from_str(&text).unwrap();
    links[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
}

/// What one process of many does: its check, as JSON, then its memory.
fn check_inside() {
    let hosts: Vec<ConnectivityCheckHost> = serde_json::from_reader(stdin()).unwrap();
    let options = MeshOptions { interfaces: Selection::Named(vec!["ens3".to_owned()]), ..MeshOptions::default() };
    let report = connectivity(&hosts, &options).unwrap();
    println!("\nREPORT {}", serde_json::to_string(&report).unwrap());
    println!("PEAK {}", testkit::net::peak_kib());
}

#[test]
fn fifty_hosts_that_check_each_other_at_once_find_no_fault() {
    if testkit::net::is_inside() {
        return check_inside();
    }
    let Some(segment) = Segment::new() else { return };
    let _lifted = [
        Lifted::to("/proc/sys/net/ipv4/neigh/default/gc_thresh3", "16384"),
        Lifted::to("/proc/sys/net/ipv6/neigh/default/gc_thresh3", "16384"),
        Lifted::to("/proc/sys/net/core/netdev_max_backlog", "100000"),
    ];
    let hosts: Vec<Host> = (1..=HOSTS)
        .map(|n| {
            let addresses = addresses(n);
            segment.host(&n.to_string(), &mac(n), &[&format!("{}/24", addresses[0]), &format!("{}/64", addresses[1])])
        })
        .collect();
    let before: u64 = hosts.iter().map(sent_packets).sum();
    let dropped = dropped_by_the_kernel();
    let started: Vec<Again> = (1..=HOSTS)
        .zip(&hosts)
        .map(|(n, host)| {
            let others: Vec<_> = (1..=HOSTS).filter(|other| *other != n).map(asked).collect();
            let input = serde_json::to_string(&others).unwrap();
            Again::start(
                host,
                &[],
                &own_test(module_path!(), "fifty_hosts_that_check_each_other_at_once_find_no_fault"),
                input,
            )
        })
        .collect();
    let printed: Vec<String> = started.into_iter().map(Again::end).collect();
    let packets = hosts.iter().map(sent_packets).sum::<u64>() - before;
    let dropped = dropped_by_the_kernel() - dropped;
    let value = |text: &str, name: &str| -> String {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{text}"));
        line.trim().to_owned()
    };
    let peak = printed.iter().map(|text| value(text, "PEAK").parse::<u64>().unwrap()).max().unwrap();
    println!("{packets} packets sent, {dropped} dropped by the kernel between namespaces; peak memory {peak} KiB");
    let mut faults = Vec::new();
    for (n, text) in (1..=HOSTS).zip(&printed) {
        let report: ConnectivityReport = serde_json::from_str(&value(text, "REPORT")).unwrap();
        faults.extend(faults_of(n, &report).into_iter().map(|fault| format!("host {n}: {fault}")));
    }
    assert!(faults.is_empty(), "{} faults, such as {:?}", faults.len(), &faults[..faults.len().min(5)]);
    assert!(peak < PEAK_KIB, "{peak} KiB");
}

/// Everything in a report that is not as it must be among healthy hosts.
fn faults_of(n: u8, report: &ConnectivityReport) -> Vec<String> {
    let mut faults = Vec::new();
    if report.remote_hosts.len() != usize::from(HOSTS) - 1 {
        faults.push(format!("{} hosts", report.remote_hosts.len()));
    }
    for (other, host) in (1..=HOSTS).filter(|other| *other != n).zip(&report.remote_hosts) {
        let l2 = host.l2_connectivity.iter().flatten();
        let l2: Vec<_> = l2.map(|e| (e.remote_ip_address.clone(), e.remote_mac.clone(), e.successful)).collect();
        if l2 != addresses(other).map(|ip| (ip, mac(other), true)) {
            faults.push(format!("neighbour {other} is {l2:?}"));
        }
        let l3 = host.l3_connectivity.iter().flatten();
        let l3: Vec<_> = l3.map(|e| (e.remote_ip_address.clone(), e.packet_loss_percentage, e.successful)).collect();
        if l3 != addresses(other).map(|ip| (ip, 0.0, true)) {
            faults.push(format!("echoes of {other} are {l3:?}"));
        }
        if host.mtu_report.is_some() {
            faults.push(format!("MTU of {other} is {:?}", host.mtu_report));
        }
    }
    faults
}
