use super::network::{Network, NetworkFile};
use super::*;
use crate::options::NetworkPlace;

fn configure(root: &Path, config: &BootConfig) -> Result<(), BootError> {
    super::configure(root, config, &mut Vec::new())
}

fn boot() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("loader.0/entries")).unwrap();
    std::os::unix::fs::symlink("loader.0", dir.path().join("loader")).unwrap();
    fs::write(dir.path().join("loader/entries/ostree-1.conf"), "title a\noptions old\n").unwrap();
    fs::write(dir.path().join("loader/entries/ostree-2.conf"), "title b\noptions x ignition.platform.id=metal\n")
        .unwrap();
    fs::write(dir.path().join("loader/entries/zzz.txt"), "no entry").unwrap();
    fs::write(dir.path().join(STAMP), "").unwrap();
    dir
}

fn ignition(hash: Option<&str>) -> Option<Ignition> {
    Some(Ignition { config: b"{}".to_vec(), hash: hash.map(|hash| hash.parse().unwrap()) })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn makes_all_changes() {
    let dir = boot();
    let root = dir.path();
    let config = BootConfig {
        ignition: ignition(None),
        kargs: KargEdits { delete: vec!["x".into()], append: vec!["y=1".into()], ..KargEdits::default() },
        network: Some(Network {
            directory: "/nm".into(),
            files: vec![NetworkFile {
                name: "eth0.nmconnection".into(),
                content: b"[connection]\n".to_vec(),
                permissions: Permissions::from_mode(0o640),
            }],
            place: NetworkPlace::Boot,
        }),
        ..Default::default()
    };
    configure(root, &config).unwrap();
    assert_eq!(fs::read(root.join("ignition/config.ign")).unwrap(), b"{}");
    assert_eq!(mode(&root.join("ignition")), 0o700);
    assert_eq!(mode(&root.join("ignition/config.ign")), 0o600);
    let entry = |name: &str| fs::read_to_string(root.join(ENTRIES).join(name)).unwrap();
    assert_eq!(entry("ostree-2.conf"), "title b\noptions ignition.platform.id=metal y=1\n");
    assert_eq!(entry("ostree-1.conf"), "title a\noptions old\n");
    let keyfile = root.join("coreos-firstboot-network/eth0.nmconnection");
    assert_eq!(fs::read(&keyfile).unwrap(), b"[connection]\n");
    assert_eq!(mode(&keyfile), 0o640);
    assert!(matches!(configure(root, &config), Err(BootError::Configured { .. })));
}

#[test]
fn missing_parts_are_named() {
    let dir = boot();
    let kargs = KargEdits { append: vec!["a".into()], ..Default::default() };
    let edit = || configure(dir.path(), &BootConfig { kargs: kargs.clone(), ..Default::default() });
    fs::write(dir.path().join("loader/entries/ostree-3.conf"), "title only\n").unwrap();
    assert!(matches!(edit(), Err(BootError::Entry { source: EntryError::NoOptions, .. })));
    fs::remove_dir_all(dir.path().join("loader.0/entries")).unwrap();
    assert!(edit().unwrap_err().to_string().starts_with("Found no BLS entries in "));
    fs::create_dir(dir.path().join("loader.0/entries")).unwrap();
    assert!(matches!(edit(), Err(BootError::NoEntries { .. })));
    fs::remove_file(dir.path().join(STAMP)).unwrap();
    let args = BootConfig { firstboot_args: Some("ip=dhcp".into()), ..Default::default() };
    assert!(matches!(configure(dir.path(), &args), Err(BootError::NoStamp { .. })));
    // Another way than the stamp may make Ignition run.
    configure(dir.path(), &BootConfig { ignition: ignition(None), ..Default::default() }).unwrap();
    assert!(dir.path().join("ignition/config.ign").is_file());
}

const PLATFORMS: &str = r#"{
    "metal": {"grub_commands": ["m"], "kernel_arguments": ["x", "console=m"], "else": 1},
    "qemu": {"grub_commands": ["q1", "q2"], "kernel_arguments": ["console=q"]},
    "bare": {}
}"#;

/// With platforms, and the boot loader's consoles in `grub.cfg`.
fn full_boot() -> tempfile::TempDir {
    let dir = boot();
    fs::create_dir(dir.path().join("coreos")).unwrap();
    fs::create_dir(dir.path().join("grub2")).unwrap();
    fs::write(dir.path().join("coreos/platforms.json"), PLATFORMS).unwrap();
    fs::write(dir.path().join("grub2/grub.cfg"), grub("m\n")).unwrap();
    dir
}

fn grub(inside: &str) -> String {
    format!("head\n# CONSOLE-SETTINGS-START\n{inside}# CONSOLE-SETTINGS-END\ntail\n")
}

