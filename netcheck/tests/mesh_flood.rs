//! The connectivity check on a segment where a station forges answers as fast as it can.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use api::{ConnectivityCheckHost, ConnectivityReport, Mac};
use netcheck::{
    Selection,
    codec::{
        arp::{Arp, Operation},
        echo::{Echo, Family, Kind, icmp_of_ipv4},
        ethernet::{self, Frame},
        ndp::{self, Neighbour},
    },
    mesh::{MeshOptions, measure},
};
use nix::{
    ifaddrs::getifaddrs,
    sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recvfrom, sendto, socket},
};
use serde_json::json;
use std::{
    io::stdin,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::AsRawFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use testkit::net::{Again, Segment};
use testkit::process::own_test;

const A: &str = "52:54:00:aa:bb:01";
const B: &str = "52:54:00:aa:bb:02";
const ID_B: &str = "b28954e9-3896-4eeb-953a-89d6a44b04ea";
/// Of each of three kinds, at the least.
const FORGED: u32 = 100_000;
/// What a flood may cost, by design: 16 MACs for each address asked for. The rest is what the allocator rounds up.
const GROWTH_KIB: u64 = 2048;

fn asked(id: &str, mac: &str, addresses: &[&str]) -> ConnectivityCheckHost {
    let nics = json!([{"name": "ens3", "mac": mac, "ip_addresses": addresses}]);
    serde_json::from_value(json!({"host_id": id, "nics": nics})).unwrap()
}

fn check_inside() {
    let hosts: Vec<ConnectivityCheckHost> = serde_json::from_reader(stdin()).unwrap();
    let options = MeshOptions {
        timeout: Duration::from_secs(10),
        deadline: Duration::from_secs(300),
        interfaces: Selection::Named(vec!["ens3".to_owned()]),
        ..MeshOptions::default()
    };
    let before = testkit::net::peak_kib_of_all();
    let findings = measure(&hosts, &options).unwrap();
    println!("\nGROWTH {}", testkit::net::peak_kib() - before);
    println!("REPORT {}", serde_json::to_string(&findings.report()).unwrap());
    let echoes = findings.hosts.iter().flat_map(|host| &host.echoes);
    println!("SENT {:?}", echoes.map(|echo| echo.statistics.sent).collect::<Vec<_>>());
}

/// Forged answers to `a`, of all kinds in turn, for the host's addresses, a silent one and one not asked for. How many, and
/// how many of them carry the identifier of the check's own echoes, which the forger sees on the segment.
fn flood(from: &str, done: &AtomicBool) -> (u32, u32) {
    let open = |flags, protocol| socket(AddressFamily::Packet, SockType::Raw, flags, protocol).unwrap();
    let sender = open(SockFlag::empty(), None);
    let listener = open(SockFlag::SOCK_NONBLOCK, Some(SockProtocol::EthIp));
    let mac =
        getifaddrs().unwrap().filter(|address| address.interface_name == from).find_map(|address| address.address);
    let to = *mac.unwrap().as_link_addr().unwrap();
    let mut identifier = None;
    // Made before, so that only the kernel sets the pace.
    let mut frames = all_forged(identifier);
    let (mut sent, mut aimed) = (0, 0);
    while !done.load(Ordering::Relaxed) || sent < FORGED * 3 {
        for frame in &frames {
            if sendto(sender.as_raw_fd(), frame, &to, MsgFlags::empty()).is_ok() {
                sent += 1;
                aimed += u32::from(identifier.is_some());
            }
        }
        let mut buffer = [0; 2048];
        while let Ok((length, _)) = recvfrom::<LinkAddr>(listener.as_raw_fd(), &mut buffer) {
            if identifier.is_none() {
                identifier = identifier_of(&buffer[..length]);
                frames = all_forged(identifier);
            }
        }
    }
    (sent, aimed / 3)
}

/// The identifier of an echo that `a` sends.
fn identifier_of(frame: &[u8]) -> Option<u16> {
    let frame = Frame::parse(frame).filter(|frame| frame.source == A.parse().unwrap())?;
    let request = Echo::parse(Family::V4, icmp_of_ipv4(frame.payload)?)?;
    (request.kind == Kind::Request).then_some(request.identifier)
}

fn all_forged(identifier: Option<u16>) -> Vec<Vec<u8>> {
    (0..4096).flat_map(|round| forged(round, identifier.unwrap_or(round.wrapping_mul(16)))).collect()
}

/// An ARP reply, a neighbour advertisement and an echo reply in the name of the host, of a silent one, or of one not asked
/// for. The echo lacks nothing but what only the check knows.
fn forged(round: u16, identifier: u16) -> [Vec<u8>; 3] {
    let a: Mac = A.parse().unwrap();
    let last = [2, 9, 77][usize::from(round % 3)];
    let [high, low] = round.to_be_bytes();
    let forger = Mac([0x52, 0x54, 1, 0, high, low]);
    let [v4, own_v4] = [last, 1].map(|last| Ipv4Addr::new(10, 0, 0, last));
    let [v6, own_v6] = [last, 1].map(|last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()));
    let arp = Arp { operation: Operation::Reply, sender_mac: forger, sender_ip: v4, target_mac: a, target_ip: own_v4 };
    let advertisement = Neighbour {
        kind: ndp::Kind::Advertisement,
        source: v6,
        destination: own_v6,
        target: v6,
        link_address: Some(forger),
    };
    // What the echo is for: one of the four addresses (see `Mesh::tag`).
    let mut payload = [0x5a; 56];
    payload[8..16].copy_from_slice(&u64::from(round / 30 % 4).to_be_bytes());
    let reply = Echo { kind: Kind::Reply, identifier, sequence: round / 3 % 10, payload: &payload };
    let icmp = reply.to_bytes(Family::V4);
    let mut packet = vec![0x45, 0, 0, u8::try_from(20 + icmp.len()).unwrap(), 0, 0, 0, 0, 64, 1, 0, 0];
    packet.extend_from_slice(&v4.octets());
    packet.extend_from_slice(&own_v4.octets());
    let sum: u32 = packet.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    packet[10..12].copy_from_slice(&(!sum).to_be_bytes());
    packet.extend_from_slice(&icmp);
    [(ethernet::ARP, arp.to_bytes().to_vec()), (ethernet::IPV6, advertisement.to_packet()), (ethernet::IPV4, packet)]
        .map(|(ethertype, payload)| Frame { destination: a, source: forger, ethertype, payload: &payload }.to_bytes())
}

