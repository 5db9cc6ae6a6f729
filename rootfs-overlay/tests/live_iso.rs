//! The recorded live ISOs: embedding, showing and removing, in every layout, and beside other members.

use crate::common;

use common::{LIVE, SYNTHETIC, iso};
use proptest::prelude::*;
use rootfs_overlay::area::{AreaError, LiveIso, Output};
use rootfs_overlay::embed::{EmbedError, Layout, locate};
use rootfs_overlay::initrd::{Archive, Compression};
use rootfs_overlay::iso9660::Iso;
use rootfs_overlay::{Patch, PatchedImage, ignition_patch};
use std::io::{Cursor, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const CONFIG: &[u8] = br#"{"ignition":{"version":"3.1.0"}}"#;

fn embed(path: &Path, config: &[u8], force: bool) -> Result<(), AreaError> {
    let iso = LiveIso::open_for(path, &Output::InPlace)?;
    iso.write(iso.embed(config, force)?, &Output::InPlace)
}

fn remove(path: &Path) -> Result<(), AreaError> {
    let iso = LiveIso::open_for(path, &Output::InPlace)?;
    iso.write(iso.remove()?, &Output::InPlace)
}

#[test]
fn what_is_embedded_is_shown_and_removal_restores_every_byte() {
    let directory = tempfile::tempdir().unwrap();
    for name in LIVE {
        let Some(path) = iso(name, directory.path()) else { return };
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(LiveIso::open(&path).unwrap().ignition(), Err(AreaError::Absent)), "{name}");

        embed(&path, CONFIG, false).unwrap();
        assert_eq!(LiveIso::open(&path).unwrap().ignition().unwrap(), CONFIG, "{name}");
        assert!(matches!(embed(&path, b"{}", false), Err(AreaError::Present)), "{name}");
        assert_eq!(LiveIso::open(&path).unwrap().ignition().unwrap(), CONFIG, "{name}");
        let live = LiveIso::open(&path).unwrap();
        let text = format!("{live:?} {:?}", live.archive());
        assert!(text.contains("config.ign") && !text.contains("123"), "no content in {text}");
        embed(&path, b"{}", true).unwrap();
        assert_eq!(LiveIso::open(&path).unwrap().ignition().unwrap(), b"{}", "{name}");

        remove(&path).unwrap();
        assert!(std::fs::read(&path).unwrap() == before, "{name} is as it was");
        remove(&path).unwrap();
        assert!(std::fs::read(&path).unwrap() == before, "{name} is as it was");
    }
}

#[test]
fn the_area_is_where_each_generation_has_it() {
    let directory = tempfile::tempdir().unwrap();
    for (name, layout, offset) in [
        (LIVE[0], Layout::IgnitionImage, 161_792),
        (LIVE[1], Layout::IgnitionImage, 159_744),
        (LIVE[2], Layout::IgnitionInfo, 139_264),
    ] {
        let Some(path) = iso(name, directory.path()) else { return };
        let area = LiveIso::open(&path).unwrap().area();
        assert_eq!(
            (area.layout, area.extent.offset, area.extent.len),
            (layout, offset, ignition::AREA_BYTES),
            "{name}"
        );
    }
    // Without the file, the header that 2021 images still have leads to the same bytes.
    let Some(path) = iso(LIVE[0], directory.path()) else { return };
    let mut bytes = std::fs::read(&path).unwrap();
    let name_at = bytes.windows(12).position(|window| window == b"IGNITION.IMG").unwrap();
    bytes[name_at..name_at + 2].copy_from_slice(b"XX");
    let area = locate(&mut Iso::open(Cursor::new(bytes)).unwrap()).unwrap();
    assert_eq!((area.layout, area.extent.offset, area.extent.len), (Layout::SystemArea, 161_792, 262_144));
}

#[test]
fn an_iso_without_an_area_and_other_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let Some(path) = iso(SYNTHETIC, directory.path()) else { return };
    assert!(matches!(LiveIso::open(&path), Err(AreaError::Unrecognized(EmbedError::Missing(_)))));
    let mut synthetic = Iso::open(std::fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(synthetic.read_file("really/very/deeply/nested/file.txt", 10).unwrap().len(), 4);
    assert_eq!(synthetic.read_file("content/file.txt", 10).unwrap(), b"foo\n");
    for number in 1..=150 {
        // Its records fill more than one sector.
        assert_eq!(synthetic.find(&format!("largedir/{number}.dat")).unwrap().len, 4, "{number}");
    }

    let Some(path) = iso(LIVE[0], directory.path()) else { return };
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 2048]).unwrap();
    let error = anyhow::Error::from(LiveIso::open(&path).unwrap_err());
    assert!(format!("{error:#}").contains("ISO image is incomplete"), "{error:#}");
}

