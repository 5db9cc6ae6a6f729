//! The connectivity check between network namespaces: what the report says of good, bad and odd neighbours.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use api::{ConnectivityCheckHost, ConnectivityRemoteHost, ConnectivityReport, L3Connectivity};
use clap::Parser;
use netcheck::{
    Selection, SocketError, SocketName,
    codec::echo::{Echo, Family, Kind, icmp_of_ipv4},
    mesh::{Error, Findings, MeshOptions, PathMtu, TooBig, connectivity, measure},
};
use nix::sys::{
    socket::{
        AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recvfrom, sendto, setsockopt, socket,
        sockopt::ReceiveTimeout,
    },
    time::{TimeVal, TimeValLike},
};
use serde_json::{Value, json};
use std::{
    fs,
    net::IpAddr,
    os::{fd::AsRawFd, unix::fs::symlink},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use testkit::process::own_test;
use testkit::{
    net::{Again, Host, Segment},
    wire::{assert_fits, recorded_argument},
};

const A: &str = "52:54:00:aa:bb:01";
const B: &str = "52:54:00:aa:bb:02";
const C: &str = "52:54:00:aa:bb:03";
const ID_B: &str = "b28954e9-3896-4eeb-953a-89d6a44b04ea";
const ID_C: &str = "4e38f3db-7328-4883-b636-49f7e181dc3c";

/// Probes leave from `ens3`. Answers of a machine that is busy count too.
fn options() -> MeshOptions {
    MeshOptions {
        timeout: Duration::from_secs(5),
        deadline: Duration::from_secs(300),
        interfaces: Selection::Named(vec!["ens3".to_owned()]),
        ..MeshOptions::default()
    }
}

fn asked(id: &str, mac: &str, addresses: &[&str]) -> ConnectivityCheckHost {
    let nics = json!([{"name": "ens3", "mac": mac, "ip_addresses": addresses}]);
    serde_json::from_value(json!({"host_id": id, "nics": nics})).unwrap()
}

fn check_with(from: &Host, hosts: &[ConnectivityCheckHost], options: &MeshOptions) -> ConnectivityReport {
    from.namespace.enter(|| connectivity(hosts, options)).unwrap()
}

fn check_one(from: &Host, host: ConnectivityCheckHost) -> ConnectivityRemoteHost {
    let mut report = check_with(from, &[host], &options());
    assert_eq!(report.remote_hosts.len(), 1);
    report.remote_hosts.remove(0)
}

/// The report as JSON with measured times replaced by 1.0, after checking that they are times.
fn exact(report: &ConnectivityReport) -> Value {
    let mut report = report.clone();
    for echo in report.remote_hosts.iter_mut().flat_map(|host| &mut host.l3_connectivity).flatten() {
        if echo.successful {
            assert!(echo.average_rtt_ms > 0.0, "{echo:?}");
            echo.average_rtt_ms = 1.0;
        }
    }
    serde_json::to_value(report).unwrap()
}

/// Who answered: MAC and whether it is the host.
fn responders(host: &ConnectivityRemoteHost, address: &str) -> Vec<(String, bool)> {
    let entries = host.l2_connectivity.iter().flatten().filter(|entry| entry.remote_ip_address == address);
    entries.map(|entry| (entry.remote_mac.clone(), entry.successful)).collect()
}

fn echo_lost(address: &str) -> L3Connectivity {
    L3Connectivity {
        average_rtt_ms: 0.0,
        outgoing_nic: String::new(),
        packet_loss_percentage: 100.0,
        remote_ip_address: address.to_owned(),
        successful: false,
    }
}

#[test]
fn three_hosts_see_each_other() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["192.168.126.11/24", "fd00:126::11/64"]);
    let _b = segment.host("b", B, &["192.168.126.12/24", "fd00:126::12/64"]);
    let _c = segment.host("c", C, &["192.168.126.13/24", "192.168.126.9/24"]);
    let hosts = [
        asked(ID_B, &B.to_uppercase(), &["192.168.126.12/24", "fd00:126::12"]),
        asked(ID_C, C, &["192.168.126.13", "192.168.126.9"]),
    ];
    let arp = |address: &str, mac: &str| {
        json!({"outgoing_ip_address": "192.168.126.11", "outgoing_nic": "ens3",
               "remote_ip_address": address, "remote_mac": mac, "successful": true})
    };
    let echo = |address: &str| json!({"average_rtt_ms": 1.0, "remote_ip_address": address, "successful": true});
    let expected = json!({"remote_hosts": [
        {"host_id": ID_C,
         "l2_connectivity": [arp("192.168.126.13", C), arp("192.168.126.9", C)],
         "l3_connectivity": [echo("192.168.126.13"), echo("192.168.126.9")],
         "mtu_report": null},
        {"host_id": ID_B,
         "l2_connectivity": [arp("192.168.126.12", B), {"outgoing_nic": "ens3",
             "remote_ip_address": "fd00:126::12", "remote_mac": B, "successful": true}],
         "l3_connectivity": [echo("192.168.126.12"), echo("fd00:126::12")],
         "mtu_report": null},
    ]});
    assert_eq!(exact(&check_with(&a, &hosts, &options())), expected);
}