#[test]
fn a_flood_of_forged_answers_hides_no_host_and_costs_no_memory() {
    if testkit::net::is_inside() {
        return check_inside();
    }
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    // The kernel of `a` itself must not send to the forger: the test is of who answers, not of who is believed.
    for (address, to) in [("10.0.0.2", B), ("fd00::2", B)] {
        a.namespace.ip(&format!("neighbour replace {address} lladdr {to} dev ens3 nud permanent"));
    }
    let b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64"]);
    segment.flood_frames_to(&b);
    let forger = segment.host("f", "52:54:00:aa:bb:66", &[]);
    let silent = "00000000-0000-0000-0000-000000000009";
    let hosts =
        [asked(ID_B, B, &["10.0.0.2", "fd00::2"]), asked(silent, "52:54:00:aa:bb:09", &["10.0.0.9", "fd00::9"])];
    let done = AtomicBool::new(false);
    let (text, (sent, aimed)) = thread::scope(|scope| {
        let flood = scope.spawn(|| forger.namespace.enter(|| flood("ens3", &done)));
        let name = "a_flood_of_forged_answers_hides_no_host_and_costs_no_memory";
        let text = std::panic::catch_unwind(|| {
            Again::start(&a, &[], &own_test(module_path!(), name), serde_json::to_string(&hosts).unwrap()).end()
        });
        done.store(true, Ordering::Relaxed);
        let sent = flood.join().unwrap();
        (text.unwrap(), sent)
    });
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    let growth: u64 = value("GROWTH").parse().unwrap();
    println!("{sent} forged answers, {aimed} with our identifier; the check took {growth} KiB more memory");
    assert!(aimed > 0, "the forger has seen no echo of ours");
    assert_eq!(value("SENT"), "[10, 10, 10, 10]", "all of it was done before the deadline");
    assert!(growth < GROWTH_KIB);

    let report: ConnectivityReport = serde_json::from_str(value("REPORT")).unwrap();
    let host = report.remote_hosts.iter().find(|host| host.host_id.to_string() == ID_B).unwrap();
    for address in ["10.0.0.2", "fd00::2"] {
        let entries = host.l2_connectivity.as_ref().unwrap().iter().filter(|entry| entry.remote_ip_address == address);
        let (own, others): (Vec<_>, Vec<_>) = entries.partition(|entry| entry.successful);
        assert_eq!(own.iter().map(|entry| &*entry.remote_mac).collect::<Vec<_>>(), [B], "{address}");
        assert_eq!(others.len(), 16, "{address}: forged ones are reported, but not all");
        let echo = host.l3_connectivity.as_ref().unwrap().iter().find(|entry| entry.remote_ip_address == address);
        assert!(echo.unwrap().successful, "{echo:?}");
    }
    let host = report.remote_hosts.iter().find(|host| host.host_id.to_string() == silent).unwrap();
    let echoes: Vec<(IpAddr, f64)> = host
        .l3_connectivity
        .iter()
        .flatten()
        .map(|echo| (echo.remote_ip_address.parse().unwrap(), echo.packet_loss_percentage))
        .collect();
    assert_eq!(echoes, [("10.0.0.9".parse().unwrap(), 100.0), ("fd00::9".parse().unwrap(), 100.0)]);
    assert!(host.l2_connectivity.iter().flatten().all(|entry| !entry.successful), "{host:?}");
}
