//! The container images, unpacked and run as a container engine would: their files and nothing else.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
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

/// An image as an engine has it before it starts a container: layout, manifest, configuration, layer.
struct Unpacked {
    config: Value,
    root: PathBuf,
}

impl Unpacked {
    fn new(archive: &Path, dir: &Path) -> Self {
        let (layout, root) = (dir.join("layout"), dir.join("root"));
        let unpack = |archive: &Path, to: &Path| {
            fs::create_dir(to).unwrap();
            run(Path::new("tar"), &["-xf", archive.to_str().unwrap(), "-C", to.to_str().unwrap()]);
        };
        unpack(archive, &layout);
        let blob = |descriptor: &Value| {
            layout.join("blobs/sha256").join(descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap())
        };
        let manifest = json(&blob(&json(&layout.join("index.json"))["manifests"][0]));
        unpack(&blob(&manifest["layers"][0]), &root);
        Self { config: json(&blob(&manifest["config"]))["config"].take(), root }
    }

    fn words(&self, field: &str) -> Vec<String> {
        self.config[field].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    }

    /// A container of it, as the user that the image names.
    fn container(&self, words: &[&str]) -> Command {
        // In a mount namespace of its own, for an engine gives it /proc; chroot(1), found on this side, looks for the program on the other.
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", "PATH=$PATH:/usr/sbin:/usr/bin; mkdir -p \"$0/proc\" && mount -t proc proc \"$0/proc\" && exec chroot \"$@\""]);
        command.arg(&self.root);
        if let Some(user) = self.config["User"].as_str() {
            command.arg(format!("--userspec={user}")).arg("--groups=");
        }
        let environment = self.words("Env");
        command.arg(&self.root).args(words).env_clear();
        command.envs(environment.iter().map(|pair| pair.split_once('=').unwrap()));
        command
    }
}

#[test]
fn a_container_of_the_image_can_do_what_units_and_daemonsets_start_there() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let archive = at("image.tar");
    run(&program, &["image", "oci", "--output", archive.to_str().unwrap()]);
    let again = at("again.tar");
    // Where the host's program is beside the whole one, it is the one that goes into the image.
    let beside = program.with_file_name("landfall-host");
    let inside = if beside.is_file() { beside } else { program.clone() };
    run(&program, &["image", "oci", "--binary", inside.to_str().unwrap(), "--output", again.to_str().unwrap()]);
    assert!(fs::read(&archive).unwrap() == fs::read(&again).unwrap(), "the same program gave other bytes");

    let image = Unpacked::new(&archive, dir.path());
    let root = &image.root;
    fs::create_dir(root.join("hostbin")).unwrap();
    let container = |words: &[&str]| image.container(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();

    let copied = container(&["cp", "/usr/bin/agent", "/hostbin"]);
    assert!(copied.status.success(), "{}", text(&copied.stderr));
    assert!(fs::read(root.join("hostbin/agent")).unwrap() == fs::read(&inside).unwrap());
    assert_eq!(fs::metadata(root.join("hostbin/agent")).unwrap().permissions().mode() & 0o777, 0o755);

    let help = container(&["next_step_runner", "-h"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stderr).starts_with("Usage of next_step_runner:\n"), "{}", text(&help.stderr));
    let command = image.words("Cmd");
    let agent = container(&command.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        (agent.status.code(), text(&agent.stderr).as_str()),
        (Some(1), "agent: --url is required, but missing or empty\n")
    );
    let inventory = container(&["inventory"]);
    assert!(inventory.stdout.starts_with(b"{") && inventory.status.success(), "{}", text(&inventory.stderr));
    assert!(container(&["landfall", "--version"]).status.success());
}

/// Ends the process with the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_container_of_the_services_image_serves_as_a_user_without_rights() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    // The user looks at the root from inside, but comes there from outside.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let archive = dir.path().join("image.tar");
    run(&program, &["image", "oci", "--for", "serve", "--output", archive.to_str().unwrap()]);
    let image = Unpacked::new(&archive, dir.path());
    let entrypoint = image.words("Entrypoint");
    let mut words: Vec<_> = entrypoint.iter().map(String::as_str).collect();
    words.extend(["--listen", "127.0.0.1:0"]);

    let mut service = image.container(&words);
    let mut service = Running(service.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(service.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on http://127.0.0.1:"), "{line:?}");
    let status = fs::read_to_string(format!("/proc/{}/status", service.0.id())).unwrap();
    assert!(status.contains("Uid:\t65532\t65532\t65532\t65532\n"), "{status}");
    // As with podman exec; it finds the service's key by the image's own settings.
    let token = image.container(&["landfall", "serve", "token"]).output().unwrap();
    assert!(token.status.success() && !token.stdout.is_empty(), "{}", String::from_utf8_lossy(&token.stderr));
    let wrong =
        ["image", "oci", "--for", "controller", "--entrypoint", "installer", "--output", "/nonexistent/image.tar"];
    let refused = Command::new(&program).args(wrong).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--entrypoint is for agent images only"), "{refused:?}");
}

#[test]
fn a_container_of_the_controllers_image_is_the_controller_and_no_shell() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let archive = dir.path().join("image.tar");
    run(&program, &["image", "oci", "--for", "controller", "--output", archive.to_str().unwrap()]);
    let image = Unpacked::new(&archive, dir.path());
    let entrypoint = image.words("Entrypoint");
    let controller = image.container(&[entrypoint[0].as_str()]).output().unwrap();
    // It has no settings here.
    let stderr = String::from_utf8_lossy(&controller.stderr);
    assert_eq!(controller.status.code(), Some(1), "{stderr}");
    assert!(!stderr.contains("unknown binary name"), "{stderr}");
    let setup = image.container(&["/usr/bin/bash", "-ex", "-c", "oc get csv"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&setup.stderr);
    assert_eq!((setup.status.code(), setup.stdout.is_empty()), (Some(1), true), "{stderr}");
    assert!(stderr.starts_with("bash -ex -c oc get csv: this image has"), "{stderr}");
}