#[test]
fn two_stations_with_one_address_are_both_reported() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let _b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64"]);
    let _c = segment.host("c", C, &["10.0.0.2/24", "fd00::2/64"]);
    let found = check_one(&a, asked(ID_C, C, &["10.0.0.2", "fd00::2"]));
    let both = [(B.to_owned(), false), (C.to_owned(), true)];
    assert_eq!(responders(&found, "10.0.0.2"), both);
    assert_eq!(responders(&found, "fd00::2"), both);
}

/// Once no echo went there, as it proves nothing of the other host. But the service, which knows `ping`, wants an entry for
/// every address of a host, and servers' BMCs give all hosts the same one.
#[test]
fn a_station_that_holds_our_own_address_is_reported_and_the_echo_answered_as_by_ping() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["16.1.15.2/30", "fd00::1/64", "fe80::1/64"]);
    let _b = segment.host("b", B, &["16.1.15.2/30", "fd00::1/64"]);
    a.set_mtu(9000);
    let found = check_one(&a, asked(ID_B, B, &["16.1.15.2", "fd00::1"]));
    assert_eq!(responders(&found, "16.1.15.2"), [(B.to_owned(), true)]);
    assert_eq!(responders(&found, "fd00::1"), [(B.to_owned(), true)]);
    let echoes: Vec<_> = found.l3_connectivity.iter().flatten().collect();
    let answered: Vec<_> = echoes.iter().map(|echo| (&*echo.remote_ip_address, echo.successful)).collect();
    assert_eq!(answered, [("16.1.15.2", true), ("fd00::1", true)]);
    assert!(echoes.iter().all(|echo| echo.packet_loss_percentage == 0.0), "{echoes:?}");
    assert_eq!(tested(&found), [("16.1.15.2", true), ("fd00::1", true)], "also as by ping, through the loopback");
}

/// The addresses whose MTU was tested, and whether it passed.
fn tested(host: &ConnectivityRemoteHost) -> Vec<(&str, bool)> {
    let entries = host.mtu_report.iter().flatten();
    entries.map(|entry| (&*entry.remote_ip_address, entry.mtu_successful)).collect()
}

#[test]
fn an_odd_address_of_one_peer_is_reported_as_lost_and_the_others_are_probed() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let _b = segment.host("b", B, &["10.0.0.2/24"]);
    let odd = ["127.0.0.1", "10.0.0.2", "0.0.0.0/0", "10.0.0.300/24"];
    let l2 = json!([{"outgoing_ip_address": "10.0.0.1", "outgoing_nic": "ens3",
                     "remote_ip_address": "10.0.0.2", "remote_mac": B, "successful": true}]);
    let echo = json!({"average_rtt_ms": 1.0, "remote_ip_address": "10.0.0.2", "successful": true});
    let unanswered = |text: &str| json!({"packet_loss_percentage": 100.0, "remote_ip_address": text});
    let expected = |mtu: Value| {
        json!({"remote_hosts": [
            {"host_id": ID_C, "l2_connectivity": null, "l3_connectivity": [unanswered("no address")],
             "mtu_report": mtu.get("c").cloned()},
            {"host_id": ID_B, "l2_connectivity": l2,
             "l3_connectivity": [unanswered("0.0.0.0"), echo, unanswered("10.0.0.300"), unanswered("127.0.0.1")],
             "mtu_report": mtu.get("b").cloned()},
        ]})
    };
    let hosts = [asked(ID_B, B, &odd), asked(ID_C, C, &["no address"])];
    let mut report = check_with(&a, &hosts, &options());
    let failed = |text: &str| json!({"outgoing_nic": "ens3", "remote_ip_address": text});
    let mtu = json!({"b": [failed("10.0.0.300")], "c": [failed("no address")]});
    assert_eq!(exact(&report), expected(mtu), "of 1500 only for what is not an address");
    assert_fits("connectivity-report", &serde_json::to_value(&report).unwrap());
    a.set_mtu(1400);
    report = check_with(&a, &hosts, &options());
    let passed = json!({"mtu_successful": true, "outgoing_nic": "ens3", "remote_ip_address": "10.0.0.2"});
    let mtu = json!({"b": [passed, failed("10.0.0.300")], "c": [failed("no address")]});
    assert_eq!(exact(&report), expected(mtu), "what is not an address can't pass");
}

