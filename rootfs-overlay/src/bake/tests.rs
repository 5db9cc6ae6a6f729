//! Baking into synthetic and real ISOs: what is found again, what stays, what comes back.

use super::content::{Content, Ingredients, Service};
use super::initrd::InitrdFile;
use super::iso::IsoFile;
use super::os_image::OsImage;
use super::program::{Machine, Program, sample};
use super::splice::{Piece, total, write};
use super::{BakeError, segment};
use crate::initrd::{Archive, Names, scan};
use crate::iso9660::Iso;
use crate::output::Output;
use crate::testing::image;
use proptest::prelude::*;
use sha2::Digest;
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../../../ignition/tests/real/mod.rs"]
#[allow(dead_code)]
mod real;

fn ingredients(url: &str) -> Ingredients {
    let infra_env_id = "5f8c6ef1-4b5a-4c3c-9a3e-0a6b5d3c2b1a".parse().unwrap();
    let token = Some(api::Secret::new("hunter2"));
    Ingredients {
        program: Program::parse(sample(1, 62)).unwrap(),
        agent: true,
        service: Some(Service { url: url.to_owned(), infra_env_id, token }),
        ca_pem: Some("-----BEGIN CERTIFICATE-----\n".to_owned()),
        agent_toml: None,
        rendezvous: BTreeMap::from([("agent-config.yaml".to_owned(), b"plan".to_vec())]),
        rendezvous_options: Some("--image \"$x\"".to_owned()),
    }
}

fn content(url: &str) -> Content {
    Content::new(ingredients(url)).unwrap()
}

fn base_initrd() -> Vec<u8> {
    let mut archive = Archive::new();
    archive.add("init", 0o755, "#!/bin/sh\n").unwrap();
    let mut bytes = archive.to_cpio().unwrap();
    // No multiple of four, as compressed ones seldom are.
    bytes.extend_from_slice(&[0; 3]);
    bytes
}

