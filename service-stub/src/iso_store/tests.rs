//! Downloads of OS images from servers that fail, change or lie.

#![allow(clippy::unwrap_used)]
use super::*;
use sha2::{Digest, Sha256};
use std::{io::Write, net::TcpListener, sync::Arc, thread};
use testkit::http::{Request, Server, cut, reply, resumed};
use ureq::http::{HeaderName, HeaderValue};

#[allow(dead_code)] // other tests use the rest
#[path = "../../tests/common/iso.rs"]
mod iso;

struct World {
    state: tempfile::TempDir,
    iso: Arc<Vec<u8>>,
}

impl World {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("source.iso");
        iso::write(&path);
        Self { iso: Arc::new(std::fs::read(path).unwrap()), state }
    }

    fn digest(&self) -> String {
        crate::text::hex(&Sha256::digest(&*self.iso))
    }

    fn store(&self, image: &OsImage, access: Access) -> IsoStore {
        IsoStore::open(self.state.path(), [image].into_iter(), access).unwrap()
    }

    fn file(&self, end: &str) -> Option<std::path::PathBuf> {
        let directory = std::fs::read_dir(self.state.path().join(DIRECTORY)).unwrap();
        directory.map(|entry| entry.unwrap().path()).find(|path| path.to_str().unwrap().ends_with(end))
    }
}

fn image(url: &str, sha256: &str) -> OsImage {
    OsImage {
        openshift_version: "4.22".into(),
        cpu_architecture: "x86_64".into(),
        url: url.into(),
        version: "422.1".into(),
        sha256: sha256.into(),
        ..OsImage::default()
    }
}

/// Times that a test waits for.
fn hasty() -> Access {
    let short = Duration::from_millis(200);
    Access {
        pace: Pace { silence: short, window: short, least_bytes: 1 << 20, ..Pace::default() },
        ..Access::default()
    }
}

/// What one attempt came to: nothing when the image is ready, else why it is not.
fn attempt(store: &IsoStore) -> Option<String> {
    store.obtain(0, &Cancel::default());
    match &store.states()[0].state {
        State::Ready => None,
        State::Failed { why, .. } => Some(why.clone()),
        other => panic!("{other:?}"),
    }
}

/// Listens, and sends a byte now and then behind a head that announces many.
fn drip() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/slow.iso", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = Request::read(&mut std::io::BufReader::new(stream.try_clone().unwrap()));
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
    });
    url
}

#[test]
fn an_image_is_downloaded_once_and_kept_over_restarts() {
    let world = World::new();
    let whole = world.iso.clone();
    let server = Server::start(move |_| reply("200 OK", "", &*whole));
    let listed = image(&server.url("/live.iso"), &world.digest().to_uppercase());
    let store = world.store(&listed, Access::default());
    let Some(Found::Pending(why)) = store.find(&listed) else { panic!() };
    assert_eq!(why, "the OS image 422.1 for x86_64 is not ready: its download has not begun");
    store.work(&Cancel::default());
    assert!(store.is_ready());
    let Some(Found::Ready(iso)) = store.find(&listed) else { panic!() };
    assert_eq!((std::fs::read(iso.path()).unwrap(), iso.build()), (world.iso.to_vec(), Some("422.1")));
    assert_eq!(serde_json::to_value(store.show()).unwrap()[0]["state"], "ready");

    let again = world.store(&listed, Access::default());
    again.work(&Cancel::default());
    assert!(again.is_ready() && server.requests().len() == 1, "it was stored");

    let mut bytes = world.iso.to_vec();
    bytes[700_000] ^= 1;
    std::fs::write(world.file(".iso").unwrap(), bytes).unwrap();
    assert_eq!(attempt(&world.store(&listed, Access::default())), None);
    assert_eq!(server.requests().len(), 2, "a damaged one comes again");

    let moved = image(&server.url("/other.iso"), "");
    assert_eq!(attempt(&world.store(&moved, Access::default())), None);
    let names = std::fs::read_dir(world.state.path().join(DIRECTORY)).unwrap().count();
    assert_eq!(names, 2, "what is no longer listed is removed");
}

#[test]
fn what_broke_off_continues_unless_the_file_changed() {
    let world = World::new();
    let (whole, half) = (world.iso.clone(), world.iso.len() / 2);
    let server = Server::start(move |request| {
        let end = if request.earlier == 0 { half } else { whole.len() };
        resumed(request, &whole, end)
    });
    let listed = image(&server.url("/a"), "");
    let broken = attempt(&world.store(&listed, Access::default())).unwrap();
    assert!(broken.contains("broke off after"), "{broken}");
    // A restarted service continues, too.
    assert_eq!(attempt(&world.store(&listed, Access::default())), None);
    let requests = server.requests();
    assert_eq!((requests[1].range_start(), requests[1].header("if-range")), (Some(half), Some("\"1\"")));

    // Another file, of which a server without care sends a part.
    let (whole, mut old) = (world.iso.clone(), world.iso.to_vec());
    old[..1000].fill(7);
    let server = Server::start(move |request| match (request.earlier, request.range_start()) {
        (0, _) => cut("200 OK", "ETag: \"old\"\r\n", old.len(), &old[..half]),
        (_, Some(start)) => {
            let range =
                format!("ETag: \"new\"\r\nContent-Range: bytes {start}-{}/{}\r\n", whole.len() - 1, whole.len());
            reply("206 Partial Content", &range, &whole[start..])
        }
        (_, None) => reply("200 OK", "ETag: \"new\"\r\n", &*whole),
    });
    let store = world.store(&image(&server.url("/b"), ""), Access::default());
    assert!(attempt(&store).unwrap().contains("broke off"));
    assert!(attempt(&store).unwrap().contains("206"));
    assert_eq!(attempt(&store), None);
    let Some(Found::Ready(iso)) = store.find(&store.slots[0].image.clone()) else { panic!() };
    assert_eq!(std::fs::read(iso.path()).unwrap(), *world.iso);
}

