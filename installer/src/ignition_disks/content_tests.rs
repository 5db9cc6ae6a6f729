#![allow(clippy::unwrap_used)]

use super::program as program_of;
use super::*;
use ignition::model::Document;
use serde_json::{Value, json};

/// Passes on what a config's storage section becomes.
fn with<T>(storage: Value, look: impl FnOnce(&Document<'_>) -> T) -> T {
    let text = json!({"ignition": {"version": "3.6.0"}, "storage": storage}).to_string();
    let (config, _, report) = ignition::parse(text.as_bytes()).unwrap();
    assert!(!report.is_fatal(), "{report}");
    look(&config)
}

fn file_system<T>(fields: Value, look: impl FnOnce(&Filesystem<'_>) -> T) -> T {
    let mut fields = fields;
    fields["device"] = json!("/dev/x");
    with(json!({"filesystems": [fields]}), |config| look(&config.storage.filesystems[0]))
}

fn luks<T>(fields: Value, look: impl FnOnce(&Luks<'_>) -> T) -> T {
    let mut fields = fields;
    fields["name"] = json!("v");
    fields["device"] = json!("/dev/x");
    with(json!({"luks": [fields]}), |config| look(&config.storage.luks[0]))
}

fn signature(kind: Kind, label: &str, uuid: &str) -> Signature {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Signature { kind, magics: Vec::new(), label: text(label), uuid: text(uuid), detail: None, remains: false }
}

fn one(found: Option<&Signature>) -> &[Signature] {
    found.map(std::slice::from_ref).unwrap_or_default()
}

#[test]
fn what_is_ambiguous_is_not_written_over_and_remains_are() {
    let (ext4, zfs) = (signature(Kind::Ext4, "data", ""), signature(Kind::Zfs, "", ""));
    let error =
        file_system(json!({"format": "ext4"}), |it| decide(it, &[ext4.clone(), zfs.clone()]).unwrap_err().to_string());
    assert!(error.contains("ext4, zfs_member were found at once"), "{error}");
    let old = Signature { remains: true, ..zfs };
    assert_eq!(
        file_system(json!({"format": "ext4"}), |it| decide(it, &[ext4, old.clone()]).ok()),
        Some(Decision::Keep)
    );
    assert_eq!(file_system(json!({"format": "ext4"}), |it| decide(it, &[old]).ok()), Some(Decision::Make));
}

#[test]
fn a_file_system_that_fits_stays() {
    let ext4 = signature(Kind::Ext4, "data", "AAAA-1");
    for (fields, found, decision) in [
        (json!({"format": "ext4"}), Some(&ext4), Some(Decision::Keep)),
        (json!({"format": "ext4", "label": "data", "uuid": "aaaa-1"}), Some(&ext4), Some(Decision::Keep)),
        (json!({"format": "ext4", "label": "other"}), Some(&ext4), None),
        (json!({"format": "ext4", "uuid": "bbbb"}), Some(&ext4), None),
        (json!({"format": "xfs"}), Some(&ext4), None),
        (json!({"format": "none"}), Some(&ext4), None),
        (json!({"format": "none"}), None, Some(Decision::Keep)),
        (json!({"format": "none", "wipeFilesystem": true}), Some(&ext4), Some(Decision::Make)),
        (json!({"format": "xfs", "wipeFilesystem": true}), Some(&ext4), Some(Decision::Make)),
        (json!({"format": "ext4", "wipeFilesystem": true}), Some(&ext4), Some(Decision::Make)),
        (json!({"format": "xfs"}), None, Some(Decision::Make)),
        (
            json!({"format": "vfat", "uuid": "a1b2c3d4"}),
            Some(&signature(Kind::Vfat, "", "A1B2-C3D4")),
            Some(Decision::Keep),
        ),
    ] {
        assert_eq!(file_system(fields.clone(), |it| decide(it, one(found)).ok()), decision, "{fields}");
    }
    let error = file_system(json!({"format": "xfs"}), |it| decide(it, one(Some(&ext4))).unwrap_err().to_string());
    assert_eq!(
        error,
        "filesystem at \"/dev/x\" is not of the correct type, label, or UUID (found ext4, \"data\", AAAA-1) and a filesystem \
         wipe was not requested"
    );
}

#[test]
fn programs_get_options_before_the_rest() {
    for (format, words, program) in [
        ("ext4", "-b 4096 -F -U ab-cd -L l", Some(Program::MkfsExt4)),
        ("xfs", "-b 4096 -f -m uuid=ab-cd -L l", Some(Program::MkfsXfs)),
        ("btrfs", "-b 4096 --force -U ab-cd -L l", Some(Program::MkfsBtrfs)),
        ("swap", "-b 4096 -f -U ab-cd -L l", Some(Program::Mkswap)),
        ("vfat", "-b 4096 -i ab-cd -n l", Some(Program::MkfsFat)),
    ] {
        let fields = json!({"format": format, "options": ["-b", "4096"], "uuid": "AB-CD", "label": "l"});
        file_system(fields, |it| assert_eq!((mkfs(it).join(" ").as_str(), program_of(it)), (words, program)));
    }
    file_system(json!({"format": "vfat", "uuid": "A1B2-C3D4"}), |it| assert_eq!(mkfs(it), ["-i", "a1b2c3d4"]));
    file_system(json!({"format": "none"}), |it| assert_eq!(program_of(it), None));
    file_system(json!({}), |it| assert_eq!(format(it), None));
}

#[test]
fn an_encrypted_device_is_reused_if_it_is_the_one() {
    let second = signature(Kind::Luks, "l", "12-34");
    let first = Signature { detail: Some("version 1".to_owned()), ..second.clone() };
    let xfs = signature(Kind::Xfs, "", "");
    for (fields, found, decision) in [
        (json!({}), None, Some(Decision::Make)),
        (json!({}), Some(&second), Some(Decision::Keep)),
        (json!({"label": "l", "uuid": "12-34"}), Some(&second), Some(Decision::Keep)),
        (json!({"label": "x"}), Some(&second), None),
        (json!({"uuid": "x"}), Some(&second), None),
        (json!({}), Some(&first), None),
        (json!({}), Some(&xfs), None),
        (json!({"wipeVolume": true}), Some(&xfs), Some(Decision::Make)),
    ] {
        assert_eq!(luks(fields.clone(), |it| decide_volume(it, one(found)).ok()), decision, "{fields}");
    }
    let fields = json!({"label": "l", "options": ["--cipher", "x"], "discard": true, "openOptions": ["--perf-no_read_workqueue"]});
    luks(fields, |it| {
        assert_eq!(
            luks_format(it, "/k", "/dev/x").join(" "),
            "luksFormat --batch-mode --type luks2 --key-file /k --label l --cipher x /dev/x"
        );
        assert_eq!(
            luks_open(it, "/k", "/dev/x").join(" "),
            "luksOpen /dev/x v --key-file /k --persistent --allow-discards --perf-no_read_workqueue"
        );
    });
}