fn base_iso() -> Vec<u8> {
    image(&[
        ("COREOS/IGNINFO.JSO", br#"{"file":"images/ignition.img"}"#),
        ("IMAGES/IGNITION.IMG", &[0; 8192]),
        ("IMAGES/EFIBOOT.IMG", b"fat"),
    ])
}

/// `base_iso` with a directory IMAGES/PXEBOOT, which the small image can't have by itself, in a file of its own.
fn nested(initrd: &[u8]) -> Vec<u8> {
    let mut bytes = image(&[
        ("COREOS/IGNINFO.JSO", br#"{"file":"images/ignition.img"}"#),
        ("IMAGES/IGNITION.IMG", &[0; 8192]),
        ("IMAGES/PXEBOOT", &[0; 2048]),
        ("IMAGES/INITRD.IMG", initrd),
    ]);
    let at = |bytes: &[u8], name: &[u8]| bytes.windows(name.len()).position(|window| window == name).unwrap() - 33;
    let (directory, file) = (at(&bytes, b"PXEBOOT;1"), at(&bytes, b"INITRD.IMG;1"));
    let record = bytes[file..file + usize::from(bytes[file])].to_vec();
    bytes[directory + 25] = 2;
    let sector = u32::from_le_bytes(bytes[directory + 2..directory + 6].try_into().unwrap());
    let start = usize::try_from(sector).unwrap() * 2048;
    bytes[start..start + record.len()].copy_from_slice(&record);
    // The directory's name has no version.
    bytes[directory + 32] = 7;
    // The other record of the same file is a hard link, under a name that nobody asks for.
    bytes
}

fn written(pieces: &[Piece<'_>], path: &Path) -> Vec<u8> {
    write(&Output::NewFile(path.to_owned()), pieces).unwrap();
    let bytes = fs::read(path).unwrap();
    assert_eq!(u64::try_from(bytes.len()).unwrap(), total(pieces));
    bytes
}

fn bake(base: &Path, out: &Path, content: &Content) -> Vec<u8> {
    written(&IsoFile::open(base).unwrap().baked(content, None).unwrap(), out)
}

/// Of a live host with an agent.
const UNITS: [&str; 4] =
    ["agent.service", "landfall-serve.service", "landfall-status.service", "landfall-console.service"];

#[test]
fn an_iso_carries_what_was_baked_in_and_gives_it_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let base = nested(&base_initrd());
    fs::write(path("base"), &base).unwrap();
    assert!(IsoFile::open(&path("base")).unwrap().manifest().is_none());
    assert!(matches!(IsoFile::open(&path("base")).unwrap().removed(), Err(BakeError::Absent { .. })));

    let first = bake(&path("base"), &path("first"), &content("http://user:hunter2@a:1/?k=hunter2"));
    let again = bake(&path("base"), &path("again"), &content("http://user:hunter2@a:1/?k=hunter2"));
    assert!(first == again, "the same inputs give the same bytes");

    let iso = IsoFile::open(&path("first")).unwrap();
    let manifest = iso.manifest().unwrap();
    assert_eq!(manifest.service_url.as_deref(), Some("http://a:1/"));
    assert_eq!(manifest.units, UNITS);
    assert!(manifest.rendezvous && !format!("{manifest:?}").contains("hunter2"));
    let files: Vec<(&str, &str)> = manifest.files.iter().map(|file| (file.path.as_str(), file.mode.as_str())).collect();
    let expected = [
        ("/etc/landfall/agent.env", "0600"),
        ("/etc/landfall/ca.pem", "0644"),
        ("/etc/landfall/rendezvous.env", "0600"),
        ("/etc/landfall/rendezvous/agent-config.yaml", "0600"),
        ("/usr/local/bin/landfall", "0755"),
    ];
    assert_eq!(files, expected);
    assert!(written(&iso.removed().unwrap(), &path("removed")) == base, "every byte comes back");

    // What boots finds the longer initrd, under both its names, and all else as it was.
    let mut after = Iso::open(Cursor::new(first)).unwrap();
    let initrd = after.read_file("images/pxeboot/initrd.img", 1 << 20).unwrap();
    assert_eq!(after.read_file("images/initrd.img", 1 << 20).unwrap(), initrd);
    assert!(initrd.starts_with(&base_initrd()));
    assert_eq!(after.read_file("images/ignition.img", 8192).unwrap(), [0; 8192]);
    let unpacked = Archive::unpack(&initrd).unwrap();
    assert!(unpacked.get("init").is_some() && unpacked.get("etc/landfall/baked.json").is_some());
    let config = unpacked.get("usr/lib/ignition/base.d/50-landfall.ign").unwrap();
    let (_, version, _) = ignition::parse(config).unwrap();
    assert_eq!(version, ignition::model::Version::V3_2);
    let text = String::from_utf8_lossy(config);
    assert!(text.contains("ExecStart=/usr/local/bin/landfall agent") && !text.contains("/usr/bin/landfall"));

    // A second bake takes the place of the first.
    let direct = bake(&path("base"), &path("direct"), &content("http://b"));
    let second = bake(&path("first"), &path("second"), &content("http://b"));
    assert!(direct == second, "a second bake leaves nothing of the first");
}

#[test]
fn an_embedded_config_survives_and_is_no_part_of_what_is_baked() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("base"), nested(&base_initrd())).unwrap();
    bake(&path("base"), &path("baked"), &content("http://a"));
    for name in ["base", "baked"] {
        let iso = crate::area::LiveIso::open_for(path(name), &Output::InPlace).unwrap();
        iso.write(iso.embed(b"{}", false).unwrap(), &Output::InPlace).unwrap();
    }
    // Embedded before or after: the same image.
    let embedded_before = bake(&path("base"), &path("later"), &content("http://a"));
    assert!(embedded_before == fs::read(path("baked")).unwrap());
    let removed = written(&IsoFile::open(&path("baked")).unwrap().removed().unwrap(), &path("removed"));
    assert!(removed == fs::read(path("base")).unwrap());
}