#[test]
fn an_unknown_mac_is_reported_as_not_the_host() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let _b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64"]);
    let found = check_one(&a, asked(ID_B, "52:54:00:00:00:99", &["10.0.0.2", "fd00::2"]));
    assert_eq!(responders(&found, "10.0.0.2"), [(B.to_owned(), false)]);
    assert_eq!(responders(&found, "fd00::2"), [(B.to_owned(), false)]);
    assert!(found.l3_connectivity.iter().flatten().all(|echo| echo.successful));
}

#[test]
fn a_silent_host_is_total_loss() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let soon = MeshOptions { timeout: Duration::from_millis(1500), ..options() };
    let found = check_with(&a, &[asked(ID_B, B, &["10.0.0.2", "fd00::2"])], &soon).remote_hosts.remove(0);
    assert_eq!(found.l2_connectivity, None);
    assert_eq!(found.l3_connectivity, Some(vec![echo_lost("10.0.0.2"), echo_lost("fd00::2")]));
    assert_eq!(found.mtu_report, None);
}

#[test]
fn lost_echoes_are_counted_and_repeated_or_damaged_ones_are_not() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let b = segment.host("b", B, &["10.0.0.2/24"]);
    let done = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        let (ready, listening) = std::sync::mpsc::channel();
        let (b, done) = (&b, &done);
        scope.spawn(move || b.namespace.enter(|| answer_badly(done, || ready.send(()).unwrap())));
        listening.recv().unwrap();
        let found = check_one(&a, asked(ID_B, B, &["10.0.0.2"]));
        done.store(true, Ordering::Relaxed);
        found
    });
    let echoes = found.l3_connectivity.unwrap();
    assert_eq!((echoes[0].packet_loss_percentage, echoes[0].successful), (40.0, true), "{echoes:?}");
    assert_eq!(responders_of_l2(&found.l2_connectivity), [B]);
}

fn responders_of_l2(entries: &Option<Vec<api::L2Connectivity>>) -> Vec<&str> {
    entries.iter().flatten().map(|entry| entry.remote_mac.as_str()).collect()
}

/// Answers echoes in place of the kernel: 0, 1 and 2 not at all, 3 cut short, all others twice.
fn answer_badly(done: &AtomicBool, ready: impl FnOnce()) {
    fs::write("/proc/sys/net/ipv4/icmp_echo_ignore_all", "1").unwrap();
    let socket = socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Icmp).unwrap();
    setsockopt(&socket, ReceiveTimeout, &TimeVal::milliseconds(50)).unwrap();
    ready();
    let mut buffer = [0; 2048];
    while !done.load(Ordering::Relaxed) {
        let Ok((length, Some(from))) = recvfrom::<SockaddrIn>(socket.as_raw_fd(), &mut buffer) else { continue };
        let Some(request) = icmp_of_ipv4(&buffer[..length]).and_then(|message| Echo::parse(Family::V4, message)) else {
            continue;
        };
        let payload = match request.sequence {
            0..=2 => continue,
            3 => &request.payload[..20],
            _ => request.payload,
        };
        if request.kind == Kind::Request {
            let reply = Echo { kind: Kind::Reply, payload, ..request }.to_bytes(Family::V4);
            for _ in 0..2 {
                sendto(socket.as_raw_fd(), &reply, &from, MsgFlags::empty()).unwrap();
            }
        }
    }
}

