//! Addresses to connect to, from name servers as they are found: some answer half of a question, some late, some only over TCP.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use hickory_proto::op::ResponseCode;
use resolve::{Names, Outcome, Resolver};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    time::Duration,
};
use testkit::http;
use testkit::net::name_server::{Deed, NameServer, Query, alias, data};
use testkit::net::{
    Host, Segment, cover_resolv_conf,
    programs::{Server, command, listens, packages, packages_of},
};

const SERVER: &str = "10.9.5.1";
const LIMIT: Duration = Duration::from_secs(300);

/// A client beside a host for servers.
struct Lab {
    server: Host,
    client: Host,
    directory: tempfile::TempDir,
    _segment: Segment,
}

impl Lab {
    fn new() -> Option<Self> {
        let segment = Segment::new()?;
        let server = segment.host("server", "02:00:00:00:95:01", &["10.9.5.1/24", "fd00:95::1/64"]);
        let client = segment.host("client", "02:00:00:00:95:10", &["10.9.5.10/24", "fd00:95::10/64"]);
        Some(Self { server, client, directory: tempfile::tempdir().unwrap(), _segment: segment })
    }

    /// Looks names up by a resolv.conf with these lines behind that of the server.
    fn names(&self, lines: &str) -> Names {
        fs::write(self.path("resolv.conf"), format!("nameserver {SERVER}\n{lines}")).unwrap();
        Names::new(self.path("resolv.conf"), self.path("hosts"))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Addresses, or what is said instead.
    fn addresses(&self, names: &Names, host: &str) -> Result<Vec<String>, String> {
        let found = self.client.namespace.enter(|| names.addresses(host, 80, LIMIT));
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.iter().map(|address| address.ip().to_string()).collect())
    }

    fn scripted(&self, handler: impl Fn(&Query) -> Deed + Send + Sync + 'static) -> NameServer {
        NameServer::start(&self.server.namespace, SERVER, handler)
    }
}

fn found(addresses: &[&str]) -> Result<Vec<String>, String> {
    Ok(addresses.iter().map(|address| (*address).to_owned()).collect())
}

fn refusal(server: &str) -> String {
    ["A", "AAAA"].map(|kind| format!("{SERVER}:53 asked for {kind} of {server}: refused (REFUSED)")).join("; ")
}

#[test]
fn dnsmasq_without_an_upstream_refuses_half_and_that_is_enough() {
    let (Some(packages), Some(lab)) = (packages(), Lab::new()) else { return };
    let mut dnsmasq = command(&packages, &lab.server.namespace, "usr/sbin/dnsmasq");
    dnsmasq.args(["-k", "-C", "/dev/null", "--user=root", "--pid-file=", "--no-resolv", "--no-hosts"]);
    dnsmasq.args(["--log-facility=-", "--bind-interfaces", "--listen-address=10.9.5.1"]);
    dnsmasq.args(["--address=/svc.lab/10.9.5.77", "--address=/six.lab/fd00:95::77"]);
    dnsmasq.args(["--host-record=both.lab,10.9.5.78,fd00:95::78", "--cname=alias.lab,both.lab"]);
    let mut server = Server::start(dnsmasq, &lab.path("dnsmasq.log"));
    server.await_ready(|| listens(&lab.client.namespace, SocketAddr::new(SERVER.parse().unwrap(), 53)));
    let names = lab.names("search lab\noptions timeout:30\n");

    // What the whole is about.
    let resolver = Resolver::from_files(&lab.path("resolv.conf"), &lab.path("hosts")).unwrap();
    let answers = lab.client.namespace.enter(|| resolver.lookup_all(&["svc.lab".into(), "six.lab".into()], LIMIT));
    let refused: Vec<_> = answers.iter().flat_map(|a| &a.failures).map(ToString::to_string).collect();
    let expected =
        ["AAAA of svc", "A of six"].map(|what| format!("{SERVER}:53 asked for {what}.lab.: refused (REFUSED)"));
    assert_eq!(refused, expected);

    assert_eq!(lab.addresses(&names, "svc.lab"), found(&["10.9.5.77"]));
    assert_eq!(lab.addresses(&names, "svc"), found(&["10.9.5.77"]));
    assert_eq!(lab.addresses(&names, "six.lab"), found(&["fd00:95::77"]));
    // Unique local addresses come after IPv4 (RFC 6724).
    assert_eq!(lab.addresses(&names, "both.lab"), found(&["10.9.5.78", "fd00:95::78"]));
    assert_eq!(lab.addresses(&names, "alias"), found(&["10.9.5.78", "fd00:95::78"]));
    let elsewhere = format!("cannot resolve www.example.com: {}", refusal("www.example.com."));
    let error = lab.addresses(&names, "www.example.com").unwrap_err();
    assert!(error.starts_with(&elsewhere), "{error}");
}

