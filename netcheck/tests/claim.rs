//! Who holds an address, between network namespaces: virtual addresses, and duplicates of our own.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use api::{Mac, VerifiedVip, VerifyVip};
use netcheck::claim::{Claim, ClaimOptions, Duplicate, Error, Holder, duplicates, holders, verify};
use std::{fs, net::IpAddr, process::Command};
use testkit::{
    net::{Host, Segment},
    wire,
};

const A: &str = "52:54:00:aa:bb:01";
const A2: &str = "52:54:00:aa:bb:11";
const B: &str = "52:54:00:aa:bb:02";
const C: &str = "52:54:00:aa:bb:03";

fn asked(from: &Host, addresses: &[&str], options: &ClaimOptions) -> Result<Vec<Claim>, Error> {
    let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
    from.namespace.enter(|| holders(&addresses, options))
}

fn claim(address: &str, holders: &[Holder], links: &[&str]) -> Claim {
    let links = links.iter().map(|&link| link.to_owned()).collect();
    Claim { address: address.parse().unwrap(), holders: holders.to_vec(), links, obstacle: None }
}

fn unasked(address: &str, obstacle: &str) -> Claim {
    Claim { obstacle: Some(obstacle.to_owned()), ..claim(address, &[], &[]) }
}

fn neighbour(interface: &str, mac: &str) -> Holder {
    Holder::Neighbour { interface: interface.to_owned(), mac: mac.parse().unwrap() }
}

fn ourselves(interface: &str) -> Holder {
    Holder::Ourselves { interface: interface.to_owned() }
}

fn reply(from: &Host, request: &str) -> String {
    let request: Vec<VerifyVip> = serde_json::from_str(request).unwrap();
    let (reply, _) = from.namespace.enter(|| verify(&request, &ClaimOptions::default())).unwrap();
    wire::assert_fits("verify_vips_response", &serde_json::to_value(&reply).unwrap());
    serde_json::to_string(&reply).unwrap()
}

/// Has the kernel of `host` drop all IP packets that come in; ARP is none.
fn deaf_to_ip(host: &Host) {
    for rules in ["add table ip t", "add chain ip t in { type filter hook input priority 0; policy drop; }"] {
        let nft = ["netns", "exec", &host.namespace.0, "nft", rules];
        assert!(Command::new("ip").args(nft).status().unwrap().success());
    }
}

#[test]
fn a_holder_of_an_address_of_our_networks_is_found_behind_its_firewall() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64", "10.0.0.9/24"]);
    let _c = segment.host("c", C, &["10.0.0.9/24", "fd00::2/64"]);
    deaf_to_ip(&b);
    let claims =
        asked(&a, &["10.0.0.2", "fd00::9", "10.0.0.9", "10.0.0.3", "fd00::2", "10.0.0.1"], &ClaimOptions::default());
    let expected = [
        claim("10.0.0.2", &[neighbour("ens3", B)], &["ens3"]),
        claim("fd00::9", &[], &["ens3"]),
        claim("10.0.0.9", &[neighbour("ens3", B), neighbour("ens3", C)], &["ens3"]),
        claim("10.0.0.3", &[], &["ens3"]),
        claim("fd00::2", &[neighbour("ens3", B), neighbour("ens3", C)], &["ens3"]),
        claim("10.0.0.1", &[ourselves("ens3")], &["ens3"]),
    ];
    assert_eq!(claims.unwrap(), expected);
}

#[test]
fn no_station_learns_anything_from_our_questions() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64"]);
    assert!(
        asked(&a, &["10.0.0.2", "fd00::2"], &ClaimOptions::default()).unwrap().iter().all(|c| c.holders.len() == 1)
    );
    let known = b.namespace.ip("neighbour show");
    assert!(!known.contains("10.0.0.1") && !known.contains("fd00::1"), "{known}");
}

