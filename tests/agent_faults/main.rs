//! What a host's agent makes of everything that goes wrong around it: after each it is alive, polls again, and has given back the
//! memory that the trouble took. Run with `--nocapture` to read the table.
#![allow(clippy::unwrap_used)]

mod agent;
mod certificates;
mod service;

use agent::Agent;
use certificates::Certificates;
use serde_json::json;
use service::{Mode, Service};
use std::{
    ffi::OsStr,
    fmt::Write,
    fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use testkit::wait::until as wait;

/// What an error text or a spare connection may keep.
const MEMORY_SLACK_KIB: i64 = 512;
/// Rows at once: they wait more than they work.
const WORKERS: usize = 16;

/// A row of the table as it came out.
struct Seen {
    fault: &'static str,
    message: String,
    recovery: Duration,
    before_kib: i64,
    after_kib: i64,
}

type Row<'a> = (&'static str, Box<dyn Fn(&Path) -> Seen + Send + Sync + 'a>);

fn raw(head: &str, body: &str) -> Mode {
    let length = format!("Content-Length: {}\r\nConnection: close\r\n", body.len());
    Mode::Raw(format!("HTTP/1.1 {head}\r\n{length}\r\n{body}"))
}

/// Gets the agent polling, breaks things until it says so twice, mends them, and waits until it polls again.
fn suffer(
    fault: &'static str,
    service: &Service,
    agent: &mut Agent,
    break_it: impl FnOnce(),
    mend_it: impl FnOnce(),
) -> Seen {
    let polls_on = |what: &str| {
        let start = service.polls();
        wait(&format!("{fault}: {what}"), || service.polls() >= start + 3);
    };
    polls_on("polls at first");
    let before_kib = agent.memory_kib();
    let complaints = agent.complaints().len();
    break_it();
    wait(&format!("{fault}: complaints of the agent"), || agent.complaints().len() >= complaints + 2);
    let message = agent.complaints().pop().unwrap_or_default();
    let mended = Instant::now();
    mend_it();
    polls_on("polls again");
    let recovery = mended.elapsed();
    // What the last answers took is given back by their end.
    wait(&format!("{fault}: memory given back, {before_kib} KiB before"), || {
        agent.memory_kib() <= before_kib + MEMORY_SLACK_KIB
    });
    assert!(agent.is_alive(), "{fault}");
    Seen { fault, message, recovery, before_kib, after_kib: agent.memory_kib() }
}

fn answers(fault: &'static str, mode: Mode) -> Row<'static> {
    let run = move |dir: &Path| {
        let service = Service::start(Mode::Healthy, None);
        let mut agent = Agent::start(dir, &format!("http://{}", service.address), "", &[], &[]);
        suffer(fault, &service, &mut agent, || service.set(mode.clone()), || service.set(Mode::Healthy))
    };
    (fault, Box::new(run))
}

/// The same trouble is there when the agent starts.
fn from_the_start(fault: &'static str, mode: Mode) -> Row<'static> {
    let run = move |dir: &Path| {
        let service = Service::start(mode.clone(), None);
        let mut agent = Agent::start(dir, &format!("http://{}", service.address), "", &[], &[]);
        wait(fault, || agent.complaints().len() >= 2);
        service.set(Mode::Healthy);
        suffer(fault, &service, &mut agent, || service.set(mode.clone()), || service.set(Mode::Healthy))
    };
    (fault, Box::new(run))
}

fn presents<'a>(fault: &'static str, certificates: &'a Certificates, bad: &'static str) -> Row<'a> {
    let run = move |dir: &Path| {
        let service = Service::start(Mode::Healthy, Some(certificates.identity("good")));
        let ca = certificates.ca();
        let url = format!("https://{}", service.address);
        let mut agent = Agent::start(dir, &url, "", &[OsStr::new("--cacert"), ca.as_os_str()], &[]);
        let (bad, good) = (certificates.identity(bad), certificates.identity("good"));
        suffer(fault, &service, &mut agent, || service.present(bad), || service.present(good))
    };
    (fault, Box::new(run))
}

/// Runs a step against a server that never answers, does something to its process, and wants to read this in the reply.
fn step(fault: &'static str, harm: fn(i32), expected: &'static str) -> Row<'static> {
    let run = move |dir: &Path| {
        let service = Service::start(Mode::Healthy, None);
        let silent = Service::start(Mode::Hang, None);
        let mut agent = Agent::start(dir, &format!("http://{}", service.address), "", &[], &[]);
        let url = format!("http://{}", silent.address);
        let argument = json!({"url": url}).to_string();
        let instruct = |id: &str| {
            service.instruct(json!({"step_type": "api-vip-connectivity-check", "step_id": id, "args": [argument]}));
        };
        // One that is left alone, so that what a first step takes for good is not counted.
        instruct("endpoint-0");
        wait(fault, || service.reply("endpoint-0").is_some());
        let start = service.polls();
        wait(fault, || service.polls() >= start + 3);
        let before_kib = agent.memory_kib();
        let asked = silent.asked();
        instruct("endpoint-1");
        wait(fault, || silent.asked() >= asked + 2);
        let (begun, polls) = (Instant::now(), service.polls());
        harm(agent.child().expect("a step runs"));
        // A server that floods is one way to need memory.
        silent.set(Mode::Endless { head: "Content-Type: application/json\r\n", bytes: 1 << 16, pause: Duration::ZERO });
        wait(&format!("{fault}: a reply"), || service.reply("endpoint-1").is_some());
        let recovery = begun.elapsed();
        let reply = service.reply("endpoint-1").unwrap();
        // One that gets no memory may still be able to say so.
        let message =
            format!("{} {}", reply["error"].as_str().unwrap().trim(), reply["output"].as_str().unwrap_or_default());
        let message = message.replace('\n', "; ");
        assert!(message.contains(expected), "{fault}: {message}");
        wait(fault, || service.polls() >= polls + 3);
        wait(&format!("{fault}: memory given back"), || agent.memory_kib() <= before_kib + MEMORY_SLACK_KIB);
        assert!(agent.is_alive());
        Seen { fault, message, recovery, before_kib, after_kib: agent.memory_kib() }
    };
    (fault, Box::new(run))
}

