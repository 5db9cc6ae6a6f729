//! A fleet of simulated agents at the service: how fast it answers, what it takes, and that what it acknowledged survives its
//! being killed at any moment.
//!
//! By default a small fleet for some seconds. For the whole:
//! `LANDFALL_LOAD_AGENTS=2000 LANDFALL_LOAD_SECONDS=600 LANDFALL_LOAD_EVENTS=100000 LANDFALL_LOAD_KILLS=100`, and
//! LANDFALL_LOAD_POLL_INTERVAL for how often an agent polls; LANDFALL_BIN is the program that serves, by default this one.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod agent;
mod backup;
mod burden;
mod http;
mod measure;
use crate::server;

use agent::{Fleet, HOSTS_PER_CLUSTER};
use http::Connection;
use measure::Latencies;
use serde_json::{Value, json};
use server::Served;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use testkit::port::Held;

const API: &str = "/api/assisted-install";

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(format!("LANDFALL_LOAD_{name}")).ok().filter(|value| !value.is_empty());
    value.map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("LANDFALL_LOAD_{name} is a number")))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_fleet_is_answered() {
    let agents = usize::try_from(number("AGENTS", 100)).unwrap();
    let (seconds, interval) = (number("SECONDS", 6), number("POLL_INTERVAL", 2));
    let state = tempfile::tempdir().unwrap();
    let served = Served::start(state.path(), 0, interval);
    runtime().block_on(async {
        let fleet = Arc::new(Fleet::create(&served.address, agents, interval).await);
        let latencies = Arc::new(Latencies::default());
        let before = served.usage();
        let began = Instant::now();
        let end = began + Duration::from_secs(seconds);
        fleet.run(&latencies, end).await;
        let after = served.usage();
        println!(
            "{agents} agents in {} clusters polling every {interval} s, for {:.0} s; bodies: inventory {} KiB, connectivity of {} hosts up to {} KiB",
            agents.div_ceil(HOSTS_PER_CLUSTER),
            began.elapsed().as_secs_f64(),
            latencies.largest("inventory") >> 10,
            HOSTS_PER_CLUSTER.min(agents),
            latencies.largest("connectivity-check") >> 10,
        );
        println!("{latencies}");
        println!("{}", after.since(&before, began.elapsed()));
        println!("store {} MiB", server::size(state.path()) >> 20);
        assert_eq!(latencies.failures(), Vec::<String>::new());
        assert!(latencies.count("poll") >= agents, "every agent polls");
        assert!(latencies.count("inventory") >= agents, "every agent sends its inventory");
        let known = fleet.count_known(&served.address).await;
        println!("{known} hosts of {agents} known");
        assert!(seconds < 60 || known == agents, "{known} hosts of {agents} are known");
        events(&served, number("EVENTS", 2000)).await;
    });
}

