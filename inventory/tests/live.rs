//! The running system.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{in_namespace, with_own_mounts};
use inventory::{Root, collect, identity};
use nix::{
    mount::{MsFlags, mount},
    sys::stat::{major, minor},
};
use std::{fs, os::unix::fs::MetadataExt, path::Path};
use testkit::log::Log;

fn live() -> Root {
    Root::open("/").unwrap()
}

#[test]
fn the_disk_below_us_is_not_offered() {
    let number = fs::metadata("/").unwrap().dev();
    let sys = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    let Ok(sys) = fs::canonicalize(&sys) else {
        testkit::skip::because("/ is not on its own block device");
        return;
    };
    let disk = if sys.join("partition").exists() { sys.parent().unwrap() } else { &sys };
    let name = disk.file_name().unwrap().to_str().unwrap();
    let found = collect(&live()).disks;
    let Some(disk) = found.iter().find(|disk| disk.name == name) else {
        testkit::skip::because(format_args!("/ is on {name}, which is not a disk"));
        return;
    };
    assert!(!disk.installation_eligibility.eligible);
    let reasons = disk.installation_eligibility.not_eligible_reasons.as_ref().unwrap();
    assert!(reasons.iter().any(|reason| reason.contains("mounted on '")), "{reasons:?}");
    assert_eq!(disk.path, format!("/dev/{name}"));
}

#[test]
fn our_own_mount_table_does_not_silently_stand_for_the_hosts() {
    with_own_mounts(|| {
        let warnings = || {
            let (_, lines) = Log::during(|| collect(&live()));
            lines
                .into_iter()
                .filter(|line| line.starts_with("WARN") && line.contains("mount table"))
                .collect::<Vec<_>>()
        };
        assert_eq!(warnings(), Vec::<String>::new());
        let none = None::<&Path>;
        mount(Some("/dev/null"), "/proc/1/mountinfo", none, MsFlags::MS_BIND, none).unwrap();
        let logged = warnings();
        assert!(logged.len() == 1 && logged[0].contains("look free") && logged[0].contains("--pid=host"), "{logged:?}");
    });
}

#[test]
fn the_same_machine_gives_the_same_bytes() {
    let shown = || serde_json::to_string(&collect(&live())).unwrap();
    // Others make and remove interfaces on this machine, but not in a namespace of ours.
    in_namespace(move || assert_eq!(shown(), shown()));
    assert_eq!(identity::host_id(&live()).source, identity::host_id(&live()).source);
}

#[test]
fn facts_that_every_linux_has() {
    let found = collect(&live());
    let cpu = found.cpu.unwrap();
    assert_eq!(cpu.architecture, nix::sys::utsname::uname().unwrap().machine().to_str().unwrap());
    assert!(cpu.count > 0);
    let memory = found.memory.unwrap();
    assert!(memory.usable_bytes > 64 << 20 && memory.physical_bytes >= memory.usable_bytes, "{memory:?}");
    assert!(found.boot.unwrap().command_line.ends_with('\n'));
    assert!(found.interfaces.iter().any(|interface| interface.flags.iter().any(|flag| flag == "loopback")));
}
