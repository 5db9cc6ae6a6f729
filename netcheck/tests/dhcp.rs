//! Leases for virtual addresses, from dnsmasq in another network namespace.

#![allow(clippy::unwrap_used)]

use api::{DhcpAllocationRequest, Mac};
use netcheck::dhcp::{Allocation, DhcpTiming, Error, Offer, allocate, offers};
use nix::ifaddrs::getifaddrs;
use serde_json::json;
use std::{
    fs,
    net::{Ipv4Addr, UdpSocket},
    path::{Path, PathBuf},
    time::Duration,
};
use testkit::{
    net::{
        Host, Segment,
        programs::{Server, command, packages},
    },
    wait, wire,
};

const CLIENT: &str = "52:54:00:aa:bb:01";
const SERVER: &str = "52:54:00:aa:bb:02";
const OTHER_SERVER: &str = "52:54:00:aa:bb:03";
const API: Mac = Mac([0, 0x1a, 0x4a, 0x10, 0x20, 0x30]);
const INGRESS: Mac = Mac([0, 0x1a, 0x4a, 0x40, 0x50, 0x60]);

/// Sooner impatient than in the field, where nobody answers.
fn options(timeout_s: u64) -> DhcpTiming {
    DhcpTiming { timeout: Duration::from_secs(timeout_s), patience: Duration::from_millis(400) }
}

fn request(api_lease: &str, ingress_lease: &str) -> DhcpAllocationRequest {
    DhcpAllocationRequest {
        interface: "ens3".to_owned(),
        api_vip_mac: API,
        api_vip_lease: api_lease.to_owned(),
        ingress_vip_mac: INGRESS,
        ingress_vip_lease: ingress_lease.to_owned(),
    }
}

/// dnsmasq on a host, and where it writes its leases.
struct Dnsmasq {
    server: Server,
    leases: PathBuf,
}

impl Dnsmasq {
    fn start(packages: &Path, directory: &Path, host: &Host, arguments: &[&str]) -> Self {
        let name = &host.namespace.0;
        let leases = directory.join(format!("{name}.leases"));
        let mut command = command(packages, &host.namespace, "usr/sbin/dnsmasq");
        command.args(["-k", "-C", "/dev/null", "--port=0", "--bind-interfaces", "--interface=ens3", "--no-ping"]);
        command.args(["--user=root", "--pid-file=", "--log-dhcp", "--log-facility=-"]);
        command.arg(format!("--dhcp-leasefile={}", leases.display())).args(arguments);
        let mut server = Server::start(command, &directory.join(format!("{name}.log")));
        let log = directory.join(format!("{name}.log"));
        server.await_ready(|| fs::read_to_string(&log).unwrap().contains("sockets bound"));
        Self { server, leases }
    }

    /// MAC address, address and name of each lease, by address.
    fn given(&self) -> Vec<(String, String, String)> {
        let text = fs::read_to_string(&self.leases).unwrap();
        let mut leases: Vec<_> = text
            .lines()
            .map(|line| line.split(' ').skip(1).take(3).map(str::to_owned).collect::<Vec<_>>())
            .map(|fields| (fields[0].clone(), fields[1].clone(), fields[2].clone()))
            .collect();
        leases.sort_by(|a, b| a.1.cmp(&b.1));
        leases
    }
}

fn take(client: &Host, request: &DhcpAllocationRequest) -> Result<Allocation, Error> {
    // The server answers, however long it takes: nothing is asked again.
    let patient = DhcpTiming { timeout: Duration::from_secs(300), patience: Duration::from_secs(60) };
    client.namespace.enter(|| allocate(request, &patient))
}

/// The statements of a lease whose values are times are checked for their form and left out.
fn without_times(text: &str) -> Vec<&str> {
    let (times, rest): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| ["  renew ", "  rebind ", "  expire "].iter().any(|name| line.starts_with(name)));
    assert_eq!(times.len(), 3, "{text}");
    for time in times {
        let digits = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c });
        let form: String = digits.collect();
        assert!(form.ends_with(" 0 0000/00/00 00:00:00;"), "{time}");
    }
    rest
}

