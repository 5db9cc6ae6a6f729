//! A release as those who fetch it have it: its packages are installed, run and removed in roots of their own, its sums and bills are
//! checked. Made by `.ci/dist`, quickly, of the program of `LANDFALL_BIN` and the host's program beside it.
#![allow(clippy::unwrap_used)]

mod release;
mod root;

use release::{Entry, RELEASE};
use root::Root;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fs, path::Path, process::Command};

/// Each package, the units in it, and the documents that only Debian's form of it has.
const PACKAGES: [(&str, &[&str]); 2] = [
    ("landfall", &["landfall-serve.service"]),
    (
        "landfall-host",
        &["agent.service", "landfall-serve.service", "landfall-status.service", "landfall-console.service"],
    ),
];
/// Exposure of landfall's own unit in tenths, as `systemd-analyze security` of systemd 252 counts it.
const SERVE_EXPOSURE: &str = "1.1";

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn sums_name_every_file_and_bills_the_programs_they_are_of() {
    let Some(release) = RELEASE.as_ref() else { return };
    let sums = fs::read_to_string(release.path("SHA256SUMS")).unwrap();
    let sums: BTreeMap<_, _> =
        sums.lines().map(|line| line.split_once("  ").unwrap()).map(|(sum, name)| (name, sum)).collect();
    let mut names: Vec<_> = release.names().into_iter().filter(|name| name != "SHA256SUMS").collect();
    names.sort();
    assert_eq!(names, sums.keys().copied().collect::<Vec<_>>());
    for (name, sum) in &sums {
        assert_eq!(sha256(&fs::read(release.path(name)).unwrap()), *sum, "{name}");
    }
    let version = env!("CARGO_PKG_VERSION");
    let mut expected = vec![
        format!("landfall-{version}-x86_64.tar.xz"),
        format!("landfall-agent-{version}-x86_64.oci.tar"),
        format!("landfall-controller-{version}-x86_64.oci.tar"),
        format!("landfall-serve-{version}-x86_64.oci.tar"),
    ];
    for name in ["landfall", "landfall-host"] {
        let program = format!("{name}-{version}-x86_64");
        let bill: Value =
            serde_json::from_slice(&fs::read(release.path(&format!("{program}.cdx.json"))).unwrap()).unwrap();
        let described = &bill["metadata"]["component"];
        assert_eq!(described["name"], name);
        assert_eq!(described["hashes"][0]["content"], sums[program.as_str()], "{name}");
        assert!(run(Command::new(release.path(&program)).arg("--version")).ends_with(&format!("{version}\n")));
        expected.extend([release.deb(name), release.rpm(name), format!("{program}.cdx.json"), program]);
    }
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn the_archive_has_both_programs_and_an_overlay_with_the_hosts() {
    let Some(release) = RELEASE.as_ref() else { return };
    let version = env!("CARGO_PKG_VERSION");
    let dir = tempfile::tempdir().unwrap();
    run(Command::new("tar")
        .arg("-xf")
        .arg(release.path(&format!("landfall-{version}-x86_64.tar.xz")))
        .arg("-C")
        .arg(dir.path()));
    let at = |path: &str| dir.path().join(format!("landfall-{version}-x86_64")).join(path);
    let same = |path: &str, program: &str| {
        let program = release.path(&format!("{program}-{version}-x86_64"));
        assert!(fs::read(at(path)).unwrap() == fs::read(program).unwrap(), "{path}");
    };
    same("bin/landfall", "landfall");
    same("lib/landfall/landfall-host", "landfall-host");
    same("overlay/usr/bin/landfall", "landfall-host");
    for path in
        ["overlay/usr/lib/systemd/system/agent.service", "share/man/man1/landfall.1", "share/doc/landfall/CHANGELOG.md"]
    {
        assert!(at(path).is_file(), "{path}");
    }
}

#[test]
fn the_images_are_whole_and_each_starts_its_own_program() {
    let Some(release) = RELEASE.as_ref() else { return };
    let version = env!("CARGO_PKG_VERSION");
    for (purpose, program, path, start) in [
        ("agent", "landfall-host", "usr/bin/agent", json!([null, ["agent"]])),
        ("serve", "landfall", "usr/bin/landfall", json!([["/usr/bin/landfall", "serve"], null])),
        ("controller", "landfall", "usr/bin/landfall", json!([["/usr/bin/assisted-installer-controller"], null])),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let unpack = |archive: &Path, name: &str| {
            let to = dir.path().join(name);
            fs::create_dir(&to).unwrap();
            run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&to));
            to
        };
        let layout = unpack(&release.path(&format!("landfall-{purpose}-{version}-x86_64.oci.tar")), "layout");
        // OCI image-spec 1.1: each descriptor has the size and the digest of what it describes.
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let path = layout.join("blobs/sha256").join(digest);
            let bytes = fs::read(&path).unwrap();
            assert_eq!(
                (sha256(&bytes).as_str(), json!(bytes.len())),
                (digest, descriptor["size"].clone()),
                "{descriptor}"
            );
            (path, bytes)
        };
        let document = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        assert_eq!(document(&fs::read(layout.join("oci-layout")).unwrap())["imageLayoutVersion"], "1.0.0");
        let index = document(&fs::read(layout.join("index.json")).unwrap());
        let name = format!("localhost/landfall-{purpose}:{version}");
        assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], name);
        let manifest = document(&blob(&index["manifests"][0]).1);
        let config = document(&blob(&manifest["config"]).1);
        assert_eq!(json!([config["config"]["Entrypoint"], config["config"]["Cmd"]]), start, "{purpose}");
        let root = unpack(&blob(&manifest["layers"][0]).0, "root");
        let expected = release.path(&format!("{program}-{version}-x86_64"));
        assert!(fs::read(root.join(path)).unwrap() == fs::read(expected).unwrap(), "{purpose}");
        let told = run(Command::new("chroot").arg(&root).args(["/usr/bin/landfall", "--version"]));
        assert!(told.ends_with(&format!(" {version}\n")), "{told}");
    }
}

