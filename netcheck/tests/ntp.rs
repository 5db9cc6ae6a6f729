//! The check of the sources of time: against the real chronyd and chronyc, against a chronyd that misbehaves, and without one.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use caps::{CapSet, Capability};
use netcheck::ntp::{Error, Findings, NtpOptions, measure, sntp, synchronize};
use resolve::Resolver;
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, fs::chown, net::UnixDatagram},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tempfile::TempDir;
use testkit::net::{
    Host, Segment,
    programs::{Server, command, packages},
    time_server::TimeServer,
};

const A: &str = "52:54:00:aa:bb:01";
const B: &str = "52:54:00:aa:bb:02";
const C: &str = "52:54:00:aa:bb:03";
const LONG: &str = "2001:db8:1111:2222:3333:4444:5555:6666";
const NOBODY: u32 = 65534;

/// A chronyd that can't touch the clock, and its directory. The server is stopped first.
struct Chronyd {
    _server: Server,
    packages: PathBuf,
    directory: TempDir,
}

/// chronyd takes no directory that others may enter.
fn closed_directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o750)).unwrap();
    directory
}

fn options_in(directory: &Path) -> NtpOptions {
    NtpOptions {
        chrony_socket: directory.join("chronyd.sock"),
        resolv_conf: directory.join("resolv.conf"),
        hosts: directory.join("hosts"),
        deadline: Duration::from_secs(300),
        server_timeout: Duration::from_secs(10),
        ..NtpOptions::default()
    }
}

impl Chronyd {
    /// `None`, with the reason printed, without the packages.
    fn start(host: &Host, user: &str, configuration: &str) -> Option<Self> {
        let packages = packages()?;
        let directory = closed_directory();
        if user != "root" {
            chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let path = directory.path();
        let configuration =
            format!("bindcmdaddress {0}/chronyd.sock\npidfile {0}/pid\nuser {user}\n{configuration}", path.display());
        fs::write(path.join("conf"), configuration).unwrap();
        let mut chronyd = command(&packages, &host.namespace, "usr/sbin/chronyd");
        chronyd.args(["-x", "-d", "-f"]).arg(path.join("conf"));
        let mut server = Server::start(chronyd, &path.join("log"));
        server.await_ready(|| path.join("chronyd.sock").exists());
        Some(Self { _server: server, packages, directory })
    }

    fn options(&self) -> NtpOptions {
        options_in(self.directory.path())
    }

    fn chronyc(&self, host: &Host, arguments: &str) -> String {
        chronyc(&self.packages, host, self.directory.path(), arguments)
    }
}

fn chronyc(packages: &Path, host: &Host, directory: &Path, arguments: &str) -> String {
    let mut chronyc = command(packages, &host.namespace, "usr/bin/chronyc");
    let output = chronyc.arg("-h").arg(directory.join("chronyd.sock")).args(arguments.split(' ')).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "chronyc {arguments}: {text}");
    text
}

/// The reply made of `chronyc -n sources` (docs/compatibility.md#ntp-synchronizer).
fn from_chronyc(text: &str) -> Value {
    let sources = text.lines().filter(|line| line.starts_with('^')).map(|line| {
        let state = match line.chars().nth(1).unwrap() {
            '*' => "synced",
            '+' => "combined",
            '-' => "not_combined",
            '?' => "unreachable",
            '~' => "variable",
            _ => "error",
        };
        json!({"source_name": line.split_whitespace().nth(1).unwrap(), "source_state": state})
    });
    json!({ "ntp_sources": sources.collect::<Vec<_>>() })
}

fn synchronized(host: &Host, sources: &[&str], options: &NtpOptions) -> Result<Findings, Error> {
    let sources: Vec<String> = sources.iter().map(|source| source.to_string()).collect();
    host.namespace.enter(|| synchronize(&sources, options))
}

fn reply(host: &Host, sources: &[&str], options: &NtpOptions) -> Value {
    serde_json::to_value(synchronized(host, sources, options).unwrap().response()).unwrap()
}