#[test]
fn both_addresses_are_leased_for_the_macs_and_names_asked_for() {
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = segment.host("s", SERVER, &["192.168.127.1/24"]);
    let client = segment.host("c", CLIENT, &[]);
    let dnsmasq = Dnsmasq::start(
        &packages,
        directory.path(),
        &server,
        &[
            "--dhcp-range=192.168.127.100,192.168.127.101,255.255.255.0,1h",
            "--domain=prod.example.com",
            "--dhcp-option=option:dns-server,192.168.127.2,192.168.127.3",
        ],
    );
    let got = take(&client, &request("", "")).unwrap();
    let expected = [&got.api, &got.ingress].map(|lease| lease.address.to_string());
    let mut given = vec![
        (API.to_string(), expected[0].clone(), "00-1a-4a-10-20-30-api".to_owned()),
        (INGRESS.to_string(), expected[1].clone(), "00-1a-4a-40-50-60-ingress".to_owned()),
    ];
    given.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(dnsmasq.given(), given);
    assert_eq!(got.api.server, Ipv4Addr::new(192, 168, 127, 1));
    assert_eq!(got.api.duration, Some(Duration::from_secs(3600)));

    let fixed = format!("  fixed-address {};", got.ingress.address);
    let lease = [
        "lease {",
        "  interface \"ingress\";",
        &fixed,
        "  option subnet-mask 255.255.255.0;",
        "  option routers 192.168.127.1;",
        "  option dhcp-lease-time 3600;",
        "  option dhcp-message-type 5;",
        "  option domain-name-servers 192.168.127.2,192.168.127.3;",
        "  option dhcp-server-identifier 192.168.127.1;",
        "  option dhcp-renewal-time 1800;",
        "  option broadcast-address 192.168.127.255;",
        "  option dhcp-rebinding-time 3150;",
        "  option host-name \"00-1a-4a-40-50-60-ingress\";",
        "  option domain-name \"prod.example.com\";",
        "}",
    ];
    assert_eq!(without_times(&got.ingress.text), lease);
    let reply = serde_json::to_value(got.response()).unwrap();
    wire::assert_fits("dhcp_allocation_response", &reply);
    let expected = json!({
        "api_vip_address": expected[0], "api_vip_lease": got.api.text,
        "ingress_vip_address": expected[1], "ingress_vip_lease": got.ingress.text,
    });
    assert_eq!(reply, expected);
}

#[test]
fn the_host_is_left_as_it_was() {
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = segment.host("s", SERVER, &["192.168.127.1/24"]);
    let client = segment.host("c", CLIENT, &[]);
    let range = "--dhcp-range=192.168.127.100,192.168.127.101,255.255.255.0,1h";
    let _dnsmasq = Dnsmasq::start(&packages, directory.path(), &server, &[range]);
    let state = || {
        let addresses =
            client.namespace.enter(|| getifaddrs().unwrap().map(|address| format!("{address:?}")).collect());
        let addresses: Vec<String> = addresses;
        let counts = client.namespace.ip("-d link show ens3");
        (addresses, counts)
    };
    let before = state();
    assert!(before.1.contains("promiscuity 0"), "{}", before.1);
    take(&client, &request("", "")).unwrap();
    assert_eq!(state(), before);
}

#[test]
fn an_earlier_lease_is_asked_for_again() {
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = segment.host("s", SERVER, &["192.168.127.1/24"]);
    let client = segment.host("c", CLIENT, &[]);
    let range = "--dhcp-range=192.168.127.100,192.168.127.200,255.255.255.0,1h";
    // Left alone, the server would give other addresses: it starts at a hash of the MAC address.
    let dnsmasq = Dnsmasq::start(&packages, directory.path(), &server, &[range, "--dhcp-authoritative"]);
    let earlier = |interface: &str, last: u8| {
        format!("lease {{\n  interface \"{interface}\";\n  fixed-address 192.168.127.{last};\n  renew never;\n}}")
    };
    let got = take(&client, &request(&earlier("api", 177), &earlier("ingress", 178))).unwrap();
    assert_eq!(got.api.address, Ipv4Addr::new(192, 168, 127, 177));
    assert_eq!(got.ingress.address, Ipv4Addr::new(192, 168, 127, 178));
    let log = dnsmasq.server.output();
    assert!(!log.contains("DHCPDISCOVER"), "no need to look around: {log}");

    let again = take(&client, &request(&got.api.text, &got.ingress.text)).unwrap();
    assert_eq!((again.api.address, again.ingress.address), (got.api.address, got.ingress.address));
}