#[test]
fn unbound_is_understood() {
    let (Some(packages), Some(lab)) = (packages_of("resolvers"), Lab::new()) else { return };
    let big: String = (1..=100).map(|last| format!(" local-data: \"big.lab. A 10.9.6.{last}\"\n")).collect();
    let configuration = format!(
        "server:\n interface: 10.9.5.1\n interface: fd00:95::1\n access-control: 0.0.0.0/0 allow\n access-control: ::/0 allow\n \
         do-daemonize: no\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n use-syslog: no\n logfile: \"\"\n directory: \"{}\"\n \
         module-config: \"iterator\"\n local-zone: \"lab.\" static\n local-zone: \"never.\" refuse\n local-zone: \"mute.\" deny\n \
         local-data: \"svc.lab. A 10.9.5.77\"\n local-data: \"six.lab. AAAA fd00:95::77\"\n \
         local-data: \"both.lab. A 10.9.5.78\"\n local-data: \"both.lab. AAAA fd00:95::78\"\n local-data: \"text.lab. TXT hello\"\n\
         {big}remote-control:\n control-enable: no\n",
        lab.directory.path().display()
    );
    fs::write(lab.path("unbound.conf"), configuration).unwrap();
    let mut unbound = command(&packages, &lab.server.namespace, "usr/sbin/unbound");
    unbound.arg("-d").arg("-c").arg(lab.path("unbound.conf"));
    let mut server = Server::start(unbound, &lab.path("unbound.log"));
    server.await_ready(|| listens(&lab.client.namespace, SocketAddr::new(SERVER.parse().unwrap(), 53)));
    let names = lab.names("search lab\noptions timeout:30 attempts:1\n");

    assert_eq!(lab.addresses(&names, "svc.lab"), found(&["10.9.5.77"]));
    assert_eq!(lab.addresses(&names, "six"), found(&["fd00:95::77"]));
    assert_eq!(lab.addresses(&names, "both"), found(&["10.9.5.78", "fd00:95::78"]));
    let resolver = Resolver::from_files(&lab.path("resolv.conf"), &lab.path("hosts")).unwrap();
    let big = lab.client.namespace.enter(|| resolver.lookup_all(&["big.lab".into()], LIMIT));
    assert_eq!(big[0].v4.len(), 100, "they come over TCP");
    let no_such_name = format!("the name no.lab does not exist: {SERVER}:53 knows none of no.lab., no.lab.lab.");
    assert_eq!(lab.addresses(&names, "no.lab"), Err(no_such_name));
    let no_address = format!("the name text.lab exists but has no address, according to {SERVER}:53");
    assert_eq!(lab.addresses(&names, "text.lab."), Err(no_address.replace("text.lab", "text.lab.")));
    assert_eq!(lab.addresses(&names, "x.never."), Err(format!("cannot resolve x.never.: {}", refusal("x.never."))));
    let names = lab.names("options timeout:1 attempts:1\n");
    let silence = ["A", "AAAA"].map(|kind| format!("{SERVER}:53 asked for {kind} of x.mute.: no answer in time"));
    assert_eq!(lab.addresses(&names, "x.mute."), Err(format!("cannot resolve x.mute.: {}", silence.join("; "))));
}

#[test]
fn a_server_that_drops_half_of_the_questions_is_not_waited_for() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.scripted(|query| match query.is_v4() {
        true => Deed::Answer(query.addresses(&["10.9.5.77"])),
        false => Deed::Drop,
    });
    // A waiting client would ask again.
    let names = lab.names("options timeout:30\n");
    assert_eq!(lab.addresses(&names, "svc.lab"), found(&["10.9.5.77"]));
    assert_eq!(server.questions_of(2), ["A svc.lab.", "AAAA svc.lab."]);
}

#[test]
fn a_server_that_answers_over_tcp_only_is_asked_there() {
    let Some(lab) = Lab::new() else { return };
    let by_tcp = |query: &Query| match query.is_v4() {
        true => Deed::Answer(query.addresses(&["10.9.5.77"])),
        false => query.code(ResponseCode::Refused),
    };
    {
        let names = lab.names("options timeout:30 attempts:1\n");
        let server = lab.scripted(move |query| if query.tcp { by_tcp(query) } else { query.truncated() });
        assert_eq!(lab.addresses(&names, "svc.lab"), found(&["10.9.5.77"]));
        assert_eq!(server.questions_of(4), ["A svc.lab.", "AAAA svc.lab.", "tcp A svc.lab.", "tcp AAAA svc.lab."]);
    }
    // A firewall that lets no datagram through.
    let names = lab.names("options timeout:10 attempts:1\n");
    let server = lab.scripted(move |query| if query.tcp { by_tcp(query) } else { Deed::Drop });
    assert_eq!(lab.addresses(&names, "svc.lab"), found(&["10.9.5.77"]));
    assert_eq!(server.questions_of(4), ["A svc.lab.", "AAAA svc.lab.", "tcp A svc.lab.", "tcp AAAA svc.lab."]);
}