fn states(reply: &Value) -> Vec<&str> {
    reply["ntp_sources"].as_array().unwrap().iter().map(|source| source["source_state"].as_str().unwrap()).collect()
}

/// Files of ours in chronyd's directory.
fn left_behind(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("landfall")).collect()
}

#[test]
fn states_are_those_that_chronyc_shows() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &["192.168.126.11/24", "2001:db8:1111:2222::11/64"]);
    let far = segment.host("b", B, &["192.168.126.12/24"]);
    let others = ["192.168.126.13/24", "192.168.126.14/24", &format!("{LONG}/64")];
    let others = segment.host("c", C, &others);
    let Some(_server) = Chronyd::start(&far, "root", "local stratum 8\nallow") else { return };
    let _true =
        [TimeServer::ahead(&others.namespace, "192.168.126.13", 0), TimeServer::ahead(&others.namespace, LONG, 0)];
    let _liar = TimeServer::ahead(&others.namespace, "192.168.126.14", 3 * 3600);
    let quick = "iburst minpoll -2 maxpoll -2";
    let configuration: String = ["192.168.126.12", "192.168.126.13", "192.168.126.14", "192.168.126.99", LONG]
        .map(|server| format!("server {server} {quick}\n"))
        .concat();
    let Some(chronyd) = Chronyd::start(&host, "root", &configuration) else { return };
    let options = chronyd.options();

    let seen = RefCell::new((Value::Null, String::new()));
    testkit::wait::until("chronyd has made up its mind, and both see the same", || {
        let text = chronyd.chronyc(&host, "-n sources");
        let ours = reply(&host, &[], &options);
        let still = from_chronyc(&chronyd.chronyc(&host, "-n sources")) == from_chronyc(&text);
        *seen.borrow_mut() = (ours.clone(), text);
        let states = states(&ours);
        let heard = [0, 1, 4].iter().all(|truthful| states[*truthful] != "unreachable");
        still && heard && states.contains(&"synced") && states[2..4] == ["error", "unreachable"]
    });
    let (ours, text) = seen.into_inner();
    println!("{text}{ours}");
    assert_eq!(ours, from_chronyc(&text));
    assert_eq!(ours["ntp_sources"][4]["source_name"], LONG);
    let Findings::Chronyd(findings) = synchronized(&host, &[], &options).unwrap() else { panic!("chronyd runs") };
    let liar = &findings.sources[2].listed;
    assert!((liar.source.offset_s + 3.0 * 3600.0).abs() < 1.0, "this clock is behind the liar's: {liar:?}");
    assert!(liar.delay_s.is_some_and(|delay| delay > 0.0 && delay < 1.0), "{liar:?}");
    assert!(findings.tracking.is_some_and(|tracking| tracking.address.is_some()), "{:?}", findings.tracking);
    assert_eq!(left_behind(chronyd.directory.path()), [""; 0]);
}

#[test]
fn sources_that_chronyd_lacks_are_added_once() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &["192.168.126.11/24"]);
    let configuration = "server 192.168.126.12\nserver known.example.com\npeer 192.168.126.13";
    let Some(chronyd) = Chronyd::start(&host, "root", configuration) else { return };
    let wanted = [
        "192.168.126.12",
        "known.example.com",
        "192.168.126.13",
        "192.168.126.98",
        "new.example.com",
        "new.example.com",
        "fd00::9",
    ];
    let unreachable = |name: &str| json!({"source_name": name, "source_state": "unreachable"});
    let expected = ["192.168.126.12", "192.168.126.98", "fd00::9"].map(unreachable);
    let expected = json!({ "ntp_sources": expected });
    for _ in 0..2 {
        assert_eq!(reply(&host, &wanted, &chronyd.options()), expected);
        let listed = chronyd.chronyc(&host, "-N sources -a");
        println!("{listed}");
        let mut names: Vec<_> = listed.lines().skip(2).map(|line| line.split_whitespace().nth(1).unwrap()).collect();
        let all =
            ["192.168.126.12", "192.168.126.13", "192.168.126.98", "fd00::9", "known.example.com", "new.example.com"];
        names.sort_unstable();
        assert_eq!(names, all);
    }
    assert_eq!(left_behind(chronyd.directory.path()), [""; 0]);
}