/// Many events, told at once and listed by page.
async fn events(served: &Served, count: u64) {
    const TELLERS: u64 = 64;
    const PAGE: u64 = 1000;
    let mut connection = Connection::open(&served.address).await;
    let cluster = agent::create_cluster(&mut connection, "events").await;
    let began = Instant::now();
    let tellers: Vec<_> = (0..TELLERS)
        .map(|teller| {
            let (address, cluster) = (served.address.clone(), cluster.clone());
            tokio::spawn(async move {
                let mut connection = Connection::open(&address).await;
                for number in (teller..count).step_by(usize::try_from(TELLERS).unwrap()) {
                    let event = json!({"cluster_id": cluster, "severity": "info", "category": "user",
                        "name": "reboots_for_node", "message": format!("event {number}"), "event_time": "2026-01-01T00:00:00.000Z"});
                    let answer = connection.json("POST", &format!("{API}/v2/events"), &event).await.unwrap();
                    assert_eq!(answer.status, 201);
                }
            })
        })
        .collect();
    for teller in tellers {
        teller.await.unwrap();
    }
    let told = began.elapsed();
    println!(
        "{count} events told by {TELLERS} connections in {:.1} s, {:.0} a second",
        told.as_secs_f64(),
        count as f64 / told.as_secs_f64()
    );
    let latencies = Latencies::default();
    let mut seen = vec![false; usize::try_from(count).unwrap()];
    let mut total = 0;
    for offset in (0..count).step_by(usize::try_from(PAGE).unwrap()) {
        let path = format!("{API}/v2/events?cluster_id={cluster}&message=event&limit={PAGE}&offset={offset}");
        let plain = path.replace("&message=event", "");
        for (kind, path) in
            [("page", &plain), ("page, with text", &path)].into_iter().take(if offset % 20_000 == 0 { 2 } else { 1 })
        {
            let began = Instant::now();
            let answer = connection.send("GET", path, b"").await.unwrap();
            latencies.note(kind, began.elapsed(), answer.status, answer.body.len());
            if kind == "page" {
                total = answer.header("event-count").unwrap().parse().unwrap();
                let list: Vec<Value> = serde_json::from_slice(&answer.body).unwrap();
                for event in list {
                    let Some(number) = event["message"].as_str().unwrap().strip_prefix("event ") else { continue };
                    let place = &mut seen[number.parse::<usize>().unwrap()];
                    assert!(!std::mem::replace(place, true), "event {number} is on two pages");
                }
            }
        }
    }
    println!("{latencies}");
    // The cluster's own first ones are among them.
    let missing = seen.iter().filter(|seen| !**seen).count();
    println!("Event-Count {total}, {missing} not on the first {} pages", count.div_ceil(PAGE));
    assert!(total >= count && missing <= 3, "{missing} of {count} are on no page, of {total}");
}

#[test]
fn every_acknowledged_write_is_there_after_a_kill() {
    let agents = usize::try_from(number("AGENTS", 60)).unwrap();
    let (kills, interval) = (number("KILLS", 3), number("POLL_INTERVAL", 1).min(5));
    let state = tempfile::tempdir().unwrap();
    // Nobody else has it between two lives of the service.
    let port = Held::default();
    let mut served = Served::start(state.path(), port.port(), interval);
    let mut random = fastrand::Rng::with_seed(testkit::seed::of_run());
    let runtime = runtime();
    let fleet = Arc::new(runtime.block_on(Fleet::create(&served.address, agents, interval)));
    let (mut lost, mut looked_at) = (Vec::new(), 0);
    let began = Instant::now();
    for kill in 1..=kills {
        let latencies = Arc::new(Latencies::default());
        let pause = Duration::from_millis(random.u64(300..2500));
        runtime.block_on(async {
            let running = tokio::spawn({
                let (fleet, latencies) = (fleet.clone(), latencies.clone());
                async move { fleet.run_until_lost(&latencies).await }
            });
            while latencies.total() == 0 && !running.is_finished() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(pause).await;
            served.kill();
            running.await.unwrap();
        });
        served = Served::start(state.path(), port.port(), interval);
        let everything = kill == kills;
        let (checked, missing) = runtime.block_on(fleet.verify(&served.address, everything, &mut random));
        looked_at += checked;
        println!(
            "kill {kill:3}: after {:4.1} s, {} answers; {checked} acknowledged writes looked at, {} lost",
            pause.as_secs_f64(),
            latencies.total(),
            missing.len()
        );
        lost.extend(missing);
        assert!(latencies.total() > 0, "it was killed under load");
    }
    println!(
        "{kills} kills in {:.0} s: {looked_at} acknowledged writes looked at, {} lost",
        began.elapsed().as_secs_f64(),
        lost.len()
    );
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn one_state_directory_serves_one_service_and_a_signal_ends_it() {
    let state = tempfile::tempdir().unwrap();
    let mut served = Served::start(state.path(), 0, 60);
    let second = server::command(state.path(), 0, 60).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned() + &String::from_utf8_lossy(&second.stdout);
    assert!(!second.status.success() && said.contains("in use by another process"), "{said}");
    assert!(served.terminate().success(), "it ends well");
}
