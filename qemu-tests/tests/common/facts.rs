//! What `landfall` says of a machine, asked in the machine's own shell.
// Each suite uses its part of it.
#![allow(clippy::unwrap_used, dead_code)]

use qemu_tests::{paths, service, shell::Shell, vm::Vm};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

/// Names a directory to store captures in.
const KEEP_ENV: &str = "LANDFALL_KEEP_CAPTURES";
/// Twenty times what a boot takes under TCG on a busy machine.
const BOOT_LIMIT: Duration = Duration::from_secs(900);
/// For a single script, likewise.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// The shell of a machine, and what it said that it shouldn't have.
pub(crate) struct Facts {
    shell: Shell,
    differences: Vec<String>,
}

impl Facts {
    pub(crate) fn ask(vm: &mut Vm) -> Self {
        Self { shell: vm.shell(BOOT_LIMIT).unwrap_or_else(|error| panic!("{error}")), differences: Vec::new() }
    }

    /// Notes where `found` is other than `expected`; [`Facts::all_as_expected`] tells.
    pub(crate) fn compare(&mut self, what: &str, found: &Value, expected: &Value) {
        match (found, expected) {
            (Value::Object(some), Value::Object(others)) => {
                let keys: BTreeSet<&String> = some.keys().chain(others.keys()).collect();
                keys.iter().for_each(|key| self.compare(&format!("{what}.{key}"), &found[*key], &expected[*key]));
            }
            _ if found == expected => {}
            _ => self.differences.push(format!("{what} is {found}, not {expected}")),
        }
    }

    /// Notes what of `expected` is not in `found`: members of objects, elements of lists in their order.
    pub(crate) fn contains(&mut self, what: &str, found: &Value, expected: &Value) {
        match (found, expected) {
            (Value::Object(_), Value::Object(members)) => {
                members.iter().for_each(|(key, value)| self.contains(&format!("{what}.{key}"), &found[key], value));
            }
            (Value::Array(some), Value::Array(others)) if some.len() == others.len() => {
                for (index, (found, expected)) in some.iter().zip(others).enumerate() {
                    self.contains(&format!("{what}[{index}]"), found, expected);
                }
            }
            _ => self.compare(what, found, expected),
        }
    }

    /// Ends the test unless all that was compared was the same.
    pub(crate) fn all_as_expected(&self) {
        assert!(
            self.differences.is_empty(),
            "{} differences:\n{}",
            self.differences.len(),
            self.differences.join("\n")
        );
    }

    /// Standard output of a script that must succeed.
    pub(crate) fn run(&mut self, script: &str) -> Vec<u8> {
        self.shell.run(&format!("set -e\n{script}"), LIMIT).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn text(&mut self, script: &str) -> String {
        String::from_utf8(self.run(script)).unwrap()
    }

    /// Makes the virtio disks HALF-1 and HALF-2 the mirror md127 of 32 MiB, with a file system: an array without
    /// metadata, which needs no separate program (kernel's Documentation/admin-guide/md.rst).
    pub(crate) fn make_mirror(&mut self) {
        self.run(
            "modprobe raid1
             echo md127 >/sys/module/md_mod/parameters/new_array
             cd /sys/block/md127/md
             echo none >metadata_version
             echo raid1 >level
             echo 2 >raid_disks
             echo 32768 >component_size
             for half in 0 1; do
                 disk=$(readlink -f /dev/disk/by-id/virtio-HALF-$((half + 1))); disk=${disk##*/}
                 cat /sys/block/$disk/dev >new_dev
                 echo 32768 >dev-$disk/size
                 echo $half >dev-$disk/slot
             done
             echo none >resync_start
             echo active >array_state
             mke2fs /dev/md127
             sync",
        );
    }

    pub(crate) fn inventory(&mut self) -> Value {
        self.inventory_within(LIMIT)
    }

    /// The inventory, which must be the same twice, byte for byte.
    pub(crate) fn stable_inventory(&mut self) -> Value {
        let first = self.run("landfall inventory");
        let second = self.run("landfall inventory");
        assert!(first == second, "{}\n{}", String::from_utf8_lossy(&first), String::from_utf8_lossy(&second));
        serde_json::from_slice(&first).unwrap()
    }

    /// The inventory, if it comes within `limit`.
    pub(crate) fn inventory_within(&mut self, limit: Duration) -> Value {
        let output = self.shell.run("landfall inventory", limit).unwrap_or_else(|error| panic!("{error}"));
        serde_json::from_slice(&output).unwrap()
    }

    pub(crate) fn report(&mut self) -> Value {
        serde_json::from_slice(&self.run("landfall report --json")).unwrap()
    }

    /// What `wanted` takes from an inventory, as soon as it does.
    pub(crate) fn until<T>(&mut self, wanted: impl Fn(&Value) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            let inventory = self.inventory();
            match wanted(&inventory) {
                Some(found) => return found,
                None if Instant::now() >= deadline => {
                    panic!("not within {} s; now it is {inventory:#}", LIMIT.as_secs())
                }
                None => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// The name of the interface with this address.
    pub(crate) fn interface(&mut self, mac: &str) -> String {
        self.try_interface(mac).unwrap_or_else(|| panic!("no interface has the address {mac}"))
    }

    pub(crate) fn try_interface(&mut self, mac: &str) -> Option<String> {
        let names = self.text(&format!("cd /sys/class/net; grep -l {mac} */address || :"));
        names.lines().next().and_then(|line| line.split('/').next()).map(str::to_owned)
    }

    /// Captures the machine: replayed here, these commands must say the same, in JSON.
    pub(crate) fn replays(&mut self, name: &str, commands: &[&str]) {
        let here: Vec<Vec<u8>> = commands.iter().map(|command| self.run(&format!("landfall {command}"))).collect();
        let capture = self.run("landfall capture -o -");
        let dir = match std::env::var_os(KEEP_ENV).filter(|dir| !dir.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => paths::log_dir("hardware").unwrap(),
        };
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join(format!("{name}.tar.gz"));
        fs::write(&file, capture).unwrap();
        for (command, here) in commands.iter().zip(here) {
            let mut replay = Command::new(service::binary().unwrap());
            let replayed = replay.args(command.split(' ')).arg("--root").arg(&file).output().unwrap();
            assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
            let [mut replayed, here]: [Value; 2] =
                [replayed.stdout, here].map(|json| serde_json::from_slice(&json).unwrap());
            // Time passed between the two, and disks were read.
            let read =
                ["read_bytes", "read_commands"].map(|count| format!("/storage/nvme_controllers/0/smart/{count}"));
            let changing = ["/health/uptime_seconds", "/date"].into_iter().chain(read.iter().map(String::as_str));
            for place in changing {
                if let (Some(then), Some(now)) = (here.pointer(place), replayed.pointer_mut(place)) {
                    *now = then.clone();
                }
            }
            self.compare(&format!("replayed {command} of {name}"), &replayed, &here);
        }
    }
}
