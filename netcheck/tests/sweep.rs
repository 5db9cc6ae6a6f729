//! Sweeps between network namespaces, against what is there and against nmap.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use api::{FreeNetworkAddresses, Mac};
use netcheck::{
    Selection,
    codec::{
        arp::{Arp, Operation},
        ethernet::{self, Frame},
    },
    sweep::{Error, Findings, Network, Occupied, Progress, SweepOptions, own_networks, sweep},
};
use nix::{
    ifaddrs::getifaddrs,
    sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, sendto, socket},
};
use std::{
    collections::BTreeSet,
    fs,
    net::Ipv4Addr,
    os::fd::AsRawFd,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use testkit::process::own_test;
use testkit::{
    net::{Again, Host, Segment},
    wire,
};

const A: &str = "52:54:00:aa:bb:01";
const B: &str = "52:54:00:aa:bb:02";
const C: &str = "52:54:00:aa:bb:03";

fn options() -> SweepOptions {
    SweepOptions { interfaces: Selection::Named(vec!["ens3".to_owned()]), ..SweepOptions::default() }
}

fn swept_with(from: &Host, networks: &[&str], options: &SweepOptions) -> Result<Vec<Findings>, Error> {
    let networks: Vec<Network> = networks.iter().map(|text| text.parse().unwrap()).collect();
    from.namespace.enter(|| sweep(&networks, options, &mut |_| ()))
}

/// What a sweep of one network finds.
fn swept(from: &Host, network: &str) -> Findings {
    let mut findings = swept_with(from, &[network], &options()).unwrap();
    assert_eq!(findings.len(), 1);
    findings.remove(0)
}

fn reply(findings: &[Findings]) -> Vec<FreeNetworkAddresses> {
    let reply: Vec<_> = findings.iter().map(Findings::reply).collect();
    wire::assert_fits("free_networks_addresses", &serde_json::to_value(&reply).unwrap());
    reply
}

fn occupied(findings: &Findings) -> Vec<String> {
    findings.occupied.iter().map(|occupied| occupied.address.to_string()).collect()
}

/// The addresses that nmap finds up, as the original agent asks it; `None`, with the reason printed, where it does not run.
fn nmap(from: &Host, network: &str) -> Option<BTreeSet<Ipv4Addr>> {
    let arguments = ["netns", "exec", &from.namespace.0, "nmap", "-sn", "-PR", "-n", "-oX", "-", network];
    let output = Command::new("ip").args(arguments).output().unwrap();
    if !output.status.success() {
        testkit::skip::because(format_args!("nmap does not run: {}", String::from_utf8_lossy(&output.stderr)));
        return None;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let address = |host: &str| {
        let from = host.find("<address addr=\"")? + "<address addr=\"".len();
        host.contains("state=\"up\"").then(|| host[from..].split('"').next()?.parse().ok()).flatten()
    };
    Some(text.split("<host>").skip(1).filter_map(address).collect())
}

/// Forged replies as fast as the kernel takes them: of a silent address to others, to all stations, in the name of others, as
/// requests, from outside the network, of an address that is asked for late.
fn flood(done: &AtomicBool) -> u64 {
    let (a, forger) = (A.parse::<Mac>().unwrap(), Mac([0x52, 0x54, 1, 0, 0, 1]));
    let own_ip = Ipv4Addr::new(10, 0, 0, 1);
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None::<SockProtocol>).unwrap();
    let mac =
        getifaddrs().unwrap().filter(|address| address.interface_name == "ens3").find_map(|address| address.address);
    let to = *mac.unwrap().as_link_addr().unwrap();
    let reply = Arp {
        operation: Operation::Reply,
        sender_mac: forger,
        sender_ip: Ipv4Addr::new(10, 0, 0, 77),
        target_mac: a,
        target_ip: own_ip,
    };
    let mut forged = vec![
        Arp { target_mac: forger, ..reply },
        Arp { target_mac: Mac([0xff; 6]), ..reply },
        Arp { target_ip: Ipv4Addr::new(10, 0, 0, 99), ..reply },
        Arp { sender_mac: Mac([0xff; 6]), ..reply },
        Arp { sender_mac: Mac([0; 6]), ..reply },
        Arp { operation: Operation::Request, ..reply },
        Arp { sender_ip: Ipv4Addr::new(10, 0, 1, 77), ..reply },
    ];
    // These can't be distinguished from real ones; they may use the space of four at most.
    let crowd =
        |last| Arp { sender_mac: Mac([0x52, 0x54, 2, 0, 0, last]), sender_ip: Ipv4Addr::new(10, 0, 0, 2), ..reply };
    forged.extend((0..=255).map(crowd));
    let frame = |arp: &Arp| {
        let payload = arp.to_bytes();
        Frame { destination: a, source: forger, ethertype: ethernet::ARP, payload: &payload }.to_bytes()
    };
    let frames: Vec<_> = forged.iter().map(frame).collect();
    let mut sent = 0;
    while !done.load(Ordering::Relaxed) {
        sent += frames.iter().filter(|f| sendto(socket.as_raw_fd(), f, &to, MsgFlags::empty()).is_ok()).count() as u64;
    }
    sent
}

#[test]
fn a_sweep_finds_all_that_is_there_and_nothing_else() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "10.0.0.7/24", "192.0.2.1/32"]);
    segment.connect(&a, "ens4", "52:54:00:aa:bb:14", 1500, &["10.0.0.8/24"]);
    let b = segment.host("b", B, &["10.0.0.2/24", "10.0.0.9/24"]);
    b.answer_for("10.0.0.64/30");
    let _c = segment.host("c", C, &["10.0.0.9/24", "10.0.0.7/24"]);
    let findings = swept(&a, "10.0.0.0/24");
    let entry = |last, ours: Option<&str>, macs: &[&str]| Occupied {
        address: Ipv4Addr::new(10, 0, 0, last),
        ours: ours.map(str::to_owned),
        stations: macs.iter().map(|mac| mac.parse().unwrap()).collect(),
    };
    let mut expected = vec![
        entry(1, Some("ens3"), &[]),
        entry(2, None, &[B]),
        entry(7, Some("ens3"), &[C]),
        entry(8, Some("ens4"), &[]),
        entry(9, None, &[B, C]),
    ];
    expected.extend((64..68).map(|last| entry(last, None, &[B])));
    let network = "10.0.0.0/24".parse().unwrap();
    assert_eq!(findings, Findings { network, interface: "ens3".to_owned(), occupied: expected });
    let duplicates: Vec<_> =
        findings.occupied.iter().filter(|o| o.is_duplicate()).map(|o| o.address.octets()[3]).collect();
    assert_eq!(duplicates, [7, 9]);
    let free: Vec<String> =
        (0..=255).filter(|n| ![1, 2, 7, 8, 9, 64, 65, 66, 67].contains(n)).map(|n| format!("10.0.0.{n}")).collect();
    assert_eq!(reply(&[findings])[0], FreeNetworkAddresses { free_addresses: free, network: "10.0.0.0/24".to_owned() });
}

