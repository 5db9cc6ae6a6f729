use super::{
    Places, Settings, Wanted, archive,
    item::{Item, Source},
    send,
    upload::ArchiveReader,
};
use api::{ClientConfig, HostId, Secret};
use fake_service::{Answer, FakeService, Request};
use flate2::read::GzDecoder;
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};
use tempfile::TempDir;

const HOST: &str = "d3d368a5-914d-a95a-3644-9dfb4eb0903b";
const CLUSTER: &str = "7d9e2c44-1b7f-4d57-b8a5-0c9b6f3f9a20";
const INFRA_ENV: &str = "3f1c7a52-8a1e-4a0e-9a0a-5d2a3a8f6b11";

/// Refuses the requests with these statuses, by their number.
fn server(refused: &'static [(usize, u16)]) -> FakeService {
    let count = AtomicUsize::new(0);
    FakeService::start(move |_| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let refusal = refused.iter().find(|(own, _)| *own == number);
        refusal.map_or(Answer::Done, |(_, status)| Answer::Status(*status))
    })
}

/// Places that hold nothing of this machine's.
fn places(directory: &TempDir) -> Places {
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("log")).unwrap();
    fs::create_dir_all(at("cores")).unwrap();
    fs::create_dir_all(at("root/dev/disk/by-id")).unwrap();
    fs::create_dir_all(at("root/dev/disk/by-path")).unwrap();
    fs::write(at("kmsg"), "").unwrap();
    fs::write(at("cores/core.etcd.0.boot.77.1"), "core of etcd").unwrap();
    Places {
        var_log: at("log"),
        journals: vec![at("journal")],
        cores: at("cores"),
        kmsg: at("kmsg"),
        root: at("root"),
        reserve_bytes: 0,
        max_archive_bytes: super::MAX_ARCHIVE_BYTES,
    }
}

fn settings(url: &str, places: Places, installer_gather: bool) -> Settings {
    Settings {
        client: ClientConfig { url: url.to_owned(), token: Secret::new("t0ken"), ..ClientConfig::default() },
        cluster_id: CLUSTER.parse().unwrap(),
        infra_env_id: Some(INFRA_ENV.parse().unwrap()),
        wanted: Wanted {
            host_id: HOST.parse::<HostId>().unwrap(),
            since: String::new(),
            bootstrap: false,
            installer_gather,
            masters: Vec::new(),
        },
        keep: false,
        places,
    }
}

/// What is in an archive, by name.
fn unpack(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut tar = tar::Archive::new(GzDecoder::new(archive));
    let file = |entry: std::io::Result<tar::Entry<GzDecoder<&[u8]>>>| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (entry.path().unwrap().display().to_string(), bytes)
    };
    tar.entries().unwrap().map(file).collect()
}

/// The part of a multipart body.
fn part(request: &Request) -> &[u8] {
    let boundary = request.header("Content-Type").unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
    let start = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"upfile\"; filename=\"logs.tar.gz\"\r\nContent-Type: \
         application/x-gzip\r\n\r\n"
    );
    let body = request.bytes.strip_prefix(start.as_bytes()).expect("the part's head");
    body.strip_suffix(format!("\r\n--{boundary}--\r\n").as_bytes()).expect("the part's end")
}

#[test]
fn the_service_gets_progress_and_the_archive_also_at_the_second_attempt() {
    let directory = TempDir::new().unwrap();
    let server = server(&[(2, 503)]);
    let report = send::send(&settings(&server.url, places(&directory), true)).unwrap();
    let requests = server.requests();
    let lines: Vec<_> = requests.iter().map(|request| format!("{} {}", request.method, request.target())).collect();
    let progress = format!("PUT /v2/infra-envs/{INFRA_ENV}/hosts/{HOST}/logs-progress");
    let upload = format!("POST /v2/clusters/{CLUSTER}/logs?host_id={HOST}&infra_env_id={INFRA_ENV}&logs_type=host");
    assert_eq!(lines.iter().collect::<Vec<_>>(), [&progress, &progress, &upload, &upload, &progress]);
    let states = [0, 1, 4].map(|index| String::from_utf8_lossy(&requests[index].bytes).into_owned());
    assert_eq!(states, ["requested", "collecting", "completed"].map(|state| format!("{{\"logs_state\":\"{state}\"}}")));
    let files = unpack(part(&requests[3]));
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    let expected =
        ["", "agent.logs", "coredump_exe_etcd_pid_77", "dmesg.logs", "installer.logs", "journal.logs", "mount.logs"];
    assert_eq!(names, expected.map(|name| format!("logs_host_{HOST}/{name}")));
    assert_eq!(files[&format!("logs_host_{HOST}/coredump_exe_etcd_pid_77")], b"core of etcd");
    let mounts = String::from_utf8_lossy(&files[&format!("logs_host_{HOST}/mount.logs")]).into_owned();
    for title in
        ["List block devices", "List mounts", "Disk mapping by id", "Disk mapping by path", "Running lvdisplay"]
    {
        assert!(mounts.contains(&format!("{title}\n/")), "{mounts}");
    }
    assert_eq!(report, "");
    assert_eq!(fs::read_dir(directory.path().join("log")).unwrap().count(), 0, "something was left behind");
}

