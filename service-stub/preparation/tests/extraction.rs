//! `openshift-install` out of release images in registries that work, fail and lie.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

#[path = "extraction/world.rs"]
mod world;

use api::Secret;
use flate2::{Compression, write::GzEncoder};
use kernel::clock::Clock;
use netcheck::image::ImageOptions;
use preparation::cache::{ExtractionBounds, InstallerError, Size};
use serde_json::json;
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tar::EntryType::{Directory, Fifo, Link, Regular, Symlink};
use testkit::{
    http::{self, Request},
    registry::{Images, PASSWORD, Registry, USER, layer},
};
use world::{PROGRAM_PATH, Parts, Stalling, World, archive, never, program, pull_secret, text_after};

fn contents_of(parts: Parts) -> Vec<u8> {
    let world = World::new(parts);
    fs::read(world.get().unwrap().path()).unwrap()
}

/// The error with its causes.
fn failure(world: &World) -> String {
    let text = chain(&world.get().unwrap_err());
    assert_eq!(world.files(), [] as [String; 0], "nothing is stored: {text}");
    text
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn is_program(request: &Request) -> bool {
    request.path().contains("/ocp/art/blobs/")
}

#[test]
fn the_program_of_a_release_is_extracted_once_and_names_its_release() {
    let world = World::new(Parts::default());
    let guard = world.get().unwrap();
    assert!(guard.path().to_str().unwrap().ends_with("_openshift-install"));
    assert!(guard.extraction().is_some());
    let bytes = fs::read(guard.path()).unwrap();
    assert_eq!(bytes.len(), program("amd64").len());
    // By the digest of the index, which stands for all architectures.
    assert_eq!(text_after(&bytes, "image"), format!("{}/ocp/release@{}", world.address, world.release_digest));
    assert_eq!(text_after(&bytes, "version"), "4.22.9");
    assert_eq!(text_after(&bytes, "architecture"), "multi (linux/amd64)");
    // Of the image with the program the last layer was enough.
    let before = world.requests();
    assert_eq!(before.iter().filter(|path| path.contains("/ocp/art/blobs/")).count(), 1, "{before:?}");
    let second = world.get().unwrap();
    assert!(second.extraction().is_none());
    assert_ne!(second.path(), guard.path());
    assert_eq!(world.requests().len(), before.len(), "nothing more is asked for");
    drop((guard, second));
    assert_eq!(world.files(), ["openshift-install"]);
}

#[test]
fn two_clusters_of_a_release_share_an_extraction() {
    let world = World::new(Parts::default());
    let guards: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| world.get().unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_ne!(guards[0].path(), guards[1].path());
    assert_eq!(world.requests().iter().filter(|path| path.contains("/ocp/art/blobs/")).count(), 1);
    drop(guards);
    assert_eq!(world.files(), ["openshift-install"]);
}

#[test]
fn old_versions_have_the_program_in_another_image() {
    let mut world = World::new(Parts { tag: "baremetal-installer", ..Parts::default() });
    world.request.version = "4.15.3".into();
    let guard = world.get().unwrap();
    assert!(guard.path().to_str().unwrap().ends_with("_openshift-baremetal-install"));
    world.request.version = "4.16.0".into();
    let error = chain(&world.get().unwrap_err());
    assert!(error.ends_with("the release image names no image 'installer', which has the program"), "{error}");
}

#[test]
fn a_release_for_other_machines_has_the_program_for_this_one() {
    let artifacts = archive(&[
        ("usr/share/openshift/linux_amd64/openshift-install", Regular, &program("amd64")),
        ("usr/share/openshift/linux_arm64/openshift-install", Regular, &program("arm64")),
    ]);
    let parts = Parts { tag: "installer-artifacts", layers: vec![artifacts], index: false, ..Parts::default() };
    let mut world = World::new(parts);
    world.request.architecture = "arm64".into();
    let bytes = fs::read(world.get().unwrap().path()).unwrap();
    assert_eq!(text_after(&bytes, "architecture"), "linux/arm64");
    // The older program is in the release for this machine only, if its image is known.
    world.request.version = "4.14.1".into();
    let error = chain(&world.get().unwrap_err());
    let expected = "the release is for arm64, and its openshift-baremetal-install does not run on this amd64";
    assert!(error.contains(expected), "{error}");
    let other = World::new(Parts { tag: "baremetal-installer", index: false, ..Parts::default() });
    world.request.own_image = Some(format!("{}/ocp/release:4.22.9", other.address));
    world.allow(&other.address);
    let bytes = fs::read(world.get().unwrap().path()).unwrap();
    assert_eq!(text_after(&bytes, "architecture"), "linux/amd64");
}

#[test]
fn layers_are_searched_as_a_container_would_see_them() {
    let (new, old) = (program("amd64"), [program("amd64"), b"old".to_vec()].concat());
    let file = |content: &[u8]| archive(&[(PROGRAM_PATH, Regular, content)]);
    let zstd = zstd::encode_all(file(&new).as_slice(), 1).unwrap();
    let other = archive(&[("etc/motd", Regular, b"x"), ("../usr/bin/openshift-install", Regular, b"outside")]);
    let linked = archive(&[(PROGRAM_PATH, Symlink, b"../../opt/installer")]);
    let parent = archive(&[("usr/bin", Symlink, b"/opt/bin")]);
    let hard = archive(&[("opt/installer", Regular, &new), (PROGRAM_PATH, Link, b"opt/installer")]);
    let removed = || archive(&[("usr/bin/.wh.openshift-install", Regular, b"")]);
    for (what, layers) in [
        ("the last layer wins", vec![file(&old), file(&new)]),
        ("other files change nothing", vec![file(&new), other]),
        ("zstd", vec![file(&old), zstd]),
        ("a link to a lower layer", vec![archive(&[("opt/installer", Regular, &new)]), linked.clone()]),
        ("a link to a higher layer", vec![linked, archive(&[("opt/installer", Regular, &new)])]),
        ("a directory that is a link", vec![archive(&[("opt/bin/openshift-install", Regular, &new)]), parent]),
        ("a hard link", vec![hard]),
        ("removed and made again", vec![file(&old), removed(), file(&new)]),
    ] {
        assert_eq!(contents_of(Parts { layers, ..Parts::default() }).len(), new.len(), "{what}");
    }
    let absent = "the image 'installer' has no file usr/bin/openshift-install";
    for (what, layers, expected) in [
        ("removed", vec![file(&new), removed()], absent),
        ("its directory emptied", vec![file(&new), archive(&[("usr/.wh..wh..opq", Regular, b"")])], absent),
        ("never there", vec![archive(&[("usr/bin", Directory, b"")])], absent),
        (
            "a link out of the image",
            vec![archive(&[(PROGRAM_PATH, Symlink, b"../../../../../etc/hostname")])],
            "the image 'installer' has no file etc/hostname",
        ),
        (
            "links in a circle",
            vec![archive(&[(PROGRAM_PATH, Symlink, b"openshift-install")])],
            "usr/bin/openshift-install leads to more than 8 links in turn",
        ),
        (
            "a pipe",
            vec![archive(&[(PROGRAM_PATH, Fifo, b"")])],
            "usr/bin/openshift-install is neither a file nor a link",
        ),
        ("a script", vec![file(b"#!/bin/sh\necho this is not a program at all\n")], "it is not an ELF file"),
        ("another machine's", vec![file(&program("arm64"))], "it is for arm64, this machine is amd64"),
        ("not an archive", vec![b"text".repeat(1000)], "it can't be unpacked"),
    ] {
        let text = failure(&World::new(Parts { layers, ..Parts::default() }));
        assert!(text.contains(expected), "{what}: {text}");
        assert!(text.starts_with("failed to get installer path for release 127.0.0.1:"), "{text}");
    }
}

#[test]
fn what_is_too_large_is_not_stored() {
    let bounds = ExtractionBounds {
        layers: 2,
        layer_bytes: 1 << 16,
        unpacked_bytes: 1 << 20,
        file_bytes: 1 << 18,
        time: Duration::from_secs(60),
    };
    let packed = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zeros = vec![0; 4 << 20];
    let bomb = packed(&archive(&[("zeros", Regular, &zeros), (PROGRAM_PATH, Regular, &program("amd64"))]));
    let long = packed(&archive(&[(PROGRAM_PATH, Regular, &zeros[..1 << 19])]));
    let large = archive(&[(PROGRAM_PATH, Regular, &zeros[..1 << 17])]);
    let many = vec![layer(&[("a", b"")]), layer(&[("b", b"")]), layer(&[("c", b"")])];
    for (layers, expected) in [
        (vec![bomb], "it unpacks to more than 1048576 bytes"),
        (vec![long], "usr/bin/openshift-install has 524288 bytes, more than 262144"),
        (vec![large], "bytes, more than 65536"),
        (many, "the image 'installer' has 3 layers, more than 2"),
    ] {
        let text = failure(&World::new(Parts { layers, bounds, ..Parts::default() }));
        assert!(text.ends_with(expected), "{text}");
    }
}

#[test]
fn a_release_image_that_lies_is_refused() {
    let by_tag = "the release image names 'installer' without a digest: 127.0.0.1:";
    for (what, parts, expected) in [
        ("no such image", Parts { tag: "cli", ..Parts::default() }, "names no image 'installer'"),
        ("by tag", Parts { pinned: false, ..Parts::default() }, by_tag),
        (
            "not an image",
            Parts { name: Some("--privileged x"), ..Parts::default() },
            "has no valid image for 'installer'",
        ),
    ] {
        let text = failure(&World::new(parts));
        assert!(text.contains(expected), "{what}: {text}");
    }
    let mut world = World::new(Parts::default());
    world.request.image = "--all".into();
    let text = failure(&world);
    assert!(text.starts_with("failed to get installer path for release --all: not a valid image name"), "{text}");
    world.request.image = format!("{}/ocp/other:1", world.address);
    assert!(failure(&world).contains("status 404"));
    world.request.pull_secret = Secret::new("hunter2");
    let text = failure(&world);
    assert!(text.contains("the cluster's pull secret is invalid") && !text.contains("hunter2"), "{text}");
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Other,
    More,
    Fewer,
    Cut,
}

#[test]
fn a_layer_is_what_the_manifest_names_or_nothing_is_stored() {
    for (damage, expected) in [
        (Damage::Other, "is corrupt: its digest is sha256:"),
        (Damage::More, "its descriptor says"),
        (Damage::Fewer, "its descriptor says"),
        (Damage::Cut, "its descriptor says"),
    ] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let world = World::with(Parts::default(), move |request, images| {
            if !is_program(request) {
                return None;
            }
            count.fetch_add(1, Ordering::Relaxed);
            let reply = images.answer(request);
            let start = reply.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            let mut body = reply[start..].to_vec();
            let middle = body.len() / 2;
            Some(match damage {
                Damage::Other => {
                    body[middle] ^= 1;
                    http::ok(body)
                }
                Damage::More => http::ok([body, vec![0]].concat()),
                Damage::Fewer => http::ok(&body[..middle]),
                Damage::Cut => http::cut("200 OK", "", body.len(), &body[..middle]),
            })
        });
        let text = failure(&world);
        assert!(text.contains(expected), "{damage:?}: {text}");
        // Another try may mend only what ended early.
        let tries = if matches!(damage, Damage::Cut | Damage::Fewer) { 5 } else { 1 };
        assert_eq!(asked.load(Ordering::Relaxed), tries, "{damage:?}: {text}");
    }
}