#[test]
fn a_base_that_cannot_be_baked_into_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    let error = |bytes: &[u8], content: &Content| {
        fs::write(&path, bytes).unwrap();
        let error = match IsoFile::open(&path) {
            Ok(iso) => iso.baked(content, None).map(|_| ()).unwrap_err(),
            Err(error) => error,
        };
        error.to_string()
    };
    let content = content("http://a");
    assert!(error(&base_iso(), &content).contains("no images/pxeboot/initrd.img"));
    for other in [&b"x"[..], &[0; 40_000]] {
        let error = error(other, &content);
        assert!(
            error.contains(
                "x is not an ISO, which has a volume descriptor at byte 32768: give the ISO of a live system"
            ),
            "{error}"
        );
    }
    let cut = base_iso();
    assert!(error(&cut[..cut.len() - 4096], &content).contains("is not an image for baking"));
    let for_arm = Program::parse(sample(1, 183)).unwrap();
    let content = Content::new(Ingredients { program: for_arm, ..ingredients("http://a") }).unwrap();
    let error = content.check_machine(Some(Machine::X86_64)).unwrap_err().to_string();
    assert!(error.contains("for aarch64") && error.contains("x86_64"), "{error}");
    content.check_machine(None).unwrap();
}

#[test]
fn an_initrd_keeps_what_came_before_and_after() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let base = base_initrd();
    fs::write(path("base"), &base).unwrap();
    let open = |name: &str| InitrdFile::open(&path(name)).unwrap();
    assert!(open("base").manifest().is_none());
    let mut first = written(&open("base").baked(&content("http://a")).unwrap(), &path("first"));
    assert_eq!(open("first").manifest().unwrap().service_url.as_deref(), Some("http://a"));
    assert!(written(&open("first").removed().unwrap(), &path("removed")) == base);
    // As `pxe customize` does.
    let mut later = Archive::new();
    later.add("config.ign", 0o600, "{}").unwrap();
    first.extend_from_slice(&later.pack(crate::initrd::Compression::Xz).unwrap());
    fs::write(path("customized"), &first).unwrap();
    let second = written(&open("customized").baked(&content("http://b")).unwrap(), &path("second"));
    assert_eq!(open("second").manifest().unwrap().service_url.as_deref(), Some("http://b"));
    let found = scan(&second[..], &Names::new::<&str>(&[]).unwrap()).unwrap();
    let names: Vec<&str> = found.members().map(|(name, _)| name).collect();
    let config = "usr/lib/ignition/base.d/50-landfall.ign";
    assert_eq!(names, ["config.ign", "etc/landfall/baked.json", "init", config]);
    fs::write(path("iso"), nested(&base)).unwrap();
    assert!(InitrdFile::open(&path("iso")).is_err());
}

#[test]
fn a_manifest_of_a_later_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("initrd");
    fs::write(&path, base_initrd()).unwrap();
    let initrd = InitrdFile::open(&path).unwrap();
    let mut bytes = written(&initrd.baked(&content("http://a")).unwrap(), &directory.path().join("baked"));
    let at = bytes.windows(18).rposition(|window| window == br#""schema_version":1"#).unwrap();
    bytes[at + 17] = b'2';
    assert!(matches!(segment::find(&bytes, 0), Err(segment::SegmentError::Later { found: 2 })));
}

/// A real image with Rock Ridge and Joliet, a disk image with GPT, or none where xorriso isn't.
fn xorriso_iso(directory: &Path) -> Option<PathBuf> {
    let tree = directory.join("tree");
    fs::create_dir_all(tree.join("images/pxeboot")).unwrap();
    fs::create_dir_all(tree.join("coreos")).unwrap();
    fs::write(tree.join("images/pxeboot/initrd.img"), base_initrd()).unwrap();
    fs::write(tree.join("images/ignition.img"), vec![0; 262_144]).unwrap();
    fs::write(tree.join("images/efiboot.img"), vec![7; 4 << 20]).unwrap();
    fs::write(tree.join("coreos/igninfo.json"), r#"{"file":"images/ignition.img"}"#).unwrap();
    let iso = directory.join("base.iso");
    let mut command = Command::new("xorriso");
    command.args(["-as", "mkisofs", "-quiet", "-volid", "live", "-R", "-J", "-o"]).arg(&iso);
    command.args([
        "--protective-msdos-label",
        "--efi-boot",
        "images/efiboot.img",
        "-efi-boot-part",
        "--efi-boot-image",
    ]);
    match command.arg(&tree).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            testkit::skip::because(format_args!("xorriso cannot be started: {error}"));
            return None;
        }
    }
    Some(iso)
}

