//! What the pages' commands find: a small live ISO, an image, a CA, configs, and `landfall` on PATH.

use rootfs_overlay::initrd::{Archive, Compression};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};
use testkit::tree::put;

const KARGS: &str = "mitigations=auto,nosmt coreos.liveiso=made-1 ignition.firstboot ignition.platform.id=metal";
/// Bytes of room for kernel arguments.
const KARGS_BYTES: usize = 400;
/// Bytes of room for the Ignition config.
const AREA_BYTES: usize = 256 << 10;
const FEATURES: &str = r#"{"installer-config": true, "installer-config-directives": {"console": true, "dest-device": true}, "live-initrd-network": true}"#;

/// What stands in for the program where a static one is wanted, which a test's is not: `--binary` is added where none is named.
const WRAPPER: &str = r#"#!/bin/sh
case "$1 $2 $*" in
*--check* | *--remove* | *--binary*) ;;
"iso bake "* | "pxe bake "* | "node-iso "* | "image overlay "* | "image oci "*) exec 'PROGRAM' "$@" --binary 'STATIC' ;;
esac
exec 'PROGRAM' "$@"
"#;

/// Makes all of it: programs in `bin`, files in `scratch`.
pub(crate) fn make(bin: &Path, scratch: &Path) {
    let program = env!("CARGO_BIN_EXE_landfall");
    // The header of a static program, and what it says it is.
    let mut stand_in = vec![0; 64];
    stand_in[..6].copy_from_slice(b"\x7fELF\x02\x01");
    stand_in[18] = 62;
    for what in ["landfall program", "landfall with the service"] {
        stand_in.extend_from_slice(format!("{what}, version {}\n", env!("CARGO_PKG_VERSION")).as_bytes());
    }
    fs::create_dir_all(bin).unwrap();
    fs::create_dir_all(scratch).unwrap();
    let of = |name: &str| bin.join(name);
    fs::write(of("static"), stand_in).unwrap();
    let wrapper = WRAPPER.replace("PROGRAM", program).replace("STATIC", of("static").to_str().unwrap());
    fs::write(of("landfall"), wrapper).unwrap();
    fs::set_permissions(of("landfall"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink(program, of("coreos-installer")).unwrap();

    for (name, text) in [
        ("rescue.ign", r#"{"ignition":{"version":"3.2.0"},"passwd":{"users":[{"name":"core"}]}}"#),
        ("node.ign", r#"{"ignition":{"version":"3.2.0"}}"#),
        ("eth0.nmconnection", "[connection]\nid=eth0\ntype=ethernet\ninterface-name=eth0\n[ipv4]\nmethod=auto\n"),
    ] {
        fs::write(scratch.join(name), text).unwrap();
        fs::set_permissions(scratch.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    // The start of a packed image: more of it is not looked at.
    fs::write(scratch.join("metal.raw.xz"), b"\xfd7zXZ\0").unwrap();
    let key = bin.join("ca.key");
    let words =
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=test -days 2 -out ca.pem -keyout";
    run(Command::new("openssl").args(words.split(' ')).arg(&key).current_dir(scratch));
    live_iso(&bin.join("tree"), scratch);
}

/// `live.iso`, which also tells how the minimal one is made; `live-initramfs.img`, its initrd.
fn live_iso(tree: &Path, scratch: &Path) {
    let write = |path: &str, bytes: &[u8]| put(tree, path, bytes);
    let area = |pad: &str| format!("{KARGS}\n{}", pad.repeat(KARGS_BYTES - KARGS.len() - 1));
    let grub = format!("menuentry 'Live' {{\n  linux /images/pxeboot/vmlinuz {}}}\n", area("#"));
    let at = grub.find(KARGS).unwrap();
    let kargs = serde_json::json!({
        "default": KARGS, "size": KARGS_BYTES, "room": "x".repeat(300),
        "files": [{"path": "EFI/boot/grub.cfg", "offset": at}, {"path": "isolinux/isolinux.cfg", "offset": 3, "pad": " ", "end": "\n"}],
    });
    write("EFI/boot/grub.cfg", grub.as_bytes());
    write("isolinux/isolinux.cfg", format!("xyz{}", area(" ")).as_bytes());
    write("coreos/kargs.json", kargs.to_string().as_bytes());
    write("coreos/igninfo.json", br#"{"file": "images/ignition.img"}"#);
    write("coreos/features.json", FEATURES.as_bytes());
    write("images/ignition.img", &vec![0; AREA_BYTES]);
    write("images/pxeboot/vmlinuz", &noise(100_000));
    let mut initrd = Archive::new();
    initrd.add("etc/coreos-live-initramfs", 0o644, "").unwrap();
    initrd.add("etc/coreos/features.json", 0o644, FEATURES).unwrap();
    write("images/pxeboot/initrd.img", &initrd.pack(Compression::Gzip).unwrap());
    iso(tree, &scratch.join("minimal"));
    write("images/pxeboot/rootfs.img", &noise(300_000));
    write("coreos/miniso.dat", &vec![0; 16 << 10]);
    iso(tree, &scratch.join("live.iso"));
    run(Command::new(env!("CARGO_BIN_EXE_landfall"))
        .args(["pack", "minimal-iso", "--consume", "live.iso", "minimal"])
        .current_dir(scratch));
    fs::copy(tree.join("images/pxeboot/initrd.img"), scratch.join("live-initramfs.img")).unwrap();
}

fn iso(tree: &Path, to: &Path) {
    run(Command::new("xorriso").args(["-as", "mkisofs", "-quiet", "-V", "made-1", "-o"]).arg(to).arg(tree));
}

/// Bytes that hardly compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33).to_le_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
