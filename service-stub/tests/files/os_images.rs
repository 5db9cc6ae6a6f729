//! Several OS images at once: each infra-env boots that of its version, architecture and release stream.

use crate::common::{API, Answer, Files, Running, pull_secret};
use crate::iso::{self, BOOT_FILES};
use ignition::discovery::assisted::Mirror;
use serde_json::{Value, json};
use service_stub::iso_store::{Access, Pace};
use service_stub::releases::{Catalogue, IsoArgument, Listing, OsImage, ReleaseSources};
use std::{path::Path, sync::Arc};
use testkit::http::{Server, reply};

struct World {
    running: Running,
    _files: tempfile::TempDir,
}

/// An ISO whose kernel begins with a mark.
fn write(path: &Path, mark: u8) {
    iso::write(path);
    let mut image = std::fs::read(path).unwrap();
    image[BOOT_FILES[0].1 * 2048] = mark;
    std::fs::write(path, image).unwrap();
}

impl World {
    fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let at = |name: &str| files.path().join(name);
        for (name, mark) in [("nine.iso", b'9'), ("ten.iso", b'T'), ("offline.iso", b'O')] {
            write(&at(name), mark);
        }
        let image = |version: &str, name: &str, more: Value| {
            let mut image = json!({"openshift_version": version, "cpu_architecture": "x86_64",
                "url": format!("file://{}", at(name).display()), "version": format!("build-{name}"), "rootfs_url": "unused"});
            image.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            image
        };
        let elsewhere = json!({"openshift_version": "4.20", "cpu_architecture": "x86_64", "version": "420",
            "url": "https://user:word@example.com/live.iso"});
        let list = json!([
            image("4.22", "nine.iso", json!({"os_stream": "rhel-9", "default_os_stream": true})),
            image("4.22", "ten.iso", json!({"os_stream": "rhel-10"})),
            image("4.22.9", "offline.iso", json!({"type": "disconnected-iso"})),
            elsewhere,
        ]);
        let list = std::ffi::OsString::from(list.to_string()).into();
        let catalogue = Catalogue::read(None, Some(&list), None).unwrap().map(Arc::new);
        let base: Arc<[u8]> = br#"{"ignition": {"version": "3.2.0"}, "storage": {"files": [
            {"path": "/etc/assisted/interactive-ui"}, {"path": "/etc/base"}]}}"#
            .as_slice()
            .into();
        let running = Running::start(Files { catalogue, disconnected_ignition: Some(base), ..Files::default() });
        Self { running, _files: files }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.running.json(method, path, body);
        (answer.status, answer.document())
    }

    fn infra_env(&self, more: Value) -> (u16, Value) {
        let mut body = json!({"name": "lab", "pull_secret": pull_secret()});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask("POST", "/v2/infra-envs", &body)
    }

    fn cluster(&self, more: Value) -> Value {
        let mut body = json!({"name": "rack", "openshift_version": "4.22.9", "pull_secret": pull_secret()});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, cluster) = self.ask("POST", "/v2/clusters", &body);
        assert_eq!(status, 201, "{cluster}");
        cluster
    }

    fn image(&self, infra_env: &Value) -> Answer {
        let url = infra_env["download_url"].as_str().unwrap();
        self.running.get(url.strip_prefix(&self.running.url).unwrap())
    }

    /// The mark in an infra-env's image, and in the kernel that its boot script names.
    fn marks(&self, infra_env: &Value) -> (char, char) {
        let image = self.image(infra_env);
        assert_eq!(image.status, 200, "{}", String::from_utf8_lossy(&image.body[..200.min(image.body.len())]));
        let id = infra_env["id"].as_str().unwrap();
        let script = self.running.get(&format!("{API}/v2/infra-envs/{id}/downloads/files?file_name=ipxe-script")).body;
        let script = String::from_utf8(script).unwrap();
        let kernel = script.lines().find_map(|line| line.strip_prefix("kernel ")).unwrap();
        let kernel = kernel.split(' ').next().unwrap().strip_prefix(&self.running.url).unwrap();
        (image.body[BOOT_FILES[0].1 * 2048].into(), self.running.get(kernel).body[0].into())
    }
}