#[test]
fn a_proxy_does_not_hold_what_it_answers_for() {
    let (Some(segment), Some(behind)) = (Segment::new(), Segment::new()) else { return };
    let a = segment.host("a", A, &["10.0.0.1/16"]);
    let b = segment.host("b", B, &["10.0.0.2/24"]);
    behind.connect(&b, "ens4", C, 1500, &["10.0.5.1/24"]);
    b.namespace.enter(|| {
        fs::write("/proc/sys/net/ipv4/conf/ens3/proxy_arp", "1").unwrap();
        fs::write("/proc/sys/net/ipv4/neigh/ens3/proxy_delay", "0").unwrap();
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    });
    assert_eq!(asked(&a, &["10.0.5.5"], &ClaimOptions::default()).unwrap(), [claim("10.0.5.5", &[], &["ens3"])]);
}

#[test]
fn other_hosts_that_ask_at_the_same_time_hold_nothing() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64"]);
    let vips = ["10.0.0.9", "fd00::9"];
    let both = std::thread::scope(|scope| {
        let both = [&a, &b].map(|host| scope.spawn(move || asked(host, &vips, &ClaimOptions::default()).unwrap()));
        both.map(|one| one.join().unwrap())
    });
    let free = vips.map(|vip| claim(vip, &[], &["ens3"]));
    assert_eq!(both, [free.to_vec(), free.to_vec()]);
}

#[test]
fn both_links_of_a_network_are_asked() {
    let (Some(one), Some(other)) = (Segment::new(), Segment::new()) else { return };
    let a = one.host("a", A, &["10.0.0.1/24"]);
    other.connect(&a, "ens4", A2, 1500, &["10.0.0.11/24"]);
    let _b = other.host("b", B, &["10.0.0.2/24"]);
    let found = asked(&a, &["10.0.0.2", "10.0.0.3"], &ClaimOptions::default()).unwrap();
    let links = ["ens3", "ens4"];
    let expected = [claim("10.0.0.2", &[neighbour("ens4", B)], &links), claim("10.0.0.3", &[], &links)];
    assert_eq!(found, expected);
    a.namespace.ip("link set ens4 down");
    let found = asked(&a, &["10.0.0.2"], &ClaimOptions::default()).unwrap();
    assert_eq!(found, [claim("10.0.0.2", &[], &["ens3"])], "of the one that is left");
}

#[test]
fn a_named_link_needs_no_address_on_the_network() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &[]);
    let _b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64"]);
    let options = ClaimOptions { interfaces: vec!["ens3".into()], ..ClaimOptions::default() };
    let found = asked(&a, &["10.0.0.2", "10.0.0.3", "fd00::2", "fd00::3"], &options).unwrap();
    let held = |address: &str| claim(address, &[neighbour("ens3", B)], &["ens3"]);
    let free = |address: &str| claim(address, &[], &["ens3"]);
    assert_eq!(found, [held("10.0.0.2"), free("10.0.0.3"), held("fd00::2"), free("fd00::3")]);
}

/// A virtual link lets everything in; that the socket asks for the group shows in the kernel's list.
#[test]
fn answers_to_all_nodes_are_let_in_where_ipv6_is_off() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &[]);
    let _b = segment.host("b", B, &["fd00::2/64"]);
    a.namespace.enter(|| fs::write("/proc/sys/net/ipv6/conf/ens3/disable_ipv6", "1")).unwrap();
    let lets_in = || a.namespace.ip("maddress show dev ens3").contains("33:33:00:00:00:01");
    assert!(!lets_in());
    let options = ClaimOptions { interfaces: vec!["ens3".into()], ..ClaimOptions::default() };
    let (found, group) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| asked(&a, &["fd00::2"], &options).unwrap());
        let mut group = false;
        while !asking.is_finished() {
            group |= lets_in();
        }
        (asking.join().unwrap(), group)
    });
    assert_eq!(found, [claim("fd00::2", &[neighbour("ens3", B)], &["ens3"])]);
    assert!(group && !lets_in(), "while it asks, and no longer");
}

