//! What several of these tests need: recorded machines, made-up ones, and what the real agent sent.

#![allow(dead_code, clippy::unwrap_used)]

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use serde_json::Value;
use std::{fs, path::Path, thread};

/// The machines that others recorded.
pub(crate) const MACHINES: [&str; 5] = [
    "machines/amd-ryzen-1600.tar.gz",
    "machines/nvidia-accelerator.tar.gz",
    "machines/offline-cpus.tar.gz",
    "lsblk/simple-nvme.tar.xz",
    "lsblk/simple-lvm.tar.xz",
];

/// All inventories that the real agent was seen to send.
pub(crate) fn recorded_inventories() -> Vec<Value> {
    let Some(dir) = testkit::recordings::path("data/wire") else { return Vec::new() };
    let read = |file: &str| serde_json::from_slice::<Value>(&fs::read(dir.join(file)).unwrap()).unwrap();
    let sent = read("sno-install/0003-POST-v2_infra-envs_ID_hosts_ID_instructions-204.json");
    // As the service keeps it: without the interfaces that it drops.
    let stored = read("api/sno-host-known.json");
    [&sent["request"]["body"]["output"], &stored["inventory"]]
        .map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap())
        .to_vec()
}

/// Runs with its own mounts that no other process sees. They end with the thread.
pub(crate) fn with_own_mounts(test: impl FnOnce() + Send + 'static) {
    if !testkit::skip::unless("root, for namespaces", nix::unistd::geteuid().is_root()) {
        return;
    }
    let inside = move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&Path>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        test();
    };
    thread::spawn(inside).join().unwrap();
}

/// Runs in its own network namespace, with a sysfs that shows it.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    with_own_mounts(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&Path>).unwrap();
        assert!(!Path::new("/sys/class/net/eth0").exists(), "this is not the namespace we made");
        test();
    });
}