#[test]
fn both_forms_of_a_package_have_the_same_files() {
    let Some(release) = RELEASE.as_ref() else { return };
    for (name, units) in PACKAGES {
        let mut deb = release.deb_entries(name);
        let rpm = release.rpm_entries(name);
        // Debian's own: its changelog, and what its checker of packages is to overlook.
        for only in
            [format!("/usr/share/doc/{name}/changelog.Debian.gz"), format!("/usr/share/lintian/overrides/{name}")]
        {
            assert!(deb.remove(&only).is_some(), "{only}");
        }
        assert_eq!(deb, rpm, "{name}");
        let page = format!("/usr/share/man/man1/landfall{}.1.gz", if name == "landfall" { "-serve" } else { "-agent" });
        for path in [
            "/usr/bin/landfall",
            "/usr/share/bash-completion/completions/landfall",
            "/usr/share/zsh/site-functions/_landfall",
            "/usr/share/fish/vendor_completions.d/landfall.fish",
            &page,
        ] {
            assert!(deb.contains_key(path), "{name}: {path}");
        }
        for unit in units {
            assert!(
                matches!(deb[&format!("/usr/lib/systemd/system/{unit}")], Entry::File { mode: 0o644, .. }),
                "{unit}"
            );
        }
    }
    // The host's program is the one that `landfall` puts into images.
    let (whole, host) = (release.deb_entries("landfall"), release.deb_entries("landfall-host"));
    assert_eq!(whole["/usr/lib/landfall/landfall-host"], host["/usr/bin/landfall"]);
    // The overlay is the one source of its files.
    let overlay = Path::new(env!("CARGO_MANIFEST_DIR")).join("rootfs-overlay/overlay");
    for (_, units) in &PACKAGES[1..] {
        for unit in *units {
            let content = fs::read(overlay.join("usr/lib/systemd/system").join(unit)).unwrap();
            let path = format!("/usr/lib/systemd/system/{unit}");
            assert_eq!(host[&path], Entry::File { mode: 0o644, sha256: sha256(&content) }, "{unit}");
        }
    }
}

