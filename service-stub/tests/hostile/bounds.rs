//! Who takes too much, or too long: cut off, while others are served.

use super::common::{API, Files, Running, pull_secret};
use super::infra_env;
use serde_json::json;
use service_stub::http::limits::{Kind, Limits};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use testkit::process::own_test;
use testkit::wait;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn connect(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(wait::LIMIT)).unwrap();
    stream
}

/// What comes until the other side closes.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "the other side doesn't close");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("closed without an answer")
}

/// Sends `piece` every 50 ms until the other side answers or closes.
fn trickle(running: &Running, head: &str, piece: &[u8]) -> (String, Duration) {
    let mut stream = connect(running);
    let started = Instant::now();
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(ms(50))).unwrap();
    loop {
        let sent = stream.write_all(piece);
        match stream.peek(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && sent.is_ok() => {}
            _ => break,
        }
        assert!(started.elapsed() < wait::LIMIT, "nobody cuts this off");
    }
    let took = started.elapsed();
    stream.set_read_timeout(Some(wait::LIMIT)).unwrap();
    (rest(&mut stream), took)
}

#[test]
fn the_slow_are_cut_off() {
    let start = |limits| Running::start(Files { limits, ..Files::default() });
    // Whose body is slow is in time with the rest.
    let headers = start(Limits { header: ms(400), ..Limits::default() });
    let bodies = start(Limits { piece: ms(300), body: ms(700), ..Limits::default() });
    let post = format!(
        "POST {API}/v2/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    );
    let chunked = format!(
        "POST {API}/v2/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    for (running, what, head, piece, expected) in [
        (
            &headers,
            "headers, a byte at a time",
            "GET /health HTTP/1.1\r\nX: ",
            b"x".as_slice(),
            "closed without an answer",
        ),
        (&headers, "nothing after connecting", "", b"", "closed without an answer"),
        (&bodies, "a body that stops", &post, b"", "408"),
        (&bodies, "a body, a byte at a time", &post, b" ", "408"),
        (&bodies, "chunks of a byte", &chunked, b"1\r\n \r\n", "408"),
    ] {
        let (answer, took) = trickle(running, head, piece);
        println!("| {what} | {} after {} ms |", status(&answer), took.as_millis());
        assert_eq!(status(&answer), expected, "{what}: {answer}");
    }
    // A connection that is kept is one that idles, too.
    let running = start(Limits { header: ms(5000), ..Limits::default() });
    let mut kept = connect(&running);
    kept.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let started = Instant::now();
    assert_eq!(status(&rest(&mut kept)), "200");
    println!("| one request, then nothing | 200, closed after {} ms |", started.elapsed().as_millis());
}

#[test]
fn who_does_not_take_his_download_gives_its_place_back() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("os.raw");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let limits = Limits { stall: ms(10_000), downloads: 1, queue: ms(200), ..Limits::default() };
    let running = Running::start(Files { images: vec![image], limits, ..Files::default() });
    let mut idle = connect(&running);
    idle.write_all(b"GET /boot-artifacts/os/os.raw HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut start = [0; 12];
    idle.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    let second = running.get("/boot-artifacts/os/os.raw");
    assert_eq!((second.status, second.document()["code"].as_u64()), (503, Some(503)), "there is one place");
    assert_eq!(running.get(&format!("{API}/v2/clusters")).status, 200, "documents have places of their own");
    assert!(wait::comes(|| running.service.gates.free(Kind::Download) == Some(1)), "the place is never free again");
    assert_eq!(running.get("/boot-artifacts/os/os.raw").body.len(), 64 << 20, "the place is free again");
    let got = rest(&mut idle).len();
    assert!(got < 64 << 20, "cut off after {got} bytes");
    println!("| a download of 64 MiB that nobody reads | cut off after {got} bytes and 10 s; others 503 meanwhile |");
}

#[test]
fn one_connection_too_many_gets_503() {
    // Nobody else is cut off meanwhile.
    let limits = Limits { connections: 20, header: 2 * wait::LIMIT, ..Limits::default() };
    let running = Running::start(Files { limits, ..Files::default() });
    let mut working = connect(&running);
    let mut ask = || {
        working.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = [0; 512];
        let count = working.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..count]).into_owned()
    };
    assert_eq!(status(&ask()), "200");
    let idle: Vec<TcpStream> = (0..19).map(|_| connect(&running)).collect();
    for _ in 0..3 {
        let answer = rest(&mut connect(&running));
        assert_eq!(status(&answer), "503");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{answer}");
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok(), "{body}");
    }
    println!("| connection 21 of 20 | 503 at once, closed |");
    assert_eq!(status(&ask()), "200", "who is in is served");
    drop(idle);
    assert!(wait::comes(|| rest_of_health(&running) == "200"), "no place gets free");
}