#[test]
fn the_service_asks_for_nothing_and_gets_what_is_there() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &["192.168.126.11/24"]);
    let Some(chronyd) = Chronyd::start(&host, "root", "server 192.168.126.12") else { return };
    let Some(recorded) = testkit::wire::recorded_argument("ntp-synchronizer") else { return };
    let sources = netcheck::ntp::from_json(recorded.as_bytes()).unwrap();
    assert_eq!(sources, [""; 0]);
    let reply = reply(&host, &[], &chronyd.options());
    assert_eq!(reply, json!({"ntp_sources": [{"source_name": "192.168.126.12", "source_state": "unreachable"}]}));
    testkit::wire::assert_fits("ntp_synchronization_response", &reply);
}

/// A chronyd of another user shuts root out where root may not override permissions, and yet we get in, leave nothing behind
/// and keep no capability.
#[test]
fn chronyds_own_user_is_enough() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &["192.168.126.11/24"]);
    let Some(chronyd) = Chronyd::start(&host, "nobody", "server 192.168.126.12") else { return };
    let directory = chronyd.directory.path();
    let (reply, capabilities, can_list) = host.namespace.enter(|| {
        for capability in [Capability::CAP_DAC_OVERRIDE, Capability::CAP_DAC_READ_SEARCH] {
            caps::drop(None, CapSet::Effective, capability).unwrap();
            caps::drop(None, CapSet::Permitted, capability).unwrap();
        }
        let can_list = fs::read_dir(directory).is_ok();
        // As every user may read /etc/resolv.conf, but this directory is closed.
        let options = NtpOptions { resolv_conf: "/dev/null".into(), hosts: "/dev/null".into(), ..chronyd.options() };
        let reply = synchronize(&["192.168.126.13".to_owned()], &options).unwrap().response();
        (serde_json::to_value(reply).unwrap(), caps::read(None, CapSet::Permitted).unwrap(), can_list)
    });
    assert!(!can_list, "this test shows something only if root is shut out");
    assert_eq!(states(&reply), ["unreachable", "unreachable"]);
    assert!(capabilities.is_empty(), "{capabilities:?}");
    assert_eq!(left_behind(directory), [""; 0]);
}

#[test]
fn without_the_unix_socket_sources_are_read_over_udp() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &["192.168.126.11/24"]);
    let Some(chronyd) = Chronyd::start(&host, "root", "server 192.168.126.12") else { return };
    let options = NtpOptions { chrony_socket: "/nonexistent/chronyd.sock".into(), ..chronyd.options() };
    let expected = json!({"ntp_sources": [{"source_name": "192.168.126.12", "source_state": "unreachable"}]});
    // Nothing can be added this way, which is not a failure.
    assert_eq!(reply(&host, &["192.168.126.13"], &options), expected);
    let Findings::Chronyd(findings) = synchronized(&host, &[], &options).unwrap() else { panic!("chronyd runs") };
    assert_eq!(findings.place, "UDP 127.0.0.1:323");
}

#[test]
fn names_are_those_of_dns() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &["192.168.126.11/24"]);
    let dns = segment.host("b", B, &["192.168.126.53/24"]);
    let Some(chronyd) = Chronyd::start(&host, "root", &format!("server 192.168.126.12\nserver {LONG}")) else { return };
    let directory = chronyd.directory.path();
    let mut dnsmasq = command(&chronyd.packages, &dns.namespace, "usr/sbin/dnsmasq");
    dnsmasq.args([
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
        "--user=root",
        "--pid-file=",
    ]);
    dnsmasq.arg(format!("--host-record=ntp6.example.com,{LONG}")).arg("--host-record=ntp1.example.com,192.168.126.12");
    dnsmasq.arg("--host-record=new.example.com,192.168.126.13");
    let mut server = Server::start(dnsmasq, &directory.join("dns.log"));
    let address = ([192, 168, 126, 53], 53).into();
    server.await_ready(|| testkit::net::programs::listens(&dns.namespace, address));
    fs::write(directory.join("resolv.conf"), "nameserver 192.168.126.53\n").unwrap();
    let expected = json!({"ntp_sources": [
        {"source_name": "ntp1.example.com", "source_state": "unreachable"},
        {"source_name": "ntp6.example.com", "source_state": "unreachable"},
    ]});
    // Known by what its name resolves to, so not added.
    assert_eq!(reply(&host, &["ntp1.example.com"], &chronyd.options()), expected);
    assert_eq!(chronyd.chronyc(&host, "-n sources -a").lines().count(), 4);
}

