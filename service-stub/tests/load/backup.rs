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
use testkit::port::Held;
use testkit::process::own_test;

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
        .args(["--exact", &own_test(module_path!(), "back_up_if_asked"), "--nocapture"])
        .env(BACKUP, format!("{}\n{}", state.display(), file.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A run of a certification, with what a host sent: names in the state directory and contents.
fn certification(state: &Path) -> Vec<(String, Vec<u8>)> {
    let id = uuid::Uuid::new_v4();
    let files = vec![
        (format!("certify/{id}/0/capture.tar.gz"), vec![0x1f; 3 << 20]),
        (format!("certify/{id}/0/report.json"), b"{}".to_vec()),
        (format!("certify/{id}.json"), b"{\"a\":1}".to_vec()),
    ];
    for (name, content) in &files {
        let path = state.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    // What a killed service leaves of a write, and what is no file of ours.
    fs::write(state.join(format!("certify/{id}/0/burnin.json.new")), "").unwrap();
    fs::write(state.join("certify/notes.txt"), "").unwrap();
    files
}

#[test]
fn a_backup_without_runs_is_restored_and_one_with_a_foreign_name_is_not() {
    let scratch = tempfile::tempdir().unwrap();
    let (state, file) = (scratch.path().join("state"), scratch.path().join("rack.backup"));
    drop(service_stub::store::Store::open(&state).unwrap());
    backup::back_up(&state, &file).unwrap();
    let before = backup::restore(&scratch.path().join("old"), &file, false).unwrap();
    let run = certification(&state);
    let counts = backup::back_up(&state, &file).unwrap();
    assert_eq!(counts.files, before.files + 3);
    let restored = scratch.path().join("new");
    assert_eq!(backup::restore(&restored, &file, false).unwrap(), counts);
    assert!(!restored.join("certify/notes.txt").exists());

    // A run that is there already is not written over, but renamed if that is asked for.
    let (name, content) = &run[2];
    fs::write(restored.join(name), "{}").unwrap();
    fs::remove_file(restored.join("state.redb")).unwrap();
    let refused = backup::restore(&restored, &file, false).unwrap_err().to_string();
    assert!(refused.contains(name) && refused.contains("--replace"), "{refused}");
    backup::restore(&restored, &file, true).unwrap();
    assert_eq!(fs::read(restored.join(name)).unwrap(), *content);
    assert_eq!(fs::read(restored.join(format!("{name}.replaced"))).unwrap(), b"{}");

    // A name that leads out of the state directory, a changed byte of a document.
    let bytes = fs::read(&file).unwrap();
    let change = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        let mut changed = bytes.clone();
        changed[at..at + to.len()].copy_from_slice(to);
        let path = scratch.path().join("changed");
        fs::write(&path, changed).unwrap();
        let target = scratch.path().join("from-changed");
        let error = backup::restore(&target, &path, false).unwrap_err().to_string();
        assert!(!target.exists(), "nothing is written");
        error
    };
    assert_eq!(change(b"/0/report.json", b"/../eport.json"), "not a complete backup: a name is impossible");
    let error = change(&[0x1f; 64], &[0x1e]);
    assert_eq!(error, "not a complete backup: its checksum is wrong: it was changed or damaged");
}

#[test]
fn a_backup_is_whole_or_not_there_whoever_is_killed() {
    let scratch = tempfile::tempdir().unwrap();
    let state = scratch.path().join("state");
    let file = scratch.path().join("rack.backup");
    // Nobody else has it between two lives of the service.
    let port = Held::default();
    let mut served = Served::start(&state, port.port(), 60);
    let mut random = fastrand::Rng::with_seed(7);
    let runtime = runtime();
    let write = |served: &Served, name: String| {
        runtime.block_on(async {
            let mut connection = Connection::open(&served.address).await;
            agent::create_cluster(&mut connection, &name).await
        })
    };
    let run = certification(&state);
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
            for (name, content) in &run {
                assert_eq!(fs::read(restored.join(name)).unwrap(), *content, "{name}");
            }
        }
        if kills_service {
            served = Served::start(&state, port.port(), 60);
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
