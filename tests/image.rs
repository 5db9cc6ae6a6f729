//! The agent's container image, unpacked and run as a container engine would: its files and nothing else.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The static program, which alone runs in an image without anything else; without it and root's rights there is no test.
fn program() -> Option<PathBuf> {
    let program = std::env::var_os("LANDFALL_BIN").map(PathBuf::from);
    let able = program.is_some() && nix::unistd::geteuid().is_root();
    if testkit::skip::unless("LANDFALL_BIN, the static program, and root", able) { program } else { None }
}

fn run(program: &Path, words: &[&str]) -> Output {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_container_of_the_image_can_do_what_units_and_daemonsets_start_there() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let archive = at("image.tar");
    run(&program, &["image", "oci", "--output", archive.to_str().unwrap()]);
    let again = at("again.tar");
    run(&program, &["image", "oci", "--binary", program.to_str().unwrap(), "--output", again.to_str().unwrap()]);
    assert!(fs::read(&archive).unwrap() == fs::read(&again).unwrap(), "the same program gave other bytes");

    // As an engine does: layout, manifest, configuration, layer.
    let unpack = |archive: &Path, to: &Path| {
        fs::create_dir(to).unwrap();
        run(Path::new("tar"), &["-xf", archive.to_str().unwrap(), "-C", to.to_str().unwrap()]);
    };
    unpack(&archive, &at("layout"));
    let blob = |descriptor: &Value| {
        at("layout/blobs/sha256").join(descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap())
    };
    let manifest = json(&blob(&json(&at("layout/index.json"))["manifests"][0]));
    let config = json(&blob(&manifest["config"]));
    let root = at("root");
    unpack(&blob(&manifest["layers"][0]), &root);
    fs::create_dir(root.join("hostbin")).unwrap();

    let container = |words: &[&str]| {
        let path = config["config"]["Env"][0].as_str().unwrap().strip_prefix("PATH=").unwrap();
        // env(1), found on this side, looks for the program on the other.
        let chroot = ["/usr/sbin/chroot", "/usr/bin/chroot"].into_iter().find(|path| Path::new(path).exists()).unwrap();
        Command::new(chroot).arg(&root).args(words).env_clear().env("PATH", path).output().unwrap()
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();

    let copied = container(&["cp", "/usr/bin/agent", "/hostbin"]);
    assert!(copied.status.success(), "{}", text(&copied.stderr));
    assert!(fs::read(root.join("hostbin/agent")).unwrap() == fs::read(&program).unwrap());
    assert_eq!(fs::metadata(root.join("hostbin/agent")).unwrap().permissions().mode() & 0o777, 0o755);

    let help = container(&["next_step_runner", "-h"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stderr).starts_with("Usage of next_step_runner:\n"), "{}", text(&help.stderr));
    let command: Vec<_> =
        config["config"]["Cmd"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let agent = container(&command);
    assert_eq!(
        (agent.status.code(), text(&agent.stderr).as_str()),
        (Some(1), "agent: --url is required and was not given, or is empty\n")
    );
    let inventory = container(&["inventory"]);
    assert!(inventory.stdout.starts_with(b"{") && inventory.status.success(), "{}", text(&inventory.stderr));
    assert!(container(&["landfall", "--version"]).status.success());
}
