//! The connectivity check beside the programs that the service's own agent starts for it (`ping`, `arping`, `nmap`), on the
//! same network at the same time, entry by entry.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use api::{
    ConnectivityCheckHost, ConnectivityRemoteHost, ConnectivityReport, L2Connectivity, L3Connectivity, MtuReport,
};
use netcheck::{
    Selection,
    mesh::{Findings, MeshOptions, PathMtu, TooBig, measure},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::IpAddr,
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};
use testkit::net::{Host, Segment};

/// Probes of one lossy address: enough that chance can't look like a fault.
const LOSSY_PROBES: u16 = 100;
const LOSSY: [&str; 2] = ["10.1.0.7", "fd01::7"];
/// Where round trips are compared, over as many.
const TIMED: [&str; 2] = ["10.1.0.2", "fd01::2"];

fn mac(last: u8) -> String {
    format!("52:54:00:aa:bb:{last:02x}")
}

fn id(last: u8) -> String {
    format!("00000000-0000-0000-0000-0000000000{last:02x}")
}

/// A remote host with one interface, its number standing in MAC and addresses.
fn asked(last: u8, addresses: &[&str]) -> ConnectivityCheckHost {
    let nics = json!([{"name": "ens3", "mac": mac(last), "ip_addresses": addresses}]);
    serde_json::from_value(json!({"host_id": id(last), "nics": nics})).unwrap()
}

/// An interface that both sides probe from.
struct Nic {
    name: &'static str,
    mtu: u32,
    v4_network: &'static str,
}

const NICS: [Nic; 3] = [
    Nic { name: "ens3", mtu: 1500, v4_network: "10.1.0." },
    Nic { name: "ens4", mtu: 1500, v4_network: "10.2.0." },
    Nic { name: "ens5", mtu: 9000, v4_network: "10.3.0." },
];