#[test]
fn a_lease_of_another_network_is_refused_and_a_fresh_one_taken() {
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = segment.host("s", SERVER, &["192.168.127.1/24"]);
    let client = segment.host("c", CLIENT, &[]);
    let range = "--dhcp-range=192.168.127.100,192.168.127.101,255.255.255.0,1h";
    let dnsmasq = Dnsmasq::start(&packages, directory.path(), &server, &[range, "--dhcp-authoritative"]);
    let foreign = "lease {\n  interface \"api\";\n  fixed-address 10.9.8.7;\n}";
    let got = take(&client, &request(foreign, "")).unwrap();
    assert_eq!(got.api.address.octets()[..3], [192, 168, 127]);
    assert!(got.api.text.contains("interface \"api\";"));
    let log = dnsmasq.server.output();
    assert!(log.contains(&format!("DHCPNAK(ens3) 10.9.8.7 {API}")), "{log}");
}

#[test]
fn an_exhausted_pool_is_named_with_what_was_seen() {
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = segment.host("s", SERVER, &["192.168.127.1/24"]);
    let client = segment.host("c", CLIENT, &[]);
    let range = "--dhcp-range=192.168.127.100,192.168.127.100,255.255.255.0,1h";
    let dnsmasq = Dnsmasq::start(&packages, directory.path(), &server, &[range]);
    let error = client.namespace.enter(|| allocate(&request("", ""), &options(10))).unwrap_err();
    let text = error.to_string();
    let Error::NoLease(failures) = error else { panic!("{text}") };
    assert_eq!(failures.len(), 1, "one address there is: {text}");
    let failure = &failures[0];
    let (vip, mac) = (failure.vip, failure.mac);
    let questions = failure.seen.questions;
    // Both may have been offered the only address before one of them took it; dnsmasq then refuses the other.
    let start = format!(
        "no DHCP lease for the {vip} address on ens3 with MAC {mac} within 10 seconds: asked {questions} times, "
    );
    assert!(text.starts_with(&start), "{text}");
    assert!(text.ends_with("; is there a DHCP server on this network with addresses left?"), "{text}");
    assert!(questions > 1);
    assert_eq!(dnsmasq.given().len(), 1);
    let log = dnsmasq.server.output();
    assert!(log.contains("no address available"), "{log}");
}

#[test]
fn silence_ends_in_time_for_both_together() {
    let Some(segment) = Segment::new() else { return };
    let client = segment.host("c", CLIENT, &[]);
    let server = segment.host("s", SERVER, &["192.168.127.1/24"]);
    let silent = server.namespace.enter(|| UdpSocket::bind("0.0.0.0:67").unwrap());
    silent.set_nonblocking(true).unwrap();
    let error = client.namespace.enter(|| allocate(&request("", ""), &options(5))).unwrap_err().to_string();
    let mut message = [0; 1500];
    // Where the client's hardware address is in a message of BOOTP.
    let asked: Vec<_> =
        std::iter::from_fn(|| silent.recv(&mut message).ok().map(|_| message[28..34].to_vec())).collect();
    let by = |mac: Mac| {
        let is_its = |asked: &Vec<u8>| asked[..] == mac.0;
        (asked.iter().position(is_its).unwrap(), asked.iter().rposition(is_its).unwrap())
    };
    let ((api_first, api_last), (ingress_first, ingress_last)) = (by(API), by(INGRESS));
    assert!(api_first < ingress_last && ingress_first < api_last, "not one after the other: {asked:02x?}");
    let counted = error.replace(|c: char| c.is_ascii_digit(), "0");
    let one = |vip, mac: Mac| {
        format!("no DHCP lease for the {vip} address on ens0 with MAC {mac} within 0 seconds: asked 0 times, no offer")
    };
    let expected = format!("{}; {}; is there a DHCP server", one("API", API), one("ingress", INGRESS));
    let expected = expected.replace(|c: char| c.is_ascii_digit(), "0");
    assert!(counted.starts_with(&expected), "{error}");
}