#[test]
fn an_infra_env_boots_the_image_of_its_stream() {
    let world = World::new();
    let made = |more| {
        let (status, infra_env) = world.infra_env(more);
        assert_eq!(status, 201, "{infra_env}");
        infra_env
    };
    let default = made(json!({"openshift_version": "4.22.9"}));
    assert_eq!((&default["openshift_version"], &default["os_stream"]), (&json!("4.22"), &Value::Null));
    assert_eq!(world.marks(&default), ('9', '9'));
    let ten = made(json!({"os_stream": "rhel-10"}));
    assert_eq!((&ten["os_stream"], world.marks(&ten)), (&json!("rhel-10"), ('T', 'T')));

    let path = format!("/v2/infra-envs/{}", default["id"].as_str().unwrap());
    let (status, changed) = world.ask("PATCH", &path, &json!({"os_stream": "rhel-10"}));
    assert_eq!((status, &changed["os_stream"], world.marks(&changed)), (201, &json!("rhel-10"), ('T', 'T')));
    let (status, refused) = world.ask("PATCH", &path, &json!({"os_stream": "rhel-11"}));
    assert_eq!(
        (status, &refused["reason"]),
        (
            400,
            &json!(
                "No OS image for Openshift version 4.22 and architecture x86_64: The requested OS image for version (4.22), CPU \
                 architecture (x86_64) and OS stream (rhel-11) isn't specified in OS images list"
            )
        )
    );
    let (status, changed) = world.ask("PATCH", &path, &json!({"os_stream": ""}));
    assert_eq!((status, &changed["os_stream"], world.marks(&changed)), (201, &Value::Null, ('9', '9')));

    let elsewhere = made(json!({"openshift_version": "4.20"}));
    let missing = world.image(&elsewhere);
    let reason = missing.document()["reason"].as_str().unwrap().to_owned();
    assert!(
        missing.status == 404
            && reason.contains("downloads none")
            && reason.contains("--no-download")
            && !reason.contains("word"),
        "{reason}"
    );
}