/// Runs a program in the network of `from`; exit status and standard output with errors.
fn output(from: &Host, command: &str) -> (bool, String) {
    let mut program = Command::new("ip");
    program.args(["netns", "exec", &from.namespace.0]).args(command.split_whitespace()).env("LC_ALL", "C");
    let output = program.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

/// `ping_checker.go`: what it says of `ping -c 10 -W 3 -q`.
fn l3(ip: &str, (success, text): &(bool, String)) -> L3Connectivity {
    let number = |text: Option<&str>| text?.trim().parse::<f64>().ok();
    let loss = number(between(text, "received, ", "% packet loss, time"));
    let rtt = text.split_once("min/avg/max/mdev = ").and_then(|(_, rest)| rest.split('/').nth(1));
    let mut entry = L3Connectivity {
        average_rtt_ms: 0.0,
        outgoing_nic: String::new(),
        packet_loss_percentage: 0.0,
        remote_ip_address: ip.to_owned(),
        successful: false,
    };
    if let (true, Some(loss), Some(rtt)) = (success, loss, number(rtt)) {
        entry = L3Connectivity { average_rtt_ms: rtt, packet_loss_percentage: loss, successful: true, ..entry };
    }
    entry
}

/// `ipv4_arping_checker.go`: one entry for each MAC in the reply lines.
fn l2_of_arping(nic: &str, ip: &str, macs: &BTreeSet<String>, text: &str) -> Vec<L2Connectivity> {
    let Some(source) = between(text, &format!("ARPING {ip} from "), " ") else { return Vec::new() };
    let replies = text.lines().filter_map(|line| between(line, &format!("Unicast reply from {ip} ["), "]  "));
    let responders: BTreeSet<String> = replies.map(str::to_lowercase).collect();
    let entry = |remote_mac: String| L2Connectivity {
        outgoing_ip_address: source.to_owned(),
        outgoing_nic: nic.to_owned(),
        remote_ip_address: ip.to_owned(),
        successful: macs.contains(&remote_mac),
        remote_mac,
    };
    responders.into_iter().map(entry).collect()
}

/// `ipv6_nmap_checker.go`: the first host that is up and has a MAC.
fn l2_of_nmap(nic: &str, ip: &str, macs: &BTreeSet<String>, xml: &str) -> Option<L2Connectivity> {
    let up = xml.split("<host>").skip(1).find(|host| host.contains("<status state=\"up\""))?;
    let element = up.split('<').find(|element| element.contains("addrtype=\"mac\""))?;
    let remote_mac = between(element, "addr=\"", "\"")?.to_lowercase();
    Some(L2Connectivity {
        outgoing_ip_address: String::new(),
        outgoing_nic: nic.to_owned(),
        remote_ip_address: ip.to_owned(),
        successful: macs.contains(&remote_mac),
        remote_mac,
    })
}

/// `mtu_checker.go`, but that an interface without an address of the family is not said to be tested.
fn mtu(from: &Host, nic: &Nic, ip: &str) -> Option<MtuReport> {
    let header = if ip.contains(':') { 48 } else { 28 };
    let ordinary = output(from, &format!("ping {ip} -c 3 -I {}", nic.name)).0;
    ordinary.then(|| MtuReport {
        mtu_successful: output(from, &format!("ping {ip} -c 3 -M do -s {} -I {}", nic.mtu - header, nic.name)).0,
        outgoing_nic: nic.name.to_owned(),
        remote_ip_address: ip.to_owned(),
    })
}

enum Entry {
    L2(Vec<L2Connectivity>),
    L3(L3Connectivity),
    Mtu(Option<MtuReport>),
}

/// The report of docs/compatibility.md#connectivity-check, made of the output of all programs, which are started at once.
fn the_programs_report(from: &Host, hosts: &[ConnectivityCheckHost]) -> ConnectivityReport {
    let (sender, receiver) = mpsc::channel::<(usize, Entry)>();
    let mut report = ConnectivityReport { remote_hosts: Vec::new() };
    thread::scope(|scope| {
        for (number, host) in hosts.iter().enumerate() {
            let macs: BTreeSet<String> = host.nics.iter().map(|nic| nic.mac.to_lowercase()).collect();
            for ip in host.nics.iter().flat_map(|nic| &nic.ip_addresses) {
                let probes = if LOSSY.contains(&&**ip) || TIMED.contains(&&**ip) { "100 -i 0.01" } else { "10" };
                let to = sender.clone();
                scope.spawn(move || {
                    to.send((number, Entry::L3(l3(ip, &output(from, &format!("ping -c {probes} -W 3 -q {ip}"))))))
                });
                for nic in &NICS {
                    let (to, macs) = (sender.clone(), macs.clone());
                    if ip.contains(':') {
                        scope.spawn(move || {
                            let xml = output(from, &format!("nmap -6 -sn -n -oX - -e {} {ip}", nic.name)).1;
                            to.send((number, Entry::L2(l2_of_nmap(nic.name, ip, &macs, &xml).into_iter().collect())))
                        });
                    } else if ip.starts_with(nic.v4_network) {
                        scope.spawn(move || {
                            let text = output(from, &format!("arping -c 10 -w 5 -I {} {ip}", nic.name)).1;
                            to.send((number, Entry::L2(l2_of_arping(nic.name, ip, &macs, &text))))
                        });
                    }
                    if nic.mtu != 1500 {
                        let to = sender.clone();
                        scope.spawn(move || to.send((number, Entry::Mtu(mtu(from, nic, ip)))));
                    }
                }
            }
        }
    });
    drop(sender);
    let mut entries: BTreeMap<usize, Vec<Entry>> = BTreeMap::new();
    for (number, entry) in receiver {
        entries.entry(number).or_default().push(entry);
    }
    for (number, entries) in entries {
        let (mut l2, mut l3, mut mtus) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            match entry {
                Entry::L2(more) => l2.extend(more),
                Entry::L3(one) => l3.push(one),
                Entry::Mtu(some) => mtus.extend(some),
            }
        }
        l2.sort_by_key(|e| (e.remote_ip_address.clone() + &e.remote_mac, e.outgoing_nic.clone()));
        l3.sort_by_key(|e| e.remote_ip_address.clone());
        mtus.sort_by_key(|e| (e.remote_ip_address.clone(), e.outgoing_nic.clone()));
        report.remote_hosts.push(ConnectivityRemoteHost {
            host_id: hosts[number].host_id,
            l2_connectivity: (!l2.is_empty()).then_some(l2),
            l3_connectivity: (!l3.is_empty()).then_some(l3),
            mtu_report: (!mtus.is_empty()).then_some(mtus),
        });
    }
    report.remote_hosts.sort_by_key(|host| host.host_id);
    report
}

