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
fn an_iso_that_does_not_say_how_has_a_minimal_one_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.iso");
    iso::write(&path);
    let running = Running::start(Files { iso: Some(path.clone()), ..Files::default() });
    for version in ["4.17", "4.18", "4.22"] {
        let new = json!({"name": "i", "pull_secret": pull_secret(), "image_type": "minimal-iso", "openshift_version": version,
            "kernel_arguments": [{"operation": "append", "value": "b=2"}], "static_network_config": [{
                "network_yaml": "interfaces: [{name: eth0, type: ethernet, state: up}]",
                "mac_interface_map": [{"mac_address": "52:54:00:00:00:0a", "logical_nic_name": "eth0"}]}]});
        let made = running.json("POST", "/v2/infra-envs", &new).document();
        let (id, url) = (made["id"].as_str().unwrap(), made["download_url"].as_str().unwrap());
        let served = running.get(url.strip_prefix(&running.url).unwrap());
        assert_eq!(served.status, 200);
        let long = running.get(&format!("/images/{id}?type=minimal-iso&version={version}"));
        assert!(long.body == served.body, "the same under both addresses");
        let part = running.request("GET", &format!("/byid/{id}/x/y/minimal.iso"), &[("range", "bytes=-100")], b"");
        assert_eq!((part.status, &part.body[..]), (206, &served.body[served.body.len() - 100..]));
        let file = directory.path().join("served.iso");
        fs::write(&file, &served.body).unwrap();
        let mut live = LiveIso::open(&file).unwrap();
        let wanted = format!("a=1 coreos.live.rootfs_url={}/boot-artifacts/rootfs b=2", running.url);
        assert_eq!(live.kargs().unwrap().current(), wanted);
        assert_eq!(live.area().extent.len, u64::try_from(iso::AREA + (1 << 20)).unwrap());
        // What the network needs is there before the root file system, and not in the config.
        assert!(live.archive().get("etc/assisted/network/host0/eth0.nmconnection").is_some(), "{version}");
        let config = live.ignition().unwrap();
        assert!(!String::from_utf8(config).unwrap().contains("/etc/assisted/network"), "{version}");
        assert!(live.iso().find("images/pxeboot/rootfs.img").is_err());
        let base = fs::read(&path).unwrap();
        let (_, sector, len) = BOOT_FILES[0];
        let kernel = live.iso().read_file("images/pxeboot/vmlinuz", 1 << 20).unwrap();
        assert_eq!(kernel, base[sector * SECTOR..sector * SECTOR + len]);
    }
}

/// Puts a record behind the others of a directory's sector.
fn add(image: &mut [u8], sector: usize, record: &[u8]) {
    let mut at = sector * SECTOR;
    while image[at] > 0 {
        at += usize::from(image[at]);
    }
    image[at..at + record.len()].copy_from_slice(record);
}

/// An image with what only those of IBM Z have.
fn write_for_ibm_z(path: &Path) {
    iso::write(path);
    let mut image = fs::read(path).unwrap();
    let number = |sector: usize| u32::try_from(sector).unwrap();
    let old = image.windows(10).position(|name| name == b"VMLINUZ.;1").unwrap();
    image[old..old + 7].copy_from_slice(b"UNKNOWN");
    add(&mut image, BEHIND + 1, &iso::record(b"KERNEL.IMG;1", number(BEHIND + 20), 5000, false));
    add(&mut image, 18, &iso::record(b"GENERIC.INS;1", number(BEHIND + 80), 11, false));
    add(&mut image, 19, &iso::record(b"CDBOOT.IMG;1", number(BEHIND + 81), 20, false));
    add(&mut image, 19, &iso::record(b"INITRD.ADD;1", number(BEHIND + 82), 16, false));
    for (sector, bytes) in [(BEHIND + 80, &b"kernel 0x0\n"[..]), (BEHIND + 82, b"\0\0\0\0\x01\x02\x03\x04original")] {
        image[sector * SECTOR..sector * SECTOR + bytes.len()].copy_from_slice(bytes);
    }
    fs::write(path, image).unwrap();
}

#[test]
fn ibm_z_gets_the_files_of_its_loaders_and_no_minimal_iso() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.iso");
    write_for_ibm_z(&path);
    let running = Running::start(Files { iso: Some(path), ..Files::default() });
    let new =
        json!({"name": "z", "pull_secret": pull_secret(), "cpu_architecture": "s390x", "openshift_version": "4.22"});
    let id = running.json("POST", "/v2/infra-envs", &new).document()["id"].as_str().unwrap().to_owned();

    let addrsize = format!("/images/{id}/s390x-initrd-addrsize?version=4.22");
    let initrd = running.get(&format!("/images/{id}/pxe-initrd?version=4.22&arch=s390x"));
    let answer = running.get(&addrsize);
    let expected =
        [&b"\0\0\0\0\x01\x02\x03\x04"[..], &u64::try_from(initrd.body.len()).unwrap().to_be_bytes()].concat();
    assert_eq!((answer.status, &answer.body), (200, &expected));
    assert_eq!(
        answer.header("content-disposition"),
        Some(format!("attachment; filename=\"{id}-initrd.addrsize\"").as_str())
    );
    assert_eq!(answer.header("last-modified"), initrd.header("last-modified"));
    let part = running.request("GET", &addrsize, &[("range", "bytes=8-")], b"");
    assert_eq!((part.status, &part.body[..]), (206, &expected[8..]));
    assert_eq!(running.request("HEAD", &addrsize, &[], b"").header("content-length"), Some("16"));

    let artifact = |name: &str| running.get(&format!("/boot-artifacts/{name}?version=4.22&arch=s390x"));
    assert_eq!((artifact("kernel").body.len(), artifact("rootfs").body.len()), (5000, 10_000));
    assert_eq!(artifact("ins-file").body, b"kernel 0x0\n");
    assert_eq!(running.get("/boot-artifacts/ins-file?version=4.22").status, 404, "of another processor");
    assert_eq!(running.get("/boot-artifacts/kernel?version=4.22").status, 404, "the only ISO is for IBM Z");
    let minimal = running.get(&format!("/images/{id}?type=minimal-iso&version=4.22&arch=s390x"));
    assert_eq!(minimal.status, 404);
    assert!(minimal.document()["reason"].as_str().unwrap().contains("it boots IBM Z"), "{:?}", minimal.document());
}
