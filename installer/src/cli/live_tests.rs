//! What a live system says, from its files and kernel arguments, against what coreos-installer.service makes of them.

use super::*;

fn from(line: &str) -> Vec<String> {
    from_arguments(vec![], &format!("BOOT_IMAGE=/vmlinuz {line} coreos.inst.install_dev=/dev/sda\n")).unwrap()
}

/// What stands in front of the words that always come.
fn added(line: &str) -> Vec<String> {
    let words = from(line);
    let always = words.len() - 3;
    assert_eq!(words[always..], ["--fetch-retries", "infinite", "/dev/sda"], "{line}");
    words[..always].to_vec()
}

#[test]
fn kernel_arguments_become_options() {
    let none: [&str; 0] = [];
    let table: [(&str, &[&str]); 19] = [
        ("quiet rd.luks=0 coreos.inst=yes ipx=1 coreos.inst.skip_reboot", &none),
        ("coreos.inst.stream=next", &["--stream", "next"]),
        ("coreos.inst.stream=next coreos.inst.stream=testing", &["--stream", "testing"]),
        ("coreos.inst.stream=", &none),
        ("coreos.inst.image_url=http://h/i?a=b", &["--image-url", "http://h/i?a=b"]),
        ("coreos.inst.ignition_url=http://h/c", &["--ignition-url", "http://h/c", "--insecure-ignition"]),
        ("coreos.inst.ignition_url=skip", &none),
        ("coreos.inst.platform_id=qemu", &["--platform", "qemu"]),
        ("coreos.inst.save_partlabel=data*,x", &["--save-partlabel", "data*,x"]),
        ("coreos.inst.save_partindex=-5,7", &["--save-partindex", "-5,7"]),
        ("coreos.inst.insecure", &["--insecure"]),
        ("coreos.inst.insecure=yes", &["--insecure"]),
        ("coreos.inst.insecure=0", &none),
        ("coreos.inst.insecure=no", &none),
        ("coreos.inst.insecure=off", &none),
        ("coreos.inst.secure_ipl=1", &["--secure-ipl"]),
        ("rd.dasd=0.0.0120 cio_ignore=all", &["--append-karg", "rd.dasd=0.0.0120", "--append-karg", "cio_ignore=all"]),
        (
            "ip=dhcp  vlan=a:b ip=10.0.0.2::10.0.0.1:24:h:ens3:none",
            &["--firstboot-args", "rd.neednet=1 ip=dhcp vlan=a:b ip=10.0.0.2::10.0.0.1:24:h:ens3:none"],
        ),
        ("rd.neednet=1 coreos.no_persist_ip", &["--firstboot-args", "rd.neednet=1 coreos.no_persist_ip"]),
    ];
    for (line, expected) in table {
        assert_eq!(added(line), expected, "{line}");
    }
}

#[test]
fn every_argument_about_the_network_goes_on_to_the_first_boot() {
    for name in FIRST_BOOT {
        assert_eq!(added(&format!("{name}=x")), ["--firstboot-args", &format!("rd.neednet=1 {name}=x")]);
    }
    for name in EVERY_BOOT {
        assert_eq!(added(&format!("{name}=x")), ["--append-karg", &format!("{name}=x")]);
    }
}

#[test]
fn a_disk_without_a_directory_is_in_dev() {
    let words = from_arguments(vec![], "coreos.inst.install_dev=vda").unwrap();
    assert_eq!(words, ["--fetch-retries", "infinite", "/dev/vda"]);
    assert_eq!(from_arguments(vec![], "coreos.inst.stream=next\n"), None);
    let words = from_arguments(vec!["/a".into()], "").unwrap();
    assert_eq!(words, ["--config-file", "/a", "--fetch-retries", "infinite"]);
}

#[test]
fn files_are_taken_by_name_and_deleted_afterwards() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("etc/coreos/installer.d");
    fs::create_dir_all(dir.join("9-dir")).unwrap();
    fs::create_dir_all(root.path().join("proc")).unwrap();
    fs::write(root.path().join("proc/cmdline"), "ip=dhcp\n").unwrap();
    let error = words(root.path()).unwrap_err();
    assert!(error.to_string().starts_with("No install device specified"), "{error}");
    for name in ["2.yaml", "10.yaml", ".hidden", "z"] {
        fs::write(dir.join(name), "").unwrap();
    }
    let path = |name: &str| dir.join(name).display().to_string();
    let (first, second, third) = (path("10.yaml"), path("2.yaml"), path("z"));
    let expected = [
        ["--config-file", &first],
        ["--config-file", &second],
        ["--config-file", &third],
        ["--firstboot-args", "rd.neednet=1 ip=dhcp"],
        ["--fetch-retries", "infinite"],
    ];
    assert_eq!(words(root.path()).unwrap(), expected.as_flattened());
    forget(root.path());
    assert!(!dir.exists());
    forget(root.path());
    fs::remove_file(root.path().join("proc/cmdline")).unwrap();
    assert!(matches!(words(root.path()), Err(LiveError::Read { .. })));
}