/// A chronyd of our own that answers a request with whatever packets `answer` makes.
struct FakeChronyd {
    directory: TempDir,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeChronyd {
    fn start(answer: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let directory = closed_directory();
        let socket = UnixDatagram::bind(directory.path().join("chronyd.sock")).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 2048];
            while !end.load(Ordering::Relaxed) {
                let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
                for packet in answer(&buffer[..length]) {
                    let _ = socket.send_to(&packet, client.as_pathname().unwrap());
                }
            }
        });
        Self { directory, ended, thread: Some(thread) }
    }
}

impl Drop for FakeChronyd {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A reply to `request`, built from `candm.h`.
fn answer(request: &[u8], kind: u16, status: u16, data: &[u8]) -> Vec<u8> {
    let [kind, status] = [kind, status].map(u16::to_be_bytes);
    let header = [&[6, 2, 0, 0], &request[4..6], &kind, &status, &[0; 6], &request[8..12], &[0; 8]];
    [header.concat(), data.to_vec()].concat()
}

/// One source of each mode in each state; the real chronyc prints them as we do.
#[test]
fn every_state_is_read_as_chronyc_reads_it() {
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    let host = segment.host("a", A, &["192.168.126.11/24"]);
    let fake = FakeChronyd::start(|request| {
        vec![match u16::from_be_bytes([request[4], request[5]]) {
            14 => answer(request, 2, 0, &21u32.to_be_bytes()),
            15 => {
                let index = request[23];
                let address = [&[10, 0, 0, index][..], &[0; 12], &[0, 1, 0, 0]].concat();
                let numbers =
                    [6, 2, u16::from(index % 7), u16::from(index / 7), 0, 0o377].map(u16::to_be_bytes).concat();
                answer(request, 3, 0, &[address, numbers, 12u32.to_be_bytes().to_vec(), vec![0; 12]].concat())
            }
            _ => answer(request, 1, 4, &[]),
        }]
    });
    let text = chronyc(&packages, &host, fake.directory.path(), "-n sources");
    let ours = reply(&host, &[], &options_in(fake.directory.path()));
    println!("{text}");
    assert_eq!(ours, from_chronyc(&text));
    assert_eq!(states(&ours), ["synced", "unreachable", "error", "variable", "combined", "not_combined", "error"]);
}

/// One source, of which nothing more is told: names, samples, the clock and the taking of new ones fail as `extra` makes them.
fn with_bare_source(extra: fn(&[u8]) -> Vec<Vec<u8>>) -> FakeChronyd {
    FakeChronyd::start(move |request| match u16::from_be_bytes([request[4], request[5]]) {
        14 => vec![answer(request, 2, 0, &1u32.to_be_bytes())],
        15 => {
            let address = [&[10, 0, 0, 1][..], &[0; 12], &[0, 1, 0, 0]].concat();
            let numbers = [6, 2, 0, 0, 0, 0o377].map(u16::to_be_bytes).concat();
            vec![answer(request, 3, 0, &[address, numbers, 12u32.to_be_bytes().to_vec(), vec![0; 12]].concat())]
        }
        _ => extra(request),
    })
}

#[test]
fn the_list_of_sources_outlives_what_else_fails() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &["192.168.126.11/24"]);
    let failing: fn(&[u8]) -> Vec<Vec<u8>> = |request| vec![answer(request, 1, 1, &[])];
    let garbled: fn(&[u8]) -> Vec<Vec<u8>> = |request| vec![answer(request, 9, 0, &[0; 3])];
    for extra in [failing, garbled, |_| vec![]] {
        let fake = with_bare_source(extra);
        let expected = json!({"ntp_sources": [{"source_name": "10.0.0.1", "source_state": "synced"}]});
        // Half of it is waited for what never comes.
        let options = NtpOptions { deadline: Duration::from_secs(20), ..options_in(fake.directory.path()) };
        assert_eq!(reply(&host, &["192.168.126.98", "192.168.126.99"], &options), expected);
    }
}