#[test]
fn off_the_subnet_there_is_no_arp() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let _b = segment.host("b", B, &["10.0.0.2/24", "10.9.0.2/24", "fd00:9::2/64"]);
    let found = check_one(&a, asked(ID_B, B, &["10.9.0.2", "10.0.0.2", "fd00:9::2"]));
    assert_eq!(responders(&found, "10.0.0.2"), [(B.to_owned(), true)]);
    assert_eq!(responders(&found, "10.9.0.2"), []);
    let failed: Vec<_> = found.l3_connectivity.unwrap().into_iter().filter(|echo| !echo.successful).collect();
    assert_eq!(failed, [echo_lost("10.9.0.2"), echo_lost("fd00:9::2")], "no route there");
}

#[test]
fn ndp_asks_off_the_prefix_from_the_link_local_address() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["fe80::1/64", "fd00::1/64"]);
    let _b = segment.host("b", B, &["fe80::2/64", "fd00:9::2/64"]);
    let found = check_one(&a, asked(ID_B, B, &["fd00:9::2"]));
    assert_eq!(responders(&found, "fd00:9::2"), [(B.to_owned(), true)]);
}

#[test]
fn the_mtu_is_tested_where_it_is_unusual() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64"]);
    let mtus = |addresses: &[&str]| {
        let report = check_one(&a, asked(ID_B, B, addresses)).mtu_report;
        report.map(|entries| entries.into_iter().map(|e| (e.remote_ip_address, e.mtu_successful)).collect::<Vec<_>>())
    };
    let both = ["10.0.0.2", "fd00::2"];
    let all = |passed| Some(both.map(|address| (address.to_owned(), passed)).to_vec());
    a.set_mtu(9000);
    b.set_mtu(9000);
    assert_eq!(mtus(&both), all(true));
    b.set_mtu(1500);
    assert_eq!(mtus(&both), all(false));
    assert_eq!(mtus(&["10.0.0.3"]), None, "nothing is said of the path to a silent host");
    a.set_mtu(1500);
    assert_eq!(mtus(&both), None, "1500 is not tested");
}

#[test]
fn a_router_that_would_have_to_fragment_fails_the_mtu() {
    let (Some(near), Some(far)) = (Segment::new(), Segment::new()) else { return };
    let a = near.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let router = near.host("r", "52:54:00:aa:bb:fe", &["10.0.0.254/24", "fd00::fe/64"]);
    far.connect(&router, "ens4", "52:54:00:aa:bb:ff", 1500, &["10.1.0.254/24", "fd00:1::fe/64"]);
    let b = far.host("b", B, &["10.1.0.2/24", "fd00:1::2/64"]);
    a.set_mtu(9000);
    router.set_mtu(9000);
    router.namespace.enter(|| {
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
    });
    for (host, network, gateway) in [
        (&a, "10.1.0.0/24", "10.0.0.254"),
        (&a, "fd00:1::/64", "fd00::fe"),
        (&b, "10.0.0.0/24", "10.1.0.254"),
        (&b, "fd00::/64", "fd00:1::fe"),
    ] {
        host.route(network, gateway);
    }
    let request = [asked(ID_B, B, &["10.1.0.2", "fd00:1::2"])];
    let findings = a.namespace.enter(|| measure(&request, &options())).unwrap();
    let path =
        |hop: &str| Some(PathMtu { largest: 1500, reported: Some(TooBig { hop: hop.parse().unwrap(), mtu: 1500 }) });
    assert_eq!(paths(&findings), [path("10.0.0.254"), path("fd00::fe")]);
    let found = findings.report().remote_hosts.remove(0);
    assert!(found.l3_connectivity.iter().flatten().all(|echo| echo.packet_loss_percentage == 0.0), "{found:?}");
    assert_eq!(tested(&found), [("10.1.0.2", false), ("fd00:1::2", false)]);
    assert_eq!(found.l2_connectivity, None, "no neighbour");
}

fn paths(findings: &Findings) -> Vec<Option<PathMtu>> {
    findings.hosts.iter().flat_map(|host| &host.mtus).map(|mtu| mtu.path).collect()
}

#[test]
fn the_largest_packet_is_found_where_larger_ones_vanish_without_a_word() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64"]);
    a.set_mtu(9000);
    b.set_mtu(4321);
    let request = [asked(ID_B, B, &["10.0.0.2", "fd00::2", "10.0.0.3"])];
    let findings = a.namespace.enter(|| measure(&request, &options())).unwrap();
    // A switch port lets four bytes more pass: room for a VLAN tag.
    assert_eq!(paths(&findings), [Some(PathMtu { largest: 4325, reported: None }); 2]);
}