/// A file as xorriso sees it in one of the trees, as its `-read_fs` calls them.
fn extracted(iso: &Path, tree: &str, path: &str, directory: &Path) -> Vec<u8> {
    let out = tempfile::Builder::new().tempfile_in(directory).unwrap().into_temp_path().to_path_buf();
    let mut command = Command::new("xorriso");
    command.args(["-read_fs", tree, "-osirrox", "on", "-indev"]).arg(iso);
    let output = command.args(["-extract", path]).arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(out).unwrap()
}

#[test]
fn other_programs_find_the_new_initrd_in_each_tree_and_both_partition_tables_hold() {
    let directory = tempfile::tempdir().unwrap();
    let Some(base) = xorriso_iso(directory.path()) else { return };
    let baked = directory.path().join("baked.iso");
    let bytes = bake(&base, &baked, &content("http://a"));
    let plain = extracted(&baked, "nojoliet", "/images/pxeboot/initrd.img", directory.path());
    assert!(plain.len() > base_initrd().len() && plain.starts_with(&base_initrd()));
    assert_eq!(extracted(&baked, "norock", "/images/pxeboot/initrd.img", directory.path()), plain, "Joliet's tree");
    // Both GPTs are sealed, know each other, and the image has nothing behind the second.
    let tables = super::partitions::Tables::read(u64::try_from(bytes.len()).unwrap(), |offset, len| {
        let start = usize::try_from(offset).ok()?;
        bytes.get(start..start + usize::try_from(len).ok()?).map(<[u8]>::to_vec)
    });
    assert!(tables.tail_bytes() > 0, "the base has a GPT");
    let verify = Command::new("sgdisk").arg("-v").arg(&baked).output();
    match verify {
        Ok(output) => {
            let after = String::from_utf8_lossy(&output.stdout).into_owned();
            let before = Command::new("sgdisk").arg("-v").arg(&base).output().unwrap();
            let before = String::from_utf8_lossy(&before.stdout).into_owned();
            let problems = |text: &str| text.lines().filter(|line| line.contains("Problem")).count();
            assert!(problems(&after) <= problems(&before), "before:\n{before}\nafter:\n{after}");
        }
        Err(error) => testkit::skip::because(format_args!("sgdisk cannot be started: {error}")),
    }
    let removed = written(&IsoFile::open(&baked).unwrap().removed().unwrap(), &directory.path().join("removed"));
    assert!(removed == fs::read(&base).unwrap());
}

#[test]
fn an_os_image_lies_beside_the_live_system_under_every_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let Some(base) = xorriso_iso(directory.path()) else { return };
    fs::write(path("os"), b"os image").unwrap();
    let os = OsImage::open(&path("os")).unwrap();
    let iso = IsoFile::open(&base).unwrap();
    written(&iso.baked(&content("http://a"), Some(&os)).unwrap(), &path("baked"));
    let image = IsoFile::open(&path("baked")).unwrap().manifest().unwrap().image.clone().unwrap();
    assert_eq!((image.path.as_str(), image.bytes), ("/run/media/iso/images/landfall.img", 8));
    for tree in ["nojoliet", "norock"] {
        assert_eq!(extracted(&path("baked"), tree, "/images/landfall.img", directory.path()), b"os image", "{tree}");
        let other = extracted(&path("baked"), tree, "/images/ignition.img", directory.path());
        assert_eq!(other, vec![0; 262_144], "{tree}");
    }
    let mut plain = Iso::open(Cursor::new(fs::read(path("baked")).unwrap())).unwrap();
    assert_eq!(plain.read_file("images/landfall.img", 100).unwrap(), b"os image");
    // Without it, by a second bake or by removal, there is no trace of it.
    let baked = IsoFile::open(&path("baked")).unwrap();
    let without = written(&baked.baked(&content("http://a"), None).unwrap(), &path("without"));
    assert!(without == written(&iso.baked(&content("http://a"), None).unwrap(), &path("direct")));
    assert!(written(&baked.removed().unwrap(), &path("removed")) == fs::read(&base).unwrap());
    // A directory that is full.
    let mut bytes = nested(&base_initrd());
    let at = bytes.windows(14).position(|window| window == b"IGNITION.IMG;1").unwrap() - 33;
    let sector = at / 2048 * 2048;
    let long = bytes[at..at + 48].to_vec();
    let used = (at..sector + 2048).find(|at| bytes[*at..sector + 2048].iter().all(|byte| *byte == 0)).unwrap();
    for start in (used.next_multiple_of(2)..sector + 2000).step_by(48) {
        bytes[start..start + 48].copy_from_slice(&long);
        // Names that come later, so that it belongs before them.
        bytes[start + 33] = b'Z';
    }
    fs::write(path("full"), bytes).unwrap();
    let full = IsoFile::open(&path("full")).unwrap();
    let error = full.baked(&content("http://a"), Some(&os)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("cannot add the OS image"), "{error}");
}