#[test]
fn without_room_on_disk_all_is_sent_nevertheless() {
    let directory = TempDir::new().unwrap();
    let server = server(&[]);
    let places = Places { reserve_bytes: u64::MAX, ..places(&directory) };
    send::send(&settings(&server.url, places, true)).unwrap();
    let requests = server.requests();
    assert_eq!((requests.len(), unpack(part(&requests[2])).len()), (4, 7));
}

#[test]
fn what_can_t_be_gathered_is_reported_and_what_the_service_refuses_is_an_error() {
    let directory = TempDir::new().unwrap();
    let server = server(&[(0, 404), (1, 404), (2, 404)]);
    let mut places = places(&directory);
    places.kmsg = directory.path().join("none");
    fs::remove_dir(directory.path().join("root/dev/disk/by-path")).unwrap();
    let settings = Settings { keep: true, ..settings(&server.url, places, true) };
    let error = send::send(&settings).unwrap_err();
    assert_eq!(server.requests().len(), 3);
    assert!(matches!(error, super::LogsError::Send(_)), "{error:?}");
    // Kept, as asked.
    let report = fs::read_to_string(directory.path().join(format!("log/logs_host_{HOST}/report.logs"))).unwrap();
    assert!(report.starts_with("2 errors occurred:\n\t* /dev/disk/by-path: no such directory\n"), "{report}");
    assert_eq!(unpack(&fs::read(directory.path().join("log/logs.tar.gz")).unwrap()).len(), 7);
}

#[test]
fn of_what_is_too_much_the_oldest_lines_go_and_whole_crashes() {
    let noise = |seed: u64, len: usize| {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..len).map(|_| random.alphanumeric()).collect::<String>()
    };
    let mut core = Item::text("coredump_exe_x_pid_1", noise(1, 400_000));
    core.source = Source::Text(noise(1, 400_000).into());
    let journal = noise(2, 300_000);
    let mut items = vec![Item::text("mount.logs", "small"), Item::text("journal.logs", journal.clone()), core];
    let cuts = archive::fit("d", &mut items, 100_000).unwrap();
    assert!(cuts[0].starts_with("coredump_exe_x_pid_1 was left out (400000 bytes): "), "{cuts:?}");
    assert!(cuts[1].starts_with("journal.logs: left out the first "), "{cuts:?}");
    let mut packed = Vec::new();
    archive::write("d", &items, &mut packed).unwrap();
    assert!((50_000..=100_000).contains(&packed.len()), "{} bytes", packed.len());
    let files = unpack(&packed);
    let left = &files["d/journal.logs"];
    assert!(left.len() > 50_000 && journal.as_bytes().ends_with(left));
    assert_eq!(files["d/mount.logs"], b"small");
}

#[test]
fn an_archive_that_can_t_be_finished_does_not_look_finished() {
    let gone = Item { name: "a".into(), source: Source::File(PathBuf::from("/nonexistent/a")), len: 5, skip: 0 };
    let mut reader = ArchiveReader::start("d".into(), vec![Item::text("b", "b"), gone]).unwrap();
    let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn an_item_keeps_its_announced_length_whatever_becomes_of_it() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("f");
    fs::write(&path, "12").unwrap();
    let item = |len| Item { name: "f".into(), source: Source::File(Path::new(&path).to_owned()), len, skip: 0 };
    let written = |item: Item| {
        let mut bytes = Vec::new();
        item.write(&mut bytes).unwrap();
        bytes
    };
    assert_eq!((written(item(1)), written(item(4))), (b"1".to_vec(), b"12\0\0".to_vec()));
}