fn rest_of_health(running: &Running) -> String {
    let mut stream = connect(running);
    let _ = stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    status(&rest(&mut stream)).to_owned()
}

#[test]
fn uploads_wait_for_a_place_and_leave_room() {
    let upload = |running: &Running, cluster: &str| {
        let form = b"--XX\r\nContent-Disposition: form-data; name=\"upfile\"\r\n\r\nlogs\r\n--XX--\r\n";
        let path = format!("{API}/v2/clusters/{cluster}/logs?logs_type=controller");
        running.request("POST", &path, &[("content-type", "multipart/form-data; boundary=XX")], form)
    };
    let cluster = |running: &Running| {
        let body = json!({"name": "c", "openshift_version": "4.22", "pull_secret": pull_secret()});
        running.json("POST", "/v2/clusters", &body).document()["id"].as_str().unwrap().to_owned()
    };
    let full =
        Running::start(Files { limits: Limits { free_bytes: u64::MAX, ..Limits::default() }, ..Files::default() });
    let id = cluster(&full);
    let answer = upload(&full, &id);
    println!("| an upload when the disk is full | {} {} |", answer.status, answer.document()["message"]);
    assert_eq!(answer.status, 507);
    assert_eq!(std::fs::read_dir(full.state.path().join("logs").join(&id).join("controller")).unwrap().count(), 0);

    let limits = Limits { uploads: 1, queue: ms(200), upload: ms(15_000), piece: 2 * wait::LIMIT, ..Limits::default() };
    let running = Running::start(Files { limits, ..Files::default() });
    let id = cluster(&running);
    let mut slow = connect(&running);
    let head = format!(
        "POST {API}/v2/clusters/{id}/logs?logs_type=controller HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\
         Content-Type: multipart/form-data; boundary=XX\r\n\r\n--XX\r\n"
    );
    slow.write_all(head.as_bytes()).unwrap();
    assert!(wait::comes(|| running.service.gates.free(Kind::Upload) == Some(0)), "it takes no place");
    assert_eq!(upload(&running, &id).status, 503);
    assert_eq!(running.json("POST", "/v2/infra-envs", &json!({"name": "x", "pull_secret": pull_secret()})).status, 201);
    let answer = rest(&mut slow);
    println!("| an upload that doesn't end | {}; others 503 meanwhile |", status(&answer));
    assert_eq!(status(&answer), "408");
    assert_eq!(upload(&running, &id).status, 204);
}

#[test]
fn large_bodies_take_turns() {
    let limits = Limits { large_bodies: 1, queue: ms(300), body: ms(20_000), ..Limits::default() };
    let running = Running::start(Files { limits, ..Files::default() });
    let path =
        format!("{API}/v2/infra-envs/{}/hosts/69396def-4192-dbc7-5c01-819e7f27b01b/instructions", infra_env(&running));
    let mut slow = connect(&running);
    slow.write_all(
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n")
            .as_bytes(),
    )
    .unwrap();
    slow.write_all(&vec![b' '; 2 << 20]).unwrap();
    let reply = |size: usize| json!({"step_type": "inventory", "step_id": "x", "output": "x".repeat(size)}).to_string();
    let send = |size: usize| running.request("POST", &path, &[], reply(size).as_bytes()).status;
    assert!(wait::comes(|| send(2 << 20) == 503), "the place is never taken");
    assert_eq!(send(1000), 404, "a small one needs none");
    assert_eq!(status(&rest(&mut slow)), "408");
    assert_eq!(send(2 << 20), 404);
}