#[test]
fn a_registry_that_fails_twice_is_asked_again_after_longer_and_longer_pauses() {
    let clock = Clock::simulated();
    let (watch, times) = (clock.clone(), Arc::new(Mutex::new(Vec::new())));
    let noted = times.clone();
    // A status that the client below does not try again by itself, which would take real time.
    let world = World::with_clock(Parts::default(), clock, move |request, _| {
        if !request.path().ends_with("/ocp/release/manifests/4.22.9") {
            return None;
        }
        let mut times = noted.lock().unwrap();
        times.push(watch.slept());
        (times.len() <= 2).then(|| http::reply("507 Insufficient Storage", "", "{}"))
    });
    assert!(world.get().is_ok());
    let times = times.lock().unwrap().clone();
    assert_eq!(times.len(), 3);
    for (pair, least) in times.windows(2).zip([5.0, 10.0]) {
        let pause = (pair[1] - pair[0]).as_secs_f64();
        assert!(pause >= least - 0.001 && pause <= least * 1.5, "{times:?}");
    }
}

#[test]
fn credentials_are_those_with_the_longest_path_and_a_refusal_is_final() {
    let basic = |user: &str| format!("Basic {}", world::base64(&format!("{user}:{PASSWORD}")));
    let (release, art) = (basic("release"), basic("art"));
    let mut world = World::with(Parts::default(), move |request, _| {
        let wanted = if request.path().contains("/ocp/art/") { &art } else { &release };
        let may = request.path() == "/v2/" || request.header("authorization") == Some(wanted);
        (!may).then(|| http::reply("401 Unauthorized", "WWW-Authenticate: Basic realm=\"it\"\r\n", "{}"))
    });
    let text = failure(&world);
    assert!(text.contains("the cluster's pull secret"), "{text}");
    assert_eq!(world.slept(), Duration::ZERO, "a refusal is not tried again");
    let address = world.address.clone();
    let logins = [(format!("{address}/ocp/art"), "art"), (format!("{address}/ocp"), "release"), (address, "other")];
    world.request.pull_secret = pull_secret(&logins.map(|(path, user)| (path, user.to_owned())));
    world.get().unwrap();
}

