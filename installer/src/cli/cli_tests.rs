use super::*;

#[test]
fn the_command_line_is_consistent_and_its_help_fits() {
    let mut command = Install::augment_args(clap::Command::new("install")).term_width(100);
    command.clone().debug_assert();
    let help = command.render_long_help().to_string();
    for line in help.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for heading in ["Image:", "Verification:", "First boot:", "Partitions to keep:", "Plan and progress:", "Examples:"]
    {
        assert!(help.contains(heading), "{heading} is missing in:\n{help}");
    }
    assert!(!help.contains("firstboot-args"));
}

#[test]
fn a_request_needs_nothing_else() {
    assert!(parse_line(&["--request", "-", "--dry-run", "--json"]).is_ok());
    assert!(parse_line(&["--live", "--root", "/x", "--dry-run"]).is_ok());
}

#[test]
fn the_live_system_says_first_and_the_command_line_last() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("etc/coreos/installer.d");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::create_dir_all(root.path().join("proc")).unwrap();
    std::fs::write(root.path().join("proc/cmdline"), "coreos.inst.stream=next ip=dhcp\n").unwrap();
    std::fs::write(dir.join("1.yaml"), "dest-device: /dev/a\nstream: testing\nappend-karg: [a]\n").unwrap();
    let more = root.path().join("more.yaml");
    std::fs::write(&more, "append-karg: [b]\n").unwrap();
    let (root, more) = (root.path().to_str().unwrap(), more.to_str().unwrap());
    let line = ["--live", "--json", "--root", root, "-c", more, "--append-karg", "c", "--platform", "qemu"];
    let mut install = parse_line(&line).unwrap();
    install.progress = Style::Json;
    install.config = install.read_live().unwrap();
    let config = install.read_config_files().unwrap();
    assert_eq!(config.stream.as_deref(), Some("next"));
    assert_eq!(config.append_karg, ["a", "b", "c"]);
    assert_eq!(config.platform.as_deref(), Some("qemu"));
    assert_eq!(config.dest_device, Some("/dev/a".into()));
    assert_eq!(config.firstboot_args.as_deref(), Some("rd.neednet=1 ip=dhcp"));
    assert_eq!(config.fetch_retries.unwrap().to_string(), "infinite");
}
