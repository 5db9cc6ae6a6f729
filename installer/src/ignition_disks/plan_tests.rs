#![allow(clippy::unwrap_used)]

use super::*;
use diskwrite::{Geometry, probe::Kind};
use serde_json::{Value, json};

fn config(storage: &Value) -> String {
    json!({"ignition": {"version": "3.6.0"}, "storage": storage}).to_string()
}

/// The plan for a config's storage section on a disk of 64 MiB, `/dev/loop3`, called `/dev/vdb` by the config. What is on it, at
/// any place, is `found`.
fn planned(storage: &Value, found: Option<Kind>) -> Result<Vec<String>, String> {
    let text = config(storage);
    let (document, _, report) = ignition::parse(text.as_bytes()).unwrap();
    assert!(!report.is_fatal(), "{report}");
    let signature =
        |kind| Signature { kind, magics: Vec::new(), label: None, uuid: None, detail: None, remains: false };
    let signatures = |_, _| found.map(signature).into_iter().collect::<Vec<_>>();
    let partition = |number: u32, name: &str| LayoutPartition {
        number,
        type_guid: [1; 16],
        guid: [u8::try_from(number).unwrap(); 16],
        name: name.to_owned(),
        first_lba: 2048,
        sectors: 16384,
        start: MIB,
        len: 8 * MIB,
    };
    let partitions = vec![partition(1, "boot"), partition(2, "")];
    let fates = [Fate::Create, Fate::Keep];
    let changes = partitions.iter().cloned().zip(fates).enumerate();
    let changes = changes.map(|(wanted, (partition, fate))| Change { wanted, fate, partition }).collect();
    let disk = Geometry { path: "/dev/loop3".into(), size_bytes: 64 * MIB, sector_bytes: 512 };
    let table = TablePlan::of(disk, true, changes, partitions);
    let names = vec!["/dev/loop3".to_owned(), "/dev/vdb".to_owned()];
    let at = (!document.storage.disks.is_empty()).then(|| "$.storage.disks.0".to_owned());
    let disks = [KnownDisk { at, table, names, signatures: &signatures }];
    let devices = Devices::new(&document, &disks, &|_| None);
    let steps = plan(&document, &devices).map_err(|error| kernel::in_full(&error))?;
    let line = |step: &Step<'_>| {
        let program = step.program.map(|program| format!("; {}", program.path())).unwrap_or_default();
        let nothing = if matches!(step.work, Work::Nothing) { "; nothing" } else { "" };
        let actions = step.actions.iter().map(|action| format!("{} {action}", action.at));
        format!("{}{program}{nothing}", actions.collect::<Vec<_>>().join("\n"))
    };
    Ok(steps.iter().map(line).collect())
}

#[test]
fn everything_is_planned_in_ignitions_order() {
    let storage = json!({
        "disks": [{"device": "/dev/vdb", "wipeTable": true, "partitions": [{"label": "boot"}, {"number": 2}]}],
        "filesystems": [
            {"device": "/dev/mapper/v", "format": "xfs", "label": "root"},
            {"device": "/dev/disk/by-partlabel/boot", "format": "ext4"},
            {"device": "/dev/vdb2", "format": "none"},
        ],
        "luks": [{"name": "v", "device": "/dev/md/m", "keyFile": {"source": "data:,k"}}],
        "raid": [{"name": "m", "level": "raid1", "devices": ["/dev/vdb1", "/dev/vdb2", "/dev/loop3p2"], "spares": 1}],
    });
    assert_eq!(
        planned(&storage, None).unwrap(),
        [
            "$.storage.disks.0.wipeTable wipe partition table of /dev/loop3 (/dev/vdb in the config)\n\
             $.storage.disks.0.partitions.0 make partition 1 of /dev/loop3 (label \"boot\", 8 MiB from 1 MiB)\n\
             $.storage.disks.0.partitions.1 keep partition 2 of /dev/loop3 (8 MiB from 1 MiB)",
            "$.storage.raid.0 make array m (level raid1, of /dev/vdb1 (/dev/loop3 partition 1) /dev/vdb2 (/dev/loop3 \
             partition 2) /dev/loop3p2 (/dev/loop3 partition 2), 1 spares); mdadm",
            "$.storage.luks.0 make LUKS device v (on /dev/md/m); cryptsetup",
            "$.storage.filesystems.0 make file system, unless it exists, on /dev/mapper/v (xfs, -f -L root); mkfs.xfs",
            "$.storage.filesystems.1 make file system on /dev/disk/by-partlabel/boot (/dev/loop3 partition 1) (ext4, -F); \
             mkfs.ext4",
            "$.storage.filesystems.2 leave without a file system /dev/vdb2 (/dev/loop3 partition 2) (none, -f); nothing",
        ]
    );
}