#[test]
fn recorded_live_isos_come_back() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["embed-areas-2021-12.iso", "embed-areas-2022-02.iso", "embed-areas-2023-07.x86_64.iso"] {
        let Some(packed) = testkit::recordings::path(&format!("data/iso/{name}.xz")) else { return };
        let file = fs::File::open(packed).unwrap();
        let base = directory.path().join(name);
        let mut unpacked = fs::File::create(&base).unwrap();
        std::io::copy(&mut liblzma::read::XzDecoder::new(file), &mut unpacked).unwrap();
        let iso = IsoFile::open(&base).unwrap();
        let baked = directory.path().join(format!("{name}.baked"));
        written(&iso.baked(&content("http://a"), None).unwrap(), &baked);
        let area = |path: &Path| crate::area::LiveIso::open(path).unwrap().area();
        assert_eq!(area(&base), area(&baked), "{name}");
        let removed = written(&IsoFile::open(&baked).unwrap().removed().unwrap(), &directory.path().join("removed"));
        assert!(removed == fs::read(&base).unwrap(), "{name}");
        fs::remove_file(directory.path().join("removed")).unwrap();
    }
}

#[test]
fn the_real_ignition_writes_what_was_baked_in() {
    let Some(ignition) = real::Real::find() else { return };
    let root = tempfile::tempdir().unwrap();
    real::base(root.path());
    let content = content("http://a");
    ignition.apply(root.path(), &String::from_utf8(content.config().unwrap()).unwrap()).unwrap();
    let nodes = real::snapshot(root.path());
    for facts in content.file_facts() {
        let node = nodes.get(&facts.path).unwrap();
        assert_eq!(format!("{:04o}", node.mode), facts.mode, "{}", facts.path);
        assert_eq!(kernel::hex::lower(sha2::Sha256::digest(&node.contents)), facts.sha256, "{}", facts.path);
    }
    assert_eq!(nodes["/usr/local/bin/landfall"].contents, sample(1, 62));
    let environment = String::from_utf8_lossy(&nodes["/etc/landfall/agent.env"].contents);
    assert!(environment.contains("LANDFALL_URL=http://a\n") && environment.contains("hunter2"), "{environment}");
    let options = String::from_utf8_lossy(&nodes["/etc/landfall/rendezvous.env"].contents);
    assert_eq!(options, "LANDFALL_RENDEZVOUS_OPTIONS=\"--image \\\"\\$x\\\"\"\n");
    let unit = String::from_utf8_lossy(&nodes["/etc/systemd/system/agent.service"].contents);
    assert!(unit.contains("ExecCondition=/usr/local/bin/landfall agent config --is-configured"), "{unit}");
    let preset = String::from_utf8_lossy(&nodes["/etc/systemd/system-preset/20-ignition.preset"].contents);
    for unit in UNITS {
        assert!(preset.contains(&format!("enable {unit}\n")), "{preset}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_damage_makes_it_panic(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30)) {
        let directory = tempfile::tempdir().unwrap();
        let (base, baked) = (directory.path().join("base"), directory.path().join("baked"));
        fs::write(&base, nested(&base_initrd())).unwrap();
        let mut bytes = bake(&base, &baked, &content("http://a"));
        // Descriptors and directories, then the manifest at the end.
        let places: Vec<usize> = (0..512).chain(32768..43008).chain(bytes.len() - 6000..bytes.len()).collect();
        for (index, byte) in changes {
            bytes[*index.get(&places)] = byte;
        }
        fs::write(&baked, &bytes).unwrap();
        if let Ok(iso) = IsoFile::open(&baked) {
            for pieces in [iso.removed(), iso.baked(&content("http://b"), None)].into_iter().flatten() {
                let _ = total(&pieces);
            }
        }
    }
}
