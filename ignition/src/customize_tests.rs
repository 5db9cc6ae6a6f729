//! What an ISO gets, and when nothing.

use super::*;
use crate::{data_url, parse};
use std::io::Read;

fn input(name: &str, content: &str) -> Input {
    Input { name: name.into(), content: content.into() }
}

fn config(version: &str) -> Input {
    input("a.ign", &format!(r#"{{"ignition":{{"version":"{version}"}}}}"#))
}

fn content(source: Option<&str>, compression: Option<&str>) -> String {
    let data = data_url::decode(source.unwrap()).unwrap().data;
    let mut text = String::new();
    match compression {
        Some(_) => flate2::read::GzDecoder::new(&data[..]).read_to_string(&mut text).unwrap(),
        None => (&data[..]).read_to_string(&mut text).unwrap(),
    };
    text
}

fn contents(config: &[u8]) -> Vec<(String, i64, String)> {
    let (config, _, report) = parse(config).unwrap();
    assert_eq!(report.to_string(), "");
    let files = config.storage.files.iter();
    files
        .map(|file| {
            let text = content(file.contents.source.as_deref(), file.contents.compression.as_deref());
            (file.path.to_string(), file.mode.unwrap(), text)
        })
        .collect()
}

#[test]
fn nothing_asked_is_no_config() {
    assert_eq!(live_config(&Customize::default()).unwrap(), None);
    assert_eq!(dest_config(&Customize::default()).unwrap(), None);
    let only_trust = Customize { certificate_authorities: vec![input("ca", "PEM")], ..Customize::default() };
    assert_eq!(live_config(&only_trust).unwrap(), None);
}

#[test]
fn one_config_goes_as_it_is_whatever_its_version() {
    let customize = Customize { dest_configs: vec![config("99.0.0-x")], ..Customize::default() };
    assert_eq!(dest_config(&customize).unwrap(), Some(config("99.0.0-x").content));
    let live = live_config(&customize).unwrap().unwrap();
    let found = contents(&live);
    assert_eq!(found[0].0, "/etc/coreos/dest.ign");
    assert_eq!((found[0].1, found[0].2.as_bytes()), (0o600, &*config("99.0.0-x").content));
    assert_eq!((&*found[1].0, found[1].1), ("/etc/coreos/installer.d/0000-customize.yaml", 0o600));
    assert_eq!(found[1].2, "{\n  \"ignition-file\": \"/etc/coreos/dest.ign\"\n}");
    assert!(String::from_utf8(live).unwrap().starts_with(r#"{"ignition":{"version":"3.3.0"}"#));
}

#[test]
fn several_are_merged_and_certificates_are_trusted() {
    let large = input("b.ign", &format!(r#"{{"ignition":{{"version":"3.4.0"}},"x":"{}"}}"#, "y".repeat(500)));
    let configs = vec![config("3.2.0"), large.clone(), config("3.2.0")];
    let customize = Customize {
        dest_configs: configs.clone(),
        live_configs: vec![config("3.1.0")],
        certificate_authorities: vec![input("ca", "PEM")],
        ..Customize::default()
    };
    let dest = dest_config(&customize).unwrap().unwrap();
    let (dest, version, _) = parse(&dest).unwrap();
    assert_eq!(version, Version::V3_3);
    let merged: Vec<_> = dest.ignition.config.merge.iter().collect();
    assert_eq!(merged.iter().map(|one| one.compression.as_deref()).collect::<Vec<_>>(), [None, Some("gzip")]);
    assert_eq!(content(merged[1].source.as_deref(), Some("gzip")).as_bytes(), large.content);
    assert_eq!(dest.ignition.security.tls.certificate_authorities[0].source.as_deref(), Some("data:,PEM"));
    let live = live_config(&customize).unwrap().unwrap();
    let (live, _, _) = parse(&live).unwrap();
    assert_eq!(live.ignition.config.merge.len(), 1);
    assert_eq!(live.ignition.security.tls.certificate_authorities.len(), 1);
    let trusted = Customize { dest_configs: vec![config("3.2.0")], ..customize };
    let (dest, live) = (dest_config(&trusted).unwrap().unwrap(), live_config(&trusted).unwrap().unwrap());
    assert_eq!(parse(&dest).unwrap().0.ignition.config.merge.len(), 1);
    assert_eq!(contents(&live)[0].2.as_bytes(), dest);
}

#[test]
fn programs_run_around_the_installer() {
    let customize = Customize {
        pre_install: vec![input("wipe.sh", "#!/bin/sh\n")],
        post_install: vec![input("tell", "#!/bin/sh\n"), input("tell2", "x")],
        installer_configs: vec![input("b.yaml", "insecure: true"), input("a.yaml", "{}")],
        installer: InstallerOptions {
            dest_device: Some("/dev/disk/by-id/x".into()),
            append_karg: vec!["a=b".into()],
            copy_network: true,
            ..InstallerOptions::default()
        },
        ..Customize::default()
    };
    let live = live_config(&customize).unwrap().unwrap();
    let found: Vec<_> = contents(&live).into_iter().map(|(path, mode, _)| format!("{path} {mode:o}")).collect();
    assert_eq!(
        found,
        [
            "/etc/coreos/installer.d/0000-b.yaml 600",
            "/etc/coreos/installer.d/0001-a.yaml 600",
            "/etc/coreos/installer.d/0002-customize.yaml 600",
            "/usr/local/bin/pre-install-wipe.sh 700",
            "/usr/local/bin/post-install-tell 700",
            "/usr/local/bin/post-install-tell2 700",
        ]
    );
    assert_eq!(
        contents(&live)[2].2.split_whitespace().collect::<String>(),
        r#"{"append-karg":["a=b"],"copy-network":true,"dest-device":"/dev/disk/by-id/x"}"#
    );
    let (live, _, _) = parse(&live).unwrap();
    let units = &live.systemd.units;
    assert_eq!((&*units[0].name, &*units[1].name), ("pre-install-wipe.sh.service", "post-install-tell.service"));
    for (unit, lines) in [
        (
            0,
            [
                "After=coreos-installer-pre.target\nBefore=coreos-installer.service\n",
                "RequiredBy=coreos-installer.service\n",
            ],
        ),
        (
            1,
            [
                "After=coreos-installer.service\nBefore=coreos-installer.target\n",
                "RequiredBy=coreos-installer.target\n",
            ],
        ),
    ] {
        let text = units[unit].contents.as_deref().unwrap();
        assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        assert_eq!(units[unit].enabled, Some(true));
    }
}

#[test]
fn what_cant_be_is_refused_by_name() {
    let error = |customize: Customize| live_config(&customize).unwrap_err().to_string();
    let dest = |content: &str| Customize { dest_configs: vec![input("x.bu", content)], ..Customize::default() };
    let expected =
        "x.bu is not an Ignition config: it has no ignition.version (a Butane config must be translated first)";
    for text in ["", "variant: fcos\nversion: 1.5.0\n", "{}", "[", r#"{"ignition":{"version":3}}"#] {
        assert_eq!(error(dest(text)), expected);
    }
    let twice = Customize { pre_install: vec![input("a", "x"), input("a", "y")], ..Customize::default() };
    assert_eq!(error(twice), "two programs of the same moment are named 'a'; rename one");
    let odd = Customize { post_install: vec![input("a b", "x")], ..Customize::default() };
    assert!(error(odd).starts_with("'a b' can't be part of a unit's name"));
}
