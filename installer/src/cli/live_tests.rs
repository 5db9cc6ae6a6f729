//! What a live system says, from its files and kernel arguments, against what coreos-installer.service makes of them.

use super::*;

fn from(line: &str) -> Vec<String> {
    from_arguments(vec![], &format!("BOOT_IMAGE=/vmlinuz {line} coreos.inst.install_dev=/dev/sda\n")).unwrap().unwrap()
}

/// What stands in front of the words that always come.
fn added(line: &str) -> Vec<String> {
    let words = from(line);
    let (disk, added) = words.split_last().unwrap();
    assert_eq!(disk, "/dev/sda", "{line}");
    added.to_vec()
}

#[test]
fn kernel_arguments_become_options() {
    let none: [&str; 0] = [];
    let table: [(&str, &[&str]); 20] = [
        ("quiet rd.luks=0 coreos.inst=yes ipx=1 coreos.inst.skip_reboot", &none),
        ("coreos.inst.stream=next", &["--stream", "next"]),
        ("coreos.inst.stream=next coreos.inst.stream=testing", &["--stream", "testing"]),
        ("coreos.inst.image_url=http://h/i?a=b", &["--image-url", "http://h/i?a=b"]),
        ("coreos.inst.ignition_url=http://h/c", &["--ignition-url", "http://h/c", "--insecure-ignition"]),
        ("coreos.inst.ignition_url=skip", &none),
        ("coreos.inst.platform_id=qemu", &["--platform", "qemu"]),
        ("coreos.inst.save_partlabel=data*,x", &["--save-partlabel", "data*,x"]),
        ("coreos.inst.save_partindex=-5,7", &["--save-partindex", "-5,7"]),
        (
            "coreos.inst.save_partlabel=a* coreos.inst.save_partindex=1 coreos.inst.save_partlabel=b*",
            &["--save-partlabel", "a*", "--save-partlabel", "b*", "--save-partindex", "1"],
        ),
        ("coreos.inst.install_dev=/dev/sda", &none),
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
    assert_eq!(from_arguments(vec![], "coreos.inst.install_dev=vda").unwrap().unwrap(), ["/dev/vda"]);
    assert_eq!(from_arguments(vec![], "coreos.inst.stream=next\n").unwrap(), None);
    assert_eq!(from_arguments(vec!["/a".into()], "").unwrap().unwrap(), ["--config-file", "/a"]);
}

#[test]
fn what_can_not_be_done_is_refused_before_anything_is_erased() {
    let table = [
        (
            "save_partlable=data*",
            "save_partlable: it is not known, and nothing was erased: did you mean coreos.inst.save_partlabel?",
        ),
        ("skip_rebot", "skip_rebot: it is not known, and nothing was erased: did you mean coreos.inst.skip_reboot?"),
        ("save_partlabel=", "save_partlabel: it has no value: leave it out, or write coreos.inst.save_partlabel=VALUE"),
        ("stream", "stream: it has no value: leave it out, or write coreos.inst.stream=VALUE"),
        ("insecure=", "insecure: it has no value: leave it out, or write coreos.inst.insecure=VALUE"),
        (
            "insecure=maybe",
            "insecure: maybe is neither yes nor no: write one of 1, on, t, true or yes; 0, off, f, false or no",
        ),
        ("install_dev=sdb", "install_dev: it names more than one disk, sdb and /dev/sda: leave one out"),
        (
            "x",
            "x: it is not known, and nothing was erased: known are coreos.inst.{install_dev, ignition_url, image_url, \
             platform_id, stream, save_partlabel, save_partindex, insecure, secure_ipl, skip_reboot}",
        ),
    ];
    for (argument, text) in table {
        let line = format!("coreos.inst.{argument} coreos.inst.install_dev=/dev/sda");
        let error = from_arguments(vec!["/a".into()], &line).unwrap_err();
        assert_eq!(kernel::in_full(&error), format!("kernel argument coreos.inst.{text}"));
    }
    for argument in ["ignition_hash=sha512-aa", "image_sha256=00", "cacert=/x", "append_karg=foo", "console=ttyS0"] {
        from_arguments(vec![], &format!("coreos.inst.{argument} coreos.inst.install_dev=sda")).unwrap_err();
    }
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
    ];
    assert_eq!(words(root.path()).unwrap(), expected.as_flattened());
    forget(root.path());
    assert!(!dir.exists());
    forget(root.path());
    fs::remove_file(root.path().join("proc/cmdline")).unwrap();
    assert!(matches!(words(root.path()), Err(LiveError::Read { .. })));
}