#[test]
fn a_token_server_knows_the_user_by_the_pull_secret() {
    let mut world = World::with(Parts::default(), |request, _| {
        let authorization = request.header("authorization").unwrap_or_default();
        let host = request.header("host").unwrap_or_default();
        if request.path() == "/token" {
            let is_known = authorization == format!("Basic {}", world::base64(&format!("{USER}:{PASSWORD}")));
            let scope = request.target().rsplit('=').next().unwrap_or_default();
            let token = json!({"token": format!("for-{scope}")}).to_string();
            return Some(if is_known { http::ok(token) } else { http::reply("401 No", "", "{}") });
        }
        let repository = request.path().split("/ocp/").nth(1)?.split('/').next()?;
        if authorization == format!("Bearer for-repository%3Aocp%2F{repository}%3Apull") {
            return None;
        }
        let challenge = format!("WWW-Authenticate: Bearer realm=\"http://{host}/token\",service=\"it\"\r\n");
        Some(http::reply("401 Unauthorized", &challenge, "{}"))
    });
    world.request.pull_secret = pull_secret(&[(world.address.clone(), USER.to_owned())]);
    world.get().unwrap();
    world.request.image = format!("{}/ocp/release:latest", world.address);
    world.request.pull_secret = pull_secret(&[(world.address.clone(), "intruder".to_owned())]);
    let text = chain(&world.get().unwrap_err());
    assert!(text.contains("refuses the credentials of user 'intruder'") && !text.contains(PASSWORD), "{text}");
}

