//! Files on offer: the ISO with a config in it, OS images, the binary; whole and in parts.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;
use crate::iso;
#[path = "files/manifests.rs"]
mod manifests;
#[path = "files/minimal.rs"]
mod minimal;
#[path = "files/netboot.rs"]
mod netboot;
#[path = "files/os_images.rs"]
mod os_images;
#[path = "files/settings.rs"]
mod settings;

use common::{API, Answer, Files, Running, pull_secret};
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

struct World {
    running: Running,
    path: String,
    infra_env: Value,
    base: Vec<u8>,
    _files: tempfile::TempDir,
}

impl World {
    fn new(overrides: Value) -> Self {
        let files = tempfile::tempdir().unwrap();
        let at = |name: &str| files.path().join(name);
        iso::write(&at("live.iso"));
        std::fs::write(at("os.raw"), (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
        std::fs::write(at("os.raw.sig"), b"signature").unwrap();
        std::fs::write(at("secret"), b"secret").unwrap();
        std::fs::write(at("landfall"), b"#!binary").unwrap();
        let running = Running::start(Files {
            iso: Some(at("live.iso")),
            images: vec![at("os.raw")],
            agent: Some(at("landfall")),
            ..Files::default()
        });
        let mut request = json!({"name": "lab", "pull_secret": pull_secret(), "ssh_authorized_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"});
        if let (Value::Object(request), Value::Object(overrides)) = (&mut request, overrides) {
            request.extend(overrides);
        }
        let answer = running.json("POST", "/v2/infra-envs", &request);
        assert_eq!(answer.status, 201, "{:?}", answer.document());
        let infra_env = answer.document();
        let path = infra_env["download_url"].as_str().unwrap().strip_prefix(&running.url).unwrap().to_owned();
        Self { running, path, infra_env, base: std::fs::read(at("live.iso")).unwrap(), _files: files }
    }

    fn iso(&self, headers: &[(&str, &str)]) -> Answer {
        self.running.request("GET", &self.path, headers, b"")
    }
}

#[test]
fn the_iso_carries_the_discovery_config() {
    let world = World::new(json!({}));
    let whole = world.iso(&[]);
    assert_eq!((whole.status, whole.body.len()), (200, world.base.len()));
    let changed: Vec<usize> = (0..whole.body.len()).filter(|at| whole.body[*at] != world.base[*at]).collect();
    let area = 20 * 2048..20 * 2048 + iso::AREA;
    assert!(!changed.is_empty() && changed.iter().all(|at| area.contains(at)), "only the area changes");
    let served = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(served.path(), &whole.body).unwrap();
    let live = rootfs_overlay::area::LiveIso::open(served.path()).unwrap();
    let inside = live.ignition().unwrap();
    let id = world.infra_env["id"].as_str().unwrap();
    let config = world.running.get(&format!("{API}/v2/infra-envs/{id}/downloads/files?file_name=discovery.ign"));
    assert_eq!(config.header("content-disposition"), Some("attachment; filename=\"discovery.ign\""));
    assert_eq!(inside, config.body);
    assert_eq!(
        config.document()["passwd"]["users"][0]["sshAuthorizedKeys"][0],
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
    );
    let long = world.running.get(&format!("/images/{id}?type=full-iso&version=4.22&arch=x86_64"));
    assert_eq!(long.body, whole.body, "the long address");
    assert_eq!(
        long.header("content-disposition"),
        Some(format!("attachment; filename=\"{id}-discovery.iso\"").as_str())
    );
    let url = world.running.get(&format!("{API}/v2/infra-envs/{id}/downloads/image-url")).document();
    assert_eq!(url["url"], world.infra_env["download_url"]);
}

#[test]
fn parts_of_the_iso_are_parts_of_the_whole() {
    let world = World::new(json!({}));
    let whole = world.iso(&[]);
    let (len, etag) = (whole.body.len(), whole.header("etag").unwrap().to_owned());
    let modified = whole.header("last-modified").unwrap().to_owned();
    let area = 20 * 2048;
    for (start, end) in [
        (0, 1),
        (0, len),
        (area - 3, area + 300),
        (area + iso::AREA - 10, area + iso::AREA + 10),
        (len - 1, len),
        (100_000, 900_000),
    ] {
        let range = format!("bytes={start}-{}", end - 1);
        let part = world.iso(&[("range", &range), ("if-range", &etag)]);
        assert_eq!(part.status, 206, "{range}");
        assert_eq!(part.header("content-range"), Some(format!("bytes {start}-{}/{len}", end - 1).as_str()));
        assert!(part.body == whole.body[start..end], "{range}");
    }
    assert_eq!(
        world.iso(&[("range", "bytes=0-9"), ("if-range", "\"other\"")]).body.len(),
        len,
        "changed since: all of it"
    );
    assert_eq!(world.iso(&[("range", "bytes=0-9"), ("if-range", &modified)]).status, 206);
    assert_eq!(world.iso(&[("if-none-match", &etag)]).status, 304);
    let beyond = world.iso(&[("range", &format!("bytes={len}-"))]);
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some(format!("bytes */{len}").as_str())));
    let head = world.running.request("HEAD", &world.path, &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(len.to_string().as_str()));
    assert_eq!(head.header("accept-ranges"), Some("bytes"));

    let other = World::new(
        json!({"ssh_authorized_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAICAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"}),
    );
    assert_ne!(other.iso(&[]).header("etag").unwrap(), etag, "another config is another file");
}

