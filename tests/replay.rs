//! What the real service was seen to send, sent to our agent: each request of ours has the method, path, headers and body that the
//! real agent's had, but for what is named in [`compare`] with its reason, and each reply is as the service defines it. What writes or reboots is turned to a device of the test's own.
#![allow(clippy::unwrap_used)]

#[path = "replay/compare.rs"]
mod compare;

use fake_service::{
    Answer, FakeService, Request,
    recorded::{Exchange, exchanges, recorded, wire},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use testkit::{
    disk::{Image, LoopDisk, MIB, skipped},
    net::{
        Host, Segment,
        programs::{Server, command, packages},
    },
    process::Running,
    wire::assert_fits,
};

/// What is left to hand out, and what was handed out and not yet answered.
struct Script {
    batches: Vec<Vec<Value>>,
    open: BTreeSet<String>,
    /// What the real agent answered of what it was sent: the same result twice is sent once.
    answered: BTreeSet<String>,
    /// How replies to these step ids are refused.
    refusals: BTreeMap<String, (u16, Value)>,
    /// How the next polls and registrations are refused.
    polls: Vec<(u16, Value)>,
    registrations: Vec<(u16, Value)>,
}

impl Script {
    fn next(&mut self) -> Answer {
        if self.open.is_empty() && !self.batches.is_empty() {
            let batch = self.batches.remove(0);
            let ids = batch.iter().map(|step| step["step_id"].as_str().unwrap().to_owned());
            self.open = ids.filter(|id| self.answered.contains(id)).collect();
            return poll(json!(batch));
        }
        if self.open.is_empty()
            && let Some((status, body)) = self.polls.pop()
        {
            return Answer::Json(status, body);
        }
        poll(Value::Null)
    }
}

fn poll(instructions: Value) -> Answer {
    Answer::Json(
        200,
        json!({"instructions": instructions, "next_instruction_seconds": 1, "post_step_action": "continue"}),
    )
}

/// The recorded step with what it names of the recording machine's disk turned to ours.
fn rewritten(mut step: Value, device: &str, image: &Path) -> Value {
    let kind = step["step_type"].as_str().unwrap().to_owned();
    let change = |text: &Value, change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        change(&mut value);
        Value::String(value.to_string())
    };
    match kind.as_str() {
        "installation-disk-speed-check" => {
            step["args"][0] = change(&step["args"][0], &|request| request["path"] = device.into());
        }
        "install" => {
            step["args"][0] = change(&step["args"][0], &|request| {
                request["boot_device"] = device.into();
                // The recorded host had an image of its own.
                let args = request["installer_args"].as_str().unwrap();
                let mut args: Vec<Value> = serde_json::from_str(args).unwrap();
                args.extend([json!("--image-file"), json!(image)]);
                request["installer_args"] = json!(args).to_string().into();
            });
        }
        _ => {}
    }
    assert!(!step.to_string().contains("/dev/vda"), "{step}");
    step
}

/// A root of the agent's own for what a bootstrap host does to its live system: this machine's below, and in memory what is
/// changed. Names of the internet are asked for of a server that is not there, which is known at once. In the place of systemd
/// there is a stand-in, whose bootkube makes at once what the real one makes in half an hour.
const LIVE_SYSTEM: &str = r#"
scratch=$1 binary=$2; shift 2
mount -t tmpfs scratch "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
root=$scratch/root
mount -t overlay live -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
for dir in /proc /sys /dev /tmp "$(dirname "$binary")"; do
    mkdir -p "$root$dir"
    mount --rbind "$dir" "$root$dir"
done
mount -t tmpfs run "$root/run"
rm -f "$root/etc/resolv.conf"
echo nameserver 127.0.0.1 >"$root/etc/resolv.conf"
cat >"$root/usr/bin/systemctl" <<'END'
#!/bin/sh
echo "systemctl $*" >>/tmp/CALLS
case "$*" in
"start bootkube.service")
    echo '{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/made-by-bootkube"}]}}' >/opt/openshift/master.ign
    : >/opt/openshift/.bootkube.done ;;
esac
END
printf '#!/bin/sh
exit 1
' >"$root/usr/bin/oc"
rm -f "$root/usr/bin/hostnamectl"
printf '#!/bin/sh
echo "hostnamectl $*" >>/tmp/CALLS
' >"$root/usr/bin/hostnamectl"
chmod 755 "$root/usr/bin/systemctl" "$root/usr/bin/hostnamectl" "$root/usr/bin/oc"
exec chroot "$root" "$binary" "$@"
"#;