fn signal(pid: i32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}

/// From now on the process gets no memory.
fn starve(pid: i32) {
    let status = std::process::Command::new("prlimit").args(["--pid", &pid.to_string(), "--data=4096:4096"]).status();
    assert!(status.unwrap().success());
}

/// A name that can't be looked up, then can.
fn name_lost(dir: &Path) -> Seen {
    let fault = "DNS fails";
    let service = Service::start(Mode::Healthy, None);
    let hosts = dir.join("hosts");
    let known = || fs::write(&hosts, "127.0.0.1 service.test\n").unwrap();
    known();
    // A server that is not there answers at once that it isn't.
    fs::write(dir.join("resolv.conf"), "nameserver 127.0.0.1\noptions attempts:1 timeout:1\n").unwrap();
    let here = dir.display();
    let prelude = format!("mount --bind {here}/hosts /etc/hosts; mount --bind {here}/resolv.conf /etc/resolv.conf");
    let url = format!("http://service.test:{}", service.address.port());
    let mut agent = Agent::start(dir, &url, &prelude, &[], &[]);
    let forget = || {
        fs::write(&hosts, "").unwrap();
        service.set(Mode::Refuse);
    };
    let mend = || {
        known();
        service.set(Mode::Healthy);
    };
    suffer(fault, &service, &mut agent, forget, mend)
}

/// The proxy is a service that answers to any name; then there is none.
fn proxy_down(dir: &Path) -> Seen {
    let proxy = Service::start(Mode::Healthy, None);
    let address = format!("http://{}", proxy.address);
    let mut agent = Agent::start(dir, "http://service.test", "", &[], &[("HTTP_PROXY", &address)]);
    suffer("proxy down", &proxy, &mut agent, || proxy.set(Mode::Refuse), || proxy.set(Mode::Healthy))
}

/// The medium is a file that the table of mounts calls a device.
fn media_pulled(dir: &Path) -> Seen {
    let fault = "media pulled";
    let service = Service::start(Mode::Healthy, None);
    let medium = format!("/dev/shm/landfall-faults-{}", std::process::id());
    let insert = || fs::write(&medium, [0x5A; 8192]).unwrap();
    insert();
    let prelude = format!("mount -t tmpfs none /run; mkdir -p /run/media/iso; mount -t tmpfs {medium} /run/media/iso");
    let mut agent = Agent::start(dir, &format!("http://{}", service.address), &prelude, &[], &[]);
    let ask = |id: &str| {
        // The same answer twice is not sent.
        let domains = json!({"domains": [{"domain_name": format!("{id}.localhost")}]}).to_string();
        service.instruct(json!({"step_type": "domain-resolution", "step_id": id, "args": [domains]}));
        wait(fault, || service.reply(id).is_some());
        service.reply(id).unwrap()
    };
    assert_eq!(ask("dns-0").get("exit_code"), None, "{}", agent.log());
    let mut message = String::new();
    let pull = || {
        fs::remove_file(&medium).unwrap();
        let reply = ask("dns-1");
        assert_eq!(reply["exit_code"], 256);
        message = reply["error"].as_str().unwrap().to_owned();
        ask("dns-2");
    };
    let seen = suffer(fault, &service, &mut agent, pull, insert);
    assert_eq!(ask("dns-3").get("exit_code"), None);
    fs::remove_file(&medium).unwrap();
    Seen { message, ..seen }
}

