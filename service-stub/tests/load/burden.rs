//! Those who want to stop a service, and agents that poll it meanwhile.

use super::{API, Connection, Latencies, agent, runtime, server, server::Served};
use base64::Engine;
use serde_json::json;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

const MANIFESTS: usize = 34;
const HOSTS: usize = 6;
const REPLIES: usize = 5;
const REPLY_BYTES: usize = 60_000_000;
const POLLERS: usize = 20;

/// Thirty-four manifests that are brackets and nothing else, and thirty replies of 60 MB.
#[test]
fn hostile_manifests_and_huge_replies_take_neither_memory_nor_disk() {
    let reply = reply("inventory", &json!({"hostname": "x".repeat(REPLY_BYTES - 100)}));
    bear(&"{a: ".repeat(150_000), (400, "nested too deeply"), &vec![reply; REPLIES], false);
}

/// The same number of manifests and replies, each as large, as deep and of as many parts as is taken.
#[test]
fn what_is_just_within_the_bounds_takes_neither_memory_nor_disk() {
    let depth = 126;
    let manifest = format!("{}[{}]{}", "{a: ".repeat(depth), "abc,".repeat(260_000), "}".repeat(depth));
    // Each disk gets some 400 bytes that say why it can't be installed to.
    let filler = "x".repeat(12 << 20);
    let inventory = json!({"disks": vec![json!({}); 8000], "boot": {"command_line": filler}});
    let far: Vec<_> = (0..20_000).map(|_| json!({"remote_ip_address": "x".repeat(90), "successful": true})).collect();
    let remote = json!({"host_id": uuid::Uuid::new_v4(), "l3_connectivity": far});
    let text = "x".repeat((1 << 20) - 100);
    let replies = [
        reply("inventory", &inventory),
        reply("connectivity-check", &json!({"remote_hosts": [remote]})),
        reply("ntp-synchronizer", &json!({"ntp_sources": [{"source_name": text}]})),
        reply("domain-resolution", &json!({"resolutions": [{"domain_name": text}]})),
        reply("free-network-addresses", &json!([{"network": text}])),
    ];
    bear(&manifest, (201, ""), &replies, true);
}

fn reply(step: &str, output: &serde_json::Value) -> Arc<Vec<u8>> {
    let output = output.to_string();
    Arc::new(json!({"step_type": step, "step_id": "x", "exit_code": 0, "output": output}).to_string().into())
}

