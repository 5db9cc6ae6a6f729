//! The minimal ISO: unpacked from the full one, and made an infra-env's.

use crate::common::{API, Files, Running, pull_secret};
use crate::iso::{self, BEHIND, BOOT_FILES, GRUB_SECTOR};
use rootfs_overlay::{area::LiveIso, iso9660::Iso, miniso::Data};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufReader, Cursor},
    path::Path,
};

const SECTOR: usize = 2048;
const DATA_SECTOR: usize = BEHIND + 3;
const DATA_BYTES: usize = 8 * SECTOR;
const INFO: &[u8] =
    br##"{"default":"a=1 coreos.liveiso=x","files":[{"path":"grub.cfg","offset":10,"pad":"#","end":"\n"}],"size":100}"##;

/// There is room for what it becomes.
const INFO_BYTES: usize = 400;

/// Writes an ISO whose minimal form is without ROOTFS.IMG and shorter, and says so inside; returns that form.
fn write(path: &Path) -> Vec<u8> {
    iso::write(path);
    let mut full = fs::read(path).unwrap();
    let put = |image: &mut [u8], at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    let number = |sector: usize| u32::try_from(sector).unwrap();
    full[DATA_SECTOR * SECTOR..DATA_SECTOR * SECTOR + DATA_BYTES].fill(0);
    put(&mut full, (BEHIND + 2) * SECTOR, &[b' '; INFO_BYTES]);
    put(&mut full, (BEHIND + 2) * SECTOR, INFO);
    put(&mut full, GRUB_SECTOR * SECTOR + 10, b"a=1 coreos.liveiso=x\n");
    // Behind the directory's own two records of 34 bytes.
    let kargs = iso::record(b"KARGS.JSO;1", number(BEHIND + 2), INFO_BYTES, false);
    put(&mut full, BEHIND * SECTOR + 2 * 34, &kargs);
    let mut minimal = full.clone();
    let data = iso::record(b"MINISO.DAT;1", number(DATA_SECTOR), DATA_BYTES, false);
    put(&mut full, BEHIND * SECTOR + 2 * 34 + kargs.len(), &data);
    // Its last record, of 33 bytes and the name.
    let name = BOOT_FILES[2].0;
    let directory = &mut minimal[(BEHIND + 1) * SECTOR..(BEHIND + 2) * SECTOR];
    let at = directory.windows(name.len()).position(|bytes| bytes == name.as_bytes()).unwrap() - 33;
    directory[at..].fill(0);
    minimal.truncate((GRUB_SECTOR + 1) * SECTOR);
    let sectors = number(minimal.len() / SECTOR).to_le_bytes();
    put(&mut minimal, 16 * SECTOR + 80, &sectors);
    let files = |image: &[u8]| -> BTreeMap<_, _> {
        let mut iso = Iso::open(BufReader::new(Cursor::new(image.to_vec()))).unwrap();
        iso.walk().unwrap().into_iter().filter(|(_, record)| !record.is_directory).collect()
    };
    let (data, _) = Data::pack(&mut Cursor::new(&minimal), &files(&full), &files(&minimal)).unwrap();
    put(&mut full, DATA_SECTOR * SECTOR, &data.encode("0.0.0").unwrap());
    fs::write(path, full).unwrap();
    minimal
}

#[test]
fn a_minimal_iso_fetches_its_root_and_brings_what_the_network_needs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.iso");
    let minimal = write(&path);
    let running = Running::start(Files { iso: Some(path), ..Files::default() });
    let new = json!({"name": "i", "pull_secret": pull_secret(), "image_type": "minimal-iso",
        "proxy": {"http_proxy": "http://192.0.2.1:3128"},
        "kernel_arguments": [{"operation": "append", "value": "b=2"}]});
    let made = running.json("POST", "/v2/infra-envs", &new).document();
    let url = made["download_url"].as_str().unwrap();
    let at = url.strip_prefix(&running.url).unwrap();
    assert!(at.ends_with("/minimal.iso"), "{at}");
    let served = running.get(at);
    assert_eq!((served.status, served.body.len()), (200, minimal.len()));
    let part = running.request("GET", at, &[("range", "bytes=1000-2999")], b"");
    assert_eq!((part.status, &part.body[..]), (206, &served.body[1000..3000]));
    assert!(running.get(at).body == served.body, "made once, and the same every time");

    let file = directory.path().join("served.iso");
    fs::write(&file, &served.body).unwrap();
    let live = LiveIso::open(&file).unwrap();
    let wanted = format!("a=1 coreos.live.rootfs_url={}/boot-artifacts/rootfs b=2", running.url);
    assert_eq!(live.kargs().unwrap().current(), wanted);
    let id = made["id"].as_str().unwrap();
    let config = running.get(&format!("{API}/v2/infra-envs/{id}/downloads/files?file_name=discovery.ign"));
    assert_eq!(live.ignition().unwrap(), config.body);
    let proxy = "etc/systemd/system/coreos-livepxe-rootfs.service.d/10-proxy.conf";
    assert!(live.archive().get(proxy).is_some(), "the initramfs fetches through the proxy");
    assert_eq!(running.get("/boot-artifacts/rootfs").body.len(), BOOT_FILES[2].2);

    let full = running.get(&at.replace("minimal.iso", "full.iso"));
    assert_eq!(full.status, 200);
    assert!(full.body.len() > served.body.len());
}

#[test]
fn an_iso_that_does_not_say_how_has_no_minimal_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.iso");
    iso::write(&path);
    let running = Running::start(Files { iso: Some(path), ..Files::default() });
    let new = json!({"name": "i", "pull_secret": pull_secret()});
    let id = running.json("POST", "/v2/infra-envs", &new).document()["id"].as_str().unwrap().to_owned();
    let answer = running.get(&format!("/images/{id}?type=minimal-iso"));
    assert_eq!(answer.status, 404);
    assert!(String::from_utf8(answer.body).unwrap().contains("coreos/miniso.dat"));
}