#[test]
fn late_answers_count_while_there_is_no_other() {
    let Some(lab) = Lab::new() else { return };
    let names = lab.names("options timeout:30\n");
    {
        let _server = lab.scripted(|query| match query.is_v4() {
            true => Deed::Answer(query.addresses(&["10.9.5.77"])),
            false => Deed::Late(LIMIT, query.addresses(&["fd00:95::77"])),
        });
        assert_eq!(lab.addresses(&names, "svc.lab"), found(&["10.9.5.77"]), "the other was not waited for");
    }
    let server = lab.scripted(|query| {
        let address = if query.is_v4() { "10.9.5.77" } else { "fd00:95::77" };
        Deed::Late(Duration::from_secs(1), query.addresses(&[address]))
    });
    let addresses = lab.addresses(&names, "svc.lab").unwrap();
    assert!(addresses.contains(&"10.9.5.77".to_owned()) || addresses.contains(&"fd00:95::77".to_owned()));
    assert_eq!(server.questions_of(2), ["A svc.lab.", "AAAA svc.lab."], "nothing was asked twice");
}

#[test]
fn answers_that_are_not_the_server_s_or_not_ours_are_thrown_away() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.scripted(|query| {
        if !query.is_v4() {
            return query.code(ResponseCode::NoError);
        }
        let evil = query.addresses(&["10.66.66.66"]);
        let truth = query.addresses(&["10.9.5.77"]);
        match query.name.as_str() {
            "source.lab." => Deed::Forged { forged: evil, truth },
            _ => {
                // The id of another question.
                let mut other = evil;
                other[1] ^= 1;
                Deed::Answer(other)
            }
        }
    });
    let names = lab.names("options timeout:10 attempts:1\n");
    assert_eq!(lab.addresses(&names, "source.lab"), found(&["10.9.5.77"]));
    // Over UDP there is nothing that counts; over TCP it can only be the server.
    let silence = ["no answer in time", "the answer is damaged"]
        .map(|cause| format!("{SERVER}:53 asked for A of id.lab.: {cause}"))
        .join("; ");
    let silence = format!("cannot resolve id.lab: {silence}");
    assert_eq!(lab.addresses(&names, "id.lab"), Err(silence));
    assert_eq!(server.questions()[..2], ["A id.lab.", "A source.lab."]);
}

#[test]
fn loops_of_aliases_and_huge_answers_end() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.scripted(|query| match query.name.as_str() {
        "loop.lab." => {
            let records = [("loop.lab.", alias("again.lab.")), ("again.lab.", alias("loop.lab."))];
            Deed::Answer(query.with(ResponseCode::NoError, &records))
        }
        "huge.lab." if query.is_v4() && query.tcp => {
            let records: Vec<_> = (0..4000u32)
                .map(|n| ("huge.lab.", data(&std::net::Ipv4Addr::from(0x0a00_0000 + n).to_string())))
                .collect();
            Deed::Answer(query.with(ResponseCode::NoError, &records))
        }
        "huge.lab." if query.is_v4() => query.truncated(),
        "noise.lab." => Deed::Answer([&query.with(ResponseCode::NoError, &[])[..12], &[0xff; 900]].concat()),
        _ => query.code(ResponseCode::NoError),
    });
    let names = lab.names("options timeout:10 attempts:1\n");
    let looping = lab.addresses(&names, "loop.lab").unwrap_err();
    assert!(looping.starts_with("the name loop.lab is an alias of "), "{looping}");
    assert_eq!(lab.addresses(&names, "huge.lab").unwrap().len(), 16, "of 4000");
    let noise = lab.addresses(&names, "noise.lab").unwrap_err();
    let expected = format!("cannot resolve noise.lab: {SERVER}:53 asked for A of noise.lab.: no answer in time; ");
    assert!(noise.starts_with(&expected), "{noise}");
}

