//! Booting over the network, and kernel arguments in the ISO.

use crate::common::{API, Answer, recorded};
use crate::files::{World, iso};
use rootfs_overlay::initrd::Archive;
use serde_json::json;

fn file(world: &World, query: &str) -> Answer {
    let id = world.infra_env["id"].as_str().unwrap();
    world.running.get(&format!("{API}/v2/infra-envs/{id}/downloads/files?file_name=ipxe-script{query}"))
}

#[test]
fn the_script_is_the_recorded_one() {
    let world = World::new(json!({"openshift_version": "4.22"}));
    let script = file(&world, "");
    assert_eq!(script.status, 200);
    let script = String::from_utf8(script.body).unwrap();
    let (id, url) = (world.infra_env["id"].as_str().unwrap(), world.running.url.as_str());
    if let Some(folder) = recorded("api") {
        let theirs = std::fs::read_to_string(folder.join("sno-ipxe-script")).unwrap();
        let theirs = theirs.replace("http://127.0.0.1:8888", url).replace("e792c8fd-40e3-4445-a811-5b6d9484171e", id);
        assert_eq!(script, theirs);
    }
    // What it names is there, and is what it should be.
    for word in script.split([' ', '\n']).map(|word| word.trim_start_matches("coreos.live.rootfs_url=")) {
        if let Some(path) = word.strip_prefix(url) {
            assert_eq!(world.running.request("HEAD", path, &[], b"").status, 200, "{path}");
        }
    }
    let chained = String::from_utf8(file(&world, "&ipxe_script_type=boot-order-control").body).unwrap();
    assert!(chained.starts_with("#!ipxe\nchain http") && chained.ends_with("&mac=${net0/mac}\n"), "{chained}");
    let by_mac = file(&world, "&ipxe_script_type=boot-order-control&mac=52:54:00:00:00:01");
    assert_eq!(String::from_utf8(by_mac.body).unwrap(), script, "an unknown machine discovers");
    assert_eq!(file(&world, "&ipxe_script_type=never").status, 400);
}

#[test]
fn kernel_and_initramfs_come_out_of_the_iso() {
    let world = World::new(json!({}));
    let of_iso = |at: usize| {
        let (_, sector, len) = iso::BOOT_FILES[at];
        world.base[sector * 2048..sector * 2048 + len].to_vec()
    };
    assert!(world.running.get("/boot-artifacts/kernel?version=4.22&arch=x86_64").body == of_iso(0));
    let rootfs = world.running.request("GET", "/boot-artifacts/rootfs", &[("range", "bytes=9990-")], b"");
    assert_eq!((rootfs.status, rootfs.body), (206, of_iso(2)[9990..].to_vec()));
    assert_eq!(world.running.get("/boot-artifacts/ins-file").status, 404);
    assert_eq!(world.running.get("/boot-artifacts/passwd").status, 404);

    let id = world.infra_env["id"].as_str().unwrap();
    let minimal = format!("{API}/v2/infra-envs/{id}/downloads/minimal-initrd");
    assert_eq!(world.running.get(&minimal).status, 204);
    let whole = world.running.get(&format!("/images/{id}/pxe-initrd")).body;
    assert!(whole.starts_with(&of_iso(1)));
    let behind = |whole: &[u8]| Archive::unpack(&whole[3004..]).unwrap();
    let config = world.running.get(&format!("{API}/v2/infra-envs/{id}/downloads/files?file_name=discovery.ign")).body;
    assert_eq!(behind(&whole).get("config.ign"), Some(config.as_slice()));
    assert_eq!(behind(&whole).members().count(), 1);

    let change = json!({"proxy": {"http_proxy": "http://p:3128"}, "static_network_config": [{
        "network_yaml": "interfaces: [{name: eth0, type: ethernet, state: up}]",
        "mac_interface_map": [{"mac_address": "52:54:00:00:00:0a", "logical_nic_name": "eth0"}],
    }]});
    assert_eq!(world.running.json("PATCH", &format!("/v2/infra-envs/{id}"), &change).status, 201);
    let archive = world.running.get(&minimal);
    assert_eq!((archive.status, &archive.body[..2]), (200, &b"\x1f\x8b"[..]));
    let archive = Archive::unpack(&archive.body).unwrap();
    for path in [
        "etc/assisted/network/host0/mac_interface.ini",
        "etc/assisted/network/host0/eth0.nmconnection",
        "usr/local/bin/pre-network-manager-config.sh",
        "etc/systemd/system/coreos-livepxe-rootfs.service.d/10-proxy.conf",
    ] {
        assert!(archive.get(path).is_some(), "{path}");
    }
    let whole = world.running.get(&format!("/images/{id}/pxe-initrd")).body;
    assert!(
        behind(&whole).get("config.ign").is_some()
            && behind(&whole).get("usr/local/bin/common_network_script.sh").is_some()
    );
}

#[test]
fn kernel_arguments_are_in_the_iso_and_in_the_script() {
    let world = World::new(json!({"kernel_arguments": [
        {"operation": "append", "value": "quiet"}, {"operation": "append", "value": "x=\"a b\""}]}));
    let whole = world.iso(&[]).body;
    let at = iso::GRUB_SECTOR * 2048;
    let line = String::from_utf8_lossy(&whole[at..at + 110]);
    assert!(line.starts_with("linux /v  a=1 quiet x=\"a b\"\n####"), "{line}");
    let changed = (at..whole.len()).filter(|at| whole[*at] != world.base[*at]);
    assert!(changed.clone().count() > 0 && changed.max().unwrap() < at + 110, "only the area changes");
    let script = String::from_utf8(file(&world, "").body).unwrap();
    assert!(script.contains("ttyS1,115200n8\" quiet x=\"a b\"\nboot\n"), "{script}");
    let id = world.infra_env["id"].as_str().unwrap();
    let long = json!({"kernel_arguments": [{"operation": "append", "value": "a".repeat(200)}]});
    assert_eq!(world.running.json("PATCH", &format!("/v2/infra-envs/{id}"), &long).status, 201);
    let refused = world.iso(&[]);
    assert_eq!(refused.status, 400);
    assert!(refused.document()["reason"].as_str().unwrap().contains("kargs too large for area"));
}