fn text(root: &Path, name: &str) -> String {
    fs::read_to_string(root.join(name)).unwrap()
}

const ENTRY: &str = "loader/entries/ostree-2.conf";

fn platform(platform: &str, consoles: &[&str]) -> BootConfig {
    BootConfig {
        platform: Some(platform.to_owned()),
        consoles: consoles.iter().map(|spec| spec.parse().unwrap()).collect(),
        ..Default::default()
    }
}

#[test]
fn platform_brings_its_consoles() {
    for (name, args, inside) in [
        ("qemu", "ignition.platform.id=qemu console=q", "q1\nq2\n"),
        ("bare", "ignition.platform.id=bare", ""),
        ("unlisted", "ignition.platform.id=unlisted", ""),
    ] {
        let dir = full_boot();
        configure(dir.path(), &platform(name, &[])).unwrap();
        assert_eq!(text(dir.path(), ENTRY), format!("title b\noptions {args}\n"));
        assert_eq!(text(dir.path(), "grub2/grub.cfg"), grub(inside));
    }
    // Without a table only the platform changes, and the boot loader's file isn't looked for.
    let dir = boot();
    configure(dir.path(), &platform("qemu", &[])).unwrap();
    assert_eq!(text(dir.path(), ENTRY), "title b\noptions x ignition.platform.id=qemu\n");
    let again = configure(dir.path(), &platform("aws", &[])).unwrap_err();
    assert!(matches!(again, BootError::Entry { source: EntryError::NoPlatform, .. }));
}

#[test]
fn consoles_take_the_place_of_the_platforms() {
    let dir = full_boot();
    fs::write(dir.path().join("grub2/console.cfg"), grub("")).unwrap();
    let config = BootConfig {
        kargs: KargEdits { delete: vec!["console=tty0".into()], append: vec!["z".into()], ..KargEdits::default() },
        ..platform("qemu", &["tty0", "ttyS0,115200"])
    };
    configure(dir.path(), &config).unwrap();
    let expected = "title b\noptions ignition.platform.id=qemu console=ttyS0,115200n8 z\n";
    assert_eq!(text(dir.path(), ENTRY), expected);
    let commands = "serial --unit=0 --speed=115200 --word=8 --parity=no\nterminal_input console serial\n\
                    terminal_output console serial\n";
    assert_eq!(text(dir.path(), "grub2/console.cfg"), grub(commands));
    assert_eq!(text(dir.path(), "grub2/grub.cfg"), grub("m\n"));
}

#[test]
fn firstboot_args_are_appended_to_the_stamp() {
    let dir = boot();
    let config = BootConfig { firstboot_args: Some("rd.neednet=1 ip=dhcp".into()), ..Default::default() };
    configure(dir.path(), &config).unwrap();
    let line = "set ignition_network_kcmdline=\"rd.neednet=1 ip=dhcp\"\n";
    assert_eq!(text(dir.path(), STAMP), line);
    configure(dir.path(), &config).unwrap();
    assert_eq!(text(dir.path(), STAMP), line.repeat(2));
    fs::remove_file(dir.path().join(STAMP)).unwrap();
    assert!(matches!(configure(dir.path(), &config), Err(BootError::NoStamp { .. })));
}

#[test]
fn hash_is_compared_again() {
    let dir = boot();
    let good = "sha256-44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    let bad = good.replace("44", "45");
    let config = |hash| BootConfig { ignition: ignition(Some(hash)), ..Default::default() };
    assert!(matches!(configure(dir.path(), &config(&bad)), Err(BootError::Hash(_))));
    assert!(!dir.path().join("ignition").exists());
    configure(dir.path(), &config(good)).unwrap();
}

#[test]
fn unusable_files_are_named() {
    let dir = full_boot();
    let consoles = platform("qemu", &["tty0"]);
    fs::write(dir.path().join("grub2/grub.cfg"), "no marker\n").unwrap();
    let error = configure(dir.path(), &consoles).unwrap_err().to_string();
    assert!(error.starts_with("missing substitution marker in grub.cfg"), "{error}");
    fs::remove_file(dir.path().join("grub2/grub.cfg")).unwrap();
    let consoles = BootConfig { platform: None, ..consoles };
    assert!(matches!(configure(dir.path(), &consoles), Err(BootError::Io { action: "read", .. })));
    fs::write(dir.path().join("coreos/platforms.json"), "[]").unwrap();
    let error = configure(dir.path(), &consoles).unwrap_err().to_string();
    assert!(error.starts_with("parsing platform table "), "{error}");
    File::create(dir.path().join("coreos/platforms.json")).unwrap().set_len(MAX_TEXT_BYTES + 1).unwrap();
    assert!(matches!(configure(dir.path(), &consoles), Err(BootError::Size { .. })));
}