struct Lab {
    _segments: [Segment; 4],
    a: Host,
    _others: Vec<Host>,
    request: Vec<ConnectivityCheckHost>,
}

/// Host `a` on three segments; see the comments for the others.
fn lab() -> Option<Lab> {
    let [near, far, jumbo, behind] = [Segment::new()?, Segment::new()?, Segment::new()?, Segment::new()?];
    let a = near.host("a", &mac(1), &["10.1.0.1/24", "fd01::1/64"]);
    far.connect(&a, "ens4", &mac(0x11), 1500, &["10.2.0.1/24", "fd02::1/64"]);
    jumbo.connect(&a, "ens5", &mac(0x21), 9000, &["10.3.0.1/24", "fd03::1/64"]);
    let mut others = Vec::new();
    let mut request = Vec::new();
    let station = |last: u8, number: u8| {
        let addresses = [format!("10.1.0.{number}/24"), format!("fd01::{number}/64")];
        near.host(&format!("s{last}"), &mac(last), &addresses.each_ref().map(String::as_str))
    };
    // Two healthy hosts on both segments.
    for n in [2, 3] {
        let host = station(n, n);
        let second = [format!("10.2.0.{n}/24"), format!("fd02::{n}/64")];
        far.connect(&host, "ens4", &mac(0x10 + n), 1500, &second.each_ref().map(String::as_str));
        others.push(host);
        let nic = |name: &str, mac: String, net: u8| json!({"name": name, "mac": mac, "ip_addresses": [format!("10.{net}.0.{n}"), format!("fd0{net}::{n}")]});
        let nics = json!([nic("ens3", mac(n), 1), nic("ens4", mac(0x10 + n), 2)]);
        request.push(serde_json::from_value(json!({"host_id": id(n), "nics": nics})).unwrap());
    }
    // 4 is down. 5 has another MAC than the request says. 6 shares its addresses with 66. 7 is lossy. 8 hears nothing of us.
    others.extend([station(0x55, 5), station(6, 6), station(0x66, 6), station(7, 7), station(8, 8)]);
    for n in 4..=8 {
        request.push(asked(n, &[&format!("10.1.0.{n}"), &format!("fd01::{n}")]));
    }
    // 9 is on the jumbo segment; 10 behind a router to a link of 1500 bytes.
    others.push(jumbo.host("j", &mac(9), &["10.3.0.9/24", "fd03::9/64"]));
    others[others.len() - 1].set_mtu(9000);
    request.push(asked(9, &["10.3.0.9", "fd03::9"]));
    let router = jumbo.host("r", &mac(0xfe), &["10.3.0.254/24", "fd03::fe/64"]);
    router.set_mtu(9000);
    behind.connect(&router, "ens4", &mac(0xff), 1500, &["10.4.0.254/24", "fd04::fe/64"]);
    router.namespace.enter(|| {
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
    });
    let last = behind.host("k", &mac(10), &["10.4.0.2/24", "fd04::2/64"]);
    for (host, network, gateway) in [
        (&a, "10.4.0.0/24", "10.3.0.254"),
        (&a, "fd04::/64", "fd03::fe"),
        (&last, "10.3.0.0/24", "10.4.0.254"),
        (&last, "fd03::/64", "fd04::fe"),
    ] {
        host.route(network, gateway);
    }
    request.push(asked(10, &["10.4.0.2", "fd04::2"]));
    // A router with an address that is not yet known to be unique does not forward.
    others.extend([router, last]);
    for host in &others {
        testkit::wait::until("every address is the host's own", || {
            host.namespace.ip("-6 address show tentative").is_empty()
        });
    }
    near.drop_frames(&[
        "ip daddr 10.1.0.7 icmp type echo-request numgen random mod 100 < 30",
        "ip6 daddr fd01::7 icmpv6 type echo-request numgen random mod 100 < 30",
        "iifname ens-a-3 oifname ens-s8-3",
    ]);
    Some(Lab { _segments: [near, far, jumbo, behind], a, _others: others, request })
}

