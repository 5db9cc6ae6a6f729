//! Machines through the plans of `landfall certify`: one with less memory than its model has, one with a disk that fails, a reboot
//! in the middle, an archive that is altered; and one that becomes a single node.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{LIMIT, changes, ok, turn};
use qemu_tests::{
    images::{Compression, Drivers, SectorSize},
    media,
    rack::{Rack, RackConfig},
    service,
};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

const BAD_DISK_BYTES: u64 = 32 << 20;
/// In units of 512 bytes: 16 MiB from the start, where no partition table is looked for.
const BAD_SECTOR: u64 = 32_768;

fn rack(run: &str, hosts: u8) -> Rack {
    let (iso, image) = (
        ok(media::agent_iso(Drivers::Cloud)),
        ok(media::os_image(SectorSize::B512, Compression::Zstd, Drivers::Cloud)),
    );
    let mut config = RackConfig::new(run, hosts, iso, image);
    config.in_pool = true;
    ok(Rack::start(config, changes()))
}

fn landfall(rack: &mut Rack, arguments: &[&str]) -> Output {
    let url = rack.service().local_url();
    let mut command = Command::new(ok(service::binary()));
    command.arg("certify").args(arguments).env("LANDFALL_URL", url).stdin(Stdio::null());
    command.stderr(Stdio::inherit()).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn three_machines_one_with_less_memory_and_one_with_a_bad_disk() {
    let _turn = turn();
    let mut rack = rack("certify", 3);
    let directory = rack.directory().to_owned();
    let bad = directory.join("bad.img");
    fs::File::create(&bad).unwrap().set_len(BAD_DISK_BYTES).unwrap();
    ok(rack.power_on_with(|index, machine| match index {
        1 => machine.memory_mib(768),
        2 => {
            let drive = format!(
                "if=none,id=bad,format=raw,file.driver=blkdebug,file.image.driver=file,file.image.filename={},\
                 file.inject-error.0.event=read_aio,file.inject-error.0.iotype=read,file.inject-error.0.errno=5,\
                 file.inject-error.0.sector={BAD_SECTOR},file.inject-error.0.once=off,file.inject-error.0.immediately=on",
                bad.display()
            );
            machine.with("-drive", drive).with("-device", "virtio-blk-pci,drive=bad,serial=BAD")
        }
        _ => machine,
    }));
    ok(rack.discover(LIMIT));

    let plan = directory.join("plan.toml");
    fs::write(
        &plan,
        r#"name = "Test machine"
[policy]
hosts = 3
[[sku]]
name = "1 GiB"
expect = { memory.installed_bytes = "1 GiB" }
[[step]]
do = "network"
for = "2s"
[[step]]
do = "disk-speed"
max_ms = 10000
[[step]]
do = "boot"
[[step]]
do = "burnin"
for = "5s"
only = ["cpu", "memory", "disk"]
memory = "16MiB"
"#,
    )
    .unwrap();
    let (archive, key) = (directory.join("run.tar"), directory.join("tester.key"));
    let made = landfall(&mut rack, &["key", "--generate", text(&key), "--no-password"]);
    assert!(made.status.success(), "{made:?}");
    let run = landfall(&mut rack, &[text(&plan), "--json", "--output", text(&archive), "--key", text(&key)]);
    let document: Value = serde_json::from_slice(&run.stdout).unwrap();
    println!("{:.0} s; exit code {:?}", rack.elapsed().as_secs_f64(), run.status.code());
    let hosts = document["result"]["hosts"].as_array().unwrap();
    let states = |host: &Value| {
        let steps = host["steps"].as_array().unwrap().iter();
        steps.map(|step| step["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    for (index, (wanted, verdict)) in [
        ("passed passed passed passed passed", "pass"),
        ("passed skipped skipped skipped skipped", "fail"),
        ("passed passed passed passed failed", "fail"),
    ]
    .iter()
    .enumerate()
    {
        let host = &hosts[index];
        assert_eq!(host["serial"], format!("LANDFALL-{index}"));
        assert_eq!((states(host).as_str(), host["verdict"].as_str()), (*wanted, Some(*verdict)), "{host:#}");
    }
    assert!(hosts[1]["differences"][0].as_str().unwrap().contains("memory.installed_bytes"), "{:#}", hosts[1]);
    let finding = hosts[2]["steps"][4]["findings"].to_string();
    assert!(finding.contains(&BAD_SECTOR.to_string()), "{finding}");
    assert_eq!(run.status.code(), Some(3));

    let check =
        |rack: &mut Rack| landfall(rack, &["verify", text(&archive), "--key-file", &format!("{}.pub", text(&key))]);
    let good = check(&mut rack);
    println!("{}", String::from_utf8_lossy(&good.stdout));
    let mut bytes = fs::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, &bytes).unwrap();
    let altered = check(&mut rack);
    println!("{}", String::from_utf8_lossy(&altered.stdout));
    assert_eq!((good.status.code(), altered.status.code()), (Some(0), Some(3)));
}

#[test]
fn a_machine_becomes_a_single_node() {
    let _turn = turn();
    let mut rack = rack("certify-install", 1);
    ok(rack.power_on());
    ok(rack.discover(LIMIT));
    let plan = rack.directory().join("plan.toml");
    fs::write(&plan, "name = \"Test machine\"\n[[step]]\ndo = \"install\"\n[[step]]\ndo = \"boot\"\n").unwrap();
    let run = landfall(&mut rack, &[text(&plan), "--json"]);
    println!("{:.0} s; exit code {:?}", rack.elapsed().as_secs_f64(), run.status.code());
    let document: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((run.status.code(), &document["verdict"]), (Some(0), &"pass".into()), "{document:#}");
    let facts = ok(rack.facts()).remove(0);
    facts.check("node-0").unwrap();
}
