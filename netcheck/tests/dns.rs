//! Names looked up at real servers, and what the C library makes of the same names.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use hickory_proto::op::ResponseCode;
use netcheck::dns::{self, DnsOptions};
use resolve::{Answer, Cause, Outcome, Resolver, Source};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::Command,
    time::Duration,
};
use testkit::{
    net::{
        Host, Namespace, Segment,
        name_server::{Deed, NameServer},
        programs::{Server, command, listens, packages},
    },
    wire,
};

const WILD: &str = "validateNoWildcardDNS.c.d";
const WILD_DOT: &str = "validateNoWildcardDNS.c.d.";
const SERVER: &str = "10.9.0.1";

/// A client beside a running dnsmasq that has the names of a cluster, and a domain `wild.lab` where every name exists.
struct Lab {
    _server: Server,
    server_host: Host,
    client: Host,
    directory: tempfile::TempDir,
    _segment: Segment,
}

impl Lab {
    fn new() -> Option<Self> {
        let packages = packages()?;
        let segment = Segment::new()?;
        let server_host = segment.host("server", "02:00:00:00:09:01", &["10.9.0.1/24", "fd00:9::1/64"]);
        let client = segment.host("client", "02:00:00:00:09:10", &["10.9.0.10/24", "fd00:9::10/64"]);
        let directory = tempfile::tempdir().unwrap();
        let mut dnsmasq = command(&packages, &server_host.namespace, "usr/sbin/dnsmasq");
        dnsmasq.args(["-k", "-C", "/dev/null", "--user=root", "--pid-file=", "--no-resolv", "--no-hosts"]);
        dnsmasq.args([
            "--log-facility=-",
            "--bind-interfaces",
            "--local=/c.d/",
            "--local=/lab/",
            "--listen-address=10.9.0.1,fd00:9::1",
        ]);
        dnsmasq.args(["--host-record=api.c.d,10.9.0.100,fd00:9::100", "--cname=api-int.c.d,api.c.d"]);
        dnsmasq.args(["--address=/apps.c.d/10.9.0.101", "--address=/wild.lab/10.9.0.66"]);
        dnsmasq.args(["--host-record=node.lab,10.9.0.7,fd00:9::7", "--txt-record=text.c.d,hello"]);
        dnsmasq.args((1..=60).map(|last| format!("--host-record=big.c.d,10.8.0.{last}")));
        let mut server = Server::start(dnsmasq, &directory.path().join("dnsmasq.log"));
        server.await_ready(|| listens(&client.namespace, SocketAddr::new(SERVER.parse().unwrap(), 53)));
        Some(Self { _server: server, server_host, client, directory, _segment: segment })
    }

    fn options(&self, resolv_conf: &str) -> DnsOptions {
        let path = self.directory.path().join("resolv.conf");
        fs::write(&path, resolv_conf).unwrap();
        let hosts = self.directory.path().join("hosts");
        fs::write(&hosts, "10.9.0.55 named.here alias\n").unwrap();
        DnsOptions { resolv_conf: path, hosts, deadline: Duration::from_secs(300) }
    }

    fn resolve(&self, names: &[&str], resolv_conf: &str) -> Vec<Answer> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let options = self.options(resolv_conf);
        self.client.namespace.enter(|| dns::resolve(&names, &options).unwrap())
    }
}

fn at(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), 53)
}