#[test]
fn the_port_of_a_bond_does_not_speak_unless_named() {
    let (Some(one), Some(other)) = (Segment::new(), Segment::new()) else { return };
    let a = one.host("a", A, &["10.0.0.1/24"]);
    other.connect(&a, "ens4", A2, 1500, &["10.0.0.11/24"]);
    let _b = other.host("b", B, &["10.0.0.2/24"]);
    let sysfs = tempfile::tempdir().unwrap();
    fs::create_dir_all(sysfs.path().join("class/net/ens4/bonding_slave")).unwrap();
    let options = ClaimOptions { sysfs: sysfs.path().to_owned(), ..ClaimOptions::default() };
    assert_eq!(asked(&a, &["10.0.0.2"], &options).unwrap(), [claim("10.0.0.2", &[], &["ens3"])]);
    let named = ClaimOptions { interfaces: vec!["ens4".into()], ..options };
    let found = asked(&a, &["10.0.0.2"], &named).unwrap();
    assert_eq!(found, [claim("10.0.0.2", &[neighbour("ens4", B)], &["ens4"])]);
}

#[test]
fn beyond_a_router_an_echo_tells() {
    let (Some(near), Some(far)) = (Segment::new(), Segment::new()) else { return };
    let a = near.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let router = near.host("r", B, &["10.0.0.254/24", "fd00::fe/64"]);
    far.connect(&router, "ens4", C, 1500, &["10.1.0.254/24", "fd00:1::fe/64"]);
    router.namespace.enter(|| {
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
    });
    a.route("10.1.0.0/24", "10.0.0.254");
    a.route("fd00:1::/64", "fd00::fe");
    let found = asked(&a, &["10.1.0.254", "10.1.0.9", "fd00:1::fe", "fd00:1::9"], &ClaimOptions::default()).unwrap();
    let (held, free) = (|text| claim(text, &[Holder::Remote], &[]), |text| claim(text, &[], &[]));
    assert_eq!(found, [held("10.1.0.254"), free("10.1.0.9"), held("fd00:1::fe"), free("fd00:1::9")]);
}

#[test]
fn what_cannot_be_asked_for_is_reported_and_the_others_are_answered() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24"]);
    let _b = segment.host("b", B, &["10.0.0.2/24"]);
    let unreachable = "Network is unreachable (os error 101)";
    let found = asked(&a, &["192.0.2.1", "10.0.0.2", "fd00:7::2"], &ClaimOptions::default()).unwrap();
    let held = claim("10.0.0.2", &[neighbour("ens3", B)], &["ens3"]);
    assert_eq!(found, [unasked("192.0.2.1", unreachable), held, unasked("fd00:7::2", unreachable)]);
    let request = r#"[{"vip":"10.0.0.2","vip_type":"api"},{"vip":"fd00:7::2","vip_type":"ingress"}]"#;
    let expected = r#"[{"verification":"failed","vip":"10.0.0.2","vip_type":"api"},{"verification":"succeeded","vip":"fd00:7::2","vip_type":"ingress"}]"#;
    assert_eq!(reply(&a, request), expected, "as nmap has it, which ends well without a route");
    a.namespace.ip("link set ens3 down");
    let found = asked(&a, &["10.0.0.9", "10.0.0.1"], &ClaimOptions::default()).unwrap();
    let ours = claim("10.0.0.1", &[ourselves("ens3")], &[]);
    assert_eq!(found, [unasked("10.0.0.9", "ens3 has no link"), ours], "what is ours is in use, link or no link");
}

#[test]
fn the_reply_is_in_the_order_and_the_words_of_the_request() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let _b = segment.host("b", B, &["10.0.0.2/24", "fd00::b/64"]);
    let request = r#"[{"vip":"fd00:0::0B","vip_type":"ingress"},{"vip":"10.0.0.9","vip_type":"api"},
        {"vip":"10.0.0.2","vip_type":"ingress"},{"vip":"10.0.0.1","vip_type":"api"}]"#;
    let expected = r#"[{"verification":"failed","vip":"fd00:0::0B","vip_type":"ingress"},{"verification":"succeeded","vip":"10.0.0.9","vip_type":"api"},{"verification":"failed","vip":"10.0.0.2","vip_type":"ingress"},{"verification":"failed","vip":"10.0.0.1","vip_type":"api"}]"#;
    assert_eq!(reply(&a, request), expected);
}

