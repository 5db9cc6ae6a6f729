//! What the commands work on: recorded ISOs, made ones, initrds, configs.

use rootfs_overlay::area::Output;
use rootfs_overlay::bake::content::{Content, Ingredients};
use rootfs_overlay::bake::{iso::IsoFile, program::Program, splice};
use rootfs_overlay::initrd::{Archive, Compression};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use testkit::tree::put;

/// Bytes of room for an Ignition config in the made ISO.
const AREA_BYTES: usize = 64 << 10;
/// Bytes of room for kernel arguments.
const KARGS_BYTES: usize = 400;
const KARGS: &str = "mitigations=auto,nosmt coreos.liveiso=made-1 ignition.firstboot ignition.platform.id=metal";

/// A network with a bit of everything.
const BOND: &str = "\
interfaces:
- name: bond0
  type: bond
  state: up
  mac-address: 02:00:00:00:00:01
  link-aggregation:
    mode: active-backup
    options: {miimon: '100', primary: eth1}
    port: [eth1, eth2]
  ipv4:
    enabled: true
    address: [{ip: 192.0.2.10, prefix-length: 24}]
  ipv6:
    enabled: true
    autoconf: true
    dhcp: true
- name: bond0.7
  type: vlan
  state: up
  mtu: 1400
  vlan: {base-iface: bond0, id: 7}
  ipv4: {enabled: true, dhcp: true}
dns-resolver:
  config:
    search: [example.com]
    server: [192.0.2.1]
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond0}
";

/// Makes all of it in `directory`. Where something that it needs is missing, a skip is reported.
pub(crate) fn make(directory: &Path) -> Option<()> {
    let recorded = testkit::recordings::path("data/iso")?;
    for (name, short) in [
        ("embed-areas-2021-12.iso", "2021.iso"),
        ("embed-areas-2022-02.iso", "2022.iso"),
        ("embed-areas-2023-07.x86_64.iso", "2023.iso"),
        ("synthetic.iso", "synthetic.iso"),
    ] {
        let file = fs::File::open(recorded.join(format!("{name}.xz"))).unwrap();
        let mut bytes = Vec::new();
        liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        fs::write(directory.join(short), bytes).unwrap();
    }
    let cut = fs::read(directory.join("2023.iso")).unwrap();
    fs::write(directory.join("cut.iso"), &cut[..cut.len() - 2048]).unwrap();
    let mut mismatched = cut;
    let at = mismatched.windows(16).rposition(|window| window == b"mitigations=auto").unwrap();
    mismatched[at] = b'M';
    fs::write(directory.join("mismatched.iso"), mismatched).unwrap();
    fs::write(directory.join("zeros.iso"), vec![0; 100_000]).unwrap();
    fs::write(directory.join("empty.iso"), b"").unwrap();
    configs(directory);
    initrds(directory);
    isos(directory)
}

/// Digits that hardly compress.
fn noise(len: usize) -> String {
    let mut state = 1_u64;
    let mut text = String::new();
    while text.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x}", state ^ (state >> 29)));
    }
    text
}