#[test]
fn a_cluster_s_names_make_the_service_s_document() {
    let Some(lab) = Lab::new() else { return };
    let names = ["api.c.d", "api-int.c.d", "console-openshift-console.apps.c.d", WILD_DOT, WILD, "text.c.d", "quay.io"];
    let answers = lab.resolve(&names, "nameserver 10.9.0.1\n");
    let expected = json!({"resolutions": [
        {"domain_name": "api.c.d", "ipv4_addresses": ["10.9.0.100"], "ipv6_addresses": ["fd00:9::100"], "cnames": ["api.c.d."]},
        {"domain_name": "api-int.c.d", "ipv4_addresses": ["10.9.0.100"], "ipv6_addresses": ["fd00:9::100"],
         "cnames": ["api.c.d."]},
        {"domain_name": "console-openshift-console.apps.c.d", "ipv4_addresses": ["10.9.0.101"], "ipv6_addresses": [],
         "cnames": ["console-openshift-console.apps.c.d."]},
        {"domain_name": WILD_DOT, "ipv4_addresses": [], "ipv6_addresses": [], "cnames": null},
        {"domain_name": WILD, "ipv4_addresses": [], "ipv6_addresses": [], "cnames": null},
        {"domain_name": "text.c.d", "ipv4_addresses": [], "ipv6_addresses": [], "cnames": null},
        {"domain_name": "quay.io", "ipv4_addresses": [], "ipv6_addresses": [], "cnames": null},
    ]});
    let document = serde_json::to_value(dns::response(&answers)).unwrap();
    assert_eq!(document, expected);
    wire::assert_fits("domain_resolution_response", &document);
    let outcomes: Vec<Outcome> = answers.iter().map(|answer| answer.outcome).collect();
    use Outcome::{Failed, Found, NoAddress, NoSuchName};
    assert_eq!(outcomes, [Found, Found, Found, NoSuchName, NoSuchName, NoAddress, Failed]);
    assert_eq!(answers[0].source, Some(Source::Server(at(SERVER))));
    let causes: BTreeSet<String> = answers[6].failures.iter().map(ToString::to_string).collect();
    let refused = |record| format!("10.9.0.1:53 asked for {record} of quay.io.: refused (REFUSED)");
    assert_eq!(causes, BTreeSet::from(["A", "AAAA"].map(refused)), "the server has no upstream");
}

#[test]
fn the_service_s_own_request_is_understood() {
    let Some(recorded) = wire::recorded_argument("domain-resolution") else { return };
    let names = dns::from_json(recorded.as_bytes()).unwrap();
    let wildcards: Vec<&String> = names.iter().filter(|name| name.starts_with("validateNoWildcardDNS.")).collect();
    assert_eq!(wildcards.len(), 2);
    assert_eq!(*wildcards[0], format!("{}.", wildcards[1]));
}

#[test]
fn a_wildcard_in_a_search_domain_shows_without_trailing_dot_only() {
    let Some(lab) = Lab::new() else { return };
    let answers = lab.resolve(&[WILD_DOT, WILD], "nameserver fd00:9::1\nsearch lab wild.lab\n");
    let expected = json!({"resolutions": [
        {"domain_name": WILD_DOT, "ipv4_addresses": [], "ipv6_addresses": [], "cnames": null},
        {"domain_name": WILD, "ipv4_addresses": ["10.9.0.66"], "ipv6_addresses": [],
         "cnames": ["validateNoWildcardDNS.c.d.wild.lab."]},
    ]});
    assert_eq!(serde_json::to_value(dns::response(&answers)).unwrap(), expected);
}

#[test]
fn search_lists_work_as_in_the_c_library() {
    let Some(lab) = Lab::new() else { return };
    let namespace = &lab.client.namespace;
    let etc = Etc::new(namespace);
    let names =
        ["api", "api.", "node", "node.", "node.lab", "api.c", "api.c.d", "big.c.d", WILD, WILD_DOT, "x.wild.lab"];
    let mut found = 0;
    for search in ["", "search c.d lab\n", "search lab wild.lab\n", "domain wild.lab\n", "search d\noptions ndots:2\n"]
    {
        for ndots in ["", "options ndots:0\n", "options ndots:4\n"] {
            let resolv_conf = format!("nameserver {SERVER}\n{search}{ndots}");
            etc.write("resolv.conf", &resolv_conf);
            for (name, answer) in names.iter().zip(lab.resolve(&names, &resolv_conf)) {
                let ours: BTreeSet<IpAddr> =
                    answer.v4.into_iter().map(IpAddr::from).chain(answer.v6.into_iter().map(IpAddr::from)).collect();
                assert_eq!(ours, getent(namespace, name), "{name} with\n{resolv_conf}");
                found += ours.len();
            }
        }
    }
    assert!(found > 500, "{found} addresses compared");
}

/// /etc/netns/NAME, whose files `ip netns exec` lays over those in /etc.
struct Etc(PathBuf);

