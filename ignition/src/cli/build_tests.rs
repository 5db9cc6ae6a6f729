//! Configs made from flags and files.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    build: Build,
}

fn run(words: &[&str]) -> Result<(), String> {
    let cli = Cli::try_parse_from([&["build"], words].concat()).map_err(|error| error.to_string())?;
    cli.build.run().map_err(|error| format!("{error:#}"))
}

#[test]
fn each_config_is_built() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let config = file("a.ign", r#"{"ignition":{"version":"3.2.0"}}"#);
    let document =
        "variant: fcos\nversion: 1.2.0\nunknown: 1\nstorage: {files: [{path: /a, contents: {local: b.ign}}]}\n";
    let butane = file("b.bu", document);
    file("files/b.ign", "");
    let files = dir.path().join("files").to_str().unwrap().to_owned();
    let pull_secret = file("pull.json", r#"{"auths":{}}"#);
    let host = "{network_yaml: 'interfaces: [{name: eth0, type: ethernet, state: up}]', mac_interface_map: [{mac_address: '52:54:00:00:00:01', logical_nic_name: eth0}]}";
    let network = file("network.yaml", &format!("static_network_config: [{host}]"));
    let id = "5f8c6ef1-4b5a-4c3c-9a3e-0a6b5d3c2b1a";
    let native = ["discovery", "--url", "http://s", "--infra-env-id", id, "--budget"];
    let assisted = ["--shape", "assisted", "--pull-secret", &pull_secret, "--static-network", &network, "--ntp", "a"];
    for words in [
        &native[..],
        &[&native[..], &assisted].concat(),
        &["host", "--hostname", "node-1", "--role-config", &config, "--nodeip-hint", "fd00::", "--override", &config],
        &["pointer", "https://s/config/worker", "--token", &pull_secret, "--redacted"],
        &["host", "--role-config", &butane, "--override", &butane, "--files-dir", &files],
        &["dest", "--dest-ignition", &config, "--dest-ignition", &butane, "--files-dir", &files],
        &["dest", "--dest-ignition", &config, "--ignition-ca", &pull_secret],
        &["live", "--dest-ignition", &config, "--pre-install", &pull_secret, "--dest-karg-append", "-x", "--budget"],
    ] {
        assert_eq!(run(words), Ok(()), "{words:?}");
    }
    let error = |words: &[&str]| run(words).unwrap_err();
    assert!(error(&[&native[..], &assisted[2..]].concat()).contains("use --shape assisted"));
    assert!(error(&["host", "--role-config", &butane]).contains("$.storage.files.0.contents.local, line 4 col 48"));
    assert!(
        error(&["host", "--role-config", &butane, "--files-dir", &files, "--strict"]).contains("--strict is given")
    );
    assert_eq!(error(&["live"]), "no options for the live system: it needs no config");
    assert_eq!(error(&["dest"]), "no config given: use --dest-ignition");
    assert!(error(&["host", "--role-config", "/nowhere"]).starts_with("/nowhere can't be opened"));
    assert!(error(&["host", "--pool", "x"]).contains("pool 'x'"));
}
