//! Every kind that libblkid knows, as `blkid -p` and `wipefs` see it and as it is seen here: kind, name and identifier agree, what
//! only wipefs sees is erased and decides nothing, and after it is erased wipefs finds nothing more.
#![allow(clippy::unwrap_used)]

use diskwrite::probe::{Contents, Decided, Kind, decide, probe};
use std::{collections::BTreeMap, fs::File, os::unix::fs::FileExt, path::Path, process::Command};
use testkit::disk::run;

mod file_systems;
mod samples;

use file_systems::file_systems;
use samples::{Sample, Theirs, firmware_raid, md_raid, storage, tables};

fn contents(path: &Path) -> Contents {
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    probe(&file, len, 512)
}

/// Keys and values of `blkid -p`.
fn blkid(path: &Path) -> BTreeMap<String, String> {
    let output = Command::new("blkid").args(["-p", "-o", "udev"]).arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), unescaped(value)))
        .collect()
}

/// What udev writes as `\x20`.
fn unescaped(value: &str) -> String {
    let mut parts = value.split("\\x");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push(char::from(u8::from_str_radix(&part[..2], 16).unwrap()));
        text.push_str(&part[2..]);
    }
    text
}

/// Types and offsets of `wipefs -n`.
fn wipefs(path: &Path) -> Vec<(String, u64)> {
    let text = run("wipefs", &["--no-act", "--json", path.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let list = json["signatures"].as_array().cloned().unwrap_or_default();
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    list.iter().map(|sig| (sig["type"].as_str().unwrap().to_owned(), number(sig["offset"].as_str().unwrap()))).collect()
}

/// Where a boot sector ends with its mark.
const BOOT_END: u64 = 510;

/// As a wipe does it: what shows, until nothing does, and the end of the boot sector.
fn erase(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0; 2], BOOT_END).unwrap();
    for _ in 0..16 {
        let found = contents(path);
        let parts = found.partitions.iter().flat_map(|partition| &partition.signatures);
        for magic in found.signatures.iter().chain(parts).flat_map(|signature| &signature.magics) {
            file.write_all_at(&vec![0; usize::try_from(magic.len).unwrap()], magic.offset).unwrap();
        }
    }
}

/// What differs, one line each.
fn differences(sample: &Sample, path: &Path) -> Vec<String> {
    sample.write(path);
    let (found, theirs, listed) = (contents(path), blkid(path), wipefs(path));
    let mut wrong = Vec::new();
    let mut differ = |what: &str, ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
        wrong.push(format!("{what}: {ours:?} here, {theirs:?} there"))
    };
    let seen = found.signatures.iter().find(|signature| signature.kind == sample.kind);
    let Some(seen) = seen else { return vec![format!("not seen: {:?}", found.signatures)] };
    let key = if sample.kind.is_table() { "ID_PART_TABLE_TYPE" } else { "ID_FS_TYPE" };
    let kind = theirs.get(key).map(String::as_str);
    let expected = (sample.theirs == Theirs::Same).then(|| sample.kind.name());
    if kind != expected {
        differ("kind", &expected, &theirs);
    }
    if !sample.kind.is_table() {
        let decided = match decide(&found.signatures) {
            Decided::Nothing => None,
            Decided::This(signature) => Some(signature.kind),
            Decided::Several => None,
        };
        let newer = [Kind::Bcachefs, Kind::FileVault, Kind::ScoutfsMeta, Kind::ScoutfsData].contains(&sample.kind);
        if decided != Some(sample.kind).filter(|_| sample.theirs == Theirs::Same || newer) {
            differ("decided", &decided, &kind);
        }
        if sample.theirs == Theirs::Same {
            for (ours, key) in [(&seen.label, "ID_FS_LABEL_ENC"), (&seen.uuid, "ID_FS_UUID_ENC")] {
                if ours.as_ref() != theirs.get(key) {
                    differ(key, ours, &theirs.get(key));
                }
            }
        }
    }
    // The end of a boot sector is erased whatever is in it.
    for (name, offset) in listed.iter().filter(|(_, offset)| *offset != BOOT_END) {
        let places = || found.signatures.iter().flat_map(|signature| &signature.magics);
        if !places().any(|magic| (magic.offset..magic.end()).contains(offset)) {
            differ("erased", &places().collect::<Vec<_>>(), &(name, offset));
        }
    }
    erase(path);
    let (left, theirs) = (contents(path), wipefs(path));
    if !left.is_empty() || !theirs.is_empty() {
        differ("left", &left.signatures, &theirs);
    }
    wrong
}

#[test]
fn every_kind_is_seen_named_and_erased_as_by_libblkid() {
    let dir = tempfile::tempdir().unwrap();
    let all: Vec<_> = [tables(), firmware_raid(), md_raid(), storage(), file_systems()].into_iter().flatten().collect();
    let path = dir.path().join("disk");
    let mut failed = 0;
    for sample in &all {
        let wrong = differences(sample, &path);
        failed += usize::from(!wrong.is_empty());
        let verdict = match (wrong.is_empty(), sample.theirs) {
            (true, Theirs::Same) => "agrees".to_owned(),
            (true, Theirs::Nothing) => "erased; blkid sees nothing".to_owned(),
            (false, _) => format!("DIFFERS: {}", wrong.join("; ")),
        };
        println!("{:<30} {:<26} {verdict}", sample.kind.name(), sample.what);
    }
    let missing: Vec<_> = Kind::ALL.iter().filter(|kind| !all.iter().any(|sample| sample.kind == **kind)).collect();
    // GPT has tests of its own (probe.rs), with sgdisk's tables.
    assert_eq!(missing, [&Kind::Gpt]);
    assert_eq!(failed, 0, "of {} samples", all.len());
}