#[test]
fn the_recorded_request_of_the_service_is_answered() {
    let Some(request) = wire::recorded_argument("verify-vips") else { return };
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["192.168.126.10/24"]);
    let vips: Vec<VerifyVip> = serde_json::from_str(&request).unwrap();
    let free = reply(&a, &request);
    let _b = segment.host("b", B, &[&format!("{}/24", vips[1].vip)]);
    let held = reply(&a, &request);
    let words = |reply: &str| -> Vec<(String, String)> {
        let reply: Vec<VerifiedVip> = serde_json::from_str(reply).unwrap();
        let word = |vip: VerifiedVip| (vip.vip, serde_json::to_value(vip.verification).unwrap());
        reply.into_iter().map(word).map(|(vip, word)| (vip, word.as_str().unwrap().to_owned())).collect()
    };
    let expected = |second: &str| vec![(vips[0].vip.clone(), "succeeded".into()), (vips[1].vip.clone(), second.into())];
    assert_eq!(words(&free), expected("succeeded"));
    assert_eq!(words(&held), expected("failed"));
}

#[test]
fn nmap_agrees() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "fd00::1/64"]);
    let _b = segment.host("b", B, &["10.0.0.2/24", "fd00::2/64"]);
    let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2", "fd00::3"];
    let ours: Vec<_> = asked(&a, &addresses, &ClaimOptions::default()).unwrap();
    for (address, claim) in addresses.iter().zip(ours) {
        let mut nmap = vec!["netns", "exec", &a.namespace.0, "nmap", "-sn", "-n", "-oX", "-", address];
        nmap.extend(address.contains(':').then_some("-6"));
        let Ok(output) = Command::new("ip").args(nmap).output() else {
            return testkit::skip::because("ip does not run");
        };
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            testkit::skip::because(format_args!("nmap does not run: {}", String::from_utf8_lossy(&output.stderr)));
            return;
        }
        assert_eq!(text.contains(r#"state="up""#), !claim.holders.is_empty(), "{address}: {text}");
    }
}

#[test]
fn second_owners_of_our_addresses_are_found_and_our_other_interfaces_are_none() {
    let Some(segment) = Segment::new() else { return };
    let a = segment.host("a", A, &["10.0.0.1/24", "10.0.0.5/24", "fd00::1/64", "fe80::1/64"]);
    segment.connect(&a, "ens4", A2, 1500, &["10.0.0.11/24", "fd00::11/64"]);
    let found = |options: &ClaimOptions| a.namespace.enter(|| duplicates(options)).unwrap();
    assert_eq!(found(&ClaimOptions::default()), []);
    let _b = segment.host("b", B, &["10.0.0.5/24", "fd00::11/64"]);
    let _c = segment.host("c", C, &["10.0.0.5/24", "fe80::1/64", "fd00::3/64"]);
    let duplicate = |address: &str, interface: &str, mac: &str| Duplicate {
        address: address.parse().unwrap(),
        interface: interface.to_owned(),
        mac: mac.parse::<Mac>().unwrap(),
    };
    let expected = [
        duplicate("10.0.0.5", "ens3", B),
        duplicate("10.0.0.5", "ens3", C),
        duplicate("fd00::11", "ens4", B),
        duplicate("fe80::1", "ens3", C),
    ];
    assert_eq!(found(&ClaimOptions::default()), expected);
    let only = ClaimOptions { interfaces: vec!["ens4".into()], ..ClaimOptions::default() };
    assert_eq!(found(&only), expected[2..3]);
}
