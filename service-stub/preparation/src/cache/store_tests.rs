//! The cache: one extraction for all, links, eviction, waiting for space.

use super::*;
use std::{
    cell::{Cell, RefCell},
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

const PROGRAM: &str = "openshift-install";
const MIB: u64 = 1 << 20;

struct World {
    directory: tempfile::TempDir,
    clock: Clock,
    cache: InstallerCache,
}

impl World {
    fn new(limit: Option<Capacity>) -> Self {
        let (directory, clock) = (tempfile::tempdir().unwrap(), Clock::simulated());
        let cache = InstallerCache::open(&directory.path().join("cache"), limit, clock.clone()).unwrap();
        Self { directory, clock, cache }
    }

    fn get(&self, image: &str) -> InstallerGuard {
        self.cache.get(image, PROGRAM, &|path| write(path, image), &|| false).unwrap()
    }

    /// All files of the cache, as paths below it.
    fn files(&self) -> Vec<PathBuf> {
        let directories = fs::read_dir(&self.cache.directory).unwrap().map(|entry| entry.unwrap().path());
        directories.flat_map(|path| fs::read_dir(path).unwrap()).map(|entry| entry.unwrap().path()).collect()
    }

    fn target(&self, image: &str) -> PathBuf {
        self.cache.directory.join(directory_name(image)).join(PROGRAM)
    }
}

fn write(path: &Path, content: &str) -> Result<(), ExtractError> {
    fs::write(path, content).map_err(|source| store_error(path, source))
}

fn failure() -> ExtractError {
    ExtractError::NoComponent { tag: "installer" }
}

#[test]
fn every_request_has_its_own_link_which_goes_with_it() {
    let world = World::new(None);
    let (first, second) = (world.get("r.io/a:1"), world.get("r.io/a:1"));
    assert!(first.extraction().is_some() && second.extraction().is_none());
    assert_eq!([first.was_cached(), second.was_cached()], [Some(false), Some(true)]);
    assert_eq!(InstallerGuard::given(Path::new("/x")).was_cached(), None);
    assert_ne!(first.path(), second.path());
    for guard in [&first, &second] {
        assert_eq!(fs::read_to_string(guard.path()).unwrap(), "r.io/a:1");
        assert_eq!(guard.path().metadata().unwrap().permissions().mode() & 0o7777, 0o700);
        let name = guard.path().file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with("ln_") && name.ends_with("_openshift-install"), "{name}");
    }
    assert_eq!(world.files().len(), 3);
    drop((first, second));
    assert_eq!(world.files(), [world.target("r.io/a:1")]);
}

#[test]
fn a_hit_counts_as_use() {
    let world = World::new(None);
    drop(world.get("r.io/a:1"));
    let file = File::open(world.target("r.io/a:1")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    drop(world.get("r.io/a:1"));
    assert!(file.metadata().unwrap().modified().unwrap() > SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
}

#[test]
fn a_start_empties_the_cache_and_leaves_its_neighbours() {
    let world = World::new(None);
    let neighbour = world.directory.path().join("state");
    fs::write(&neighbour, "x").unwrap();
    drop(world.get("r.io/a:1"));
    std::os::unix::fs::symlink(&neighbour, world.cache.directory.join("link")).unwrap();
    InstallerCache::open(&world.cache.directory, None, Clock::simulated()).unwrap();
    assert!(world.files().is_empty() && neighbour.exists());
    assert_eq!(world.cache.directory.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
}

#[test]
fn no_name_leads_out_of_the_directory() {
    let world = World::new(None);
    for image in ["../../etc/passwd", "/etc/passwd", "", ".", "a/../../b", "r.io/a:1\n"] {
        let guard = world.get(image);
        let directory = guard.path().parent().unwrap();
        assert_eq!(directory.parent(), Some(world.cache.directory.as_path()), "{image:?}");
        assert!(directory.file_name().unwrap().to_string_lossy().starts_with("sha256-"));
    }
}

#[test]
fn a_failed_extraction_leaves_nothing() {
    let world = World::new(None);
    let extract = |path: &Path| write(path, "half").and(Err(failure()));
    let error = world.cache.get("r.io/a:1", PROGRAM, &extract, &|| false).unwrap_err();
    assert!(matches!(*error, ExtractError::NoComponent { .. }));
    assert_eq!(fs::read_dir(&world.cache.directory).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(world.get("r.io/a:1").path()).unwrap(), "r.io/a:1", "the next request tries again");
}

#[test]
fn requests_for_one_release_share_an_extraction_and_other_releases_do_not_wait() {
    let world = World::new(None);
    drop(world.get("r.io/there:1"));
    let (calls, begun, go_on) = (AtomicUsize::new(0), mpsc::channel(), mpsc::channel::<()>());
    let (go, wait) = (go_on.0, Mutex::new(go_on.1));
    let extract = |path: &Path| {
        calls.fetch_add(1, Ordering::Relaxed);
        begun.0.send(()).unwrap();
        wait.lock().unwrap().recv().unwrap();
        write(path, "slow")
    };
    thread::scope(|scope| {
        let get = || world.cache.get("r.io/slow:1", PROGRAM, &extract, &|| false).unwrap();
        let lead = scope.spawn(get);
        begun.1.recv().unwrap();
        let others = [scope.spawn(get), scope.spawn(get)];
        // A hit and another release's extraction come in between.
        drop((world.get("r.io/there:1"), world.get("r.io/other:1")));
        go.send(()).unwrap();
        let guards: Vec<_> = others.into_iter().chain([lead]).map(|thread| thread.join().unwrap()).collect();
        let paths: BTreeSet<_> = guards.iter().map(|guard| guard.path().to_owned()).collect();
        assert_eq!(paths.len(), 3);
        assert_eq!(guards.iter().filter(|guard| guard.extraction().is_some()).count(), 1);
    });
    assert_eq!(calls.into_inner(), 1);
    assert_eq!(world.files().len(), 3, "no link is left");
}

#[test]
fn a_failure_is_everybodys_and_a_cancellation_is_not() {
    // What comes of the first extraction, and how many there are then.
    let run = |outcome: fn() -> ExtractError| {
        let world = World::new(None);
        let (calls, begun, first_may_end) = (AtomicUsize::new(0), mpsc::channel(), AtomicBool::new(false));
        let extract = |path: &Path| {
            if calls.fetch_add(1, Ordering::Relaxed) > 0 {
                return write(path, "second");
            }
            begun.0.send(()).unwrap();
            while !first_may_end.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            Err(outcome())
        };
        let second_is_ok = thread::scope(|scope| {
            let first = scope.spawn(|| world.cache.get("r.io/a:1", PROGRAM, &extract, &|| false));
            begun.1.recv().unwrap();
            // The second looks for a cancellation once it waits.
            let may_end = || {
                first_may_end.store(true, Ordering::Relaxed);
                false
            };
            let second = world.cache.get("r.io/a:1", PROGRAM, &extract, &may_end);
            assert!(first.join().unwrap().is_err());
            second.is_ok()
        });
        (second_is_ok, calls.into_inner())
    };
    assert_eq!(run(failure), (false, 1));
    assert_eq!(run(|| ExtractError::Cancelled), (true, 2));
    let credentials = || ExtractError::PullSecret(netcheck::image::auth::AuthFault::NoAuths);
    assert_eq!(run(credentials), (true, 2), "the other's credentials may be better");
}

#[test]
fn a_waiting_request_can_be_cancelled() {
    let world = World::new(None);
    let (begun, over) = (mpsc::channel(), AtomicBool::new(false));
    let extract = |path: &Path| {
        begun.0.send(()).unwrap();
        while !over.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        write(path, "x")
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| world.cache.get("r.io/a:1", PROGRAM, &extract, &|| false).unwrap());
        begun.1.recv().unwrap();
        let asked = Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) > 2;
        let error = world.cache.get("r.io/a:1", PROGRAM, &extract, &stop).unwrap_err();
        assert!(matches!(*error, ExtractError::Cancelled));
        over.store(true, Ordering::Relaxed);
        first.join().unwrap();
    });
}

