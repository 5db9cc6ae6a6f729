//! A service that nobody has told whom to let in.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};
use testkit::net::{Host, Segment};

struct Service {
    process: Child,
    log: std::path::PathBuf,
}

impl Service {
    /// As soon as it listens.
    fn start(host: &Host, directory: &Path, options: &[&str]) -> Self {
        let log = directory.join("log");
        let program = std::env::var("LANDFALL_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_landfall").to_owned());
        let mut command = Command::new(program);
        command.arg("serve").arg("--state-dir").arg(directory.join("state")).args(options);
        for name in ["LANDFALL_LOG", "LANDFALL_LISTEN", "LANDFALL_AUTH"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
        let mut process = host.namespace.enter(|| command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line}: {}", fs::read_to_string(&log).unwrap());
        Self { process, log }
    }

    fn output(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap();
        let lines: Vec<&str> =
            log.lines().filter(|line| line.contains("with --auth") || line.contains("without --auth")).collect();
        assert_eq!(lines.len(), 1, "one line says who may do what: {log}");
        lines[0].to_owned()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        testkit::process::kill_with_worker(&mut self.process);
    }
}

#[test]
fn without_tokens_and_without_listen_other_machines_are_not_let_in() {
    let Some(segment) = Segment::new() else { return };
    let serving = segment.host("serving", "52:54:00:00:02:01", &["192.0.2.1/24"]);
    let other = segment.host("other", "52:54:00:00:02:02", &["192.0.2.2/24"]);
    let reaches = |host: &Host, address: &str| host.namespace.enter(|| TcpStream::connect(address).is_ok());
    let (near, far) = (|| reaches(&serving, "127.0.0.1:8090"), || reaches(&other, "192.0.2.1:8090"));
    let directory = tempfile::tempdir().unwrap();
    let start = |options: &[&str]| Service::start(&serving, directory.path(), options);

    let closed = start(&[]);
    assert!(near(), "this machine itself is let in");
    assert!(!far(), "another machine is let in, and may do everything");
    println!("{}", closed.output());
    assert!(closed.output().contains("Other machines cannot reach 127.0.0.1:8090"));
    drop(closed);

    let opened = start(&["--listen", "0.0.0.0:8090", "--url", "http://192.0.2.1:8090"]);
    assert!(far());
    println!("{}", opened.output());
    assert!(opened.output().contains("any client that reaches 0.0.0.0:8090 may do everything"));
    drop(opened);

    let asking = start(&["--auth", "local", "--url", "http://192.0.2.1:8090"]);
    assert!(far(), "it asks for tokens");
    println!("{}", asking.output());
}