#[test]
fn invalid_replies_are_distinguished() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &[]);
    let within = |deadline_s: u64, answer: fn(&[u8]) -> Vec<Vec<u8>>| {
        let fake = FakeChronyd::start(answer);
        let path = fake.directory.path();
        let options = NtpOptions { deadline: Duration::from_secs(deadline_s), ..options_in(path) };
        let error = synchronized(&host, &[], &options).unwrap_err().to_string();
        assert_eq!(left_behind(path), [""; 0], "also after a failure");
        error.replace(&*path.to_string_lossy(), "/run/chrony")
    };
    let error = |answer| within(300, answer);
    let at = "chronyd at /run/chrony/chronyd.sock answered N_SOURCES with";
    let truncated = error(|request| vec![answer(request, 2, 0, &[0, 0])]);
    assert_eq!(truncated, format!("{at} a reply of 30 bytes, not 32"));
    assert_eq!(error(|request| vec![answer(request, 1, 2, &[])]), format!("{at} NOT AUTHORISED (2)"));
    assert_eq!(error(|request| vec![answer(request, 5, 0, &[0; 76])]), format!("{at} a reply of kind 5, not 2"));
    let many = error(|request| vec![answer(request, 2, 0, &[0, 1, 0, 0])]);
    assert_eq!(many, "chronyd at /run/chrony/chronyd.sock has 65536 sources, more than 1024");
    let silent = "chronyd was timed out after 0 seconds: no answer to 0 N_SOURCES requests at /run/chrony/chronyd.sock";
    // Seconds and requests may be more where this thread has to wait for a processor.
    let in_vain = |answer| {
        let error = within(5, answer);
        let (counts, seen) = error.split_at(error.find(" N_SOURCES").unwrap());
        let counts: Vec<_> = counts
            .split(' ')
            .map(|word| if word.parse::<u32>().is_ok_and(|count| count > 0) { "0" } else { word })
            .collect();
        counts.join(" ") + seen
    };
    assert_eq!(in_vain(|_| vec![]), silent);
    let garbage = in_vain(|_| vec![vec![0; 7]]);
    assert_eq!(garbage, format!("{silent}; last received: 7 bytes that are not a reply of chronyd"));
    let other =
        in_vain(|request| vec![answer(&[&request[..8], &[1, 2, 3, 4], &request[12..]].concat(), 2, 0, &[0; 4])]);
    let seen = "last received: a reply to another request (command 14, sequence number 0x1020304)";
    assert_eq!(other, format!("{silent}; {seen}"));
}

#[test]
fn late_replies_to_others_are_passed_over() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &[]);
    let fake = FakeChronyd::start(|request| {
        let other = [&request[..8], &[1, 2, 3, 4], &request[12..]].concat();
        let (kind, status) = if request[5] == 14 { (2, 0) } else { (1, 2) };
        vec![answer(&other, 2, 0, &[9; 4]), vec![], answer(request, kind, status, &[0; 4])]
    });
    assert_eq!(reply(&host, &[], &options_in(fake.directory.path())), json!({"ntp_sources": []}));
}