fn sized(path: &Path, bytes: u64) -> Result<(), ExtractError> {
    File::create(path).and_then(|file| file.set_len(bytes)).map_err(|source| store_error(path, source))
}

#[test]
fn the_longest_unused_makes_room_and_what_is_in_use_stays() {
    let world = World::new(Some(Capacity { bytes: 3 * MIB, release_bytes: MIB }));
    let get = |image: &str| world.cache.get(image, PROGRAM, &|path| sized(path, MIB), &|| false).unwrap();
    let aged = |image: &str, seconds: u64| {
        drop(get(image));
        let file = File::open(world.target(image)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    };
    aged("b", 2);
    aged("a", 1);
    aged("c", 3);
    let in_use = get("a");
    File::open(world.target("a")).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    drop(get("d"));
    let there = ["a", "b", "c", "d"].map(|image| world.target(image).exists());
    assert_eq!(there, [true, false, true, true], "b was the oldest that was not in use");
    assert!(!world.target("b").parent().unwrap().exists());
    assert_eq!(world.clock.slept(), Duration::ZERO);
    assert_eq!(world.cache.evictions(), Evictions { removed: 1, in_vain: 0 });
    drop(in_use);
}

#[test]
fn a_full_cache_is_waited_for() {
    let world = World::new(Some(Capacity { bytes: 2 * MIB, release_bytes: MIB }));
    let get = |image: &str, stop: &dyn Fn() -> bool| world.cache.get(image, PROGRAM, &|path| sized(path, MIB), stop);
    let guards = RefCell::new(vec![get("a", &|| false).unwrap(), get("b", &|| false).unwrap()]);
    let over = || world.clock.slept() > Duration::from_secs(100);
    assert!(matches!(*get("c", &over).unwrap_err(), ExtractError::Cancelled));
    assert!(world.target("a").exists() && world.target("b").exists(), "both are in use");
    let Evictions { removed: 0, in_vain: 1.. } = world.cache.evictions() else {
        panic!("{:?}", world.cache.evictions())
    };

    let start = world.clock.slept();
    // After 40 s one is no longer in use; the cache looks every 30 s.
    let release = || {
        if world.clock.slept() - start > Duration::from_secs(40) {
            guards.borrow_mut().truncate(1);
        }
        false
    };
    let guard = get("c", &release).unwrap();
    let waited = (world.clock.slept() - start).as_secs();
    assert!((60..70).contains(&waited), "{waited}");
    assert!(world.target("a").exists() && !world.target("b").exists() && guard.path().exists());
}

#[test]
fn space_is_reserved_while_a_release_is_extracted() {
    let world = World::new(Some(Capacity { bytes: 2 * MIB, release_bytes: MIB }));
    let outer = |path: &Path| {
        // One more fits beside this one, a third does not.
        let inner = |path: &Path| {
            let over = || world.clock.slept() > Duration::from_secs(1);
            let third = world.cache.get("c", PROGRAM, &|path| sized(path, 1), &over);
            assert!(matches!(*third.unwrap_err(), ExtractError::Cancelled));
            sized(path, 1)
        };
        world.cache.get("b", PROGRAM, &inner, &|| false).unwrap();
        sized(path, 1)
    };
    world.cache.get("a", PROGRAM, &outer, &|| false).unwrap();
}