fn elsewhere(url: String) -> impl Fn(&Request, &Images) -> Option<Vec<u8>> + Clone {
    move |request, _| {
        is_program(request).then(|| http::reply("307 Temporary Redirect", &format!("Location: {url}\r\n"), ""))
    }
}

#[test]
fn an_extraction_that_takes_too_long_ends_and_one_that_is_cancelled_too() {
    let stalling = Stalling::start();
    let bounds = ExtractionBounds { time: Duration::from_secs(10), ..ExtractionBounds::default() };
    let layers = || vec![Stalling::layer()];
    let world = World::with(Parts { bounds, layers: layers(), ..Parts::default() }, elsewhere(stalling.url()));
    let text = failure(&world);
    assert!(text.contains("the time limit"), "{text}");
    assert_eq!(world.slept(), Duration::ZERO, "the time was that of all tries");

    let world = World::with(Parts { layers: layers(), ..Parts::default() }, elsewhere(stalling.url()));
    let start = Instant::now();
    let stop = || start.elapsed() > Duration::from_millis(500);
    assert!(matches!(world.get_until(&stop), Err(InstallerError::Cancelled)));
    assert_eq!(world.files(), [] as [String; 0]);
}

#[test]
fn mirrors_of_registries_conf_are_used_as_podman_does() {
    let mirror = World::new(Parts { home: Some("quay.example/ocp"), ..Parts::default() });
    let down = "127.0.0.1:1/ocp";
    let up = format!("{}/ocp", mirror.address);
    let named = format!("quay.example/ocp/release@{}", mirror.release_digest);
    let (by_digest, by_tag) = (named.clone(), "quay.example/ocp/release:4.22.9".to_owned());
    let table = |mirrors: &[&str], more: &str, each: &str| {
        let mirror = |place: &&str| format!("[[registry.mirror]]\nlocation = '{place}'\ninsecure = true\n{each}\n");
        let mirrors: String = mirrors.iter().map(mirror).collect();
        format!("[[registry]]\nprefix = 'quay.example/ocp'\nlocation = '127.0.0.1:1/source'\n{more}\n{mirrors}")
    };
    for (what, text, image, works) in [
        ("up", table(&[&up], "", ""), &by_digest, true),
        ("the first is down", table(&[down, &up], "", ""), &by_digest, true),
        ("all are down", table(&[down], "", ""), &by_digest, false),
        ("the source is blocked", table(&[&up], "blocked = true", ""), &by_digest, true),
        ("only the source, which is blocked", table(&[], "blocked = true", ""), &by_digest, false),
        ("tags too", table(&[&up], "", ""), &by_tag, true),
        ("no tags", table(&[&up], "mirror-by-digest-only = true", ""), &by_tag, false),
        ("digests only", table(&[&up], "mirror-by-digest-only = true", ""), &by_digest, true),
        // The program's image is named by digest.
        ("the release by tag only", table(&[&up], "", "pull-from-mirror = 'tag-only'"), &by_tag, false),
    ] {
        let mut world = mirror.again();
        world.set_registries(&text);
        world.request.image.clone_from(image);
        match world.get() {
            Ok(guard) => {
                assert!(works, "{what}");
                let bytes = fs::read(guard.path()).unwrap();
                assert_eq!(text_after(&bytes, "image"), named, "{what}: not a mirror's name");
            }
            Err(error) => assert!(!works, "{what}: {}", chain(&error)),
        }
    }
    // A name without a registry.
    let mut world = mirror.again();
    let search = format!("unqualified-search-registries = ['{}']\n", mirror.address);
    let own = format!("[[registry]]\nlocation = '{}'\ninsecure = true\n", mirror.address);
    world.set_registries(&format!("{search}{own}{}", table(&[&up], "", "")));
    world.request.image = "ocp/release:4.22.9".into();
    let bytes = fs::read(world.get().unwrap().path()).unwrap();
    assert_eq!(text_after(&bytes, "image"), format!("ocp/release@{}", mirror.release_digest));
}