#[test]
fn nmap_finds_the_same() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/22"]);
    let b = segment.host("b", B, &["10.0.0.2/22"]);
    let c = segment.host("c", C, &["10.0.3.254/22", "10.0.0.2/22"]);
    for network in ["10.0.0.100/32", "10.0.0.128/28", "10.0.1.255/32", "10.0.2.0/30"] {
        b.answer_for(network);
    }
    c.answer_for("10.0.3.64/26");
    for network in ["10.0.0.0/24", "10.0.0.0/22"] {
        let findings = swept(&a, network);
        let Some(up) = nmap(&a, network) else { return };
        let found: BTreeSet<Ipv4Addr> = findings.occupied.iter().map(|occupied| occupied.address).collect();
        assert_eq!(found, up, "{network}");
        assert_eq!(findings.free().count() + up.len(), findings.network.addresses().count());
    }
}

#[test]
fn a_slash_16_is_swept_whole_within_a_minute() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.7.0.1/16"]);
    let b = segment.host("b", B, &["10.7.0.2/16"]);
    for network in ["10.7.4.0/24", "10.7.128.0/20", "10.7.255.252/31"] {
        b.answer_for(network);
    }
    // At the usual rate two questions for each address are sent within the deadline.
    let usual = SweepOptions::default();
    assert!(f64::from(2 * 65_536 / usual.packets_per_second) + 2.0 < usual.deadline.as_secs_f64());
    let hurried = SweepOptions { packets_per_second: 20_000, deadline: Duration::from_secs(300), ..options() };
    let findings = swept_with(&a, &["10.7.0.0/16"], &hurried).unwrap().remove(0);
    let count = |last: &str| findings.occupied.iter().filter(|o| o.stations == [last.parse::<Mac>().unwrap()]).count();
    assert_eq!((findings.occupied.len(), count(B)), (1 + 1 + 256 + 4096 + 2, 1 + 256 + 4096 + 2));
    assert_eq!(findings.free().count(), 65_536 - 4356);
}

