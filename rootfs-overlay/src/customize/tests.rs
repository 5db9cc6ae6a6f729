//! What is asked for, and what a live system gets for it.

use super::*;
use crate::area::Directives;
use serde_json::Value;
use std::io::Read;

const ALL: Features = Features {
    installer_config: true,
    installer_config_directives: Directives { console: true },
    live_initrd_network: true,
};

/// A directory with files in it.
struct Inputs(tempfile::TempDir);

impl Inputs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

/// The result, and what was said.
fn applied(asked: &Customizations, features: Features) -> (anyhow::Result<Archive>, Vec<String>) {
    let mut notes = Vec::new();
    let result = asked.apply(features, &mut |line| notes.push(line.to_owned()));
    (result, notes)
}

fn unpacked(resource: &Value) -> String {
    assert_eq!(resource["compression"], "gzip");
    let packed = resource["source"].as_str().unwrap().strip_prefix("data:;base64,").unwrap();
    let packed = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, packed).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    text
}

/// The files of a config: path, mode and content.
fn files(archive: &Archive) -> Vec<(String, u64, String)> {
    let config: Value = serde_json::from_slice(archive.get(CONFIG_NAME).unwrap()).unwrap();
    let files = config["storage"]["files"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    files
        .iter()
        .map(|file| (text(&file["path"]), file["mode"].as_u64().unwrap(), unpacked(&file["contents"])))
        .collect()
}

#[test]
fn a_machine_installs_itself_with_what_is_asked_for() {
    let inputs = Inputs::new();
    let asked = Customizations {
        dest_ignition: vec![inputs.file("dest.ign", r#"{"ignition":{"version":"3.4.0"},"x":1}"#)],
        dest_device: Some("/dev/sda".to_owned()),
        dest_console: vec!["ttyS0".parse().unwrap()],
        dest_karg_append: vec!["console=tty0".to_owned()],
        network_keyfile: vec![inputs.file("eth0.nmconnection", "[connection]\n")],
        post_install: vec![inputs.file("report.sh", "#!/bin/sh\n")],
        installer_config: vec![inputs.file("more.yaml", "insecure: true\n")],
        ..Customizations::default()
    };
    let (archive, notes) = applied(&asked, ALL);
    let archive = archive.unwrap();
    assert_eq!(archive.get("etc/coreos-firstboot-network/eth0.nmconnection"), Some(&b"[connection]\n"[..]));
    let expected = [
        ("/usr/local/bin/post-install-report.sh", 0o700, "#!/bin/sh\n"),
        ("/etc/coreos/installer.d/0000-more.yaml", 0o600, "insecure: true\n"),
        ("/etc/coreos/dest.ign", 0o600, "{\"ignition\":{\"version\":\"3.4.0\"}}\n"),
        (
            "/etc/coreos/installer.d/0001-customize.yaml",
            0o600,
            "ignition-file: /etc/coreos/dest.ign\nconsole:\n- ttyS0,9600n8\nappend-karg:\n- console=tty0\ncopy-network: true\n\
             dest-device: /dev/sda\n",
        ),
    ];
    assert_eq!(files(&archive), expected.map(|(path, mode, text)| (path.to_owned(), mode, text.to_owned())));
    assert!(notes[0].ends_with("dest.ign: unused key: $.x"), "{notes:?}");
    assert!(notes[1].contains("--dest-console tty0"), "{notes:?}");
    assert_eq!(notes[2], "Boot media will automatically install to /dev/sda without confirmation.");
}

#[test]
fn nothing_asked_for_is_no_config() {
    let (archive, notes) = applied(&Customizations::default(), Features::default());
    assert!(archive.unwrap().is_empty() && notes.is_empty(), "an empty config would take the log-in prompt away");
    let inputs = Inputs::new();
    let only_network = Customizations { network_keyfile: vec![inputs.file("a", "x")], ..Customizations::default() };
    let (archive, notes) = applied(&only_network, ALL);
    assert!(archive.unwrap().get(CONFIG_NAME).is_none() && notes.is_empty());
}

#[test]
fn certificates_are_for_both_systems() {
    let inputs = Inputs::new();
    let asked = Customizations {
        ignition_ca: vec![inputs.file("ca.pem", "PEM")],
        dest_ignition: vec![inputs.file("a.ign", r#"{"ignition":{"version":"3.0.0"}}"#)],
        ..Customizations::default()
    };
    let archive = applied(&asked, ALL).0.unwrap();
    let authority = |config: &Value| unpacked(&config["ignition"]["security"]["tls"]["certificateAuthorities"][0]);
    let live: Value = serde_json::from_slice(archive.get(CONFIG_NAME).unwrap()).unwrap();
    assert_eq!(authority(&live), "PEM");
    let dest: Value = serde_json::from_str(&files(&archive)[0].2).unwrap();
    assert_eq!(authority(&dest), "PEM");
    assert_eq!(unpacked(&dest["ignition"]["config"]["merge"][0]), r#"{"ignition":{"version":"3.0.0"}}"#);
}

#[test]
fn a_system_is_not_asked_for_what_it_does_not_know() {
    let inputs = Inputs::new();
    let keyfile = inputs.file("a", "x");
    let console: Console = "tty0".parse().unwrap();
    let console = vec![console];
    for (asked, expected) in [
        (
            Customizations { network_keyfile: vec![keyfile.clone()], ..Customizations::default() },
            "This OS image does not support customizing network settings.",
        ),
        (
            Customizations { network_nmstate: vec![keyfile.clone()], ..Customizations::default() },
            "This OS image does not support customizing network settings.",
        ),
        (
            Customizations { dest_console: console, ..Customizations::default() },
            "This OS image does not support customizing the destination console.",
        ),
        (
            Customizations { dest_device: Some("/dev/sda".to_owned()), ..Customizations::default() },
            "This OS image does not support customizing installer configuration.",
        ),
    ] {
        assert_eq!(applied(&asked, Features::default()).0.unwrap_err().to_string(), expected);
    }
    let twice = Customizations { network_keyfile: vec![keyfile.clone(), keyfile], ..Customizations::default() };
    assert_eq!(applied(&twice, ALL).0.unwrap_err().to_string(), "config already specifies keyfile a");
}