#[test]
fn a_registry_of_a_private_authority_is_trusted_by_its_bundle() {
    let (certificate, key) = testkit::tls::self_signed(&testkit::tls::self_signing());
    let config = testkit::tls::server_config(&certificate, &key);
    let world = World::new(Parts { tls: Some(config), ..Parts::default() });
    let text = failure(&world.with_options(ImageOptions::default()));
    assert!(text.contains("is not trusted"), "{text}");
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("bundle.pem");
    fs::write(&bundle, testkit::tls::pem(&certificate)).unwrap();
    world.with_options(ImageOptions { ca_certs: vec![bundle], ..ImageOptions::default() }).get().unwrap();
}

#[test]
fn a_given_program_is_run_as_it_is_and_no_registry_is_asked() {
    let own = std::env::current_exe().unwrap();
    let world = World::new(Parts { given: vec![format!("4.22={}", own.display())], ..Parts::default() });
    let guard = world.get().unwrap();
    assert_eq!(guard.path(), own);
    drop(guard);
    assert!(own.exists() && world.requests().is_empty());
}

#[test]
fn a_full_cache_makes_room_for_the_next_release() {
    let size = u64::try_from(program("amd64").len()).unwrap();
    let mut world = World::new(Parts { capacity: Size(size), ..Parts::default() });
    let first = world.get().unwrap();
    world.request.image = format!("{}/ocp/release:latest", world.address);
    let over = || world.slept() > Duration::from_secs(65);
    assert!(matches!(world.get_until(&over), Err(InstallerError::Cancelled)), "the first is in use");
    drop(first);
    drop(world.get().unwrap());
    assert_eq!(world.files(), ["openshift-install"]);
}