fn start_agent(binary: &str, url: &str, first: &Exchange, directory: &Path, scratch: &Path) -> Running {
    let ids = first.asked();
    let infra_env = first.path.split('/').nth(3).unwrap();
    // Below /tmp, which is the same inside and outside.
    let calls = calls(scratch);
    let script = LIVE_SYSTEM.replace("/tmp/CALLS", &calls.display().to_string());
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", &script, "sh"]);
    command.arg(scratch).arg(binary);
    command.args(["agent", "--url", url, "--infra-env-id", infra_env, "--no-reboot"]);
    command.args(["--host-id", ids["host_id"].as_str().unwrap()]);
    command.args(["--agent-version", ids["discovery_agent_version"].as_str().unwrap()]);
    command.args(["--interval", "1", "--refused-interval", "1"]).arg("--state-dir").arg(directory);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "LANDFALL_LOG"] {
        command.env_remove(name);
    }
    Running(command.env("PULL_SECRET_TOKEN", "dummy").stdin(Stdio::null()).spawn().unwrap())
}

/// Where the stand-in for systemd notes what it is asked.
fn calls(scratch: &Path) -> PathBuf {
    scratch.with_extension("calls")
}

/// What a request of the installation is, in a word: percentages are one, since they come as the disk is fast.
fn word(method: &str, path: &str, body: &Value) -> String {
    let end = path.rsplit('/').next().unwrap();
    match (&body["current_stage"], &body["progress_info"], &body["logs_state"]) {
        (Value::String(stage), Value::String(info), _) if info.ends_with('%') => format!("{stage} …%"),
        (Value::String(stage), Value::String(info), _) => format!("{stage}, {info}"),
        (Value::String(stage), ..) => stage.clone(),
        (_, _, Value::String(state)) => format!("logs {state}"),
        _ => format!("{method} {end}"),
    }
}

/// The requests of the installation, from its first report to its reply.
fn installation<'a>(requests: impl Iterator<Item = (&'a str, &'a str, &'a Value)>) -> Vec<String> {
    let polls = |method: &str, path: &str| path.ends_with("/instructions") && method == "GET";
    let mut words: Vec<String> = requests
        .filter(|(method, path, body)| {
            !polls(method, path) && body["step_type"].as_str().is_none_or(|kind| kind == "install")
        })
        .map(|(method, path, body)| word(method, path, body))
        .skip_while(|word| !word.starts_with("Starting installation"))
        .collect();
    let end = words.iter().position(|word| word == "POST instructions").unwrap();
    words.truncate(end + 1);
    words.dedup();
    words
}

/// A time server's client, which the recorded host had. It leaves the clock alone.
fn chronyd(packages: &Path, host: &Host, directory: &Path) -> Server {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o750)).unwrap();
    let here = directory.display();
    let own = "bindcmdaddress 127.0.0.1\nuser root\nserver 192.168.131.1\n";
    fs::write(directory.join("conf"), format!("bindcmdaddress {here}/chronyd.sock\npidfile {here}/pid\n{own}"))
        .unwrap();
    let mut chronyd = command(packages, &host.namespace, "usr/sbin/chronyd");
    chronyd.args(["-x", "-d", "-f"]).arg(directory.join("conf"));
    let mut server = Server::start(chronyd, &directory.join("log"));
    server.await_ready(|| directory.join("chronyd.sock").exists());
    server
}

fn definition(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "inventory" => "inventory",
        "free-network-addresses" => "free_networks_addresses",
        "ntp-synchronizer" => "ntp_synchronization_response",
        "domain-resolution" => "domain_resolution_response",
        "installation-disk-speed-check" => "disk_speed_check_response",
        "container-image-availability" => "container_image_availability_response",
        "connectivity-check" => "connectivity-report",
        "verify-vips" => "verify_vips_response",
        _ => return None,
    })
}

