//! What `landfall install` leaves on a disk is what coreos-installer leaves on it, bit for bit outside the boot file system, and
//! file for file inside it: for each format, both sector sizes, with and without saved partitions.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::disk::{INITRAMFS, Image, LoopDisk, MIB, run, skipped};

const DISK_BYTES: u64 = 80 * MIB;

/// The released program, where it is to be had; a run that may skip nothing needs it.
fn peer() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::var_os("COREOS_INSTALLER").map(PathBuf::from).or_else(|| {
        std::env::split_paths(&path).map(|dir| dir.join("coreos-installer")).find(|program| program.is_file())
    });
    if found.is_none() {
        testkit::skip::because("there is no coreos-installer; name one in COREOS_INSTALLER");
    }
    found
}

fn landfall() -> PathBuf {
    std::env::var_os("LANDFALL_BIN").map_or_else(|| env!("CARGO_BIN_EXE_landfall").into(), PathBuf::from)
}

/// Installs with `program`; what it said.
fn install(mut program: Command, disk: &LoopDisk, args: &[&str]) -> Result<String, String> {
    let output = program.arg("install").args(args).arg(disk.path()).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(text) } else { Err(format!("{program:?}: {text}")) }
}

/// Both programs, each on a disk of its own that `prepare` made ready.
fn install_both(sector: u32, prepare: impl Fn(&LoopDisk), args: &[&str]) -> Option<(LoopDisk, LoopDisk)> {
    let [(ours, our_result), (theirs, their_result)] = attempt_both(sector, prepare, args)?;
    our_result.unwrap();
    their_result.unwrap();
    Some((ours, theirs))
}

type Attempt = (LoopDisk, Result<String, String>);

/// What each came to: ours, then theirs.
fn attempt_both(sector: u32, prepare: impl Fn(&LoopDisk), args: &[&str]) -> Option<[Attempt; 2]> {
    let peer = peer()?;
    let disk = || {
        let disk = LoopDisk::new(DISK_BYTES, sector, true);
        prepare(&disk);
        disk
    };
    let (ours, mut theirs) = (disk(), disk());
    let our_result = install(Command::new(landfall()), &ours, args);
    let attempt = |disk: &LoopDisk| {
        let mut program = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/peer/coreos-installer"));
        program.env("COREOS_INSTALLER", &peer);
        install(program, disk, args)
    };
    let mut result = attempt(&theirs);
    for _ in 0..2 {
        // It waits for nobody but udev, whose place a stand-in takes here: on a busy machine it may look for partitions too soon.
        if result.as_ref().is_err_and(|said| said.contains("couldn't find boot device")) {
            theirs = disk();
            result = attempt(&theirs);
        }
    }
    Some([(ours, our_result), (theirs, result)])
}

/// What a primary table says, for messages.
fn table(disk: &LoopDisk, sector: u32) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let entries = disk.read(2 * u64::from(sector), 16384);
    let used = entries.chunks(128).enumerate().filter(|(_, entry)| entry[..16] != [0; 16]);
    let lines = used.map(|(index, entry)| format!("  {}: {}\n", index + 1, hex(entry).trim_end_matches('0')));
    format!("header {}\n{}", hex(&disk.read(u64::from(sector), 92)), lines.collect::<String>())
}

/// Where the program in whose place we are leaves the backup of an empty table with a random identifier when nothing is saved; we
/// leave zeros.
fn empty_backup(sector: u32) -> std::ops::Range<u64> {
    DISK_BYTES - 16384 - u64::from(sector)..DISK_BYTES
}

/// The first byte that differs, leaving out `except`.
fn difference(ours: &LoopDisk, theirs: &LoopDisk, except: &[std::ops::Range<u64>]) -> Option<u64> {
    (0..DISK_BYTES / MIB).map(|mib| mib * MIB).find_map(|start| {
        let (a, b) = (ours.read(start, MIB), theirs.read(start, MIB));
        (start..)
            .zip(a.iter().zip(&b))
            .find(|(at, (a, b))| a != b && !except.iter().any(|range| range.contains(at)))
            .map(|(at, _)| at)
    })
}

/// Every file, directory and link of a disk's boot file system with its mode and content.
fn boot_files(image: &Image, disk: &LoopDisk) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let to = tempfile::tempdir().unwrap();
    image.debugfs(disk, &format!("rdump / {}", to.path().display()));
    let mut files = BTreeMap::new();
    let mut left = vec![to.path().to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if meta.is_dir() {
                left.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            files.insert(path.strip_prefix(to.path()).unwrap().to_owned(), (meta.permissions().mode(), content));
        }
    }
    files
}

