//! Ten Butane documents, one for each thing that people most often write them for, translated and merged by `landfall ignition`; an
//! installed system boots with the result, and Ignition of Debian makes of it what they say.

#![allow(clippy::unwrap_used)]

use crate::facts;

use facts::{Facts, LIMIT};
use qemu_tests::{
    images::{Compression, Drivers, SectorSize},
    media, paths, service,
    vm::{Disk, Vm},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

const DOCUMENTS: [&str; 10] =
    ["users", "hostname", "service", "dropin", "script", "network", "sysctl", "timezone", "tree", "masked"];

fn landfall(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(service::binary().unwrap()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_node_is_what_ten_documents_say() {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/butane");
    let files = sources.join("files");
    let configs: Vec<PathBuf> = DOCUMENTS
        .iter()
        .map(|name| {
            let document = sources.join(format!("{name}.bu"));
            let words = ["ignition", "translate", "--files-dir", files.to_str().unwrap(), document.to_str().unwrap()];
            let config = dir.path().join(format!("{name}.ign"));
            fs::write(&config, landfall(&words)).unwrap();
            config
        })
        .collect();
    let mut merge = vec!["ignition", "merge"];
    merge.extend(configs.iter().map(|config| config.to_str().unwrap()));
    let config = landfall(&merge);

    let (image, target) = (dir.path().join("image"), dir.path().join("target"));
    fs::copy(media::os_image(SectorSize::B512, Compression::Raw, Drivers::Cloud).unwrap(), &image).unwrap();
    let size_bytes = fs::metadata(&image).unwrap().len();
    let mut vm = Vm::builder("butane", "install")
        .memory_mib(768)
        .kernel(media::shell_system(Drivers::Cloud).unwrap())
        .shell()
        .disk(Disk::virtio(&image, "IMAGE", 0))
        .disk(Disk::virtio(&target, "TARGET", size_bytes))
        .start()
        .unwrap();
    let mut facts = Facts::ask(&mut vm);
    facts.run(&format!(
        "cat >/run/host.ign <<'EOF'\n{}\nEOF
         landfall install --insecure --no-verify -f - -i /run/host.ign /dev/disk/by-id/virtio-TARGET \
         </dev/disk/by-id/virtio-IMAGE; sync",
        String::from_utf8(config).unwrap()
    ));
    vm.quit().unwrap();
    vm.wait_end(LIMIT).unwrap();

    let mut vm = Vm::builder("butane", "node").disk(Disk::virtio(&target, "TARGET", 0)).start().unwrap();
    vm.wait_for("node ready", 2 * LIMIT).unwrap();
    let markers: Vec<String> = vm.markers().into_iter().map(|marker| marker.text).collect();
    for fact in [
        "node hostname=rack-12",
        "node keys=ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGh0dHBzOi8vYnV0YW5lLmV4YW1wbGUvLy8v first@example",
        "butane groups=users racks",
        "butane passwd=1500,Rack operator,/bin/sh",
        "butane stamp=stamped",
        "butane appended=one two",
        "butane packed=40",
        "butane directory=750 racks",
        "butane localtime=../usr/share/zoneinfo/Europe/Berlin",
        "butane masked=/dev/null",
        "butane profile=600",
        "butane sysctl=kernel.sysrq = 176",
        "butane tree=row 7 755",
    ] {
        assert!(markers.iter().any(|marker| marker.trim() == fact), "{fact}: {markers:#?}");
    }
    println!("butane: {} documents, {:.1} s", DOCUMENTS.len(), began.elapsed().as_secs_f64());
}