#[test]
fn an_mtu_without_an_address_of_the_family_is_not_tested() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let _b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64"]);
    a.set_mtu(1400);
    let found = check_one(&a, asked(ID_B, B, &["10.0.0.2", "fd00::2"]));
    assert_eq!(tested(&found), [("10.0.0.2", true)]);
}

#[test]
fn every_addressed_interface_probes_and_no_other() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    segment.connect(&a, "ens4", "52:54:00:aa:bb:14", 1500, &["10.0.0.4/24"]);
    segment.connect(&a, "ens5", "52:54:00:aa:bb:15", 1500, &["10.0.0.5/24"]);
    segment.connect(&a, "ens6", "52:54:00:aa:bb:16", 1500, &[]);
    let _b = segment.host("b", B, &["10.0.0.2/24"]);
    let sysfs = tempfile::tempdir().unwrap();
    fs::create_dir_all(sysfs.path().join("class/net")).unwrap();
    for (name, device) in [
        ("ens3", "pci0/net/ens3"),
        ("ens4", "virtual/net/ens4"),
        ("ens5", "virtual/net/ens5"),
        ("lo", "virtual/net/lo"),
    ] {
        let device = sysfs.path().join("devices").join(device);
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("uevent"), if name == "ens5" { "DEVTYPE=vlan\n" } else { "DEVTYPE=bridge\n" }).unwrap();
        symlink(device, sysfs.path().join("class/net").join(name)).unwrap();
    }
    let options = MeshOptions { interfaces: Selection::Automatic, sysfs: sysfs.path().to_owned(), ..options() };
    let report = check_with(&a, &[asked(ID_B, B, &["10.0.0.2"])], &options);
    let entries = report.remote_hosts[0].l2_connectivity.as_ref().unwrap();
    let from: Vec<_> = entries.iter().map(|entry| (&*entry.outgoing_nic, &*entry.outgoing_ip_address)).collect();
    assert_eq!(from, [("ens3", "10.0.0.1"), ("ens5", "10.0.0.5")]);
}

#[test]
fn three_hundred_addresses_are_checked_without_loss_of_our_making() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/16"]);
    let b = segment.host("b", B, &["10.0.0.2/16"]);
    b.answer_for("10.0.8.0/22");
    let id = |n: u32| format!("{n:08x}-0000-0000-0000-000000000000");
    let hosts: Vec<_> = (0..300).map(|n| asked(&id(n), B, &[&format!("10.0.{}.{}", 8 + n / 256, n % 256)])).collect();
    let report = check_with(&a, &hosts, &options());
    assert_eq!(report.remote_hosts.len(), 300);
    for host in &report.remote_hosts {
        assert_eq!(responders_of_l2(&host.l2_connectivity), [B], "{host:?}");
        assert!(host.l3_connectivity.iter().flatten().all(|echo| echo.packet_loss_percentage == 0.0), "{host:?}");
    }
}

#[test]
fn silent_hosts_do_not_hold_up_the_others() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/16"]);
    let _b = segment.host("b", B, &["10.0.0.2/16"]);
    let silent: Vec<String> = (0..300).map(|n| format!("10.0.{}.{}", 8 + n / 256, n % 256)).collect();
    let addresses: Vec<&str> = ["10.0.0.2"].into_iter().chain(silent.iter().map(String::as_str)).collect();
    let findings = a.namespace.enter(|| measure(&[asked(ID_B, B, &addresses)], &options())).unwrap();
    let echoes = &findings.hosts[0].echoes;
    assert_eq!(echoes.len(), 301);
    for echo in echoes {
        let answered = if echo.address == IpAddr::from([10, 0, 0, 2]) { 10 } else { 0 };
        assert_eq!((echo.statistics.sent, echo.statistics.received), (10, answered), "{}", echo.address);
    }
}

#[test]
fn a_check_cut_short_reports_no_loss_it_did_not_see() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let _b = segment.host("b", B, &["10.0.0.2/24"]);
    let hosts = [asked(ID_B, B, &["10.0.0.2", "10.0.0.3"])];
    let options = MeshOptions { count: 100, deadline: Duration::from_millis(1000), ..options() };
    let report = check_with(&a, &hosts, &options);
    let echoes = report.remote_hosts[0].l3_connectivity.as_ref().unwrap();
    let seen: Vec<_> = echoes.iter().map(|echo| (&*echo.remote_ip_address, echo.packet_loss_percentage)).collect();
    assert_eq!(seen, [("10.0.0.2", 0.0)]);
}