/// What it writes itself, when told to, must not be what ends it.
fn log_full(dir: &Path) -> Seen {
    let fault = "disk full under /var/log";
    let service = Service::start(Mode::Healthy, None);
    let prelude = "mount -t tmpfs -o size=64k none /var/log";
    let url = format!("http://{}", service.address);
    let mut agent = Agent::start(dir, &url, prelude, &[OsStr::new("--with-text-logging")], &[]);
    let polls_on = || {
        let start = service.polls();
        wait(fault, || service.polls() >= start + 3);
    };
    polls_on();
    let ballast = agent.root().join("var/log/ballast");
    let before_kib = agent.memory_kib();
    let error = fs::write(&ballast, vec![0; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    // Something worth a line in the log, which has no room.
    service.set(raw("500 Internal Server Error", "{}"));
    let asked = service.asked();
    wait(fault, || service.asked() > asked + 4);
    service.set(Mode::Healthy);
    polls_on();
    let begun = Instant::now();
    fs::remove_file(&ballast).unwrap();
    polls_on();
    assert!(agent.is_alive());
    let log = fs::read_to_string(agent.root().join("var/log/agent_registration.log")).unwrap();
    assert!(log.contains("registered"), "{log}");
    Seen { fault, message: error.to_string(), recovery: begun.elapsed(), before_kib, after_kib: agent.memory_kib() }
}

fn rows(certificates: &Certificates) -> Vec<Row<'_>> {
    let status = |fault, head| answers(fault, raw(head, r#"{"code":"0","reason":"as the test wants it"}"#));
    let refused = |fault, head| from_the_start(fault, raw(head, r#"{"code":401,"message":"as the test wants it"}"#));
    let endless = |bytes, pause| Mode::Endless { head: "Content-Type: application/json\r\n", bytes, pause };
    use nix::sys::signal::Signal;
    vec![
        from_the_start("absent at start", Mode::Refuse),
        answers("connection refused", Mode::Refuse),
        ("DNS fails", Box::new(name_lost)),
        refused("401", "401 Unauthorized"),
        refused("403", "403 Forbidden"),
        refused("404", "404 Not Found"),
        refused("409", "409 Conflict"),
        status("410", "410 Gone"),
        status("500", "500 Internal Server Error"),
        status("502", "502 Bad Gateway"),
        status("503, Retry-After", "503 Service Unavailable\r\nRetry-After: 2"),
        answers("200 with garbage", raw("200 OK", "\u{1}\u{2}{[")),
        answers("200 with HTML", raw("200 OK\r\nContent-Type: text/html", "<html><body>Sign in</body></html>")),
        answers("200 and nothing", raw("200 OK", "")),
        answers("no HTTP at all", Mode::Raw("\u{16}\u{3}\u{1} what?\r\n\r\n".into())),
        answers("1 GiB body", endless(1 << 20, Duration::ZERO)),
        answers("endless slow body", endless(1, Duration::from_millis(50))),
        answers("hang before headers", Mode::Hang),
        presents("TLS: unknown CA", certificates, "stranger"),
        presents("TLS: expired", certificates, "expired"),
        presents("TLS: our clock 2 years back", certificates, "future"),
        answers("cut in mid-body", Mode::Raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"instr".into())),
        answers("redirect loop", raw("302 Found\r\nLocation: /api/assisted-install/v2/again", "")),
        ("proxy down", Box::new(proxy_down)),
        ("media pulled", Box::new(media_pulled)),
        ("disk full under /var/log", Box::new(log_full)),
        step("step killed", |pid| signal(pid, Signal::SIGKILL), "signal: 9 (SIGKILL)"),
        step("step crashed", |pid| signal(pid, Signal::SIGILL), "signal: 4 (SIGILL)"),
        step("step hung", |pid| signal(pid, Signal::SIGSTOP), "it took longer than 20 s"),
        step("step out of memory", starve, "memory"),
    ]
}

#[test]
fn whatever_goes_wrong_the_agent_polls_on() {
    if !testkit::skip::unless("root, for mount namespaces", nix::unistd::geteuid().is_root()) {
        return;
    }
    let certificates = Certificates::new();
    let (rows, next, table) = (rows(&certificates), AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((fault, row)) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let dir = tempfile::Builder::new().prefix("landfall-faults-").tempdir().unwrap();
                    let seen = row(dir.path());
                    assert_eq!(seen.fault, *fault);
                    table.lock().unwrap().push(seen);
                }
            });
        }
    });
    let mut page = String::new();
    let mut table = table.into_inner().unwrap();
    table.sort_by_key(|seen| rows.iter().position(|(fault, _)| *fault == seen.fault));
    for Seen { fault, message, recovery, before_kib, after_kib } in &table {
        // From where a log line says what went wrong.
        let message = message.split_once("error=").map_or(message.as_str(), |(_, message)| message);
        let message = message.split_once("/instructions").map_or(message, |(_, message)| message);
        let recovery = recovery.as_secs_f64();
        writeln!(page, "{fault:28} {recovery:5.1} s  {before_kib:5} -> {after_kib:5} KiB  {message}").unwrap();
    }
    println!("{page}");
    assert_eq!(table.len(), rows.len());
}