#[test]
fn a_deb_is_installed_and_purged_without_a_trace() {
    let Some(release) = RELEASE.as_ref() else { return };
    for (name, units) in PACKAGES {
        let root = Root::new();
        let before = root.files();
        run(root.dpkg().arg("-i").arg(release.path(&release.deb(name))));
        root.check_programs(name);
        root.check_units(units);
        assert_eq!(root.enabled(), Vec::<String>::new(), "{name} enables something outside of the overlay");
        // What a service leaves is not left behind either.
        root.write("var/lib/private/landfall/state.redb", "records");
        root.link("private/landfall", "var/lib/landfall");
        if name == "landfall-host" {
            fs::remove_dir_all(root.path("var/lib/private")).unwrap();
            root.write("etc/landfall/agent.env", "LANDFALL_URL=https://service.example.com");
        } else {
            run(root.chroot().args(["systemctl", "--quiet", "enable", "landfall-serve.service"]));
        }
        run(root.dpkg().args(["--purge", name]));
        let _ = fs::remove_dir(root.path("var/lib/private"));
        assert_eq!(root.difference(&before), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_changed_setting_outlives_an_upgrade_and_the_packages_exclude_each_other() {
    let Some(release) = RELEASE.as_ref() else { return };
    let root = Root::new();
    let install = |name: &str| {
        let mut dpkg = root.dpkg();
        dpkg.arg("-i").arg(release.path(&release.deb(name)));
        dpkg
    };
    run(&mut install("landfall"));
    let setting = "LANDFALL_SERVE_URL=http://192.0.2.1:8090\n";
    root.write("etc/landfall/serve.env", setting);
    let other = install("landfall-host").output().unwrap();
    assert!(!other.status.success());
    assert!(String::from_utf8_lossy(&other.stderr).contains("landfall-host conflicts with landfall"), "{other:?}");
    run(&mut install("landfall"));
    assert_eq!(fs::read_to_string(root.path("etc/landfall/serve.env")).unwrap(), setting);
    // Removed, not purged: the setting stays, and is not the other package's to purge.
    run(root.dpkg().args(["--remove", "landfall"]));
    run(&mut install("landfall-host"));
    root.write("var/lib/landfall/service/state.redb", "of a rack");
    run(root.dpkg().args(["--purge", "landfall"]));
    assert!(root.path("var/lib/landfall/service/state.redb").exists());
    assert!(!root.path("etc/landfall/serve.env").exists());
}

#[test]
fn an_rpm_is_installed_verified_and_erased_without_a_trace() {
    let Some(release) = RELEASE.as_ref() else { return };
    for (name, units) in PACKAGES {
        let root = Root::new();
        // The shell is there, but in no database of rpm.
        let before = root.with_shell_in_rpm();
        run(root.rpm().arg("--install").arg(release.path(&release.rpm(name))));
        root.check_programs(name);
        root.check_units(units);
        assert_eq!(run(root.rpm().args(["--verify", name])), "", "{name}");
        fs::write(root.path("usr/bin/landfall"), "another program").unwrap();
        let changed = root.rpm().args(["--verify", name]).output().unwrap();
        assert!(String::from_utf8_lossy(&changed.stdout).contains("/usr/bin/landfall"), "{changed:?}");
        run(root.rpm().args(["--erase", name]));
        assert_eq!(root.difference(&before), Vec::<String>::new(), "{name}");
        let requires = run(Command::new("rpm").args(["-qp", "--requires"]).arg(release.path(&release.rpm(name))));
        let needs: Vec<_> =
            requires.lines().filter(|line| !line.starts_with("rpmlib(") && *line != "/bin/sh").collect();
        assert_eq!(needs, Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn the_services_unit_keeps_its_exposure() {
    let Some(release) = RELEASE.as_ref() else { return };
    let root = Root::new();
    run(root.dpkg().arg("-i").arg(release.path(&release.deb("landfall"))));
    let words = ["systemd-analyze", "security", "--offline=true", "--no-pager", "landfall-serve.service"];
    let table = run(root.chroot().args(words));
    let line = table.lines().last().unwrap_or_default();
    assert!(line.contains(&format!("landfall-serve.service: {SERVE_EXPOSURE} ")), "{line}");
}

#[test]
fn the_packaged_service_runs_as_a_user_of_its_own_until_the_package_goes() {
    let Some(release) = RELEASE.as_ref() else { return };
    let root = Root::new();
    run(root.dpkg().arg("-i").arg(release.path(&release.deb("landfall"))));
    // There is no default route there to know an address by.
    root.write("etc/landfall/serve.env", "LANDFALL_SERVE_URL=http://127.0.0.1:8090\n");
    let log = root.boot(
        "
        systemctl enable --now landfall-serve.service && echo enabled
        for i in $(seq 100); do curl --silent --fail http://127.0.0.1:8090/health && break; sleep 0.1; done && echo healthy
        pid=$(systemctl show --property MainPID --value landfall-serve.service)
        grep -E '^(Uid|CapBnd|NoNewPrivs|Seccomp):' /proc/$pid/status
        landfall serve token --state-dir /var/lib/landfall > /dev/null && echo token
        stat --format '%a %F' /var/lib/private/landfall
        /var/lib/dpkg/info/landfall.prerm remove
        systemctl is-active landfall-serve.service
        systemctl is-enabled landfall-serve.service
        ",
    );
    let uid = log.lines().find_map(|line| line.strip_prefix("Uid:")).and_then(|ids| ids.split_whitespace().next());
    // systemd.exec(5), DynamicUser=.
    assert!(uid.and_then(|uid| uid.parse().ok()).is_some_and(|uid: u32| (61184..=65519).contains(&uid)), "{log}");
    for line in
        ["enabled", "healthy", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "token", "700 directory"]
    {
        assert!(log.lines().any(|found| found == line), "{line} is missing in\n{log}");
    }
    assert!(log.ends_with("inactive\ndisabled\n"), "{log}");
}