/// A disk with old partitions among noise; 3 and 5 hold data worth keeping.
fn with_old_partitions(sector: u32) -> impl Fn(&LoopDisk) {
    move |disk| {
        let mut state = 7u32;
        let mut noise = [(); 1 << 16].map(|()| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        });
        for mib in 1..DISK_BYTES / MIB - 1 {
            noise[..8].copy_from_slice(&mib.to_le_bytes());
            disk.write(mib * MIB, &noise.repeat(16));
        }
        let lba = |mib: u64| (mib * MIB / u64::from(sector)).to_string();
        let part = |number: u32, from: u64, to: u64| {
            format!("--new={number}:{}:{}", lba(from), (to * MIB / u64::from(sector)) - 1)
        };
        let device = disk.path().display().to_string();
        run(
            "sgdisk",
            &[
                "--set-alignment=1",
                &part(1, 1, 8),
                "--change-name=1:old",
                &part(3, 40, 50),
                "--change-name=3:data",
                &part(5, 60, 79),
                "--change-name=5:logs",
                "--typecode=5:8302",
                "--disk-guid=6c616e64-6661-6c6c-8000-000000000001",
                "--partition-guid=1:6c616e64-6661-6c6c-8000-000000000011",
                "--partition-guid=3:6c616e64-6661-6c6c-8000-000000000013",
                "--partition-guid=5:6c616e64-6661-6c6c-8000-000000000015",
                &device,
            ],
        );
        run("partx", &["--update", &device]);
    }
}

fn formats(image: &Image) -> Vec<(&'static str, PathBuf)> {
    let raw = image.packed(None);
    let blocks = image.dir.path().join("image.blocks.xz");
    let packed = Command::new("xz").args(["-1", "-T2", "--block-size=4MiB", "--stdout"]).arg(&raw).output().unwrap();
    assert!(packed.status.success());
    fs::write(&blocks, packed.stdout).unwrap();
    vec![
        ("raw", raw),
        ("gzip", image.packed(Some("gzip"))),
        ("zstd", image.packed(Some("zstd"))),
        ("xz", image.packed(Some("xz"))),
        ("xz in blocks", blocks),
    ]
}

#[test]
fn without_changes_every_bit_is_the_same_in_each_format() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let image = Image::new(sector);
        for (name, path) in formats(&image) {
            let args = ["--insecure", "--image-file", path.to_str().unwrap()];
            let Some((ours, theirs)) = install_both(sector, |_| {}, &args) else { return };
            assert_eq!(difference(&ours, &theirs, &[empty_backup(sector)]), None, "{name}, {sector}");
            println!("{name} with {sector}-byte sectors: {DISK_BYTES} bytes are the same");
        }
    }
}