#[test]
fn our_agent_in_the_place_of_the_real_one() {
    let Some(wire) = wire() else { return };
    if skipped() {
        return;
    }
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    let sno = exchanges(&wire.join("sno-install"));
    let errors = exchanges(&wire.join("errors"));
    let steps = wire.join("steps");

    let image = Image::new(512);
    let disk = LoopDisk::in_memory(64 * MIB, 512);
    let (raw, device) = (image.packed(None), disk.path().display().to_string());
    let directory = tempfile::tempdir().unwrap();
    let scratch = tempfile::Builder::new().prefix("landfall-replay-").tempdir_in("/tmp").unwrap();

    let polls = sno.iter().filter(|exchange| exchange.is("GET", "/instructions"));
    let mut batches: Vec<Vec<Value>> = polls.map(Exchange::instructions).filter(|batch| !batch.is_empty()).collect();
    // Those types that a single node is never sent.
    batches.push(
        ["connectivity-check", "verify-vips"]
            .iter()
            .flat_map(|kind| {
                let recorded = recorded(steps.join(format!("step-{kind}.json")));
                let all = recorded["instructions"].as_array().unwrap().clone();
                all.into_iter().filter(move |step| step["step_type"] == *kind)
            })
            .collect(),
    );
    let stop = errors.iter().find(|exchange| exchange.raw.to_string().contains("stop-installation-")).unwrap();
    batches.push(stop.instructions());
    // Replies that are refused as real ones were.
    let mut refusals = BTreeMap::new();
    for (n, exchange) in errors.iter().filter(|e| e.is("POST", "/instructions") && e.status() >= 400).enumerate() {
        let id = format!("domain-resolution-{n:08x}");
        let domains = json!({"domains": [{"domain_name": format!("n{n}.example.com")}]}).to_string();
        batches.push(vec![json!({"step_type": "domain-resolution", "step_id": id, "args": [domains]})]);
        refusals.insert(id, (exchange.status(), exchange.raw["response"]["body"].clone()));
    }
    let refused = |path_end: &str| -> Vec<(u16, Value)> {
        let method = if path_end == "/hosts" { "POST" } else { "GET" };
        let all = errors.iter().filter(|e| e.is(method, path_end) && e.status() >= 400);
        all.map(|e| (e.status(), e.raw["response"]["body"].clone())).collect()
    };
    let mut script = Script {
        batches: batches
            .into_iter()
            .map(|batch| batch.into_iter().map(|step| rewritten(step, &device, &raw)).collect())
            .collect(),
        open: BTreeSet::new(),
        answered: BTreeSet::new(),
        refusals,
        polls: refused("/instructions"),
        registrations: Vec::new(),
    };
    let replies = sno.iter().filter_map(|exchange| exchange.asked()["step_id"].as_str());
    let silent: BTreeSet<&str> = {
        let sent = sno.iter().flat_map(|exchange| exchange.raw["response"]["body"]["instructions"].as_array());
        let sent = sent.flatten().filter_map(|step| step["step_id"].as_str()).collect::<BTreeSet<_>>();
        sent.difference(&replies.collect()).copied().collect()
    };
    let all = script.batches.iter().flatten().filter(|step| !silent.contains(step["step_id"].as_str().unwrap()));
    let handed_out: Vec<Value> = all.cloned().collect();
    script.answered = handed_out.iter().map(|step| step["step_id"].as_str().unwrap().to_owned()).collect();
    let all_errors = script.polls.len() + script.refusals.len() + refused("/hosts").len();
    let registrations = refused("/hosts");
    let script = Arc::new(Mutex::new(script));

    let agent = segment.host("agent", "52:54:00:aa:bb:0e", &["192.168.131.14/24"]);
    let server = segment.host("service", "52:54:00:aa:bb:01", &["192.168.131.1/24"]);
    let chrony = tempfile::tempdir().unwrap();
    let _chronyd = chronyd(&packages, &agent, chrony.path());
    let ignition: Arc<Vec<(String, Value)>> = Arc::new(
        sno.iter()
            .filter(|exchange| exchange.path.contains("/downloads/"))
            .map(|exchange| (exchange.path.clone(), exchange.raw["response"]["body"].clone()))
            .collect(),
    );
    let registered = sno[0].answered().clone();
    // A host that registers again has no status at first.
    let mut again = registered.clone();
    (again["status"], again["status_info"]) = (Value::Null, Value::Null);
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    let requests: Vec<Request> = server.namespace.enter(|| {
        let listener = TcpListener::bind("192.168.131.1:0").unwrap();
        let shared = script.clone();
        let service = FakeService::on(listener, move |request| {
            let mut script = shared.lock().unwrap();
            match (request.method.as_str(), request.path.as_str()) {
                ("POST", path) if path.ends_with("/hosts") => match script.registrations.pop() {
                    Some((status, body)) => Answer::Json(status, body),
                    None => match count.fetch_add(1, Ordering::Relaxed) {
                        0 => Answer::Json(201, registered.clone()),
                        _ => Answer::Json(201, again.clone()),
                    },
                },
                ("GET", path) if path.ends_with("/instructions") => script.next(),
                ("POST", path) if path.ends_with("/instructions") => {
                    let id = request.body["step_id"].as_str().unwrap();
                    script.open.remove(id);
                    match script.refusals.remove(id) {
                        Some((status, body)) => Answer::Json(status, body),
                        None => Answer::Done,
                    }
                }
                ("PUT", _) => Answer::Done,
                ("POST", path) if path.ends_with("/logs") => Answer::Done,
                (_, path) => match ignition.iter().find(|(known, _)| known == path) {
                    Some((_, config)) => Answer::Json(200, config.clone()),
                    None => Answer::Status(404),
                },
            }
        });
        let _agent = agent.namespace.enter(|| {
            start_agent(env!("CARGO_BIN_EXE_landfall"), &service.url, &sno[0], directory.path(), scratch.path())
        });
        let is_reply = |request: &&Request| request.ends_with("POST", "/instructions");
        service
            .wait_for("a reply to each step", |requests| requests.iter().filter(is_reply).count() >= handed_out.len());
        // Then the service has no more of this host, nor of what it belongs to, and at last it has.
        script.lock().unwrap().registrations = registrations;
        let idle = |requests: &[Request]| {
            let script = script.lock().unwrap();
            let registered = requests.iter().rposition(|request| request.ends_with("POST", "/hosts")).unwrap();
            script.polls.is_empty()
                && script.registrations.is_empty()
                && requests[registered..].iter().filter(|request| request.ends_with("GET", "/instructions")).count() > 1
        };
        service.wait_for("polls after every refusal", idle)
    });

    assert_eq!(taken.load(Ordering::Relaxed), 2, "an agent that can't read a registration registers once more");
    let mut compared = BTreeMap::<String, usize>::new();
    let mut faults = BTreeSet::new();
    for request in &requests {
        let kind = request.body["step_type"].as_str().unwrap_or_default();
        let what = format!("{} {} {kind}", request.method, request.path.rsplit('/').next().unwrap());
        let found = compare::faults(request, &sno).unwrap_or_else(|| {
            // Replies that only other recordings have; their form is the same.
            let other = ["connectivity-check", "verify-vips", "stop-installation", "domain-resolution"].contains(&kind);
            assert!(other, "the real agent never asked this: {request:?}");
            compare::only_header_faults(request, &sno)
        });
        faults.extend(found.into_iter().map(|fault| format!("{what}: {fault}")));
        *compared.entry(what).or_default() += 1;
    }
    for (what, count) in &compared {
        println!("{count:4} as recorded: {what}");
    }
    assert!(faults.is_empty(), "not as recorded:\n{}", faults.into_iter().collect::<Vec<_>>().join("\n"));
    let replies: BTreeMap<&str, &Value> = requests
        .iter()
        .filter(|request| request.ends_with("POST", "/instructions"))
        .map(|request| (request.body["step_id"].as_str().unwrap(), &request.body))
        .collect();
    for step in &handed_out {
        let reply = replies[step["step_id"].as_str().unwrap()];
        assert_fits("step-reply", reply);
        let kind = step["step_type"].as_str().unwrap();
        assert_eq!(reply["step_type"], *kind);
        let expected = if kind == "container-image-availability" { json!(2) } else { Value::Null };
        assert_eq!(reply.get("exit_code").unwrap_or(&Value::Null), &expected, "{reply}");
        if let Some(definition) = definition(kind) {
            let text = reply["output"].as_str().unwrap_or_else(|| panic!("{reply}"));
            let output: Value = serde_json::from_str(text).unwrap();
            assert_fits(definition, &output);
        }
        println!(
            "{:40} exit_code {}",
            step["step_id"].as_str().unwrap(),
            reply.get("exit_code").unwrap_or(&Value::Null)
        );
    }
    let speed = replies.values().find(|reply| reply["step_type"] == "installation-disk-speed-check").unwrap();
    assert!(speed["output"].as_str().unwrap().contains(&device), "{speed}");
    assert_eq!(disk.partitions(), [1, 2, 3, 4], "the installation was a real one");
    let theirs = installation(sno.iter().map(|e| (e.method.as_str(), e.path.as_str(), e.asked())));
    let ours = installation(requests.iter().map(|r| (r.method.as_str(), r.path.as_str(), &r.body)));
    println!("the installation, as recorded:\n  {}", ours.join("\n  "));
    assert_eq!(ours, theirs);
    let calls = fs::read_to_string(calls(scratch.path())).unwrap();
    fs::remove_file(self::calls(scratch.path())).unwrap();
    assert_eq!(
        calls.lines().collect::<Vec<_>>(),
        [
            "systemctl daemon-reload",
            "systemctl start bootkube.service",
            "systemctl start approve-csr.service",
            "systemctl start progress.service",
            "systemctl list-units --no-legend ironic-agent.service",
        ]
    );
    println!("{} requests, {} steps, {all_errors} recorded errors", requests.len(), handed_out.len());
}
