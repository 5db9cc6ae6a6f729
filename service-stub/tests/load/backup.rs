//! Backups of a service that works, killed at any moment.

use super::{Connection, agent, runtime, server::Served};
use service_stub::store::backup;
use std::{
    fs,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

/// Not a test by itself: a backup as a process that can be killed.
#[test]
fn back_up_if_asked() {
    let Some(arguments) = std::env::var_os(BACKUP) else { return };
    let arguments = arguments.into_string().unwrap();
    let (state, file) = arguments.split_once('\n').unwrap();
    println!("{}", backup::back_up(Path::new(state), Path::new(file)).unwrap());
}

const BACKUP: &str = "LANDFALL_TEST_BACKUP";

fn start(state: &Path, file: &Path) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["backup::back_up_if_asked", "--exact", "--nocapture"])
        .env(BACKUP, format!("{}\n{}", state.display(), file.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_backup_is_whole_or_not_there_whoever_is_killed() {
    let scratch = tempfile::tempdir().unwrap();
    let state = scratch.path().join("state");
    let file = scratch.path().join("rack.backup");
    let mut served = Served::start(&state, 0, 60);
    let mut random = fastrand::Rng::with_seed(7);
    let runtime = runtime();
    let write = |served: &Served, name: String| {
        runtime.block_on(async {
            let mut connection = Connection::open(&served.address).await;
            agent::create_cluster(&mut connection, &name).await
        })
    };
    let (mut acknowledged, mut whole, mut killed) = (Vec::new(), 0, 0);
    // Of the last backup that nobody disturbed: the others are killed within it.
    let mut took = Duration::ZERO;
    for round in 0..24 {
        acknowledged.push(write(&served, format!("rack-{round}")));
        let before = acknowledged.clone();
        let started = Instant::now();
        let mut client = start(&state, &file);
        // Changes go on while it runs, but where they would outlast it.
        if round % 2 == 0 {
            acknowledged.push(write(&served, format!("rack-{round}-meanwhile")));
        } else {
            thread::sleep(took.mul_f64(random.f64()));
        }
        let kills_service = round % 4 == 3;
        match round % 4 {
            0 => {}
            3 => served.kill(),
            _ => drop(client.kill()),
        }
        let ended = client.wait().unwrap();
        if round % 4 == 0 {
            took = started.elapsed();
        }
        if ended.success() {
            whole += 1;
        } else {
            killed += 1;
        }
        assert!(ended.success() || round % 4 != 0, "a backup that nobody disturbs is made");
        // The last whole one is there, or nothing: never a part.
        if file.exists() {
            let checked = backup::check(&file, None).unwrap();
            assert_eq!(checked.damage, Vec::<String>::new());
        }
        if ended.success() {
            let restored = scratch.path().join(format!("restored-{round}"));
            backup::restore(&restored, &file, false).unwrap();
            let store = service_stub::store::Store::open(&restored).unwrap();
            let model = store.model();
            for id in &before {
                let id: api::ClusterId = id.parse().unwrap();
                assert!(
                    model.clusters.contains_key(&id),
                    "round {round}: {id} was acknowledged before the backup began"
                );
            }
            assert!(store.damage().is_empty());
        }
        if kills_service {
            let port = served.port();
            served = Served::start(&state, port, 60);
        }
    }
    println!("24 backups: {whole} whole, {killed} killed; {} clusters", acknowledged.len());
    assert!(whole >= 6 && killed >= 1);
    // The running service is checked as well, and one that has records is not written over.
    let checked = backup::check(&state, None).unwrap();
    assert!(checked.damage.is_empty() && checked.counts.records >= 36, "{checked:?}");
    let refused = backup::restore(&state, &file, false).unwrap_err().to_string();
    assert!(refused.contains("--replace"), "{refused}");
    let used = backup::restore(&state, &file, true).unwrap_err().to_string();
    assert!(used.contains("in use by another process"), "{used}");
    let cut = fs::read(&file).unwrap();
    for len in [0, 10, cut.len() / 2, cut.len() - 1] {
        let path = scratch.path().join("cut");
        fs::write(&path, &cut[..len]).unwrap();
        let refused = backup::restore(&scratch.path().join("from-cut"), &path, false).unwrap_err().to_string();
        assert!(refused.contains("not a complete backup"), "{refused}");
        assert!(!scratch.path().join("from-cut").exists(), "nothing is written");
    }
    let mut flipped = cut.clone();
    flipped[cut.len() / 2] ^= 1;
    fs::write(scratch.path().join("flipped"), &flipped).unwrap();
    let refused = backup::restore(&scratch.path().join("from-flipped"), &scratch.path().join("flipped"), false);
    assert!(refused.is_err());
}