#[test]
fn networks_are_answered_in_the_order_asked() {
    let (Some(one), Some(other)) = (Segment::new(), Segment::new()) else { return };
    let a = one.host("a", A, &["10.0.0.1/30"]);
    other.connect(&a, "ens4", "52:54:00:aa:bb:14", 1500, &["10.1.0.1/30"]);
    let _b = other.host("b", B, &["10.1.0.2/30"]);
    let options = SweepOptions { interfaces: Selection::Named(vec!["ens3".into(), "ens4".into()]), ..options() };
    let networks: Vec<String> =
        a.namespace.enter(|| own_networks(&options)).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/30", "10.1.0.0/30"]);
    let found = swept_with(&a, &["10.1.0.0/30", "10.0.0.0/30", "10.1.0.2/32"], &options).unwrap();
    let expected = r#"[{"free_addresses":["10.1.0.0","10.1.0.3"],"network":"10.1.0.0/30"},{"free_addresses":["10.0.0.0","10.0.0.2","10.0.0.3"],"network":"10.0.0.0/30"},{"free_addresses":[],"network":"10.1.0.2/32"}]"#;
    assert_eq!(serde_json::to_string(&reply(&found)).unwrap(), expected);
}

#[test]
fn a_proxy_holds_what_it_answers_for_as_nmap_has_it() {
    let (Some(segment), Some(behind)) = (Segment::new(), Segment::new()) else { return };
    let a = segment.host("a", A, &["10.0.0.1/16"]);
    let b = segment.host("b", B, &["10.0.0.2/24"]);
    behind.connect(&b, "ens4", C, 1500, &["10.0.5.1/30"]);
    b.namespace.enter(|| {
        fs::write("/proc/sys/net/ipv4/conf/ens3/proxy_arp", "1").unwrap();
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        // Else it takes up to 0.8 s for an answer, and it is chance who still hears it.
        fs::write("/proc/sys/net/ipv4/neigh/ens3/proxy_delay", "0").unwrap();
    });
    let findings = swept(&a, "10.0.5.0/29");
    let Some(up) = nmap(&a, "10.0.5.0/29") else { return };
    assert_eq!(occupied(&findings), up.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert!(
        occupied(&findings).contains(&"10.0.5.2".to_owned()),
        "no station there, but the proxy answers: {findings:?}"
    );
}

#[test]
fn a_proxy_that_answers_late_is_heard() {
    let (Some(segment), Some(behind)) = (Segment::new(), Segment::new()) else { return };
    let a = segment.host("a", A, &["10.0.0.1/16"]);
    let b = segment.host("b", B, &["10.0.0.2/24"]);
    behind.connect(&b, "ens4", C, 1500, &["10.0.5.1/27"]);
    b.namespace.enter(|| {
        fs::write("/proc/sys/net/ipv4/conf/ens3/proxy_arp", "1").unwrap();
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        // At random up to 0.6 s; 0.8 s is usual, and too near to our second for a busy machine.
        fs::write("/proc/sys/net/ipv4/neigh/ens3/proxy_delay", "60").unwrap();
    });
    let findings = swept(&a, "10.0.5.0/27");
    let mut found = occupied(&findings);
    // A broadcast address to older kernels.
    found.retain(|address| address != "10.0.5.0");
    assert_eq!(found, (1..31).map(|last| format!("10.0.5.{last}")).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_swept_is_named() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let error = |networks: &[&str], options: &SweepOptions| swept_with(&a, networks, options).unwrap_err().to_string();
    assert_eq!(error(&[], &options()), "the request names no network");
    let far = "no interface to sweep 192.0.2.0/24 from: this host is on 10.0.0.0/24 (ens3)";
    assert_eq!(error(&["192.0.2.0/24", "198.51.100.0/24"], &options()), far);
    let hurried = SweepOptions { packets_per_second: 100, deadline: Duration::from_millis(500), ..options() };
    let late = error(&["10.0.0.0/24"], &hurried);
    assert!(late.starts_with("the sweep did not finish within 500ms ("), "{late}");
    a.namespace.ip("link set ens3 down");
    assert_eq!(error(&["10.0.0.0/24"], &options()), "cannot sweep 10.0.0.0/24: ens3 has no link");
}

#[test]
fn a_network_whose_cable_is_out_does_not_hide_the_others() {
    let (Some(one), Some(other)) = (Segment::new(), Segment::new()) else { return };
    let a = one.host("a", A, &["10.0.0.1/29"]);
    other.connect(&a, "ens4", "52:54:00:aa:bb:14", 1500, &["10.7.0.1/29"]);
    let options = SweepOptions { interfaces: Selection::Named(vec!["ens3".into(), "ens4".into()]), ..options() };
    let networks = ["10.7.0.0/29", "10.0.0.0/29", "192.0.2.0/29"];
    let free = [0, 2, 3, 4, 5, 6, 7].map(|last| format!("10.0.0.{last}")).to_vec();
    let expected = [FreeNetworkAddresses { free_addresses: free, network: "10.0.0.0/29".to_owned() }];
    a.namespace.ip("link set ens4 down");
    assert_eq!(reply(&swept_with(&a, &networks, &options).unwrap()), expected);
}

#[test]
fn a_link_that_is_lost_during_the_sweep_does_not_hide_the_others() {
    let (Some(one), Some(other)) = (Segment::new(), Segment::new()) else { return };
    let a = one.host("a", A, &["10.0.0.1/29"]);
    other.connect(&a, "ens4", "52:54:00:aa:bb:14", 1500, &["10.7.0.1/24"]);
    let both = vec!["ens3".into(), "ens4".into()];
    let options = SweepOptions { interfaces: Selection::Named(both), packets_per_second: 400, ..options() };
    let networks = ["10.7.0.0/24", "10.0.0.0/29"].map(|text| text.parse().unwrap());
    let (tell, begun) = std::sync::mpsc::channel();
    let (down, is_down) = std::sync::mpsc::channel();
    let swept = thread::scope(|scope| {
        let a = &a;
        scope.spawn(move || {
            begun.recv().unwrap();
            a.namespace.ip("link set ens4 down");
            down.send(()).unwrap();
        });
        let (networks, options) = (&networks, &options);
        a.namespace.enter(move || {
            // The sweep goes on once the link is lost.
            let mut lose = |_: Progress| {
                if tell.send(()).is_ok() {
                    let _ = is_down.recv();
                }
            };
            sweep(networks, options, &mut lose).unwrap()
        })
    });
    let swept: Vec<_> = swept.iter().map(|findings| findings.network.to_string()).collect();
    assert_eq!(swept, ["10.0.0.0/29"], "not all of the other were asked");
}

#[test]
fn progress_is_reported_to_its_end() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let mut reports: Vec<Progress> = Vec::new();
    let options = SweepOptions { packets_per_second: 100, ..options() };
    let networks = ["10.0.0.0/24".parse().unwrap()];
    a.namespace.enter(|| sweep(&networks, &options, &mut |progress| reports.push(progress))).unwrap();
    assert!(reports.len() >= 4 && reports.iter().all(|p| p.total == 256 && p.done <= 256), "{reports:?}");
    assert!(reports.is_sorted_by_key(|p| (p.round, p.done)) && reports.last().unwrap().round == 2, "{reports:?}");
}

#[test]
fn forged_answers_neither_take_addresses_nor_time_nor_memory() {
    if testkit::net::is_inside() {
        let before = testkit::net::peak_kib_of_all();
        let networks = ["10.0.0.0/24".parse().unwrap()];
        // A sweep that does not end by itself fails.
        let options = SweepOptions { deadline: Duration::from_secs(300), ..options() };
        let findings = sweep(&networks, &options, &mut |_| ()).unwrap();
        let found: Vec<_> = findings[0].occupied.iter().map(|o| (o.address.to_string(), o.stations.len())).collect();
        println!("\nFOUND {}", serde_json::to_string(&found).unwrap());
        println!("GROWTH {}", testkit::net::peak_kib() - before);
        return;
    }
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let _b = segment.host("b", B, &["10.0.0.3/24"]);
    let forger = segment.host("f", "52:54:00:aa:bb:66", &[]);
    let done = AtomicBool::new(false);
    let (text, sent) = thread::scope(|scope| {
        let flood = scope.spawn(|| forger.namespace.enter(|| flood(&done)));
        let name = "forged_answers_neither_take_addresses_nor_time_nor_memory";
        let text =
            std::panic::catch_unwind(|| Again::start(&a, &[], &own_test(module_path!(), name), String::new()).end());
        done.store(true, Ordering::Relaxed);
        (text.unwrap(), flood.join().unwrap())
    });
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    let growth: u64 = value("GROWTH").parse().unwrap();
    println!("{sent} forged answers; the sweep took {growth} KiB more memory");
    assert_eq!(value("FOUND"), r#"[["10.0.0.1",0],["10.0.0.2",4],["10.0.0.3",1]]"#);
    assert!(growth < 2048);
}

#[test]
fn the_recorded_request_of_the_service_is_answered() {
    let Some(request) = wire::recorded_argument("free-network-addresses") else { return };
    let Some(segment) = Segment::new() else { return };
    let networks: Vec<String> = serde_json::from_str(&request).unwrap();
    assert_eq!(networks, ["192.168.126.0/24"]);
    let a = segment.host("a", A, &["192.168.126.10/24"]);
    let _b = segment.host("b", B, &["192.168.126.1/24"]);
    let reply = reply(&swept_with(&a, &["192.168.126.0/24"], &options()).unwrap());
    let free = (0..=255).filter(|n| ![1, 10].contains(n)).map(|n| format!("192.168.126.{n}")).collect();
    assert_eq!(reply, [FreeNetworkAddresses { free_addresses: free, network: networks[0].clone() }]);
}
