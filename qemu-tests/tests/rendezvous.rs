//! A rack with nothing else around: three machines, one ISO and a switch. No service but the one that a machine of the
//! rack starts by itself, no DHCP, no name server, no person who presses a key.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;

use common::{LIMIT, ok, turn};
use qemu_tests::{
    arch::Arch,
    images::{Compression, Drivers, LiveIso, SectorSize, live_iso},
    media, paths,
    rack::{NodeFacts, sha256},
    service,
    switch::Switch,
    vm::{Disk, Vm},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

const HOSTS: u8 = 3;
const RUN: &str = "rendezvous";
const IMAGE: &str = "usr/share/landfall/os.raw.zst";
/// Files of the live host.
const OVERLAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rootfs-overlay/overlay");

fn mac(index: u8) -> api::Mac {
    api::Mac([0x52, 0x54, 0x00, 0x52, 0x56, index])
}

/// All addresses are on every command line: there is one ISO.
fn address_karg(index: u8) -> String {
    format!("ip=192.168.77.{}::192.168.77.1:24::{}:none", 10 + index, mac(index).dashed())
}

/// What the rack is to become: manifests as people write them, and the machines' addresses.
fn plan() -> String {
    let mut documents = vec![
        json!({"kind": "ClusterDeployment", "metadata": {"name": "rack"},
            "spec": {"clusterName": "rack", "baseDomain": "example.com", "pullSecretRef": {"name": "registry"}}}),
        json!({"kind": "AgentClusterInstall", "metadata": {"name": "rack"},
            "spec": {"imageSetRef": {"name": "release"}, "platformType": "None", "sshPublicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g rack",
                "networking": {"machineNetwork": [{"cidr": "192.168.77.0/24"}]},
                "provisionRequirements": {"controlPlaneAgents": HOSTS}}}),
        json!({"kind": "ClusterImageSet", "metadata": {"name": "release"},
            "spec": {"releaseImage": "quay.io/openshift-release-dev/ocp-release:4.22.0-x86_64"}}),
        json!({"kind": "Secret", "metadata": {"name": "registry"},
            "stringData": {".dockerconfigjson": r#"{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNz"}}}"#}}),
        json!({"kind": "AgentConfig", "metadata": {"name": "rack"}, "rendezvousIP": "192.168.77.10"}),
    ];
    documents.extend((0..HOSTS).map(host));
    documents.iter().map(|document| format!("---\n{document}\n")).collect()
}

fn host(index: u8) -> Value {
    let args = json!(["--append-karg", address_karg(index)]).to_string();
    let site = format!("data:,rack,node-{index}");
    let ignition = json!({"ignition": {"version": "3.2.0"},
        "storage": {"files": [{"path": "/etc/landfall-test/site", "mode": 0o644, "contents": {"source": site}}]}});
    let annotations = json!({
        "bmac.agent-install.openshift.io/hostname": format!("node-{index}"),
        "bmac.agent-install.openshift.io/role": "master",
        "bmac.agent-install.openshift.io/installer-args": args,
        "bmac.agent-install.openshift.io/ignition-config-overrides": ignition.to_string(),
    });
    json!({"kind": "BareMetalHost", "metadata": {"name": format!("node-{index}"), "annotations": annotations},
        "spec": {"bootMACAddress": mac(index).to_string(), "rootDeviceHints": {"serialNumber": format!("RACK-{index}")}}})
}

/// The one ISO: the program, the image, the plan, and where to ask.
fn iso(dir: &Path) -> PathBuf {
    let etc = dir.join("overlay/etc/landfall");
    fs::create_dir_all(etc.join("rendezvous")).unwrap();
    let needs = json!({"cpu_cores": 1, "ram_mib": 512, "disk_size_gb": 1});
    let requirements =
        json!([{"version": "default", "master": needs, "worker": needs, "arbiter": needs, "sno": needs}]);
    let options = format!(
        "--image /{IMAGE} --poll-interval 2 --rendezvous-wait 20 --requirements /etc/landfall/requirements.json"
    );
    for (name, text) in [
        ("rendezvous/rack.yaml", plan()),
        ("rendezvous.env", format!("LANDFALL_RENDEZVOUS_OPTIONS={options}\n")),
        ("requirements.json", requirements.to_string()),
        ("agent.toml", "rendezvous = '192.168.77.10'\n".to_owned()),
    ] {
        fs::write(etc.join(name), text).unwrap();
    }
    let image = ok(media::os_image(SectorSize::B512, Compression::Zstd, Drivers::Cloud));
    let addresses: Vec<String> = (0..HOSTS).map(address_karg).collect();
    ok(live_iso(&LiveIso {
        overlays: vec![OVERLAY.into(), dir.join("overlay")],
        files: vec![("usr/bin/landfall".to_owned(), ok(service::binary())), (IMAGE.to_owned(), image)],
        kargs: format!("{} {}", Arch::X86_64.kernel_arguments, addresses.join(" ")),
        ..LiveIso::default()
    }))
}

#[test]
fn three_machines_of_one_iso_become_three_nodes_with_nothing_else_around() {
    let _turn = turn();
    let dir = paths::scratch_dir().unwrap();
    let iso = iso(dir.path());
    let switch = Switch::start(1).unwrap();
    let began = Instant::now();
    let machines = (0..HOSTS).map(|index| {
        let port = switch.add_port(&format!("node-{index}")).unwrap();
        let path = dir.path().join(format!("node-{index}.img"));
        let serial = format!("RACK-{index}");
        let disk = Disk { path, size_bytes: 4 << 30, serial, sector_bytes: 512, bus: Default::default() };
        let builder = Vm::builder(RUN, format!("node-{index}")).memory_mib(1536).disk(disk).iso(&iso);
        let builder =
            builder.identity(format!("4c616e64-6661-6c6c-8000-0000000052{index:02x}"), format!("RACK-{index}"));
        ok(builder.nic(mac(index), switch.port_path(port)).start())
    });
    let mut machines: Vec<Vm> = machines.collect();
    // Each is asked itself: there is no service left to ask.
    let deadline = Instant::now() + 2 * LIMIT;
    let mut ready: Vec<Option<Duration>> = vec![None; machines.len()];
    while ready.iter().any(Option::is_none) {
        for (vm, ready) in machines.iter_mut().zip(&mut ready) {
            ok(vm.check());
            if ready.is_none() && vm.markers().iter().any(|marker| marker.text == "node ready") {
                println!("{RUN}: {} is an installed node after {:.0} s", vm.name(), began.elapsed().as_secs_f64());
                *ready = Some(began.elapsed());
            }
        }
        assert!(Instant::now() < deadline, "not all are installed: {ready:?}; see {:?}", machines[0].log());
        thread::sleep(Duration::from_millis(200));
    }
    println!("{RUN}: three nodes of one ISO in {:.0} s", began.elapsed().as_secs_f64());

    assert_eq!(ready.iter().max(), Some(&ready[0]), "the machine that serves is installed last: {ready:?}");
    for (index, vm) in machines.iter().enumerate() {
        let markers = vm.markers();
        let facts = NodeFacts::parse(markers.iter().map(|marker| marker.text.as_str()));
        let said = |key: &str| facts.get(key).unwrap_or_default();
        assert_eq!(said("hostname"), format!("node-{index}"));
        assert_eq!(facts.site_file(), Some(sha256(&format!("rack,node-{index}")).as_str()));
        assert!(facts.provisioned().is_some(), "node-{index}: {}", said("ignition-result"));
        assert_eq!(facts.failed_units(), Vec::<&str>::new(), "node-{index}");
        // The records of the service went onto the disk of the machine it ran on: the others done, itself on its way, with it the
        // cluster.
        let records: Vec<&str> =
            said("records").split_whitespace().filter(|state| state.starts_with("install")).collect();
        let expected: &[&str] =
            if index == 0 { &["installed", "installed", "installing", "installing-in-progress"] } else { &[] };
        assert_eq!(records, expected, "node-{index}");
    }
}