#[test]
fn images_and_the_binary_are_served_by_fixed_names() {
    let world = World::new(json!({}));
    let image = world.running.get("/boot-artifacts/os/os.raw");
    assert_eq!((image.status, image.body.len()), (200, 4_000_000));
    let part = world.running.request("GET", "/boot-artifacts/os/os.raw", &[("range", "bytes=3999999-")], b"");
    assert_eq!((part.status, part.body), (206, image.body[3_999_999..].to_vec()));
    assert_eq!(world.running.get("/boot-artifacts/os/os.raw.sig").body, b"signature");
    assert_eq!(world.running.get("/boot-artifacts/landfall").body, b"#!binary");
    for path in ["secret", "..%2Fsecret", "%2e%2e/secret", "os.raw/../secret", "%2Fetc%2Fpasswd", "", "os.raw%00"] {
        let answer = world.running.get(&format!("/boot-artifacts/os/{path}"));
        assert_eq!(answer.status, 404, "{path}");
    }
    assert_eq!(world.running.get("/images/notauuid").status, 400);
    assert_eq!(
        world.running.get("/images/7e5ff6df-e038-4103-bbb2-90433ded3e50?type=full-iso&version=4.22").status,
        404
    );
    let id = world.infra_env["id"].as_str().unwrap();
    assert_eq!(world.running.get(&format!("/images/{id}?type=disconnected-iso&version=4.22")).status, 501);
    for (path, status) in [
        ("/images/ID?type=other&version=4.22", 400),
        ("/images/ID?type=full-iso", 400),
        ("/images/ID?version=4.22", 400),
        ("/images/ID/s390x-initrd-addrsize", 404),
        ("/images/ID/other", 404),
        ("/byid/ID/4.22/x86_64/minimal.iso", 200),
        ("/byid/ID/4.22/x86_64/disconnected.iso", 501),
        ("/byid/ID/4.22/x86_64/other.iso", 404),
        ("/byid/7e5ff6df-e038-4103-bbb2-90433ded3e50/4.22/x86_64/full.iso", 404),
        ("/bytoken/no.token/4.22/x86_64/minimal.iso", 404),
        ("/live", 200),
        ("/health", 200),
        ("/ready", 200),
    ] {
        assert_eq!(world.running.get(&path.replace("ID", id)).status, status, "{path}");
    }
}

#[test]
fn other_methods_are_not_allowed_where_there_is_an_image() {
    let world = World::new(json!({}));
    let id = world.infra_env["id"].as_str().unwrap();
    for path in [
        world.path.clone(),
        format!("/images/{id}"),
        "/boot-artifacts/kernel".into(),
        "/boot-artifacts/os/os.raw".into(),
    ] {
        for method in ["PUT", "POST", "DELETE", "OPTIONS"] {
            let answer = world.running.request(method, &path, &[], b"");
            assert_eq!((answer.status, answer.header("allow")), (405, Some("GET,HEAD")), "{method} {path}");
        }
    }
    assert_eq!(world.running.request("PUT", "/nothing", &[], b"").status, 404);
}

#[test]
fn pages_of_allowed_origins_read_boot_artifacts() {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("os.raw"), b"image").unwrap();
    let images = vec![files.path().join("os.raw")];
    let allowed_origins = vec!["https://console.example.com".to_owned()];
    let running = Running::start(Files { images, allowed_origins, ..Files::default() });
    let path = "/boot-artifacts/os/os.raw";
    let good = ("origin", "https://console.example.com");
    let origin = "access-control-allow-origin";
    let read = running.request("GET", path, &[good], b"");
    assert_eq!((read.status, read.header(origin), read.header("vary")), (200, Some(good.1), Some("origin")));
    let asked = running.request("OPTIONS", path, &[good, ("access-control-request-method", "GET")], b"");
    assert_eq!((asked.status, asked.header(origin)), (204, Some(good.1)));
    for (name, value) in [
        ("access-control-allow-methods", "GET, HEAD"),
        ("access-control-allow-headers", "Authorization, Content-Type"),
        ("access-control-max-age", "600"),
    ] {
        assert_eq!(asked.header(name), Some(value));
    }
    for headers in [vec![("origin", "https://other.example.com")], vec![]] {
        assert_eq!(running.request("GET", path, &headers, b"").header(origin), None);
    }
    let api = running.request("GET", &format!("{API}/v2/clusters"), &[good], b"");
    assert_eq!((api.status, api.header(origin)), (200, None));
}

#[test]
fn the_installed_host_verifies_the_binary_it_fetches() {
    let world = World::new(json!({}));
    let digest: String = Sha512::digest(b"#!binary").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(world.running.service.media.agent_sha512("x86_64"), Some(digest.as_str()));
}

#[test]
fn an_override_is_in_the_iso_or_refused() {
    let over = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [{"path": "/etc/mine", "contents": {"source": "data:,x"}}]}});
    let world = World::new(json!({"ignition_config_override": over.to_string()}));
    let id = world.infra_env["id"].as_str().unwrap();
    let config =
        world.running.get(&format!("{API}/v2/infra-envs/{id}/downloads/files?file_name=discovery.ign")).document();
    assert!(config.to_string().contains("/etc/mine"));

    let refused = |text: String| {
        let body = json!({"name": "x", "pull_secret": pull_secret(), "ignition_config_override": text});
        let answer = world.running.json("POST", "/v2/infra-envs", &body);
        (answer.status, answer.document()["reason"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(refused("{".into()).0, 400);
    // Noise, so that packing doesn't make it fit.
    let mut state = 1_u64;
    let noise: String = (0..700_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + u8::try_from(state >> 60).unwrap())
        })
        .chain("end".chars())
        .collect();
    let large = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [{"path": "/x", "contents": {"source": format!("data:,{noise}")}}]}});
    let (status, reason) = refused(large.to_string());
    assert!(status == 400 && reason.contains("too large"), "{status} {reason}");
}