impl Etc {
    fn new(namespace: &Namespace) -> Self {
        let path = PathBuf::from("/etc/netns").join(&namespace.0);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Etc {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What getaddrinfo(3) finds inside `namespace`.
fn getent(namespace: &Namespace, name: &str) -> BTreeSet<IpAddr> {
    let output = Command::new("ip").args(["netns", "exec", &namespace.0, "getent", "ahosts", name]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

#[test]
fn an_answer_too_long_for_a_datagram_comes_over_tcp() {
    let Some(lab) = Lab::new() else { return };
    for options in ["", "options edns0\n", "options use-vc\n"] {
        let answers = lab.resolve(&["big.c.d"], &format!("nameserver {SERVER}\n{options}"));
        assert_eq!(answers[0].v4.len(), 60, "{options}");
        assert_eq!(answers[0].failures, []);
    }
}

#[test]
fn the_hosts_file_comes_before_every_server() {
    let Some(lab) = Lab::new() else { return };
    let answers = lab.resolve(&["Named.Here", "alias."], "nameserver 10.9.0.1\n");
    for answer in answers {
        assert_eq!(answer.v4, ["10.9.0.55".parse::<std::net::Ipv4Addr>().unwrap()], "{}", answer.name);
        assert_eq!((answer.canonical.as_deref(), answer.source), (Some("named.here."), Some(Source::HostsFile)));
    }
}

#[test]
fn the_next_server_is_asked_when_one_fails() {
    let Some(lab) = Lab::new() else { return };
    let namespace = &lab.server_host.namespace;
    namespace.ip("address add 10.9.0.2/24 dev ens3");
    namespace.ip("address add 10.9.0.3/24 dev ens3");
    let _failing = NameServer::start(namespace, "10.9.0.2", |query| query.code(ResponseCode::ServFail));
    let _silent = NameServer::start(namespace, "10.9.0.3", |_| Deed::Drop);
    // Only the silent one costs it.
    let conf = |first| format!("nameserver {first}\nnameserver 10.9.0.1\noptions timeout:10\n");
    // Nothing runs there.
    namespace.ip("address add 10.9.0.5/24 dev ens3");
    for (first, cause) in [
        ("10.9.0.2", Cause::Refused(2)),
        ("10.9.0.3", Cause::Timeout),
        ("10.9.0.5", Cause::Unreachable(std::io::ErrorKind::ConnectionRefused)),
    ] {
        let answers = lab.resolve(&["api.c.d"], &conf(first));
        let causes: Vec<_> = answers[0].failures.iter().map(|failure| (failure.server, failure.cause)).collect();
        assert_eq!(causes, [(Some(at(first)), cause); 2], "once for each kind of record");
        assert_eq!((answers[0].outcome, answers[0].source), (Outcome::Found, Some(Source::Server(at(SERVER)))));
        assert_eq!((answers[0].v4.len(), answers[0].v6.len()), (1, 1));
    }
}

#[test]
fn when_no_server_answers_the_lists_are_empty_and_the_reasons_known() {
    let Some(lab) = Lab::new() else { return };
    let namespace = &lab.server_host.namespace;
    namespace.ip("address add 10.9.0.3/24 dev ens3");
    let silent = NameServer::start(namespace, "10.9.0.3", |_| Deed::Drop);
    let options =
        DnsOptions { deadline: Duration::from_secs(2), ..lab.options("nameserver 10.9.0.3\nsearch a b c d e f\n") };
    let names: Vec<String> = ["api.c.d", WILD].map(str::to_owned).into();
    let answers = lab.client.namespace.enter(|| dns::resolve(&names, &options).unwrap());
    let asked =
        ["A api.c.d.".to_owned(), format!("A {WILD_DOT}"), "AAAA api.c.d.".to_owned(), format!("AAAA {WILD_DOT}")];
    assert_eq!(silent.questions_of(4), asked, "no time is left to ask again");
    let empty = |name| json!({"domain_name": name, "ipv4_addresses": [], "ipv6_addresses": [], "cnames": null});
    let expected = json!({"resolutions": [empty("api.c.d"), empty(WILD)]});
    assert_eq!(serde_json::to_value(dns::response(&answers)).unwrap(), expected);
    assert_eq!(answers[0].outcome, Outcome::Failed);
    assert_eq!(answers[0].failures[0].to_string(), "10.9.0.3:53 asked for A of api.c.d.: no answer in time");
}

#[test]
fn addresses_have_names() {
    let Some(lab) = Lab::new() else { return };
    let options = lab.options("nameserver 10.9.0.1\n");
    let addresses = ["10.9.0.7", "fd00:9::7", "10.9.0.55", "10.9.0.200"].map(|text| text.parse().unwrap());
    let names = lab.client.namespace.enter(|| {
        let resolver = Resolver::from_files(&options.resolv_conf, &options.hosts).unwrap();
        resolver.reverse_all(&addresses, Duration::from_secs(300))
    });
    let names: Vec<Option<&str>> = names.iter().map(Option::as_deref).collect();
    assert_eq!(names, [Some("node.lab"), Some("node.lab"), Some("named.here"), None]);
}