#[test]
fn what_cannot_be_the_image_is_refused() {
    let world = World::new();
    let mut other = world.iso.to_vec();
    other[700_000] ^= 1;
    let mut cut_off = world.iso.to_vec();
    cut_off.truncate((iso::BEHIND + 41) * 2048);
    let no_length = [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".as_slice(), &world.iso].concat();
    let digest = world.digest();
    for (answer, sha256, expected) in [
        (reply("404 Not Found", "", ""), "", "the server answered 404"),
        (reply("200 OK", "", &other), digest.as_str(), "the SHA-256 of"),
        (reply("200 OK", "", "<html>Log in</html>"), "", "is not a live ISO for this entry: it is not an ISO"),
        (
            reply("200 OK", "", &cut_off),
            "",
            "is not a live ISO for this entry: cannot read the files in the ISO: ISO image is incomplete",
        ),
        (no_length, "", "came without a length: list its sha256"),
    ] {
        let server = Server::start(move |_| answer.clone());
        let store = world.store(&image(&server.url("/live.iso?key=hunter2"), sha256), Access::default());
        let why = attempt(&store).unwrap();
        assert!(why.contains(expected) && !why.contains("hunter2"), "{expected}: {why}");
        assert_eq!(world.file(".iso"), None, "{expected}");
        let Some(Found::Pending(why)) = store.find(&store.slots[0].image) else { panic!() };
        assert!(why.contains("its download failed and is tried again in") && why.contains(expected), "{why}");
    }
}

#[test]
fn a_server_that_recovers_is_asked_again() {
    let world = World::new();
    let whole = world.iso.clone();
    let server = Server::start(move |request| match request.earlier {
        0 => reply("500 Internal Server Error", "", ""),
        1 => cut("200 OK", "", whole.len(), &whole[..1000]),
        _ => reply("200 OK", "", &*whole),
    });
    let pace = Pace { first_pause: Duration::from_millis(1), ..Pace::default() };
    let store = world.store(&image(&server.url("/a"), ""), Access { pace, ..Access::default() });
    store.work(&Cancel::default());
    assert!(store.is_ready());
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_download_does_not_wait_for_ever_nor_fill_the_disk() {
    let world = World::new();
    let slow = attempt(&world.store(&image(&drip(), ""), hasty())).unwrap();
    assert!(slow.contains(" arrived in ") || slow.contains("stopped the download"), "{slow}");

    let whole = world.iso.clone();
    let server = Server::start(move |_| reply("200 OK", "", &*whole));
    let access = Access { reserve_bytes: u64::MAX / 2, ..Access::default() };
    let full = attempt(&world.store(&image(&server.url("/a"), ""), access)).unwrap();
    assert!(full.contains("less than the reserve"), "{full}");
    assert_eq!(world.file(".iso"), None);

    let store = Arc::new(world.store(&image(&drip(), ""), Access::default()));
    let cancel = Cancel::default();
    let worker = thread::spawn({
        let (store, cancel) = (store.clone(), cancel.clone());
        move || store.work(&cancel)
    });
    assert!(testkit::wait::comes(|| matches!(store.states()[0].state, State::Fetching { .. })));
    cancel.cancel();
    worker.join().unwrap();
    assert!(!store.is_ready());
}

#[test]
fn secrets_go_to_the_listed_server_only() {
    let world = World::new();
    let whole = world.iso.clone();
    let mirror = Server::start(move |_| reply("200 OK", "", &*whole));
    let to = format!("Location: {}\r\n", mirror.url("/there?signed=1"));
    let listed = Server::start(move |_| reply("302 Found", &to, ""));
    let token = (HeaderName::from_static("x-token"), HeaderValue::from_static("hunter2"));
    let query = ("key".to_owned(), api::Secret::new("a b"));
    let access = Access { headers: vec![token], query: vec![query], ..Access::default() };
    assert_eq!(attempt(&world.store(&image(&listed.url("/live.iso"), ""), access)), None);
    let (first, second) = (&listed.requests()[0], &mirror.requests()[0]);
    assert_eq!((first.header("x-token"), first.target()), (Some("hunter2"), "/live.iso?key=a%20b"));
    assert_eq!((second.header("x-token"), second.target()), (None, "/there?signed=1"));
}

#[test]
fn equal_builds_are_one_image() {
    let world = World::new();
    let all = [image("http://a/1", ""), image("http://b/2", ""), OsImage { offline: true, ..image("http://c/3", "") }];
    let file = image("/isos/a.iso", "");
    let store = IsoStore::open(world.state.path(), all.iter().chain([&file]), Access::default()).unwrap();
    assert_eq!(store.len(), 2);
    assert!(store.find(&all[1]).is_some() && store.find(&file).is_none());
}