#[test]
fn the_search_list_is_gone_through() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.scripted(|query| match (query.name.as_str(), query.is_v4()) {
        ("svc.second.", true) => Deed::Answer(query.addresses(&["10.9.5.77"])),
        ("svc.second.", false) => query.code(ResponseCode::Refused),
        _ => query.code(ResponseCode::NXDomain),
    });
    let names = lab.names("search first second\noptions timeout:30 attempts:1\n");
    assert_eq!(lab.addresses(&names, "svc"), found(&["10.9.5.77"]));
    let asked = ["A svc.first.", "A svc.second.", "AAAA svc.first.", "AAAA svc.second."];
    assert_eq!(server.questions_of(4), asked);
    let tried = "no.first., no.second., no.";
    let expected = format!("the name no does not exist: {SERVER}:53 knows none of {tried}");
    assert_eq!(lab.addresses(&names, "no"), Err(expected));
    assert_eq!(
        lab.addresses(&names, "a..b"),
        Err("'a..b' is not a domain name".to_owned()),
        "no server is asked for what is not a name"
    );
}

#[test]
fn settings_are_read_again_for_each_name() {
    let Some(lab) = Lab::new() else { return };
    let answering = |address: &'static str| {
        move |query: &Query| match query.is_v4() {
            true => Deed::Answer(query.addresses(&[address])),
            false => query.code(ResponseCode::NoError),
        }
    };
    lab.server.namespace.ip("address add 10.9.5.2/24 dev ens3");
    let _one = lab.scripted(answering("10.9.5.77"));
    let _two = NameServer::start(&lab.server.namespace, "10.9.5.2", answering("10.9.5.78"));
    let names = lab.names("");
    assert_eq!(lab.addresses(&names, "svc.lab"), found(&["10.9.5.77"]));
    fs::write(lab.path("resolv.conf"), "nameserver 10.9.5.2\n").unwrap();
    assert_eq!(lab.addresses(&names, "svc.lab"), found(&["10.9.5.78"]));
    fs::write(lab.path("hosts"), "10.9.5.79 svc.lab\n").unwrap();
    assert_eq!(lab.addresses(&names, "svc.lab"), found(&["10.9.5.79"]));
    // As before a DHCP lease comes.
    fs::write(lab.path("resolv.conf"), "").unwrap();
    let unknown = lab.addresses(&names, "other.lab").unwrap_err();
    assert!(unknown.contains("127.0.0.1:53 asked for A of other.lab.: connection refused"), "{unknown}");
}

#[test]
fn a_client_gets_to_the_address_that_answers() {
    let Some(lab) = Lab::new() else { return };
    // Packets to the first two disappear; who waited for one of them would have no time left for the last.
    let addresses = ["10.9.5.201", "10.9.5.202", SERVER];
    let _server = lab.scripted(move |query| match query.is_v4() {
        true => Deed::Answer(query.addresses(&addresses)),
        false => Deed::Answer(query.addresses(&["fd00:95::201"])),
    });
    let namespace = &lab.client.namespace;
    namespace.ip("route add blackhole fd00:95::201");
    for address in &addresses[..2] {
        namespace.ip(&format!("neigh add {address} lladdr 02:00:00:00:95:66 dev ens3 nud permanent"));
    }
    let listener = lab.server.namespace.enter(|| TcpListener::bind((SERVER, 8080)).unwrap());
    let _server = http::Server::on(listener, None, |_| http::ok("ok"));
    let _ = lab.names("");
    let body = namespace.enter(|| {
        cover_resolv_conf(&lab.path("resolv.conf"));
        let configuration = api::http::configuration(&[], true).unwrap().timeout_connect(Some(Duration::from_secs(90)));
        let agent = api::http::build(configuration, api::proxy::ProxyVariables::default());
        agent.get("http://svc.lab:8080/").call().unwrap().body_mut().read_to_string().unwrap()
    });
    assert_eq!(body, "ok");
    let states = || namespace.enter(|| fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
    // SYN_SENT: an attempt in progress.
    testkit::wait::until("no attempt is left behind", || !states().lines().skip(1).any(|line| line.contains(" 02 ")));
}

#[test]
fn a_lookup_reports_what_servers_answered() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.scripted(|query| query.code(ResponseCode::ServFail));
    let names = lab.names("options timeout:30 attempts:1\n");
    let expected =
        ["A", "AAAA"].map(|kind| format!("{SERVER}:53 asked for {kind} of svc.lab.: server failure (SERVFAIL)"));
    assert_eq!(lab.addresses(&names, "svc.lab"), Err(format!("cannot resolve svc.lab: {}", expected.join("; "))));
    let resolver = Resolver::from_files(&lab.path("resolv.conf"), &lab.path("hosts")).unwrap();
    let answers = lab.client.namespace.enter(|| resolver.lookup_all(&["svc.lab".into()], LIMIT));
    assert_eq!(answers[0].outcome, Outcome::Failed);
}