#[test]
fn with_first_boot_files_all_else_is_the_same_and_so_are_the_files() {
    if skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ignition = dir.path().join("config.ign");
    fs::write(&ignition, r#"{"ignition":{"version":"3.3.0"}}"#).unwrap();
    for sector in [512, 4096] {
        let image = Image::new(sector);
        let raw = image.packed(None);
        let args = |more: &[&'static str]| {
            let mut args = vec![
                "--insecure",
                "--image-file",
                raw.to_str().unwrap(),
                "--ignition-file",
                ignition.to_str().unwrap(),
            ];

            args.extend(more);
            args.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let cases = [
            args(&["--append-karg", "foo=bar", "--append-karg", "a b", "--delete-karg", "quiet"]),
            args(&["--platform", "qemu", "--firstboot-args", "rd.neednet=1 ip=dhcp"]),
            args(&["--console", "ttyS0,115200n8", "--console", "tty0", "--append-karg", "x"]),
            args(&["--platform", "qemu", "--console", "ttyS1"]),
        ];
        for case in cases {
            let case: Vec<_> = case.iter().map(String::as_str).collect();
            let Some((ours, theirs)) = install_both(sector, |_| {}, &case) else { return };
            let boot = image.boot_start..image.boot_start + image.boot_len;
            assert_eq!(difference(&ours, &theirs, &[boot, empty_backup(sector)]), None, "{case:?}, {sector}");
            let (ours, theirs) = (boot_files(&image, &ours), boot_files(&image, &theirs));
            assert!(ours.contains_key(Path::new("ignition/config.ign")), "{:?}", ours.keys());
            assert_eq!(ours, theirs, "{case:?}, {sector}");
            println!("{} files with {sector}-byte sectors are the same: {}", ours.len(), case[5..].join(" "));
        }
    }
}

/// What is said of network profiles, without the order of a directory's entries.
fn of_network(said: &str) -> Vec<&str> {
    let is_of_network = |line: &&str| line.contains("networking configuration") || line.contains(" to initramfs");
    let mut lines: Vec<&str> = said.lines().filter(is_of_network).collect();
    lines.sort_unstable();
    lines
}

/// Network profiles in a directory: their names and contents.
fn profiles(profiles: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in profiles {
        fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

#[test]
fn network_profiles_make_the_same_initramfs_and_a_butane_config_stays_as_it_is() {
    if skipped() {
        return;
    }
    let butane = tempfile::NamedTempFile::new().unwrap();
    fs::write(&butane, "# node\nvariant: fcos\nversion: 1.5.0\n").unwrap();
    let many: Vec<(String, String)> =
        (0..40).map(|n| (format!("eth{n}.nmconnection"), format!("[connection]\nid=eth{n}\n").repeat(n))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect();
    let directories = [profiles(&[]), profiles(&[("eth0.nmconnection", "[connection]\nid=eth0\n")]), profiles(&many)];
    fs::set_permissions(directories[1].path().join("eth0.nmconnection"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(directories[1].path().join("below")).unwrap();
    for sector in [512, 4096] {
        let image = Image::new(sector);
        let (raw, butane) = (image.packed(None).display().to_string(), butane.path().display().to_string());
        for (directory, count) in directories.iter().zip([0, 1, 40]) {
            let directory = directory.path().display().to_string();
            let args = ["--insecure", "-f", &raw, "-i", &butane, "--copy-network", "--network-dir", &directory];
            let Some([(ours, said), (theirs, their_words)]) = attempt_both(sector, |_| {}, &args) else { return };
            let (said, their_words) = (said.unwrap(), their_words.unwrap());
            let lines = of_network(&their_words);
            assert_eq!(lines.len(), if count == 0 { 1 } else { count + 2 }, "{their_words}");
            assert_eq!(of_network(&said), lines);
            let boot = image.boot_start..image.boot_start + image.boot_len;
            assert_eq!(difference(&ours, &theirs, &[boot, empty_backup(sector)]), None, "{count}, {sector}");
            let (ours, theirs) = (boot_files(&image, &ours), boot_files(&image, &theirs));
            assert_eq!(ours[Path::new("ignition/config.ign")].1, fs::read(args[4]).unwrap());
            let initramfs = &ours[Path::new(INITRAMFS.0.trim_start_matches('/'))].1;
            assert_eq!(initramfs.len() > INITRAMFS.1.len(), count > 0);
            assert_eq!(ours, theirs, "{count}, {sector}");
            println!(
                "{count} profiles with {sector}-byte sectors: an initramfs of {} bytes is the same",
                initramfs.len()
            );
        }
    }
}

#[test]
fn a_missing_initramfs_is_named_and_undoes_the_installation() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let mut data = image.data.clone();
    let named = format!("initrd {}", INITRAMFS.0).into_bytes();
    let at = data.windows(named.len()).position(|bytes| bytes == named).unwrap();
    data[at + named.len() - 1] = b'X';
    let raw = image.dir.path().join("nowhere.raw");
    fs::write(&raw, data).unwrap();
    let network = profiles(&[("eth0.nmconnection", "[connection]\n")]);
    let args = [
        "--insecure",
        "-f",
        raw.to_str().unwrap(),
        "--copy-network",
        "--network-dir",
        network.path().to_str().unwrap(),
    ];
    let Some([(ours, said), (_theirs, their_words)]) = attempt_both(512, |_| {}, &args) else { return };
    for said in [said.unwrap_err(), their_words.unwrap_err()] {
        assert!(said.contains("initramfs file not found at \"/"), "{said}");
        assert!(said.contains("/ostree/test/initramfs.imX\""), "{said}");
    }
    ours.assert_cleared();
}

#[test]
fn saved_partitions_and_the_merged_tables_are_the_same() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let image = Image::new(sector);
        for (name, path) in formats(&image) {
            let filters = [
                &["--save-partlabel", "da*,logs"][..],
                &["--save-partindex", "5"],
                &["--save-partindex", "3-"],
                &["--save-partlabel", "nothing"],
            ];
            // How an image is packed has no say in what is kept.
            for filter in &filters[..if name == "raw" { filters.len() } else { 1 }] {
                let args = [&["--insecure", "--image-file", path.to_str().unwrap()], *filter].concat();
                let Some((ours, theirs)) = install_both(sector, with_old_partitions(sector), &args) else { return };
                let tables = [&ours, &theirs].map(|disk| table(disk, sector)).join("");
                let except = if filter[1] == "nothing" { vec![empty_backup(sector)] } else { vec![] };
                assert_eq!(difference(&ours, &theirs, &except), None, "{name}, {filter:?}, {sector}:\n{tables}");
                println!("{name} with {sector}-byte sectors and {filter:?}: {DISK_BYTES} bytes are the same");
            }
        }
    }
}