fn ours(lab: &Lab) -> Findings {
    let options = MeshOptions {
        count: LOSSY_PROBES,
        interval: Duration::from_millis(10),
        timeout: Duration::from_secs(10),
        deadline: Duration::from_secs(300),
        interfaces: Selection::Named(NICS.map(|nic| nic.name.to_owned()).to_vec()),
        ..MeshOptions::default()
    };
    lab.a.namespace.enter(|| measure(&lab.request, &options)).unwrap()
}

/// What a report says of one question, in a line.
fn lines(report: &ConnectivityReport) -> BTreeMap<(String, String, String), String> {
    let mut lines: BTreeMap<_, String> = BTreeMap::new();
    for host in &report.remote_hosts {
        for l2 in host.l2_connectivity.iter().flatten() {
            let line = lines.entry(("L2".into(), l2.remote_ip_address.clone(), l2.outgoing_nic.clone())).or_default();
            let verdict = if l2.successful { "" } else { " (not it)" };
            let source = if l2.outgoing_ip_address.is_empty() { "-" } else { &l2.outgoing_ip_address };
            line.push_str(&format!("{source}>{}{verdict} ", l2.remote_mac));
        }
        for l3 in host.l3_connectivity.iter().flatten() {
            let (loss, rtt) = (l3.packet_loss_percentage, l3.average_rtt_ms);
            let line = format!("{} loss {loss:.0} % rtt {rtt:.3} ms", if l3.successful { "ok" } else { "FAILS" });
            lines.insert(("L3".into(), l3.remote_ip_address.clone(), String::new()), line);
        }
        for mtu in host.mtu_report.iter().flatten() {
            let line = if mtu.mtu_successful { "passes" } else { "DOES NOT PASS" };
            lines.insert(("MTU".into(), mtu.remote_ip_address.clone(), mtu.outgoing_nic.clone()), line.into());
        }
    }
    lines
}

fn print_side_by_side(ours: &ConnectivityReport, theirs: &ConnectivityReport) {
    let (ours, theirs) = (lines(ours), lines(theirs));
    let keys: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    println!("{:<3} {:<9} {:<4}  {:<66}  ping, arping, nmap", "", "address", "from", "landfall");
    for key in keys {
        let line = |lines: &BTreeMap<_, String>| lines.get(key).map_or("-".to_owned(), |line| line.trim().to_owned());
        println!("{:<3} {:<9} {:<4}  {:<66}  {}", key.0, key.1, key.2, line(&ours), line(&theirs));
    }
}

fn l3_of<'a>(report: &'a ConnectivityReport, ip: &str) -> &'a L3Connectivity {
    let mut all = report.remote_hosts.iter().flat_map(|host| host.l3_connectivity.iter().flatten());
    all.find(|entry| entry.remote_ip_address == ip).unwrap()
}

fn l2_of(report: &ConnectivityReport, chosen: impl Fn(&str) -> bool) -> Vec<&L2Connectivity> {
    let all = report.remote_hosts.iter().flat_map(|host| host.l2_connectivity.iter().flatten());
    all.filter(|entry| chosen(&entry.remote_ip_address)).collect()
}