#[test]
fn without_chronyd_servers_are_asked_directly() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &["192.168.126.11/24", "2001:db8:1111:2222::11/64"]);
    let addresses = [12, 13, 14, 15, 16].map(|last| format!("192.168.126.{last}/24"));
    let long = format!("{LONG}/64");
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).chain([long.as_str()]).collect();
    let far = segment.host("b", B, &addresses);
    let years = 2 * 365 * 86400;
    let _servers = [
        TimeServer::ahead(&far.namespace, "192.168.126.12", 0),
        TimeServer::ahead(&far.namespace, LONG, years),
        TimeServer::ahead(&far.namespace, "192.168.126.13", -years),
        TimeServer::start(&far.namespace, "192.168.126.14", |answer| {
            (answer.stratum, answer.reference_id) = (0, *b"DENY");
        }),
        TimeServer::start(&far.namespace, "192.168.126.15", |answer| answer.leap = 3),
        TimeServer::start(&far.namespace, "192.168.126.16", |answer| answer.origin += 1),
    ];
    let directory = tempfile::tempdir().unwrap();
    let options = options_in(directory.path());
    let asked = ["192.168.126.12", LONG, "192.168.126.13", "192.168.126.14", "192.168.126.15", "192.168.126.16"];
    let asked = [&asked[..], &["192.168.126.99", "nothere.example.com"]].concat();
    let states = ["not_combined"; 3].into_iter().chain(["unreachable"; 5]);
    let expected: Vec<_> =
        asked.iter().zip(states).map(|(name, state)| json!({"source_name": name, "source_state": state})).collect();
    assert_eq!(reply(&host, &asked, &options), json!({ "ntp_sources": expected }));

    let asked: Vec<String> = asked.iter().map(|server| server.to_string()).collect();
    let Findings::Measured(measured) = host.namespace.enter(|| measure(&asked, &options)).unwrap() else {
        panic!("asked directly")
    };
    let results: Vec<_> = measured.servers.into_iter().map(|(_, result)| result).collect();
    let [right, ahead, behind, rest @ ..] = &results[..] else { panic!("{results:?}") };
    for (offset, expected) in [(right, 0.0), (ahead, 63_072_000.0), (behind, -63_072_000.0)] {
        let offset = offset.as_ref().unwrap();
        // RFC 5905: no further off than half of the time on the way. The last bits of a double are lost.
        assert!((offset.offset_s - expected).abs() <= offset.delay_s / 2.0 + 1e-6, "{offset:?}");
        assert!(offset.stratum == 2 && offset.samples > 0, "{offset:?}");
    }
    let errors: Vec<_> = rest.iter().map(|result| result.as_ref().unwrap_err().to_string()).collect();
    let refused = "no time from 192.168.126.14 (192.168.126.14:123: the server refuses service (DENY))";
    let unsynchronised = "no time from 192.168.126.15 (192.168.126.15:123: the server's own clock is not synchronised (leap indicator 3, \
                stratum 2))";
    let forged = "no time from 192.168.126.16 (192.168.126.16:123: no answer in 10.0 s)";
    assert_eq!(errors[..3], [refused, unsynchronised, forged]);
    assert!(errors[3].starts_with("no time from 192.168.126.99 (192.168.126.99:123: "), "{}", errors[3]);
    assert_eq!(errors[4], "the name nothere.example.com could not be resolved");
}

#[test]
fn no_server_at_all_is_an_error_that_says_what_to_do() {
    let Some(segment) = Segment::new() else { return };
    let host = segment.host("a", A, &[]);
    let directory = tempfile::tempdir().unwrap();
    let error = synchronized(&host, &[], &options_in(directory.path())).unwrap_err().to_string();
    let socket = directory.path().join("chronyd.sock").display().to_string();
    let expected = format!(
        "chronyd does not answer ({socket}: No such file or directory (os error 2); UDP 127.0.0.1:323: Connection refused (os error \
         111)), so nothing synchronises this host's clock: start it (systemctl start chronyd), or name servers to compare the \
         clock with"
    );
    assert_eq!(error, expected);
    assert_eq!(left_behind(directory.path()), [""; 0]);
    let options = options_in(directory.path());
    fs::write(&options.hosts, "127.0.0.1 named.here\n").unwrap();
    let resolver = Resolver::from_files(&options.resolv_conf, &options.hosts).unwrap();
    let refused = host
        .namespace
        .enter(|| sntp::measure("named.here", &resolver, Duration::from_secs(300)))
        .unwrap_err()
        .to_string();
    assert_eq!(refused, "no time from named.here (127.0.0.1:123: Connection refused (os error 111))");
}