#[test]
fn what_is_there_stays_or_is_refused() {
    let ext4 = json!({"filesystems": [{"device": "/dev/vdb1", "format": "ext4"}]});
    let kept = "$.storage.filesystems.0 keep file system on /dev/vdb1 (/dev/loop3 partition 1) (ext4, -F); nothing";
    assert_eq!(planned(&ext4, Some(Kind::Ext4)).unwrap(), [kept]);
    assert!(planned(&ext4, Some(Kind::Luks)).unwrap_err().contains("found crypto_LUKS"));
    let luks = json!({"luks": [{"name": "v", "device": "/dev/vdb1", "keyFile": {"source": "data:,k"}}]});
    assert!(planned(&luks, Some(Kind::Luks)).unwrap()[0].contains("open LUKS device v"));
    assert!(planned(&luks, Some(Kind::Ext4)).unwrap_err().contains("a volume wipe was not requested"));
}

#[test]
fn what_is_not_done_here_is_refused_by_name() {
    let luks = |more: Value| {
        let mut luks = json!({"name": "v", "device": "/dev/vdb1"});
        luks.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"luks": [luks]})
    };
    for (storage, error) in [
        (luks(json!({"clevis": {"tpm2": true}})), "$.storage.luks.0.clevis: clevis is not supported here"),
        (luks(json!({"cex": {"enabled": true}})), "$.storage.luks.0.cex: cex is not supported here"),
        (luks(json!({})), "$.storage.luks.0 has no keyFile: the key would be lost"),
        (
            json!({"filesystems": [{"device": "/dev/vda1", "format": "xfs"}]}),
            "$.storage.filesystems.0: /dev/vda1 is not one of the devices given with --disks, nor a partition, array or LUKS \
             device on them",
        ),
        (
            json!({"raid": [{"name": "/dev/vda", "level": "1", "devices": ["/dev/vdb1"]}]}),
            "$.storage.raid.0: \"/dev/vda\" is not the name of an array",
        ),
        (
            json!({"raid": [{"name": "m", "level": "1", "devices": ["/dev/vdb1"], "spares": 1}]}),
            "$.storage.raid.0: 1 is not a number of spares beside a member",
        ),
    ] {
        assert_eq!(planned(&storage, None).unwrap_err(), error);
    }
}

#[test]
fn a_configs_partitions_are_in_bytes() {
    let storage = json!({"disks": [{"device": "/dev/vdb", "partitions": [
        {"number": 1, "startMiB": 1, "sizeMiB": 2, "label": "a", "guid": "", "typeGuid": "00000001-0002-0003-0405-060708090A0B"},
        {"number": 2, "shouldExist": false, "wipePartitionEntry": true},
    ]}]});
    let text = config(&storage);
    let (document, ..) = ignition::parse(text.as_bytes()).unwrap();
    let all = wanted("$", &document.storage.disks[0].partitions).unwrap();
    let one = &all[0];
    assert_eq!((one.number, one.start, one.len, one.guid), (1, Some(MIB), Some(2 * MIB), None));
    assert_eq!(one.type_guid, Some([1, 0, 0, 0, 2, 0, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11]));
    assert_eq!((all[1].exists, all[1].replace, all[1].resize), (false, true, false));
    let negative = config(&json!({"disks": [{"device": "/dev/vdb", "partitions": [{"number": 1, "startMiB": -1}]}]}));
    let (document, ..) = ignition::parse(negative.as_bytes()).unwrap();
    let error = wanted("$", &document.storage.disks[0].partitions).unwrap_err().to_string();
    assert_eq!(error, "$.partitions.0: -1 is not a start in MiB");
}

#[test]
fn mdadm_gets_members_last() {
    let text = config(&json!({"raid": [{
        "name": "m", "level": "raid10", "devices": ["/dev/a", "/dev/b", "/dev/c"], "spares": 1, "options": ["--chunk=64"],
    }]}));
    let (document, ..) = ignition::parse(text.as_bytes()).unwrap();
    let members = ["/dev/x", "/dev/y", "/dev/z"].map(str::to_owned);
    assert_eq!(
        mdadm(&document.storage.raid[0], &members).join(" "),
        "--create m --force --run --homehost any --level raid10 --raid-devices 2 --spare-devices 1 --chunk=64 /dev/x /dev/y /dev/z"
    );
}