#[test]
fn hosts_that_ask_at_once_get_the_same_leases() {
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = segment.host("s", SERVER, &["192.168.127.1/24"]);
    let clients = ["c", "d", "e"].map(|name| segment.host(name, &format!("52:54:00:aa:cc:0{name}"), &[]));
    let range = "--dhcp-range=192.168.127.100,192.168.127.200,255.255.255.0,1h";
    let dnsmasq = Dnsmasq::start(&packages, directory.path(), &server, &[range]);
    let got: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> =
            clients.iter().map(|client| scope.spawn(|| take(client, &request("", "")).unwrap())).collect();
        asking.into_iter().map(|host| host.join().unwrap()).collect()
    });
    let addresses: Vec<_> = got.iter().map(|got| (got.api.address, got.ingress.address)).collect();
    assert!(addresses.iter().all(|both| *both == addresses[0]), "{addresses:?}");
    assert_eq!(dnsmasq.given().len(), 2);
}

#[test]
fn a_port_that_is_down_is_named_as_the_cause() {
    let Some(segment) = Segment::new() else { return };
    let client = segment.host("c", CLIENT, &[]);
    client.namespace.ip("link set ens3 down");
    let error = client.namespace.enter(|| allocate(&request("", ""), &options(1))).unwrap_err().to_string();
    assert!(error.contains("no offer, the question could not be sent (Network is down (os error 100))"), "{error}");
    let error = client.namespace.enter(|| offers("ens3", None, &options(1))).unwrap_err().to_string();
    assert_eq!(error, "cannot send on ens3; is it up, with carrier?");
}

#[test]
fn what_cannot_work_is_refused_at_once() {
    let Some(segment) = Segment::new() else { return };
    let client = segment.host("c", CLIENT, &[]);
    let error = |change: &dyn Fn(&mut DhcpAllocationRequest)| {
        let mut request = request("", "");
        change(&mut request);
        client.namespace.enter(|| allocate(&request, &options(10))).unwrap_err().to_string()
    };
    assert_eq!(
        error(&|request| request.interface = "eno1".to_owned()),
        "no network interface 'eno1'; this host has lo, ens3"
    );
    assert_eq!(
        error(&|request| request.interface = "lo".to_owned()),
        "lo is not an Ethernet interface: DHCP with a MAC address needs one"
    );
    assert_eq!(
        error(&|request| request.api_vip_mac = Mac([1, 0, 0, 0, 0, 1])),
        "01:00:00:00:00:01 is not a unicast MAC address"
    );
    assert!(
        error(&|request| request.api_vip_mac = INGRESS)
            .starts_with("the API and the ingress address have the same MAC")
    );
}

#[test]
fn every_server_that_offers_is_listed_and_nothing_is_taken() {
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let servers =
        [segment.host("s", SERVER, &["192.168.127.1/24"]), segment.host("t", OTHER_SERVER, &["192.168.127.2/24"])];
    let client = segment.host("c", CLIENT, &[]);
    let running: Vec<_> = ["100", "110"]
        .iter()
        .zip(&servers)
        .map(|(last, host)| {
            let range = format!("--dhcp-range=192.168.127.{last},192.168.127.{last},255.255.255.0,12h");
            Dnsmasq::start(&packages, directory.path(), host, &[&range, "--domain=prod.example.com"])
        })
        .collect();
    // On a loaded machine an answer may take longer than that.
    let ask = |mac| {
        let all = || Some(client.namespace.enter(|| offers("ens3", mac, &options(2))).unwrap());
        wait::found(|| all().filter(|found| found.offers.len() == 2)).expect("two servers offer")
    };
    let found = ask(None);
    let offer = |server: u8, mac: &str, last: u8| Offer {
        server: Some(Ipv4Addr::new(192, 168, 127, server)),
        address: Ipv4Addr::new(192, 168, 127, last),
        from_mac: mac.parse().unwrap(),
        from_address: Ipv4Addr::new(192, 168, 127, server),
        relay: None,
        subnet_mask: Some(Ipv4Addr::new(255, 255, 255, 0)),
        routers: vec![Ipv4Addr::new(192, 168, 127, server)],
        name_servers: vec![],
        domain: Some("prod.example.com".to_owned()),
        lease_s: Some(43200),
    };
    assert_eq!(found.offers, [offer(1, SERVER, 100), offer(2, OTHER_SERVER, 110)]);
    assert_eq!((found.interface.as_str(), found.mac), ("ens3", CLIENT.parse().unwrap()));
    assert_eq!(found.servers().len(), 2);
    for dnsmasq in &running {
        assert!(dnsmasq.given().is_empty(), "an offer is not a lease");
    }
    assert_eq!(ask(Some(API)).mac, API);
}
