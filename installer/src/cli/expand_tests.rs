//! Config files as words of a command line, in the order of the files, and back to options.

use super::*;
use crate::cli::{parse, parse_line};
use std::fs;

/// All that a config file can say, but what conflicts with something else there.
const FULL: &str = "\
image-url: https://mirror.example/images/node.raw.zst
cacert: /etc/pki/mirror.pem
stall-timeout: 60
fetch-retries: 12
offline: true
signature: https://mirror.example/images/node.sig
keyring: [/etc/pki/first.asc, second.asc]
keyring-only: true
sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
insecure: true
no-verify: true
ignition-url: ftp://config.example/node.ign
ignition-hash: sha512-00ff
insecure-ignition: true
platform: qemu
console:
  - hvc0
  - ttyAMA0,57600
append-karg: [systemd.unit=rescue.target, '--', a b]
delete-karg:
  - rhgb
  - '-quiet'
copy-network: true
network-dir: /run/profiles
save-partlabel: ['ceph-*', 'home,opt']
save-partindex: ['9-', '-2', '4,6-7']
preserve-on-error: true
architecture: riscv64
stream-base-url: http://mirror.example/streams/
secure-ipl: true
dest-device: /dev/disk/by-id/wwn-0x5000c500a1b2c3d4
";

/// The options of these files, and then of the command line.
fn expanded(files: &[&str], line: &[&str]) -> anyhow::Result<InstallConfig> {
    let dir = tempfile::tempdir().unwrap();
    let mut words: Vec<String> = line.iter().map(ToString::to_string).collect();
    for (index, file) in files.iter().enumerate() {
        let path = dir.path().join(index.to_string());
        fs::write(&path, file).unwrap();
        words.extend(["--config-file".into(), path.display().to_string()]);
    }
    Ok(parse(&expand(&parse(&words)?)?)?)
}

fn failure(files: &[&str], line: &[&str]) -> String {
    format!("{:#}", expanded(files, line).expect_err(&files.join("---\n")))
}

