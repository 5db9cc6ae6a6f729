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

/// Thirty-four manifests that are brackets and nothing else, and thirty replies of 60 MB. What is asserted is memory, disk and the
/// answers; how long agents wait is printed: it says something where the program is optimised and the machine is not at work.
#[test]
fn hostile_manifests_and_huge_replies_take_neither_memory_nor_disk() {
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
        let nested = base64::engine::general_purpose::STANDARD.encode("{a: ".repeat(150_000));
        let reply: Arc<Vec<u8>> = {
            let output = json!({"hostname": "x".repeat(REPLY_BYTES - 100)}).to_string();
            Arc::new(
                json!({"step_type": "inventory", "step_id": "x", "exit_code": 0, "output": output}).to_string().into(),
            )
        };
        let (latencies, over) = (Arc::new(Latencies::default()), Arc::new(AtomicBool::new(false)));
        // In a thread of their own: what the others send must not make them wait for each other.
        let polling = {
            let (address, paths) = (address.clone(), hosts[..POLLERS].to_vec());
            let (latencies, over) = (latencies.clone(), over.clone());
            std::thread::spawn(move || runtime().block_on(poll(address, paths, latencies, over)))
        };
        let manifests: Vec<_> = (0..MANIFESTS)
            .map(|number| {
                let (address, cluster, nested) = (address.clone(), cluster.clone(), nested.clone());
                tokio::spawn(async move {
                    let body =
                        json!({"folder": "manifests", "file_name": format!("m{number}.yaml"), "content": nested});
                    let mut connection = Connection::open(&address).await;
                    let path = format!("{API}/v2/clusters/{cluster}/manifests");
                    let answer = connection.json("POST", &path, &body).await.unwrap();
                    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
                })
            })
            .collect();
        let replies: Vec<_> = hosts
            .iter()
            .take(HOSTS)
            .map(|path| {
                let (address, path, reply) = (address.clone(), path.clone(), reply.clone());
                tokio::spawn(async move {
                    let mut taken = 0;
                    for _ in 0..REPLIES {
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
        for manifest in manifests {
            let (status, body) = manifest.await.unwrap();
            assert!(status == 400 && body.contains("nested too deeply"), "{status} {body}");
        }
        let mut taken = 0;
        for reply in replies {
            taken += reply.await.unwrap();
        }
        over.store(true, Ordering::Relaxed);
        polling.join().unwrap();
        let usage = served.usage();
        let store = server::size(&state);
        println!("{latencies}");
        println!("{MANIFESTS} manifests refused; {taken} of {} replies of 60 MB taken", HOSTS * REPLIES);
        println!("RSS {} MiB, at most {} MiB; store {} MiB", usage.rss_kib >> 10, usage.peak_kib >> 10, store >> 20);
        assert_eq!(latencies.failures(), Vec::<String>::new());
        assert!(usage.peak_kib < 300 << 10, "{} KiB of memory", usage.peak_kib);
        assert!(store < 200 << 20, "{store} bytes of store");
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