/// What is asserted is memory, disk and the answers; how long agents wait is printed: it says something where the program is
/// optimised and the machine is not at work.
fn bear(manifest: &str, (status, body): (u16, &'static str), replies: &[Arc<Vec<u8>>], are_taken: bool) {
    let scratch = tempfile::tempdir().unwrap();
    let (state, files) = (scratch.path().join("state"), scratch.path().join("files"));
    fs::create_dir(&files).unwrap();
    for name in ["bootstrap.ign", "master.ign", "worker.ign"] {
        fs::write(files.join(name), r#"{"ignition":{"version":"3.2.0"}}"#).unwrap();
    }
    let served = Served::start_with(&state, 0, 60, &[format!("--cluster-files={}", files.display())]);
    let address = served.address.clone();
    runtime().block_on(async {
        let mut connection = Connection::open(&address).await;
        let cluster = agent::create_cluster(&mut connection, "burden").await;
        let pull_secret = json!({"auths": {"quay.io": {"auth": "dXNlcjpwYXNz"}}}).to_string();
        let infra_env = json!({"name": "burden", "pull_secret": pull_secret, "cluster_id": cluster});
        let answer = connection.json("POST", &format!("{API}/v2/infra-envs"), &infra_env).await.unwrap();
        let infra_env = answer.document()["id"].as_str().unwrap().to_owned();
        let mut hosts = Vec::new();
        for _ in 0..HOSTS.max(POLLERS) {
            let id = uuid::Uuid::new_v4();
            let body = json!({"host_id": id, "discovery_agent_version": ""});
            let answer =
                connection.json("POST", &format!("{API}/v2/infra-envs/{infra_env}/hosts"), &body).await.unwrap();
            assert_eq!(answer.status, 201);
            hosts.push(format!("{API}/v2/infra-envs/{infra_env}/hosts/{id}/instructions"));
        }
        // Made before anything is measured: this process has one thread.
        let content = base64::engine::general_purpose::STANDARD.encode(manifest);
        let (latencies, over) = (Arc::new(Latencies::default()), Arc::new(AtomicBool::new(false)));
        // In a thread of their own: what the others send must not make them wait for each other.
        let polling = {
            let (address, paths) = (address.clone(), hosts[..POLLERS].to_vec());
            let (latencies, over) = (latencies.clone(), over.clone());
            std::thread::spawn(move || runtime().block_on(poll(address, paths, latencies, over)))
        };
        let manifests: Vec<_> = (0..MANIFESTS)
            .map(|number| {
                let (address, cluster, content) = (address.clone(), cluster.clone(), content.clone());
                tokio::spawn(async move {
                    let body =
                        json!({"folder": "manifests", "file_name": format!("m{number}.yaml"), "content": content});
                    let mut connection = Connection::open(&address).await;
                    let path = format!("{API}/v2/clusters/{cluster}/manifests");
                    let answer = connection.json("POST", &path, &body).await.unwrap();
                    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
                })
            })
            .collect();
        let sent: Vec<_> = hosts
            .iter()
            .take(HOSTS)
            .map(|path| {
                let (address, path, replies) = (address.clone(), path.clone(), replies.to_vec());
                tokio::spawn(async move {
                    let mut taken = 0;
                    for reply in replies {
                        let mut connection = Connection::open(&address).await;
                        // Refused before all of it is sent, the connection may close under it.
                        if let Ok(answer) = connection.send("POST", &path, &reply).await {
                            taken += usize::from(answer.status == 204);
                        }
                    }
                    taken
                })
            })
            .collect();
        let mut answered = 0;
        for manifest in manifests {
            let (found, answer) = manifest.await.unwrap();
            // What waits too long for its turn is sent away.
            assert!(found == status && answer.contains(body) || are_taken && found == 503, "{found} {answer}");
            answered += usize::from(found == status);
        }
        let mut taken = 0;
        for sent in sent {
            taken += sent.await.unwrap();
        }
        over.store(true, Ordering::Relaxed);
        polling.join().unwrap();
        let usage = served.usage();
        let store = server::size(&state);
        println!("{latencies}");
        let sizes: Vec<_> = replies.iter().map(|reply| reply.len() >> 10).collect();
        println!(
            "{answered} of {MANIFESTS} manifests answered {status}; {taken} of {} replies taken, of {sizes:?} KiB",
            HOSTS * REPLIES
        );
        println!("RSS {} MiB, at most {} MiB; store {} MiB", usage.rss_kib >> 10, usage.peak_kib >> 10, store >> 20);
        assert_eq!(latencies.failures(), Vec::<String>::new());
        assert!(answered > 0 && (taken > 0) == are_taken, "{answered} {taken}");
        // Six hosts keep 100 MiB of texts, and a host's record is written anew for each of its replies.
        let (max_kib, max_store) = if are_taken { (1 << 20, 768 << 20) } else { (300 << 10, 200 << 20) };
        assert!(usage.peak_kib < max_kib, "{} KiB of memory", usage.peak_kib);
        assert!(store < max_store, "{store} bytes of store");
    });
}

/// Polls until it is over, each host every 50 ms.
async fn poll(address: String, paths: Vec<String>, latencies: Arc<Latencies>, over: Arc<AtomicBool>) {
    let pollers: Vec<_> = paths
        .into_iter()
        .map(|path| {
            let (address, latencies, over) = (address.clone(), latencies.clone(), over.clone());
            tokio::spawn(async move {
                let mut connection = Connection::open(&address).await;
                while !over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let answer = connection.send("GET", &path, b"").await.unwrap();
                    latencies.note("poll", began.elapsed(), answer.status, answer.body.len());
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            })
        })
        .collect();
    for poller in pollers {
        poller.await.unwrap();
    }
}