#[test]
fn a_cluster_has_a_stream_and_its_infra_env_too() {
    let world = World::new();
    let cluster = world.cluster(json!({"os_stream": "rhel-10"}));
    assert_eq!(cluster["os_stream"], "rhel-10");
    let id = cluster["id"].as_str().unwrap();
    let (_, inherits) = world.infra_env(json!({"cluster_id": id, "openshift_version": "4.22"}));
    assert_eq!((&inherits["os_stream"], world.marks(&inherits)), (&json!("rhel-10"), ('T', 'T')));
    let (_, own) = world.infra_env(json!({"cluster_id": id, "openshift_version": "4.22", "os_stream": "rhel-9"}));
    assert_eq!(world.marks(&own), ('9', '9'));
    let path = format!("/v2/clusters/{id}");
    let config = |world: &World| world.running.get(&format!("{API}{path}/install-config")).document();
    assert!(config(&world).as_str().unwrap().contains(r#""osImageStream":"rhel-10""#));
    let (status, changed) = world.ask("PATCH", &path, &json!({"os_stream": ""}));
    assert_eq!((status, changed.get("os_stream")), (201, None));
    assert!(!config(&world).as_str().unwrap().contains("osImageStream"));
}

#[test]
fn versions_without_a_network_and_their_image() {
    let world = World::new();
    let get = |path: &str| world.running.get(&format!("{API}{path}")).document();
    let offline = get("/v2/offline-openshift-versions?only_latest=true&version=22");
    assert_eq!(
        offline,
        json!({"4.22.9": {"cpu_architectures": ["x86_64"], "display_name": "4.22.9", "support_level": "production"}})
    );
    assert_eq!(get("/v2/offline-openshift-versions?version=21"), json!({}));

    let id = world.cluster(json!({}))["id"].as_str().unwrap().to_owned();
    let (status, infra_env) = world.infra_env(json!({
        "cluster_id": id, "openshift_version": "4.22", "image_type": "disconnected-iso", "rendezvous_ip": "192.0.2.80",
        "ignition_config_override": r#"{"ignition": {"version": "3.1.0"}, "storage": {"files": [{"path": "/etc/mine"}]}}"#,
    }));
    assert_eq!(status, 201, "{infra_env}");
    let url = infra_env["download_url"].as_str().unwrap();
    assert!(url.ends_with("/disconnected.iso"), "{url}");
    let image = world.image(&infra_env);
    assert_eq!((image.status, image.body[BOOT_FILES[0].1 * 2048]), (200, b'O'));
    let served = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(served.path(), &image.body).unwrap();
    let inside = rootfs_overlay::area::LiveIso::open(served.path()).unwrap().ignition().unwrap();
    let config: Value = serde_json::from_slice(&inside).unwrap();
    let mut paths: Vec<&str> =
        config["storage"]["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "/etc/assisted/interactive-ui",
            "/etc/assisted/manifests/pull-secret.yaml",
            "/etc/assisted/rendezvous-host.env",
            "/etc/base",
            "/etc/mine"
        ]
    );
    let file = format!("/v2/infra-envs/{}/downloads/files?file_name=discovery.ign", infra_env["id"].as_str().unwrap());
    assert_eq!(world.running.get(&format!("{API}{file}")).body, inside);
}

#[test]
fn versions_to_install_are_those_that_hosts_can_boot() {
    let world = World::new();
    let versions = world.running.get(&format!("{API}/v2/openshift-versions")).document();
    assert_eq!(versions.as_object().unwrap().keys().collect::<Vec<_>>(), ["4.22.9"], "4.21.3 has no OS image");
    assert_eq!(versions["4.22.9"]["cpu_architectures"], json!(["x86_64"]));
}

#[test]
fn an_image_that_is_downloaded_is_waited_for() {
    let files = tempfile::tempdir().unwrap();
    write(&files.path().join("live.iso"), b'D');
    let bytes = std::fs::read(files.path().join("live.iso")).unwrap();
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let opened = std::sync::Mutex::new(opened);
    let server = Server::start(move |request| {
        match request.earlier {
            0 => reply("500 Internal Server Error", "", ""),
            _ => {
                // Until the test has seen that it is not there; at its end the channel is closed.
                let _ = opened.lock().unwrap().recv();
                reply("200 OK", "", &bytes)
            }
        }
    });
    let list = json!([{"openshift_version": "4.22", "cpu_architecture": "x86_64", "version": "422.7",
        "url": server.url("/live.iso?key=hunter2")}]);
    let list = std::ffi::OsString::from(list.to_string()).into();
    let catalogue = Catalogue::read(None, Some(&list), None).unwrap().map(Arc::new);
    let pace = Pace { first_pause: std::time::Duration::from_millis(50), ..Pace::default() };
    let downloads = Some(Access { pace, ..Access::default() });
    let running = Running::start(Files { catalogue, downloads, ..Files::default() });
    let world = World { running, _files: files };
    let (status, infra_env) = world.infra_env(json!({}));
    assert_eq!((status, &infra_env["openshift_version"]), (201, &json!("4.22")), "{infra_env}");
    let kernel = "/boot-artifacts/kernel?version=422.7&arch=x86_64";
    for answer in [world.image(&infra_env), world.running.get(kernel)] {
        let reason = answer.document()["reason"].as_str().unwrap().to_owned();
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("10")), "{reason}");
        assert!(
            reason.starts_with("the OS image 422.7 for x86_64 is not ready: ") && !reason.contains("hunter2"),
            "{reason}"
        );
    }
    let shown = world.running.get("/landfall/os-images");
    let document = shown.document();
    assert_eq!((shown.status, &document[0]["version"]), (503, &json!("422.7")));
    assert!(document[0]["url"].as_str().unwrap().ends_with("/live.iso"), "{document}");
    assert_eq!(world.running.get("/health").status, 200, "the service itself is well");
    drop(open);
    assert!(testkit::wait::comes(|| world.running.get("/landfall/os-images").status == 200), "it is never there");
    assert_eq!(world.marks(&infra_env), ('D', 'D'));
}