#[test]
fn the_report_is_that_of_ping_arping_and_nmap_or_a_better_one() {
    for program in ["ping", "arping", "nmap", "nft"] {
        if Command::new(program).arg("-V").output().is_err() {
            testkit::skip::because(format_args!("{program} is not installed"));
            return;
        }
    }
    let Some(lab) = lab() else { return };
    let (findings, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| the_programs_report(&lab.a, &lab.request));
        let ours = ours(&lab);
        (ours, theirs.join().unwrap())
    });
    let ours = findings.report();
    print_side_by_side(&ours, &theirs);

    let ids = |report: &ConnectivityReport| report.remote_hosts.iter().map(|host| host.host_id).collect::<Vec<_>>();
    assert_eq!(ids(&ours), ids(&theirs));

    // ARP: the same entries, but that `arping` asks the first to answer alone from then on and may not hear the second.
    let duplicate = |ip: &str| ip == "10.1.0.6" || ip == "fd01::6";
    let v4 = |ip: &str| ip.contains('.') && !duplicate(ip);
    assert_eq!(l2_of(&ours, v4), l2_of(&theirs, v4));
    let both = [(mac(6), true), (mac(0x66), false)];
    for ip in ["10.1.0.6", "fd01::6"] {
        let ours = l2_of(&ours, |other| other == ip);
        assert_eq!(ours.iter().map(|l2| (l2.remote_mac.clone(), l2.successful)).collect::<Vec<_>>(), both);
        assert!(l2_of(&theirs, |other| other == ip).iter().all(|entry| ours.contains(entry)), "{ip}");
    }
    // NDP: nmap misses answers on a busy machine, but makes none up.
    let v6 = |ip: &str| ip.contains(':') && !duplicate(ip);
    let entries = l2_of(&ours, v6);
    assert!(l2_of(&theirs, v6).iter().all(|entry| entries.contains(entry)));
    let found: Vec<_> = entries.iter().map(|e| (&*e.remote_ip_address, &*e.outgoing_nic, e.successful)).collect();
    let expected = [("fd01::2", "ens3"), ("fd02::2", "ens4"), ("fd01::3", "ens3"), ("fd02::3", "ens4")];
    let more = [("fd01::5", "ens3"), ("fd01::7", "ens3"), ("fd03::9", "ens5")];
    let expected = expected.into_iter().chain(more).map(|(ip, nic)| (ip, nic, ip != "fd01::5"));
    assert_eq!(found, expected.collect::<Vec<_>>());

    // Echo: the same success; total loss is said to be that.
    for ip in lab.request.iter().flat_map(|host| host.nics.iter().flat_map(|nic| &nic.ip_addresses)) {
        let (ours, theirs) = (l3_of(&ours, ip), l3_of(&theirs, ip));
        assert_eq!(ours.successful, theirs.successful, "{ip}");
        let [mine, other] = [ours, theirs].map(|entry| entry.packet_loss_percentage);
        if LOSSY.contains(&&**ip) {
            // 5.5 standard deviations of 100 probes at 30 %.
            assert!((5.0..55.0).contains(&mine) && (5.0..55.0).contains(&other), "{ip}: {mine} and {other}");
        } else {
            assert_eq!((mine, other), (if ours.successful { 0.0 } else { 100.0 }, 0.0), "{ip}");
        }
    }
    for ip in TIMED {
        let [mine, other] = [&ours, &theirs].map(|report| l3_of(report, ip).average_rtt_ms);
        println!("average round trip to {ip}: ours {mine:.3} ms, ping's {other:.3} ms, ratio {:.2}", mine / other);
        assert!(mine > 0.0 && other > 0.0);
    }

    let mtus = |report: &ConnectivityReport| {
        report.remote_hosts.iter().flat_map(|host| host.mtu_report.clone().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(mtus(&ours), mtus(&theirs));
    let path =
        |hop: &str| Some(PathMtu { largest: 1500, reported: Some(TooBig { hop: hop.parse().unwrap(), mtu: 1500 }) });
    let paths: Vec<(IpAddr, _)> =
        findings.hosts.iter().flat_map(|host| &host.mtus).map(|mtu| (mtu.address, mtu.path)).collect();
    let at = |ip: &str| ip.parse::<IpAddr>().unwrap();
    let expected = [
        (at("10.3.0.9"), None),
        (at("fd03::9"), None),
        (at("10.4.0.2"), path("10.3.0.254")),
        (at("fd04::2"), path("fd03::fe")),
    ];
    assert_eq!(paths, expected);
}