/// More requests than the service has threads for: some are worked on, the others wait for a thread.
#[test]
fn requests_give_their_places_back_when_their_clients_are_gone() {
    const REQUESTS: usize = 64;
    let limits = Limits { requests: REQUESTS, ..Limits::default() };
    let running = Running::start(Files { limits, ..Files::default() });
    let service = running.service.clone();
    // A change waits until this one is over, so a request that makes one takes as long as this test wants.
    let (begun, has_begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let change = {
        let service = service.clone();
        std::thread::spawn(move || {
            let waited = service.change("", |_| {
                begun.send(()).unwrap();
                let _ = released.recv();
                Ok(())
            });
            waited.unwrap();
        })
    };
    has_begun.recv().unwrap();
    let body = json!({"name": "c", "openshift_version": "4.22", "pull_secret": pull_secret()}).to_string();
    let request = format!(
        "POST {API}/v2/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let clients: Vec<TcpStream> = (0..REQUESTS)
        .map(|_| {
            let mut client = connect(&running);
            client.write_all(request.as_bytes()).unwrap();
            client
        })
        .collect();
    let wait_for = |free: usize, what: &str| {
        let places = || service.gates.free(Kind::Request);
        assert!(wait::comes(|| places() == Some(free)), "{what}: {:?} places are free", places());
    };
    wait_for(0, "each request takes a place");
    drop(clients);
    wait_for(REQUESTS, "each request gives its place back while the change still runs");
    release.send(()).unwrap();
    change.join().unwrap();
    // It is behind all of them in the queue for a thread, and the service ends when the begun ones are through.
    assert_eq!(running.get(&format!("{API}/v2/clusters")).status, 200);
    drop(running);
    let made = service.store.model().clusters.len();
    println!(
        "| {REQUESTS} requests whose clients are gone | all places free; {made} were begun before and are carried out |"
    );
    assert!(made < REQUESTS, "requests that nobody waits for any more are begun");
}

const HOLD: &str = "LANDFALL_TEST_HOLD";

/// `LANDFALL_TEST_CONNECTIONS` says how many; 10,000 need as many file descriptors here and in the process that holds them.
#[test]
fn idle_connections_are_in_nobodys_way() {
    // This process again, as the one that holds the connections: each end needs a descriptor.
    if let Ok(order) = std::env::var(HOLD) {
        return hold(&order);
    }
    let (_, descriptors) = service_stub::server::raise_descriptors().unwrap();
    let count: usize = std::env::var("LANDFALL_TEST_CONNECTIONS").map_or(2000, |text| text.parse().unwrap());
    assert!(descriptors > count as u64 + 200, "{count} connections need more than {descriptors} file descriptors");
    let rss = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let limits = Limits { header: 2 * wait::LIMIT, ..Limits::default() };
    let running = Running::start(Files { limits, ..Files::default() });
    infra_env(&running);
    let before = rss();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &own_test(module_path!(), "idle_connections_are_in_nobodys_way"), "--nocapture"])
        .env(HOLD, format!("{} {count}", running.url.strip_prefix("http://").unwrap()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = lines.by_ref().map_while(Result::ok).any(|line| line == "held");
    assert!(held, "the connections are not made");
    let mut times: Vec<Duration> = (0..200)
        .map(|_| {
            let started = Instant::now();
            assert_eq!(running.get(&format!("{API}/v2/infra-envs")).status, 200);
            started.elapsed()
        })
        .collect();
    times.sort();
    let grown = rss().saturating_sub(before);
    println!(
        "| {count} open connections that say nothing | others: p50 {:?}, p99 {:?}; {grown} KiB more memory |",
        times[100], times[198]
    );
    assert!(grown < 300_000, "{grown} KiB");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
}

fn hold(order: &str) {
    service_stub::server::raise_descriptors().unwrap();
    let (address, count) = order.split_once(' ').unwrap();
    let held: Vec<TcpStream> =
        (0..count.parse::<usize>().unwrap()).map(|_| TcpStream::connect(address).unwrap()).collect();
    // The last is taken once it is answered, and those before it were taken before it.
    let mut last = TcpStream::connect(address).unwrap();
    last.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    last.read_exact(&mut [0]).unwrap();
    println!("\nheld");
    let _ = std::io::stdin().read(&mut [0]);
    for mut stream in &held {
        stream.set_nonblocking(true).unwrap();
        let open = stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        assert!(open, "a connection was not kept");
    }
}

#[test]
fn what_hosts_tell_is_bounded() {
    let limits = Limits { hosts: 3, host_texts_bytes: 3 << 20, ..Limits::default() };
    let running = Running::start(Files { limits, ..Files::default() });
    let infra = infra_env(&running);
    let register = |n: u32| {
        let host = format!("69396def-4192-dbc7-5c01-819e7f27b0{n:02}");
        let body = json!({"host_id": host, "discovery_agent_version": ""});
        (running.json("POST", &format!("/v2/infra-envs/{infra}/hosts"), &body), host)
    };
    let hosts: Vec<String> =
        (0..3).map(&register).map(|(answer, host)| (assert_eq!(answer.status, 201), host).1).collect();
    let (refused, _) = register(3);
    assert_eq!(refused.status, 409);
    assert!(refused.document()["reason"].as_str().unwrap().contains("--max-hosts"));
    assert_eq!(register(0).0.status, 201, "one that is known registers again");
    let tell = |host: &str, kind: &str, bytes: usize| {
        let output = match kind {
            "inventory" => json!({"hostname": "x".repeat(bytes)}),
            _ => json!({"resolutions": [{"domain_name": "x".repeat(bytes)}]}),
        };
        let reply = json!({"step_type": kind, "step_id": "x", "output": output.to_string()});
        running.json("POST", &format!("/v2/infra-envs/{infra}/hosts/{host}/instructions"), &reply).status
    };
    assert_eq!(tell(&hosts[0], "domain-resolution", 1 << 20), 413, "no text is longer than a mebibyte");
    assert_eq!(tell(&hosts[0], "inventory", 17 << 20), 413, "an inventory may be longer, but not so long");
    assert_eq!(tell(&hosts[0], "inventory", 2 << 20), 204);
    assert_eq!(tell(&hosts[1], "inventory", 2 << 20), 507, "together they have a bound as well");
    assert_eq!(tell(&hosts[1], "inventory", 1 << 19), 204);
    assert_eq!(tell(&hosts[0], "inventory", 1 << 10), 204, "less is always taken");
    assert_eq!(tell(&hosts[1], "inventory", 2 << 20), 204);
}

#[test]
fn new_hosts_of_one_address_wait() {
    let limits = Limits { registrations: 2, registrations_per_minute: 1, ..Limits::default() };
    let running = Running::start(Files { limits, ..Files::default() });
    let infra = infra_env(&running);
    let register = |n: u32| {
        let body =
            json!({"host_id": format!("69396def-4192-dbc7-5c01-819e7f27b0{n:02}"), "discovery_agent_version": ""});
        running.json("POST", &format!("/v2/infra-envs/{infra}/hosts"), &body).status
    };
    assert_eq!([0, 1, 2, 0].map(register), [201, 201, 429, 201], "one that is known is not counted");
}

#[test]
fn long_lists_are_sent_while_they_are_made() {
    let running = Running::start(Files::default());
    let body = json!({"name": "c", "openshift_version": "4.22", "pull_secret": pull_secret()});
    let cluster = running.json("POST", "/v2/clusters", &body).document()["id"].as_str().unwrap().to_owned();
    let body = json!({"name": "lab", "pull_secret": pull_secret(), "cluster_id": cluster});
    let infra = running.json("POST", "/v2/infra-envs", &body).document()["id"].as_str().unwrap().to_owned();
    for n in 0..3 {
        let host = format!("69396def-4192-dbc7-5c01-819e7f27b0{n:02}");
        let body = json!({"host_id": host, "discovery_agent_version": ""});
        assert_eq!(running.json("POST", &format!("/v2/infra-envs/{infra}/hosts"), &body).status, 201);
        let inventory = json!({"hostname": format!("h{n}"), "boot": {"command_line": "x".repeat(2 << 20)}}).to_string();
        let reply = json!({"step_type": "inventory", "step_id": "x", "output": inventory});
        let path = format!("/v2/infra-envs/{infra}/hosts/{host}/instructions");
        assert_eq!(running.json("POST", &path, &reply).status, 204);
    }
    let host = |n: u32| {
        running.get(&format!("{API}/v2/infra-envs/{infra}/hosts/69396def-4192-dbc7-5c01-819e7f27b0{n:02}")).document()
    };
    let one_by_one: Vec<_> = (0..3).map(|n| host(n)["inventory"].clone()).collect();
    for (path, at) in [
        ("/v2/clusters?with_hosts=true".to_owned(), "/0/hosts"),
        (format!("/v2/clusters/{cluster}"), "/hosts"),
        (format!("/v2/clusters/{cluster}/hosts?with-inventory=true"), ""),
        (format!("/v2/infra-envs/{infra}/hosts"), ""),
    ] {
        let answer = running.get(&format!("{API}{path}"));
        let document = answer.document();
        let hosts = document.pointer(at).and_then(|hosts| hosts.as_array()).unwrap();
        let inventories: Vec<_> = hosts.iter().map(|host| host["inventory"].clone()).collect();
        assert!(inventories == one_by_one, "{path}");
        assert_eq!(answer.header("content-length"), None, "{path}: it is not made as a whole first");
    }
    let short = running.get(&format!("{API}/v2/clusters"));
    assert!(short.header("content-length").is_some());
}
