//! The disks stage of an Ignition config in a machine with device mapper and RAID: a mirror of two disks' partitions, an encrypted
//! device on it, a file system in that. A second run finds everything as it should be.

#![allow(clippy::unwrap_used)]

use crate::facts;

use facts::{Facts, LIMIT};
use qemu_tests::{
    media, paths,
    vm::{Disk, Vm},
};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const UUID: &str = "8a1e0f5c-2d39-4b3a-9a3b-0d6a5a7c1e11";
const VOLUME: &str = "0b9f3d51-7c0e-4f7b-8a57-5d1f1e2c3b4a";

fn config() -> String {
    let disk = |serial: &str| {
        format!(
            r#"{{"device": "/dev/disk/by-id/virtio-{serial}", "wipeTable": true,
                "partitions": [{{"number": 1, "label": "member-{serial}", "sizeMiB": 64}}]}}"#
        )
    };
    format!(
        r#"{{"ignition": {{"version": "3.4.0"}}, "storage": {{
            "disks": [{}, {}],
            "raid": [{{"name": "data", "level": "raid1",
                "devices": ["/dev/disk/by-partlabel/member-A", "/dev/disk/by-partlabel/member-B"]}}],
            "luks": [{{"name": "vault", "device": "/dev/md/data", "label": "locked", "uuid": "{VOLUME}",
                "keyFile": {{"source": "data:,sesame"}}, "options": ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"],
                "wipeVolume": false}}],
            "filesystems": [{{"device": "/dev/mapper/vault", "format": "ext4", "label": "vault", "uuid": "{UUID}", "path": "/var"}}]
        }}}}"#,
        disk("A"),
        disk("B")
    )
}

#[test]
fn a_mirror_holds_an_encrypted_file_system() {
    let dir = paths::scratch_dir().unwrap();
    let mut builder =
        Vm::builder("ignition-disks", "disks").kernel(media::storage_system().unwrap()).memory_mib(1024).shell();
    for serial in ["A", "B", "OTHER"] {
        builder = builder.disk(Disk::virtio(dir.path().join(serial), serial, 96 * MIB));
    }
    let mut vm = builder.start().unwrap();
    let mut facts = Facts::ask(&mut vm);
    facts.run(&format!("modprobe -a dm-crypt raid1 xts ext4\ncat >/run/c.ign <<'EOF'\n{}\nEOF", config()));
    let apply =
        "landfall ignition apply --disks /dev/disk/by-id/virtio-A --disks /dev/disk/by-id/virtio-B /run/c.ign 2>&1";
    let before = facts.text("sha256sum /dev/disk/by-id/virtio-OTHER");
    let plan = facts.text(&apply.replace("apply", "apply --dry-run"));
    assert!(plan.contains("make array") && plan.contains("make LUKS device"), "{plan}");
    let said = facts.text(&format!("{apply} || true"));
    println!("{plan}\n{said}");

    let detail = facts.text("mdadm --detail --export /dev/md/data");
    for fact in ["MD_LEVEL=raid1", "MD_DEVICES=2"] {
        assert!(detail.contains(fact), "{detail}");
    }
    let dump: Value =
        serde_json::from_slice(&facts.run("cryptsetup luksDump --dump-json-metadata /dev/md/data")).unwrap();
    assert_eq!(dump["keyslots"].as_object().unwrap().len(), 1, "{dump}");
    let header = facts.text("cryptsetup luksDump /dev/md/data");
    assert!(header.contains(VOLUME) && header.contains("locked"), "{header}");
    let kind = facts.text("udevadm settle; udevadm info --query=property /dev/mapper/vault");
    for fact in ["ID_FS_TYPE=ext4".to_owned(), "ID_FS_LABEL=vault".to_owned(), format!("ID_FS_UUID={UUID}")] {
        assert!(kind.contains(&fact), "{kind}");
    }
    facts.run("mkdir -p /run/vault; mount -t ext4 /dev/mapper/vault /run/vault; echo safe >/run/vault/word; umount /run/vault");
    let table = facts.text("udevadm info --query=property /dev/disk/by-partlabel/member-A | grep ID_PART_ENTRY | sort");
    assert!(table.contains("ID_PART_ENTRY_SIZE=131072") && table.contains("ID_PART_ENTRY_OFFSET=2048"), "{table}");

    // What is in use is left alone, whole.
    let busy = facts.text(&format!("if {apply}; then echo made; else echo refused; fi"));
    assert!(busy.contains("refused") && !busy.contains("made"), "{busy}");
    facts.run("cryptsetup luksClose vault; mdadm --stop /dev/md/data; udevadm settle");
    let wiped = facts.text(&format!("if {apply}; then echo made; else echo refused; fi"));
    println!("{wiped}");
    // The table is new, and what was in the partitions is there: a mirror of the same members, which holds the same.
    assert!(wiped.ends_with("made\n"), "{wiped}");
    assert_eq!(
        facts.text("mount -t ext4 /dev/mapper/vault /run/vault; cat /run/vault/word; umount /run/vault"),
        "safe\n"
    );
    assert_eq!(facts.text("sha256sum /dev/disk/by-id/virtio-OTHER"), before, "another disk was written to");
    vm.quit().unwrap();
    vm.wait_end(LIMIT).unwrap();
}