/// Started and killed by the test below.
#[test]
#[ignore = "a part of the test below"]
fn killed_extraction() {
    let [address, directory] = ["EXTRACTION_ADDRESS", "EXTRACTION_DIRECTORY"].map(|name| std::env::var(name).unwrap());
    let installers = world::installers(&address, Path::new(&directory), &Parts::default(), Clock::default());
    let _ = installers.get(&world::request(&address), never());
}

#[test]
fn a_killed_service_leaves_no_accepted_program() {
    let stalling = Stalling::start();
    let parts = Parts { layers: vec![Stalling::layer()], ..Parts::default() };
    let world = World::with(parts, elsewhere(stalling.url()));
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_extraction", "--ignored"])
        .env("EXTRACTION_ADDRESS", &world.address)
        .env("EXTRACTION_DIRECTORY", directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let sized = || {
        let files = world::files(directory.path()).into_iter();
        files.map(|path| (path.metadata().map_or(0, |found| found.len()), path)).collect::<Vec<_>>()
    };
    let has_begun = testkit::wait::comes(|| {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        sized().iter().any(|(size, _)| *size > 0)
    });
    assert!(has_begun);
    child.kill().unwrap();
    child.wait().unwrap();
    let left = sized();
    let is_partial = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with(".partial-");
    assert!(left.len() == 1 && left[0].0 > 0 && is_partial(&left[0].1), "{left:?}");
    // The next service begins anew.
    world::installers(&world.address, directory.path(), &Parts::default(), Clock::default());
    assert_eq!(world::files(directory.path()).len(), 0);
}

#[test]
fn a_real_registry_gives_it_to_the_user_of_the_pull_secret() {
    let Some(registry) = Registry::start(env!("CARGO_TARGET_TMPDIR")) else { return };
    let layers = [layer(&[("etc/motd", b"x")]), layer(&[(PROGRAM_PATH, &program("amd64"))])];
    let digest = registry.push("ocp/art", "installer", &layers);
    let references = world::references("installer", &format!("{}/ocp/art@{digest}", registry.address));
    let manifests = layer(&[("release-manifests/image-references", references.as_bytes())]);
    let release = registry.push("ocp/release", "4.22.9", &[manifests]);
    let directory = tempfile::tempdir().unwrap();
    let installers = world::installers(&registry.address, directory.path(), &Parts::default(), Clock::simulated());
    let mut request = world::request(&registry.address);
    request.pull_secret = pull_secret(&[(registry.address.clone(), USER.to_owned())]);
    let guard = installers.get(&request, never()).unwrap();
    let bytes = fs::read(guard.path()).unwrap();
    assert_eq!(text_after(&bytes, "image"), format!("{}/ocp/release@{release}", registry.address));
}