#[test]
fn a_check_cut_short_reports_no_mtu_failure_it_did_not_see() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let _b = segment.host("b", B, &["10.0.0.2/24"]);
    a.set_mtu(9000);
    let options = MeshOptions { count: 100, deadline: Duration::from_millis(1000), ..options() };
    let mut report = check_with(&a, &[asked(ID_B, B, &["10.0.0.2"])], &options);
    let found = report.remote_hosts.remove(0);
    assert!(found.l3_connectivity.iter().flatten().all(|echo| echo.successful), "{found:?}");
    assert_eq!(found.mtu_report, None, "less time than an echo may take");
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &[]);
    let options = MeshOptions { interfaces: Selection::Named(vec!["ens9".into()]), ..options() };
    let error = a.namespace.enter(|| connectivity(&[], &options)).unwrap_err();
    assert_eq!(error.to_string(), "no network interface 'ens9'; this host has lo, ens3");
}

#[test]
fn without_the_capability_it_is_named() {
    if testkit::net::is_inside() {
        let Err(Error::Socket(error)) = connectivity(&[asked(ID_B, B, &["10.0.0.2"])], &options()) else {
            panic!("not refused")
        };
        assert!(
            matches!(&error, SocketError::Privilege { socket: SocketName::Arp(nic), .. } if nic == "ens3"),
            "{error}"
        );
        assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
        return;
    }
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let without = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"];
    Again::start(&a, &without, &own_test(module_path!(), "without_the_capability_it_is_named"), String::new()).end();
}

#[derive(clap::Parser)]
struct Program {
    #[command(flatten)]
    netcheck: netcheck::cli::Netcheck,
}

#[test]
fn the_command_prints_the_report_on_one_line() {
    if testkit::net::is_inside() {
        let arguments = ["netcheck", "mesh", "--json", "--request", "-", "--interface", "ens3", "--count", "2"];
        Program::parse_from(arguments).netcheck.run().unwrap();
        return;
    }
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let _b = segment.host("b", B, &["10.0.0.2/24"]);
    let request = serde_json::to_string(&[asked(ID_B, B, &["10.0.0.2"])]).unwrap();
    let printed =
        Again::start(&a, &[], &own_test(module_path!(), "the_command_prints_the_report_on_one_line"), request).end();
    let line = printed.lines().find_map(|line| line.find('{').map(|start| &line[start..])).unwrap();
    let report: ConnectivityReport = serde_json::from_str(line).unwrap();
    let expected = json!({"remote_hosts": [{
        "host_id": ID_B,
        "l2_connectivity": [{"outgoing_ip_address": "10.0.0.1", "outgoing_nic": "ens3",
                             "remote_ip_address": "10.0.0.2", "remote_mac": B, "successful": true}],
        "l3_connectivity": [{"average_rtt_ms": 1.0, "remote_ip_address": "10.0.0.2", "successful": true}],
        "mtu_report": null,
    }]});
    assert_eq!(exact(&report), expected);
}

#[test]
fn the_recorded_request_of_the_service_is_answered() {
    let Some(recorded) = recorded_argument("connectivity-check") else { return };
    let Some(segment) = Segment::new() else { return };
    let hosts: Vec<ConnectivityCheckHost> = serde_json::from_str(&recorded).unwrap();
    let prober = segment.host("p", "52:54:00:aa:bb:0a", &["192.168.126.10/24"]);
    let _remotes: Vec<Host> = (0..)
        .zip(&hosts)
        .map(|(n, host)| {
            segment.host(&format!("r{n}"), &host.nics[0].mac, &[&format!("{}/24", host.nics[0].ip_addresses[0])])
        })
        .collect();
    let report = check_with(&prober, &hosts, &options());
    assert_fits("connectivity-report", &serde_json::to_value(&report).unwrap());
    let ids: Vec<_> = report.remote_hosts.iter().map(|host| host.host_id.to_string()).collect();
    assert!(ids.len() == hosts.len() && ids.is_sorted(), "{ids:?}");
    for host in &report.remote_hosts {
        let (l2, l3) = (host.l2_connectivity.as_ref().unwrap(), host.l3_connectivity.as_ref().unwrap());
        assert!(l2.len() == 1 && l2[0].successful, "{host:?}");
        assert!(l3.len() == 1 && l3[0].successful && l3[0].packet_loss_percentage == 0.0, "{host:?}");
    }
}