/// Contents of some kinds: all the same, hardly compressible, records that resemble each other, words in no order.
pub(crate) fn contents(len: usize) -> [Vec<u8>; 4] {
    let noise = noise(len + 64);
    let records: String = (0..len / 40 + 1)
        .map(|n| format!(r#"{{"path":"/etc/file-{n}","mode":420,"contents":"{}"}},"#, &noise[n % len.max(1)..][..8]))
        .collect();
    let words: String =
        noise.bytes().map(|byte| ["enabled", "\"", ": ", "true", "/usr/lib/systemd"][usize::from(byte) % 5]).collect();
    [vec![b' '; len], noise.into_bytes(), records.into_bytes(), words.into_bytes()].map(|mut content| {
        content.truncate(len);
        content
    })
}

fn configs(directory: &Path) {
    let unit = r#"{"name":"a.service","enabled":true,"contents":"[Unit]\nDescription=ü & <x>\n"}"#;
    let big = format!(
        r#"{{"ignition":{{"version":"3.4.0"}},"storage":{{"files":[{{"path":"/x","contents":{{"source":"data:,{}"}}}}]}}}}"#,
        noise(60_000)
    );
    let huge = format!(r#"{{"ignition":{{"version":"3.0.0"}},"a":"{}"}}"#, noise(700_000));
    let files: Vec<String> = (0..300)
        .map(|n| {
            format!(r#"{{"path":"/etc/file-{n}","mode":420,"contents":{{"source":"data:,line%20{n}%20of%20many"}}}}"#)
        })
        .collect();
    let many = format!(r#"{{"ignition":{{"version":"3.2.0"}},"storage":{{"files":[{}]}}}}"#, files.join(","));
    for (name, text) in [
        ("a.ign", r#"{"ignition":{"version":"3.1.0"},"systemd":{"units":[UNIT]}}"#.replace("UNIT", unit).as_str()),
        (
            "b.ign",
            r#"{"ignition": {"version": "3.5.0"}, "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k"]}]}}"#,
        ),
        (
            "old.ign",
            r#"{"ignition":{"version":"3.0.0","security":{"tls":{"certificateAuthorities":[{"source":"https://a.example/ca"}]}}}}"#,
        ),
        (
            "luks.ign",
            r#"{"ignition":{"version":"3.2.0"},"storage":{"luks":[{"name":"r","device":"/d","clevis":{"tpm2":true}}]}}"#,
        ),
        (
            "unknown-key.ign",
            r#"{"ignition":{"version":"3.3.0"},"a":{"y":1},"systemd":{"units":[{"name":"v","d":"e"}]}}"#,
        ),
        ("unknown-version.ign", r#"{"ignition":{"version":"9.9.9"}}"#),
        ("bad-version.ign", r#"{"ignition":{"version":"3"}}"#),
        ("bad-type.ign", r#"{"ignition":{"version":"3.3.0"},"storage":{"files":[{"path":5}]}}"#),
        ("bad.ign", "{"),
        ("many.ign", &many),
        ("big.ign", &big),
        ("huge.ign", &huge),
        ("butane.bu", "variant: fcos\nversion: 1.5.0\n"),
        ("eth0.nmconnection", "[connection]\nid=eth0\ntype=ethernet\n"),
        ("bond0.nmconnection", "[connection]\nid=bond0\ntype=bond\n"),
        (
            "nmstate.yaml",
            "interfaces:\n- name: eth1\n  type: ethernet\n  state: up\n  ipv4:\n    enabled: true\n    dhcp: true\n",
        ),
        ("bond.yaml", BOND),
        ("bad-nmstate.yaml", "interfaces: 5\n"),
        ("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        ("pre.sh", "#!/bin/sh\necho pre\n"),
        ("post.sh", "#!/bin/sh\necho post\n"),
        ("install.yaml", "dest-device: /dev/sda\nfetch-retries: infinite\nconsole: [ttyS0]\n"),
        ("second.yaml", "append-karg:\n- a=b\n"),
        ("bad-install.yaml", "destination: /dev/sda\n"),
    ] {
        fs::write(directory.join(name), text).unwrap();
    }
}

fn initrds(directory: &Path) {
    let archive = |features: bool| {
        let mut archive = Archive::new();
        archive.add("etc/coreos-live-initramfs", 0o644, "").unwrap();
        archive.add("usr/bin/program", 0o755, noise(30_000)).unwrap();
        archive.add_symlink("usr/sbin", "bin").unwrap();
        if features {
            let json = r#"{"installer-config":true,"installer-config-directives":{"console":true},"live-initrd-network":true}"#;
            archive.add("etc/coreos/features.json", 0o644, json).unwrap();
        }
        archive
    };
    let live = archive(true);
    let early = {
        let mut early = Archive::new();
        early.add("kernel/microcode.bin", 0o644, "x").unwrap();
        early.to_cpio().unwrap()
    };
    let zstd = zstd_of(&live.to_cpio().unwrap());
    for (name, bytes) in [
        ("live-plain.img", live.to_cpio().unwrap()),
        ("live-gzip.img", [early.clone(), live.pack(Compression::Gzip).unwrap()].concat()),
        ("live-xz.img", [live.pack(Compression::Xz).unwrap(), vec![0; 512]].concat()),
        ("live-zstd.img", [early.clone(), zstd].concat()),
        ("old-live.img", archive(false).pack(Compression::Gzip).unwrap()),
        ("other.img", early),
        ("garbage.img", b"this is no archive".to_vec()),
        ("cut.img", live.to_cpio().unwrap()[..500].to_vec()),
    ] {
        fs::write(directory.join(name), bytes).unwrap();
    }
}

/// By the program of that name: the library isn't one of this package's.
fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let output = Command::new("zstd").args(["-q", "-c"]).arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// A full ISO of the newest layout, the minimal one of it, and one of an old layout, made by xorriso.
fn isos(directory: &Path) -> Option<()> {
    let tree = directory.join("tree");
    let write = |path: &str, bytes: &[u8]| put(&tree, path, bytes);
    let area = |pad: &str| format!("{KARGS}\n{}", pad.repeat(KARGS_BYTES - KARGS.len() - 1));
    let grub = format!("menuentry 'Live' {{\n  linux /images/pxeboot/vmlinuz {}}}\n", area("#"));
    let offset = grub.find(KARGS).unwrap();
    let kargs = format!(
        r#"{{"default": "{KARGS}", "files": [{{"path": "EFI/boot/grub.cfg", "offset": {offset}}}, {{"path": "isolinux/isolinux.cfg", "offset": 3, "pad": " ", "end": "\n"}}], "size": {KARGS_BYTES}, "room": "{}"}}"#,
        "x".repeat(300)
    );
    write("EFI/boot/grub.cfg", grub.as_bytes());
    write("isolinux/isolinux.cfg", format!("xyz{}", area(" ")).as_bytes());
    write("coreos/kargs.json", kargs.as_bytes());
    write("coreos/igninfo.json", br#"{"file": "images/ignition.img", "offset": 1024, "length": 65536}"#);
    write("coreos/features.json", br#"{"installer-config": true, "installer-config-directives": {"console": true, "dest-device": true}, "live-initrd-network": true}"#);
    write("images/ignition.img", &vec![0; AREA_BYTES + 2048]);
    write("images/pxeboot/vmlinuz", noise(100_000).as_bytes());
    write("images/pxeboot/initrd.img", noise(50_000).as_bytes());
    write("empty", b"");
    let make = |name: &str| {
        let mut command = Command::new("xorriso");
        command.args(["-as", "mkisofs", "-quiet", "-V", "made-1", "-o"]);
        let output = match command.arg(directory.join(name)).arg(&tree).output() {
            Ok(output) if output.status.success() => return Some(()),
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => format!("xorriso: {error}"),
        };
        testkit::skip::because(output);
        None
    };
    make("minimal.iso")?;
    write("images/pxeboot/rootfs.img", noise(300_000).as_bytes());
    write("coreos/miniso.dat", &vec![0; 16 << 10]);
    make("full.iso")?;
    bake(&directory.join("full.iso"), &directory.join("baked.iso"));
    write("coreos/miniso.dat", b"small");
    make("no-room.iso")?;
    fs::remove_file(tree.join("coreos/miniso.dat")).unwrap();
    make("no-miniso.iso")?;
    fs::remove_file(tree.join("coreos/kargs.json")).unwrap();
    fs::remove_file(tree.join("coreos/features.json")).unwrap();
    make("plain.iso")?;
    fs::remove_dir_all(&tree).unwrap();
    Some(())
}

/// The image with a program of ours baked in, or rather the header of one.
fn bake(base: &Path, out: &Path) {
    let mut program = vec![0; 64];
    program[..6].copy_from_slice(b"\x7fELF\x02\x01");
    program[18] = 62;
    let content = Content::new(Ingredients {
        program: Program::parse(program).unwrap(),
        agent: true,
        service: None,
        ca_pem: None,
        agent_toml: None,
        rendezvous: BTreeMap::new(),
        rendezvous_options: None,
    });
    let iso = IsoFile::open(base).unwrap();
    let pieces = iso.baked(&content.unwrap(), None).unwrap();
    splice::write(&Output::NewFile(out.to_owned()), &pieces).unwrap();
}