#[test]
fn a_config_larger_than_the_area_is_refused_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let Some(path) = iso(LIVE[2], directory.path()) else { return };
    let before = std::fs::read(&path).unwrap();
    // Hexadecimal digits compress to half their length at best.
    let mut state = 1_u64;
    let mut noise = String::new();
    while noise.len() < 800_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        noise.push_str(&format!("{:016x}", state ^ (state >> 29)));
    }
    let large = format!(r#"{{"a":"{noise}"}}"#);
    let error = embed(&path, large.as_bytes(), false).unwrap_err();
    assert!(error.to_string().starts_with("Compressed initramfs is too large: "), "{error}");
    assert!(error.to_string().ends_with(" > 262144"), "{error}");
    assert!(matches!(ignition_patch(&path, large.as_bytes()), Err(AreaError::TooLarge { area_bytes: 262_144, .. })));
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn network_settings_in_the_area_stay() {
    let directory = tempfile::tempdir().unwrap();
    let Some(path) = iso(LIVE[1], directory.path()) else { return };
    let keyfile = "etc/coreos-firstboot-network/eth0.nmconnection";
    let mut archive = Archive::new();
    archive.add(keyfile, 0o600, "[connection]\nid=eth0\n").unwrap();
    let packed = archive.pack(Compression::Gzip).unwrap();
    let offset = usize::try_from(LiveIso::open(&path).unwrap().area().extent.offset).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[offset..offset + packed.len()].copy_from_slice(&packed);
    std::fs::write(&path, bytes).unwrap();

    embed(&path, CONFIG, false).unwrap();
    let archive = LiveIso::open(&path).unwrap().archive().clone();
    assert!(archive.get(keyfile).is_some() && archive.get("config.ign").is_some());
    remove(&path).unwrap();
    let archive = LiveIso::open(&path).unwrap().archive().clone();
    assert!(archive.get(keyfile).is_some() && archive.get("config.ign").is_none());
}

#[test]
fn a_new_file_is_whole_and_an_old_one_is_never_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let Some(path) = iso(LIVE[2], directory.path()) else { return };
    let before = std::fs::read(&path).unwrap();
    let live = LiveIso::open(&path).unwrap();
    let patches = live.embed(CONFIG, false).unwrap();
    let new = directory.path().join("new.iso");
    let output = Output::NewFile(new.clone());
    live.write(patches.clone(), &output).unwrap();
    let mut streamed = Vec::new();
    PatchedImage::open(&path, patches.clone()).unwrap().reader().read_to_end(&mut streamed).unwrap();
    assert!(std::fs::read(&new).unwrap() == streamed);
    assert_eq!(LiveIso::open(&new).unwrap().ignition().unwrap(), CONFIG);
    assert_eq!(new.metadata().unwrap().permissions().mode() & 0o777, 0o600, "there may be secrets in it");
    assert!(std::fs::read(&path).unwrap() == before);
    let text = |error: AreaError| format!("{:#}", anyhow::Error::from(error));
    let again = text(live.write(patches.clone(), &output).unwrap_err());
    assert_eq!(again, format!("persisting output file to {}: File exists (os error 17)", new.display()));
    let nowhere = Output::NewFile(directory.path().join("none/new.iso"));
    let error = text(live.write(patches, &nowhere).unwrap_err());
    assert!(error.starts_with("creating temporary file: No such file or directory"), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left over");
}

#[test]
fn only_what_differs_is_written() {
    let directory = tempfile::tempdir().unwrap();
    for name in LIVE {
        let Some(path) = iso(name, directory.path()) else { return };
        let live = LiveIso::open(&path).unwrap();
        let patches = live.embed(CONFIG, false).unwrap();
        assert!(patches.iter().map(|patch| patch.bytes.len()).sum::<usize>() < 400, "{name}: {patches:?}");
        assert!(live.remove().unwrap().is_empty(), "{name}: there is nothing to remove");
        let kargs = live.kargs().unwrap();
        assert!(kargs.patches(kargs.current()).unwrap().is_empty(), "{name}");
    }
}

#[test]
fn the_service_streams_the_same_iso_with_a_config_in_it() {
    let directory = tempfile::tempdir().unwrap();
    for name in LIVE {
        let Some(path) = iso(name, directory.path()) else { return };
        let Patch { offset, bytes } = ignition_patch(&path, CONFIG).unwrap();
        let packed = ignition::pack(CONFIG).unwrap();
        assert!(bytes.starts_with(&packed) && bytes[packed.len()..].iter().all(|byte| *byte == 0), "{name}");
        assert_eq!(bytes.len(), 262_144, "{name}");

        let image = PatchedImage::open(&path, vec![Patch { offset, bytes }]).unwrap();
        let mut streamed = Vec::new();
        image.reader().read_to_end(&mut streamed).unwrap();
        assert_eq!(image.len(), std::fs::metadata(&path).unwrap().len(), "{name}");
        let copy = directory.path().join("streamed.iso");
        std::fs::write(&copy, streamed).unwrap();
        assert_eq!(LiveIso::open(&copy).unwrap().ignition().unwrap(), CONFIG, "{name}");
        remove(&copy).unwrap();
        assert!(std::fs::read(&copy).unwrap() == std::fs::read(&path).unwrap(), "{name} is as it was");
    }
}

#[test]
fn no_damage_to_a_real_iso_makes_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let mut images = Vec::new();
    for name in LIVE {
        let Some(path) = iso(name, directory.path()) else { return };
        embed(&path, CONFIG, false).unwrap();
        images.push(std::fs::read(&path).unwrap());
    }
    // Where descriptors, directories and the area's start are.
    let changes = proptest::collection::vec((32_640_usize..170_000, any::<u8>()), 1..200);
    proptest!(ProptestConfig::with_cases(64), |(which in 0..LIVE.len(), changes in changes)| {
        let mut bytes = images[which].clone();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        if let Ok(mut iso) = Iso::open(Cursor::new(bytes))
            && let Ok(area) = locate(&mut iso)
            && let Ok(content) = iso.read(area.extent)
        {
            let _ = Archive::unpack(&content);
        }
    });
}
