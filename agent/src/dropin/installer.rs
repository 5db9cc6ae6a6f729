//! `installer`: `landfall install --role` (docs/compatibility.md#installer-command-line). The real agent starts it in a container, from
//! which it goes to the host: what an installation needs is there.

use super::{
    Plan, Refusal, Work,
    flags::{Flag, Values},
    logging::Logging,
    passed_on, words,
};
use nix::sched::{CloneFlags, setns, unshare};
use std::{
    fs::{self, File},
    io,
    path::Path,
};

const LOG: &str = "/var/log/assisted-installer.log";
/// The init process's mounts, with `podman run --pid=host` the host's.
const HOST_MOUNTS: &str = "/proc/1/ns/mnt";
const OWN_MOUNTS: &str = "/proc/self/ns/mnt";

/// Flags that ours has by the same name.
const PASSED_ON: [&str; 18] = [
    "role",
    "infra-env-id",
    "cluster-id",
    "host-id",
    "boot-device",
    "url",
    "openshift-version",
    "mco-image",
    "must-gather-image",
    "controller-image",
    "agent-image",
    "coreos-image",
    "cacert",
    "installer-args",
    "service-ips",
    "http-proxy",
    "https-proxy",
    "no-proxy",
];
const SWITCHES: [&str; 5] = [
    "insecure",
    "check-cluster-version",
    "skip-installation-disk-cleanup",
    "enable-skip-mco-reboot",
    "notify-num-reboots",
];
/// Of a pretended host's flags those that this program has.
const DRY: [&str; 3] = ["dry-run", "force-id", "fake-reboot-marker-path"];

pub(super) fn flags(dry: Vec<Flag>, variable: &dyn Fn(&str) -> Option<String>) -> Vec<Flag> {
    let hosts = variable("DRY_CLUSTER_HOSTS_PATH").unwrap_or_default();
    let own = [
        Flag::text("role", "master", "Role of this host: bootstrap, master, arbiter or worker"),
        Flag::text("infra-env-id", "", "Infra-env of the host; empty for the cluster's id"),
        Flag::text("cluster-id", "", "Cluster of the host"),
        Flag::text("host-id", "", "The host"),
        Flag::text("boot-device", "", "Disk to install to; its contents are destroyed"),
        Flag::text("url", "", "Base URL of the service, with scheme"),
        Flag::text("openshift-version", "4.4", "Version of the cluster"),
        Flag::text("mco-image", "", "Image of the machine-config operator; not used"),
        Flag::text("must-gather-image", "", "Image with which the controller gathers the cluster's logs"),
        Flag::text(
            "controller-image",
            "quay.io/ocpmetal/assisted-installer-controller:latest",
            "Image of the controller that finishes the installation in the cluster",
        ),
        Flag::text("agent-image", "quay.io/ocpmetal/assisted-installer-agent:latest", "Image of the agent; not used"),
        Flag::text("coreos-image", "", "Image to install into the running system's root, instead of writing a disk"),
        Flag::text("cacert", "", "PEM bundle trusted in addition to the system's roots"),
        Flag::text("installer-args", "", "Arguments of coreos-installer, as a JSON list of strings"),
        Flag::text("service-ips", "", "Addresses by which the controller reaches the service, comma-separated"),
        Flag::text("http-proxy", "", "Proxy for http"),
        Flag::text("https-proxy", "", "Proxy for https"),
        Flag::text("no-proxy", "", "Hosts and networks to reach without a proxy, comma-separated"),
        Flag::list("format-disk", "Another disk whose boot sector is cleared; may be repeated"),
        Flag::int("control-plane-count", 0, "Control plane hosts of the cluster; 1 for a single node"),
        Flag::bool("insecure", false, "Do not verify the service's certificate"),
        Flag::bool("check-cluster-version", false, "Let the controller wait for the cluster version operator"),
        Flag::bool("skip-installation-disk-cleanup", false, "Leave volumes, arrays and signatures on the disk"),
        Flag::bool("enable-skip-mco-reboot", false, "Save a reboot by installing the cluster's own system"),
        Flag::bool("notify-num-reboots", false, "Let the controller report how often hosts were rebooted"),
        Flag::bool("verbose", false, "Log more"),
        Flag::bool("help", false, "Show this"),
        Flag::text("dry-run-cluster-hosts-path", hosts, "Hosts of a pretended cluster; not supported"),
    ];
    own.into_iter().chain(dry.into_iter().filter(|flag| DRY.contains(&flag.name))).collect()
}

pub(super) fn plan(values: &Values) -> Result<Plan, Refusal> {
    if values.is_on("help") {
        return Err(super::FlagError::Help.into());
    }
    if values.is_on("dry-run") {
        return Err(Refusal::Unable(
            "it cannot pretend an installation to the service; `landfall install --dry-run --role ROLE …` prints what \
             would be done",
        ));
    }
    let arguments = values.text("installer-args");
    if !arguments.is_empty() && serde_json::from_slice::<Vec<String>>(arguments.as_bytes()).is_err() {
        return Err(Refusal::NotAList("installer-args"));
    }
    let mut command = words(["install", "--reboot"]);
    command.extend(passed_on(values, &PASSED_ON));
    command.extend(values.list("format-disk").iter().map(|disk| format!("--format-disk={disk}")));
    command.push(format!("--control-plane-count={}", values.int("control-plane-count").max(0)));
    command.extend(SWITCHES.iter().filter(|switch| values.is_on(switch)).map(|switch| format!("--{switch}")));
    let log = Logging {
        journal: true,
        text: Some(LOG.into()),
        stream: true,
        runs_for_long: true,
        is_verbose: values.is_on("verbose"),
    };
    Ok(Plan { log, work: Work::command(command), failed: 1 })
}

/// Lets this thread see the host's files instead of a container's; does nothing if it sees them already, or may not. To be
/// called while there is no other thread.
pub(super) fn enter_host() -> io::Result<()> {
    let is_elsewhere =
        fs::read_link(HOST_MOUNTS).is_ok_and(|host| fs::read_link(OWN_MOUNTS).is_ok_and(|own| own != host));
    if is_elsewhere { enter_mounts(Path::new(HOST_MOUNTS)) } else { Ok(()) }
}

fn enter_mounts(namespace: &Path) -> io::Result<()> {
    let namespace = File::open(namespace)?;
    // The kernel allows this only to a process that shares its working directory with no other (setns(2)).
    unshare(CloneFlags::CLONE_FS)?;
    Ok(setns(namespace, CloneFlags::CLONE_NEWNS)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
        thread,
    };

    #[test]
    fn another_s_files_are_seen_by_the_thread_that_goes_there() {
        if !testkit::skip::unless("root, to enter a mount namespace", nix::unistd::geteuid().is_root()) {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("inside");
        let script = "mount -t tmpfs none \"$1\" && : > \"$1/inside\" && echo ready && read -r _";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(directory.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let namespace = format!("/proc/{}/ns/mnt", child.id());
        let seen = thread::scope(|scope| {
            let there = scope.spawn(|| {
                enter_mounts(Path::new(&namespace)).unwrap();
                marker.exists()
            });
            (marker.exists(), there.join().unwrap())
        });
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(seen, (false, true));
    }
}
