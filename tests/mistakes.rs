//! Thirty mistakes that people make, and the message of each: what failed, why, and what to do. Run with `--nocapture` to read them.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "hub")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

const PULL_SECRET: &str = r#"{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNz"}}}"#;
const CREATE: &str = "cluster create --base-domain example.com --user-managed-networking --control-plane-count 1";

fn landfall(directory: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_landfall"));
    command.args(words.split_whitespace()).current_dir(directory).stdin(Stdio::null());
    for name in ["LANDFALL_LOG", "LANDFALL_URL", "LANDFALL_TOKEN", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    command.env("HOME", directory);
    command
}

struct Service(Child, String);

impl Service {
    fn start(directory: &Path, more: &str) -> Self {
        let mut child = landfall(directory, &format!("serve --listen 127.0.0.1:0 {more}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child, line.trim().strip_prefix("listening on ").unwrap().to_owned())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn each_message_says_what_to_do() {
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path();
    let put = |name: &str, text: &str| fs::write(here.join(name), text).unwrap();
    put("secret.json", PULL_SECRET);
    put("key", "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n");
    put("node.bu", "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: etc/motd\n");
    put("disk.qcow2", "QFI\u{0}");
    fs::write(here.join("disk.qcow2"), b"QFI\xfb\0\0\0\x03").unwrap();
    put("text", "hello\n");
    fs::create_dir(here.join("plan")).unwrap();
    put("plan/rack.toml", "hosts = 1\nhost = 3\n");
    put("rack2.toml", "hosts = \n");
    let open = Service::start(here, "--state-dir open");
    let closed = Service::start(here, "--state-dir closed --auth local");
    let secure = Service::start(here, "--state-dir secure --tls self-signed");
    let nowhere = testkit::port::Held::default();
    let free = nowhere.address();
    let [open, closed, secure] = [&open.1, &closed.1, &secure.1].map(String::as_str);
    let taken = open.strip_prefix("http://").unwrap();
    assert!(
        landfall(here, &format!("{CREATE} rack --openshift-version 4.22 --pull-secret-file secret.json --url {open}"))
            .status()
            .unwrap()
            .success()
    );
    assert!(
        landfall(here, &format!("infra-env create rack --cluster rack --pull-secret-file secret.json --url {open}"))
            .status()
            .unwrap()
            .success()
    );

    let create = |name: &str, more: &str| format!("{CREATE} {name} --url {open} {more}");
    let mistakes: Vec<(String, &str)> = vec![
        (format!("cluster list --url http://{free}"), "is `landfall serve` running there? --url and LANDFALL_URL"),
        ("cluster list --url localhost:8090".into(), "take one such as http://localhost:8090"),
        (format!("cluster list --url {closed}"), "requires a token: give --token-file FILE or LANDFALL_TOKEN"),
        (format!("cluster list --url {secure}"), "unknown authority: --cacert FILE names the authority"),
        (format!("cluster list --url {open} --token-file none"), "cannot read none: No such file"),
        ("clutser list".into(), "a similar subcommand exists: 'cluster'"),
        ("cluster lst".into(), "a similar subcommand exists: 'list'"),
        ("report --jsno".into(), "a similar argument exists: '--json'"),
        (create("rack", "--openshift-version 4.22 --pull-secret-file secret.json"), "'rack' exists ("),
        (create("r2", "--openshift-version new --pull-secret-file secret.json"), "not a version such as 4.22"),
        (create("r2", "--openshift-version 4.22 --pull-secret-file text"), "must be a well-formed JSON"),
        (
            create("r2", "--openshift-version 4.22 --pull-secret-file secret.json --ssh-key-file key"),
            "key is not a public SSH key: a line of one begins with ssh-ed25519",
        ),
        (
            format!("cluster show rock --url {open}"),
            "no cluster has the name 'rock' or an id that starts with it: known: rack",
        ),
        (
            format!("cluster kubeconfig rack --url {open}"),
            "no control plane; `landfall serve` brings one up with --generate or --cluster-files DIR",
        ),
        (format!("cluster install rack --url {open}"), "\n  the cluster: The cluster must have exactly 1 dedicated"),
        (
            format!("infra-env iso rack --url {open}"),
            "error: the service refuses: the service has no live ISO: start it with --iso FILE (404 to GET ",
        ),
        (format!("wait rack --timeout 5x --url {open}"), "write 45s, 90m, 2h or 1h30m"),
        (format!("wait rack --for ready --timeout 1s --url {open}"), "must have exactly 1 dedicated control plane"),
        (
            "serve --state-dir s --listen 127.0.0.1:0 --image text".into(),
            "--image text cannot be installed: it has no partition table",
        ),
        (
            "serve --state-dir s --listen 127.0.0.1:0 --image disk.qcow2".into(),
            "`qemu-img convert -O raw` makes a raw one",
        ),
        ("serve --state-dir s --listen 127.0.0.1:0 --iso text".into(), "--iso text is not an ISO"),
        ("serve --state-dir s --listen 127.0.0.1:0 --url localhost:8090".into(), "must start with http:// or https://"),
        (format!("serve --state-dir s --listen {taken}"), "in use by another program or service: --listen ADDR:PORT"),
        (
            "serve --rendezvous plan --check".into(),
            "rack.toml: host, line 2: is not a field of this document: did you mean 'hosts'?",
        ),
        ("ignition validate node.bu".into(), "error at $.storage.files.0.path, line 5 col 13: path not absolute"),
        (
            "iso bake text -o x.iso".into(),
            "error: text is not an ISO, which has a volume descriptor at byte 32768: give the ISO of a live system",
        ),
        ("up --hosts 2 --state-dir u2".into(), "2 machines are not a cluster: give 1, or 3 and more"),
        ("up --rack rack2.toml --state-dir u".into(), "rack2.toml is not TOML: look at line 1"),
        ("up --stick text --state-dir u".into(), "text is not a disk"),
        ("up --hosts 1 --ssh-key key --state-dir u".into(), "key is not a public SSH key"),
        ("up --hosts 1 --iso text --image text --state-dir u".into(), "text is not an ISO, which"),
    ];
    assert!(mistakes.len() >= 30, "{}", mistakes.len());
    let mut wrong = Vec::new();
    for (words, expected) in mistakes {
        let output = landfall(here, &words).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        let words = words.replace(open, "URL");
        println!("$ landfall {words}\n{}", said.trim_end());
        if output.status.success() || !said.contains(expected) {
            wrong.push(format!("{words}: '{expected}' is missing in: {said}"));
        }
        if said.contains("c2VjcmV0") || said.contains("dXNlcjpwYXNz") || said.len() > 1500 {
            wrong.push(format!("{words}: a secret, or too much: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!here.join("u2/plan/rack.toml").exists(), "a plan that does not hold is not stored");
}