#[test]
fn live_hosts_get_registries_and_infra_envs_their_own() {
    let mirror = |conf: &str, ca: &str| Mirror {
        registries_conf: conf.to_owned(),
        ca_pem: Some(ca.to_owned()),
        policy_json: None,
    };
    let service = Arc::new(mirror("[[registry]]\nlocation = 'a'", "SERVICE"));
    let files = tempfile::tempdir().unwrap();
    iso::write(&files.path().join("live.iso"));
    let iso = Some(files.path().join("live.iso"));
    let world = World {
        running: Running::start(Files { mirror: Some(service.clone()), iso, ..Files::default() }),
        _files: files,
    };
    let (_, infra_env) = world.infra_env(json!({}));
    let id: api::InfraEnvId = infra_env["id"].as_str().unwrap().parse().unwrap();
    let content = |path: &str| {
        let config = format!("{API}/v2/infra-envs/{id}/downloads/files?file_name=discovery.ign");
        let config = world.running.get(&config).document();
        let files = config["storage"]["files"].as_array().unwrap().clone();
        let source = files
            .iter()
            .find(|file| file["path"] == path)
            .map(|file| file["contents"]["source"].as_str().unwrap().to_owned());
        source.map(|source| String::from_utf8(ignition::data_url::decode(&source).unwrap().data.into_owned()).unwrap())
    };
    let (conf, ca) = ("/etc/containers/registries.conf", "/etc/pki/ca-trust/source/anchors/domain.crt");
    assert_eq!((content(conf), content(ca).as_deref()), (Some(service.registries_conf.clone()), Some("SERVICE")));
    assert!(content("/etc/containers/policy.json").unwrap().contains("insecureAcceptAnything"));
    let set = |setting: Value| {
        let body = json!({"mirror_registry_configuration": setting});
        world.running.json("PATCH", &format!("/v2/infra-envs/{id}"), &body)
    };
    let own = "[[registry]]\nlocation = 'b'\nmirror = [{location = 'm'}]\n";
    let answer = set(json!({"registries_conf": own}));
    assert_eq!(
        (answer.status, &answer.document()["mirror_registry_configuration"]["registries_conf"]),
        (201, &json!(own))
    );
    assert_eq!((content(conf).as_deref(), content(ca)), (Some(own), None));
    let answer = set(json!({"registries_conf": "[[registry]]\nlocation = 'b'"}));
    let reason = answer.document()["reason"].clone();
    assert_eq!((answer.status, reason), (400, json!("failed to find any image mirrors in registry.conf")));
    let answer = set(json!({}));
    assert_eq!((answer.status, answer.document().get("mirror_registry_configuration")), (201, None));
    assert_eq!(content(conf).as_ref(), Some(&service.registries_conf), "the service's again");
}

#[test]
fn an_iso_for_a_version_leaves_the_others_to_the_one_for_all() {
    let files = tempfile::tempdir().unwrap();
    let at = |name: &str| files.path().join(name);
    write(&at("one.iso"), b'1');
    write(&at("all.iso"), b'A');
    let argument: IsoArgument = format!("4.21:x86_64={}", at("one.iso").display()).parse().unwrap();
    let IsoArgument::Listed(image) = argument else { panic!("{argument:?}") };
    let mut catalogue = Catalogue::default();
    catalogue.add_os_images(std::iter::once::<OsImage>(image), true);
    let catalogue = Some(Arc::new(catalogue));
    let running = Running::start(Files { catalogue, iso: Some(at("all.iso")), ..Files::default() });
    let world = World { running, _files: files };
    for (version, mark) in [("4.21.3", '1'), ("4.22", 'A')] {
        let (status, infra_env) = world.infra_env(json!({"openshift_version": version}));
        assert_eq!(status, 201, "{infra_env}");
        assert_eq!(world.marks(&infra_env), (mark, mark), "{version}");
    }
}

#[test]
fn releases_of_channels_are_offered_and_installed() {
    let server = Server::start(|request| match request.path() {
        "/levels" => {
            reply("200 OK", "", r#"{"data": [{"versions": [{"name": "4.22", "type": "Maintenance Support"}]}]}"#)
        }
        _ => reply("200 OK", "", r#"{"nodes": [{"version": "4.22.9"}, {"version": "4.22.10"}], "edges": []}"#),
    });
    let text = r#"[{"openshift_version":"4.22","multi_cpu_architectures":["x86_64"],"upgrade_channels":[{"cpu_architecture":"x86_64","channels":["stable"]}]}]"#;
    let list = Listing::Text(text.to_owned());
    let hour = std::time::Duration::from_secs(3600);
    let release_sources = ReleaseSources::read(Some(&list), &server.url(""), &server.url("/levels"), hour).unwrap();
    let running = Running::start(Files { release_sources, ..Files::default() });
    let get = |path: &str| running.get(&format!("{API}/v2/{path}")).document();
    assert_eq!(get("release-sources"), serde_json::from_str::<Value>(text).unwrap());
    let offered = || get("openshift-versions?only_latest=true");
    assert!(testkit::wait::comes(|| offered().get("4.22.10").is_some()), "{}", offered());
    assert_eq!(offered()["4.22.10"]["support_level"], "maintenance");
    let create = |version: &str| {
        let body = json!({"name": "rack", "openshift_version": version, "pull_secret": pull_secret()});
        running.json("POST", "/v2/clusters", &body)
    };
    let made = create("4.22");
    let cluster = made.document();
    assert_eq!((made.status, &cluster["openshift_version"]), (201, &json!("4.22.10")), "{cluster}");
    assert_eq!(cluster["ocp_release_image"], "quay.io/openshift-release-dev/ocp-release:4.22.10-x86_64");
    assert_eq!(create("4.21").status, 400);
}
