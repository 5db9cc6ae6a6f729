//! Whether a file is an image for a disk, as far as its start says.

use rootfs_overlay::bake::{iso::IsoFile, program::Program};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Of packed images; what is inside is checked when it is written.
const PACKED: [&[u8]; 3] = [b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"];
const QCOW2: &[u8] = b"QFI\xfb";
/// A GPT's header is in the second sector, of 512 or 4096 bytes.
const GPT: &[u8] = b"EFI PART";
const BOOT_SECTOR: (usize, &[u8]) = (510, b"\x55\xaa");
const ISO: (usize, &[u8]) = (0x8001, b"CD001");
const LOOK_BYTES: u64 = 36 << 10;

/// What is wrong with it; none if it may be an image.
pub(crate) fn fault(path: &Path) -> io::Result<Option<&'static str>> {
    Ok(judge(&start(path)?))
}

pub(crate) fn is_iso(path: &Path) -> io::Result<bool> {
    Ok(has(&start(path)?, ISO))
}

/// What will keep hosts from an agent that starts there.
pub(crate) fn agent_faults(isos: &[PathBuf], programs: &[PathBuf], is_delivered: bool) -> Vec<String> {
    if is_delivered {
        let default = [rootfs_overlay::program_for_images()];
        let programs = if programs.is_empty() { &default } else { programs };
        let fault = |path: &PathBuf| {
            let what = Program::parse(fs::read(path).ok()?).err()?;
            Some(format!("hosts get {}, but {what}: --agent-binary names another program", path.display()))
        };
        return programs.iter().filter_map(fault).collect();
    }
    let lacks = |path: &&PathBuf| IsoFile::open(path).is_ok_and(|iso| iso.manifest().is_none());
    let fault = |path: &PathBuf| {
        format!(
            "{} was not made by `landfall iso bake`: its hosts register only if its system has the agent; --deliver-agent delivers it",
            path.display()
        )
    };
    isos.iter().filter(lacks).map(fault).collect()
}

fn start(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(LOOK_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

fn has(start: &[u8], (at, mark): (usize, &[u8])) -> bool {
    start.get(at..at + mark.len()) == Some(mark)
}

fn judge(start: &[u8]) -> Option<&'static str> {
    let has = |at, mark| has(start, (at, mark));
    if PACKED.iter().any(|mark| has(0, mark)) {
        None
    } else if has(0, QCOW2) {
        Some("it is a qcow2 image: `qemu-img convert -O raw` makes a raw one")
    } else if has(ISO.0, ISO.1) {
        Some("it is an ISO: --iso takes it")
    } else if [512, 4096].iter().any(|sector| has(*sector, GPT)) || has(BOOT_SECTOR.0, BOOT_SECTOR.1) {
        None
    } else {
        Some("it has no partition table, and is not a packed image (gz, xz, zst)")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_program_that_does_not_start_on_hosts_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("agent");
        fs::write(&script, "#!/bin/sh").unwrap();
        let faults = agent_faults(&[], std::slice::from_ref(&script), true);
        assert!(faults.len() == 1 && faults[0].contains("--agent-binary"), "{faults:?}");
        assert!(agent_faults(&[], &[script], false).is_empty());
    }

    #[test]
    fn images_differ_from_other_files() {
        let with = |at: usize, mark: &[u8]| {
            let mut bytes = vec![0; 40 << 10];
            bytes[at..at + mark.len()].copy_from_slice(mark);
            bytes
        };
        for good in [with(512, GPT), with(4096, GPT), with(510, b"\x55\xaa"), b"\x1f\x8b\x08".to_vec()] {
            assert_eq!(judge(&good), None);
        }
        for (bad, part) in [
            (with(0, QCOW2), "qcow2"),
            (with(ISO.0, ISO.1), "ISO"),
            (b"{\"auths\": {}}".to_vec(), "no partition table"),
            (Vec::new(), "no partition table"),
        ] {
            assert!(judge(&bad).unwrap().contains(part));
        }
    }
}
