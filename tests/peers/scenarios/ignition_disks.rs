//! The disks stage of Ignition on loop devices, by both programs: the same entries in the tables, the same file systems, arrays and
//! encrypted devices, and both refuse the same configs. The peer is `ignition`; where systemd does not run it needs a build that
//! does not ask systemd for devices (docs/development.md).

use crate::{
    report::{Peers, line},
    site::landfall,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
};
use testkit::disk::{LoopDisk, MIB, run, skipped};

const DISK_BYTES: u64 = 512 * MIB;
const ENTRY_BYTES: usize = 128;

struct Case {
    name: &'static str,
    sector: u32,
    /// Arguments of sgdisk, for the first disk.
    before: &'static [&'static str],
    /// What is made in a partition before, by number.
    made: &'static [(u32, &'static str)],
    /// `DISK1` and `DISK2` stand for the disks.
    storage: Value,
    /// What the kernel must have.
    needs: Option<&'static str>,
}

fn case(name: &'static str, before: &'static [&'static str], storage: Value) -> Case {
    Case { name, sector: 512, before, made: &[], storage, needs: None }
}

fn table(partitions: Value) -> Value {
    json!({"disks": [{"device": "DISK1", "partitions": partitions}]})
}

const THREE: &[&str] =
    &["--new=1:2048:+64M", "--change-name=1:a", "--new=2:264192:+64M", "--change-name=2:b", "--new=5:0:+100M"];

fn cases() -> Vec<Case> {
    let file_system = |fields: Value| {
        let mut fields = fields;
        fields["device"] = json!("DISK1p1");
        json!({"disks": [{"device": "DISK1", "partitions": [{"number": 1}]}], "filesystems": [fields]})
    };
    vec![
        case(
            "an empty disk",
            &[],
            table(json!([
                {"number": 1, "label": "boot", "startMiB": 1, "sizeMiB": 64, "guid": "11111111-2222-4333-8444-555555555555"},
                {"number": 2, "label": "data", "sizeMiB": 300, "typeGuid": "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"},
                {"label": "rest"},
            ])),
        ),
        Case {
            sector: 4096,
            ..case(
                "sectors of 4096 bytes",
                &[],
                table(json!([{"number": 3, "sizeMiB": 10}, {"label": "rest", "sizeMiB": 0}])),
            )
        },
        case(
            "holes",
            THREE,
            table(json!([{"label": "x", "sizeMiB": 50}, {"label": "y", "sizeMiB": 10}, {"number": 9, "sizeMiB": 200}])),
        ),
        case("kept", THREE, table(json!([{"number": 1, "label": "a", "startMiB": 1, "sizeMiB": 64}, {"number": 2}]))),
        case("another label", THREE, table(json!([{"number": 1, "label": "x"}]))),
        case("another size", THREE, table(json!([{"number": 1, "sizeMiB": 65}]))),
        case("another type", THREE, table(json!([{"number": 1, "typeGuid": "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"}]))),
        case("replaced", THREE, table(json!([{"number": 1, "label": "x", "sizeMiB": 65, "wipePartitionEntry": true}]))),
        case("replaced elsewhere", THREE, table(json!([{"number": 2, "label": "x", "wipePartitionEntry": true}]))),
        case("resized", THREE, table(json!([{"number": 1, "sizeMiB": 80, "resize": true}]))),
        case("grown to the end", THREE, table(json!([{"number": 5, "sizeMiB": 0, "resize": true}]))),
        case("not resized", THREE, table(json!([{"number": 2, "startMiB": 130, "sizeMiB": 80, "resize": true}]))),
        case("deleted", THREE, table(json!([{"number": 2, "shouldExist": false, "wipePartitionEntry": true}]))),
        case("not deleted", THREE, table(json!([{"number": 2, "shouldExist": false}]))),
        case("absent anyway", THREE, table(json!([{"number": 7, "shouldExist": false}]))),
        case(
            "deleted beside one without a start",
            THREE,
            table(json!([
                {"number": 5, "shouldExist": false, "wipePartitionEntry": true},
                {"number": 6, "label": "new", "sizeMiB": 200},
            ])),
        ),
        case(
            "the number of a deleted one",
            THREE,
            table(json!([
                {"number": 1, "shouldExist": false, "wipePartitionEntry": true},
                {"label": "new", "wipePartitionEntry": true},
            ])),
        ),
        case("too large", THREE, table(json!([{"number": 6, "sizeMiB": 600}]))),
        case("over another", THREE, table(json!([{"number": 6, "startMiB": 130, "sizeMiB": 1}]))),
        case(
            "wiped",
            THREE,
            json!({"disks": [{"device": "DISK1", "wipeTable": true, "partitions": [{"number": 1, "startMiB": 8}]}]}),
        ),
        case("wiped to nothing", THREE, json!({"disks": [{"device": "DISK1", "wipeTable": true}]})),
        case(
            "ext4",
            &[],
            file_system(
                json!({"format": "ext4", "label": "l", "uuid": "5ae01f0f-6f76-4b8d-a4c1-6a0a5e1a7c7a", "options": ["-b", "4096"]}),
            ),
        ),
        case("xfs", &[], file_system(json!({"format": "xfs", "uuid": "5AE01F0F-6F76-4B8D-A4C1-6A0A5E1A7C7A"}))),
        case("btrfs", &[], file_system(json!({"format": "btrfs", "label": "l"}))),
        case("vfat", &[], file_system(json!({"format": "vfat", "label": "L", "uuid": "a1b2-c3d4"}))),
        case("swap", &[], file_system(json!({"format": "swap", "label": "l"}))),
        Case { made: &[(1, "mkfs.ext4")], ..case("reused", THREE, file_system(json!({"format": "ext4"}))) },
        Case { made: &[(1, "mkfs.ext4")], ..case("of another format", THREE, file_system(json!({"format": "xfs"}))) },
        Case {
            made: &[(1, "mkfs.ext4")],
            ..case("of another label", THREE, file_system(json!({"format": "ext4", "label": "l"})))
        },
        Case {
            made: &[(1, "mkfs.ext4")],
            ..case("formatted anew", THREE, file_system(json!({"format": "swap", "wipeFilesystem": true})))
        },
        Case {
            made: &[(1, "mkfs.ext4")],
            ..case("signatures wiped", THREE, file_system(json!({"format": "none", "wipeFilesystem": true})))
        },
        case("a whole disk", &[], json!({"filesystems": [{"device": "DISK1", "format": "ext4", "label": "whole"}]})),
        Case {
            // A node of that name in /dev may be left of a try.
            needs: Some("/sys/class/misc/device-mapper"),
            ..case(
                "encrypted",
                &[],
                json!({
                    "luks": [{"name": "landfall-peers", "device": "DISK1", "label": "secret", "discard": true,
                              "uuid": "12345678-1234-4234-8234-123456789012",
                              "keyFile": {"source": "data:,key"}, "options": ["--pbkdf", "pbkdf2"]}],
                    "filesystems": [{"device": "/dev/mapper/landfall-peers", "format": "ext4", "label": "inner"}],
                }),
            )
        },
        Case {
            needs: Some("/proc/mdstat"),
            ..case(
                "mirrored",
                &[],
                json!({
                    "raid": [{"name": "/dev/md/landfall-peers", "level": "raid1", "devices": ["DISK1", "DISK2"]}],
                    "filesystems": [{"device": "/dev/md/landfall-peers", "format": "ext4", "label": "inner"}],
                }),
            )
        },
    ]
}

#[test]
fn disks_become_the_same() {
    let name = "ignition: disks";
    let Some(peers) = Peers::in_folder(name, &["ignition"]) else { return };
    if skipped() {
        return line(name, "not run", "missing: root, loop devices or a tool");
    }
    let (mut same, mut refused, mut left, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for case in cases() {
        if case.needs.is_some_and(|path| !Path::new(path).exists()) {
            left.push(case.name);
            continue;
        }
        let ours = facts(&case, &ours);
        let theirs = facts(&case, &|config, _, dir| theirs(&peers.program("ignition"), config, dir));
        match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) if ours == theirs => same += 1,
            (Err(_), Err(_)) if REFUSED.contains(&case.name) => refused += 1,
            _ => wrong.push(format!("{}:\n  ours:   {ours:?}\n  theirs: {theirs:?}", case.name)),
        }
    }
    let what =
        format!("{same} alike, {refused} refused by both, {} not possible here: {}", left.len(), left.join(", "));
    line(name, if wrong.is_empty() { "passed" } else { "FAILED" }, &what);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A case's disks as a program leaves them; the error is what it printed.
fn facts(case: &Case, stage: &dyn Fn(&Path, &[String], &Path) -> Output) -> Result<BTreeMap<String, String>, String> {
    let disks = [(); 2].map(|()| LoopDisk::new(DISK_BYTES, case.sector, true));
    let paths = disks.each_ref().map(|disk| disk.path().display().to_string());
    if !case.before.is_empty() {
        run("sgdisk", &[case.before, &[&paths[0]]].concat());
        run("partx", &["--update", &paths[0]]);
    }
    for (number, program) in case.made {
        run(program, &["-q", &format!("{}p{number}", paths[0])]);
    }
    let dir = tempfile::tempdir().unwrap();
    let text = json!({"ignition": {"version": "3.6.0"}, "storage": case.storage}).to_string();
    let text = text.replace("DISK1", &paths[0]).replace("DISK2", &paths[1]);
    let config = dir.path().join("config.ign");
    fs::write(&config, &text).unwrap();
    let output = stage(&config, &paths, dir.path());
    let mut facts = BTreeMap::new();
    for disk in &disks {
        entries(disk, case.sector, &text, &mut facts);
        let device = disk.path().display().to_string();
        let nodes = disk.partitions().into_iter().map(|number| format!("{device}p{number}"));
        for node in nodes.chain([device.clone()]) {
            signatures(&node, &text, &mut facts);
        }
    }
    let (mapper, array) = ("/dev/mapper/landfall-peers", "/dev/md/landfall-peers");
    for inner in [mapper, array].into_iter().filter(|inner| Path::new(inner).exists()) {
        signatures(inner, &text, &mut facts);
    }
    if Path::new(mapper).exists() {
        let dump = run("cryptsetup", &["luksDump", &paths[0]]);
        let known = ["Version:", "UUID:", "Label:", "Flags:", "\tcipher:", "\tPBKDF:", "\tCipher:"];
        let lines = dump.lines().filter(|line| known.iter().any(|known| line.starts_with(known)));
        facts.insert("luksDump".to_owned(), lines.collect::<Vec<_>>().join("\n"));
        run("cryptsetup", &["close", mapper]);
    }
    if Path::new(array).exists() {
        let detail = run("mdadm", &["--detail", array]);
        let known = ["Version", "Raid Level", "Array Size", "Raid Devices", "Total Devices", "Name"];
        let lines = detail.lines().map(str::trim).filter(|line| known.iter().any(|known| line.starts_with(known)));
        facts.insert("mdadm".to_owned(), lines.collect::<Vec<_>>().join("\n"));
        run("mdadm", &["--stop", array]);
    }
    let facts = hide(facts, &paths);
    match output.status.success() {
        true => Ok(facts),
        false => Err(format!(
            "{facts:?} {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// What both refuse; all else they do.
const REFUSED: [&str; 9] = [
    "another label",
    "another size",
    "another type",
    "not resized",
    "not deleted",
    "too large",
    "over another",
    "of another format",
    "of another label",
];

/// Each run has other devices.
fn hide(facts: BTreeMap<String, String>, paths: &[String; 2]) -> BTreeMap<String, String> {
    let hide = |text: String| text.replace(&paths[0], "DISK1").replace(&paths[1], "DISK2");
    facts.into_iter().map(|(key, value)| (hide(key), hide(value))).collect()
}

/// The primary table's entries: all fields, but for GUIDs that are random.
fn entries(disk: &LoopDisk, sector: u32, config: &str, facts: &mut BTreeMap<String, String>) {
    let sector = u64::from(sector);
    let header = disk.read(sector, 92);
    if !header.starts_with(b"EFI PART") {
        return;
    }
    facts.insert(format!("{} usable", disk.path().display()), hex(&header[40..56]));
    for (number, entry) in disk.read(2 * sector, 128 * 128).chunks(ENTRY_BYTES).enumerate() {
        if entry[..16] == [0; 16] {
            continue;
        }
        let guid = uuid(&entry[16..32]);
        let guid = if config.to_lowercase().contains(&guid) { guid } else { "random".to_owned() };
        let rest = [&entry[..16], &entry[32..]].concat();
        facts.insert(format!("{} entry {}", disk.path().display(), number + 1), format!("{guid} {}", hex(&rest)));
    }
}

fn signatures(node: &str, config: &str, facts: &mut BTreeMap<String, String>) {
    let output = Command::new("blkid").args(["-p", "-o", "export", node]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let is_uuid = key == "UUID";
        let value = if is_uuid && !config.to_lowercase().contains(&value.to_lowercase()) { "random" } else { value };
        if is_uuid || ["TYPE", "LABEL", "VERSION", "PTTYPE"].contains(&key) {
            facts.insert(format!("{node} {key}"), value.to_owned());
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn uuid(bytes: &[u8]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let digits = hex(&order.map(|at| bytes[at]));
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn ours(config: &Path, disks: &[String], _: &Path) -> Output {
    let mut command = Command::new(landfall());
    command.args(["ignition", "apply", "--offline"]).args(disks.iter().flat_map(|disk| ["--disks", disk])).arg(config);
    command.output().unwrap()
}

fn theirs(program: &Path, config: &Path, dir: &Path) -> Output {
    let stage = |stage: &str| {
        let mut command = Command::new(program);
        command.env("IGNITION_CONFIG_FILE", config).args(["--platform", "file", "--log-to-stdout", "--stage", stage]);
        command.arg("--root").arg(dir).arg("--config-cache").arg(dir.join("cache"));
        command.arg("--state-file").arg(dir.join("state")).output().unwrap()
    };
    let fetched = stage("fetch");
    if fetched.status.success() { stage("disks") } else { fetched }
}