#[test]
fn a_file_says_all_that_the_command_line_can() {
    let config = expanded(&[FULL], &[]).unwrap();
    let line = [
        ["--image-url", "https://mirror.example/images/node.raw.zst"],
        ["--cacert", "/etc/pki/mirror.pem"],
        ["--stall-timeout=60", "--fetch-retries=12"],
        ["--offline", "--no-verify"],
        ["--signature", "https://mirror.example/images/node.sig"],
        ["--keyring", "/etc/pki/first.asc"],
        ["--keyring=second.asc", "--keyring-only"],
        ["--sha256", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"],
        ["--insecure", "--insecure-ignition"],
        ["--ignition-url", "ftp://config.example/node.ign"],
        ["--ignition-hash=sha512-00ff", "--platform=qemu"],
        ["--console", "hvc0"],
        ["--console", "ttyAMA0,57600"],
        ["--append-karg", "systemd.unit=rescue.target"],
        ["--append-karg=--", "--append-karg=a b"],
        ["--delete-karg=rhgb", "--delete-karg=-quiet"],
        ["--copy-network", "--network-dir=/run/profiles"],
        ["--save-partlabel", "ceph-*,home"],
        ["--save-partlabel", "opt"],
        ["--save-partindex", "9-,-2,4"],
        ["--save-partindex", "6-7"],
        ["--architecture", "riscv64"],
        ["--preserve-on-error", "--secure-ipl"],
        ["--stream-base-url", "http://mirror.example/streams/"],
    ];
    let words: Vec<&str> =
        line.as_flattened().iter().copied().chain(["/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"]).collect();
    assert_eq!(config, parse_line(&words).unwrap().config);
    // What is left can't stand beside those above.
    for (file, words) in [
        ("stream: testing", ["--stream", "testing"]),
        ("image-file: node.raw.xz", ["--image-file", "node.raw.xz"]),
        ("image-file: '-'", ["--image-file", "-"]),
        ("ignition-file: node.ign", ["--ignition-file", "node.ign"]),
        ("minisign-key: images.pub", ["--minisign-key", "images.pub"]),
        ("sha256-sums: SHA256SUMS", ["--sha256-sums", "SHA256SUMS"]),
        ("new-disk-guid: true", ["--new-disk-guid", "--new-disk-guid"]),
    ] {
        let expected = parse_line(&[words[0], words[1], "/d"]).unwrap().config;
        assert_eq!(expanded(&[file, "dest-device: /d"], &[]).unwrap(), expected, "{file}");
    }
    assert_eq!(expanded(&["disk: S3R1AL"], &[]).unwrap().disk, Some("S3R1AL".into()));
}

#[test]
fn words_stand_in_the_order_of_the_options() {
    let config =
        parse_line(&["/d", "--console", "tty0", "-n", "-s", "next", "--firstboot-args", "a b"]).unwrap().config;
    let words = words_for(&config).unwrap();
    assert_eq!(words, ["--stream", "next", "--console", "tty0", "--copy-network", "/d", "--firstboot-args", "a b"]);
    assert_eq!(parse(&words).unwrap(), config);
    assert!(words_for(&InstallConfig::default()).unwrap().is_empty());
}

#[test]
fn lists_are_joined_and_of_the_rest_the_last_word_wins() {
    let site = "delete-karg: [rhgb]\nplatform: vmware\ninsecure: true\nsave-partlabel: ['ceph-*']\n";
    let rack = "{}";
    let node = "save-partlabel: [home]\nplatform: qemu\ndelete-karg: [quiet, rhgb]\ndest-device: /d\n";
    let files = [site, rack, node];
    let config = expanded(&files, &[]).unwrap();
    assert_eq!(config.delete_karg, ["rhgb", "quiet", "rhgb"]);
    assert_eq!(config.save_partlabel, ["ceph-*", "home"]);
    assert_eq!((config.platform.as_deref(), config.insecure), (Some("qemu"), true));
    let line = ["--platform", "metal", "--delete-karg", "splash", "--save-partlabel", "opt", "--platform", "aws"];
    let config = expanded(&files, &line).unwrap();
    assert_eq!(config.delete_karg, ["rhgb", "quiet", "rhgb", "splash"]);
    assert_eq!(config.save_partlabel, ["ceph-*", "home", "opt"]);
    assert_eq!((config.platform.as_deref(), config.insecure), (Some("aws"), true));
    // In the other order of files the other's word counts.
    assert_eq!(expanded(&[node, site], &[]).unwrap().platform.as_deref(), Some("vmware"));
    let config = expanded(&["", "# nothing yet\n", node], &["--firstboot-args", "rd.neednet=1 vlan=a:b"]).unwrap();
    assert_eq!(config.firstboot_args.as_deref(), Some("rd.neednet=1 vlan=a:b"));
}

#[test]
fn two_disks_are_refused_wherever_they_are_named() {
    for (files, line) in [
        (&["dest-device: /a", "dest-device: /b"][..], &[][..]),
        (&["dest-device: /a"], &["/b"]),
        (&["disk: a"], &["/b"]),
        (&["disk: a", "disk: b"], &[]),
        (&["disk: a"], &["--disk", "b"]),
    ] {
        failure(files, line);
    }
    let text = failure(&["disk: a", "disk: b"], &[]);
    assert_eq!(text, "more than one disk to install to: a and b");
}

#[test]
fn what_a_file_must_not_say_is_refused_with_its_place() {
    for (file, part) in [
        ("firstboot-args: a", "unknown field `firstboot-args`"),
        ("config-file: [a]", "unknown field `config-file`"),
        ("request: a", "unknown field `request`"),
        ("image_url: http://h", "unknown field `image_url`"),
        ("append-karg: a", "expected a sequence"),
        ("insecure: 'yes'", "expected a boolean"),
        ("fetch-retries: often", "invalid digit"),
        ("- a", "invalid type: sequence"),
        ("append-karg: [", "did not find expected"),
        ("append-karg: [*a]", "unknown anchor"),
        ("append-karg: &a [*a]", "an alias in it contains itself"),
        (&"{a: ".repeat(10_000), "it is nested too deeply"),
    ] {
        let text = failure(&[file, "dest-device: /d"], &[]);
        assert!(text.starts_with("parsing config file ") && text.contains(part), "{file}: {text}");
    }
    assert!(failure(&["image-url: nonsense", "dest-device: /d"], &[]).contains("--image-url"));
    assert!(failure(&["insecure: true"], &[]).contains("required arguments were not provided"));
    let config = parse_line(&["-c", "/nonexistent/file"]).unwrap().config;
    let text = format!("{:#}", anyhow::Error::new(expand(&config).unwrap_err()));
    assert_eq!(text, "opening config file /nonexistent/file: No such file or directory (os error 2)");
    let huge = " ".repeat(1 << 20) + "\n";
    assert!(failure(&[&huge], &[]).contains("is it the right file?"));
}
