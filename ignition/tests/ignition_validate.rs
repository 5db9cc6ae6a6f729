//! Against the real ignition-validate, if available: it accepts every config built here.

use api::{Proxy, Secret};
use ignition::discovery::Discovery;
use ignition::discovery::assisted::{self, Assisted, Mirror, Ntp, StaticNetwork};
use ignition::host::{Beacon, BeaconEnv, HostConfig, Pointer};
use ignition::model::Document;
use ignition::network::{Flow, NetworkFile};
use ignition::{AgentBinary, discovery, host};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program named by LANDFALL_IGNITION_VALIDATE or unpacked below the target directory; none with a printed reason.
fn validator() -> Option<PathBuf> {
    let unpacked =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/vm/packages/ignition/usr/bin/ignition-validate");
    let path = std::env::var_os("LANDFALL_IGNITION_VALIDATE").map_or(unpacked, PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    testkit::skip::because(format_args!(
        "{} is missing; name an ignition-validate in LANDFALL_IGNITION_VALIDATE",
        path.display()
    ));
    None
}

/// The validator's report on `config`: empty when it is valid without a single warning.
fn report(program: &Path, config: &Document<'_>) -> std::io::Result<String> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(&config.to_json())?;
    let output = Command::new(program).arg(file.path()).output()?;
    let report = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() || !report.is_empty());
    Ok(report)
}

fn binary() -> AgentBinary {
    AgentBinary { url: "https://service:8090/landfall".into(), sha512_hex: "0123456789abcdef".repeat(8) }
}

const CA: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const KEYS: &str = "ssh-ed25519 AAAA one\nssh-ed25519 BBBB two\n";
const OVERRIDE: &str = r#"{"ignition": {"version": "3.2.0"},
    "storage": {"links": [{"path": "/etc/localtime", "target": "/usr/share/zoneinfo/UTC"}],
                "luks": [{"name": "root", "device": "/dev/disk/by-label/x", "clevis": {"tpm2": true}}],
                "files": [{"path": "/etc/motd", "append": [{"source": "data:,hi"}]}]},
    "systemd": {"units": [{"name": "agent.service", "dropins": [{"name": "a.conf", "contents": "[Service]\nNice=5\n"}]}]}}"#;

const ROLE: &str = r#"{"ignition":{"version":"3.1.0"},"storage":{"links":[{"path":"/etc/hostname","target":"/x"}]}}"#;

#[test]
fn every_config_of_the_services_shape_is_valid() {
    let Some(program) = validator() else { return };
    let discovery =
        Discovery { service_url: "https://service:8090".into(), agent_version: "image".into(), ..Discovery::default() };
    let full = Discovery {
        insecure: true,
        ca_pem: Some(CA.into()),
        token: Some(Secret::new("a.b.c")),
        ssh_authorized_key: KEYS.into(),
        ignition_override: OVERRIDE.into(),
        ..discovery.clone()
    };
    let path = "/etc/assisted/network/host0/eth0.nmconnection".into();
    let files = vec![NetworkFile { path, mode: 0o600, bytes: b"[connection]\n".to_vec() }];
    let assisted = Assisted {
        pull_secret: Secret::new("{\"auths\":{}}"),
        company_ca_pem: Some(CA.into()),
        trust_bundle_pem: Some(CA.into()),
        mirror: Some(Mirror { registries_conf: "x".into(), ca_pem: Some(CA.into()), policy_json: Some("{}".into()) }),
        ntp: Some(Ntp { sources: vec!["ntp.example".into(), "fd00::1".into()], only: true }),
        static_network: Some(StaticNetwork { flow: Flow::Keyfiles, files, discovery_delay_s: 5 }),
        ..Assisted::default()
    };
    for (name, discovery, assisted) in [("plain", &discovery, &Assisted::default()), ("full", &full, &assisted)] {
        assert_eq!(report(&program, &assisted::build(discovery, assisted).unwrap()).unwrap(), "", "{name}");
    }
    let proxy = Proxy { https_proxy: Some("https://proxy".into()), ..Proxy::default() };
    let proxied = Discovery { proxy, ..discovery };
    let report = report(&program, &assisted::build(&proxied, &assisted).unwrap()).unwrap();
    // The service's own slip with the mode of proxy.sh.
    assert_eq!(report.lines().count(), report.matches("setuid/setgid/sticky").count(), "{report}");
}

#[test]
fn every_discovery_config_is_valid() {
    let Some(program) = validator() else { return };
    let plain =
        Discovery { service_url: "http://10.0.2.2:8090".into(), agent_version: "0.1.0".into(), ..Discovery::default() };
    let full = Discovery {
        service_url: "https://service:8090/base".into(),
        insecure: true,
        ca_pem: Some(CA.into()),
        token: Some(Secret::new("a.b.c $\"\\`")),
        proxy: Proxy {
            http_proxy: Some("http://user:p%40ss@proxy:3128".into()),
            https_proxy: Some("https://proxy:3129".into()),
            no_proxy: Some(".local,10.0.0.0/8, *".into()),
        },
        ssh_authorized_key: KEYS.into(),
        deliver_agent: Some(binary()),
        ignition_override: OVERRIDE.into(),
        ..plain.clone()
    };
    let foreign = Discovery { deliver_agent: Some(binary()), ..plain.clone() };
    for (name, discovery) in [("plain", plain), ("full", full), ("foreign", foreign)] {
        assert_eq!(report(&program, &discovery::build(&discovery).unwrap()).unwrap(), "", "{name}");
    }
}

#[test]
fn every_host_config_is_valid() {
    let Some(program) = validator() else { return };
    let env = BeaconEnv {
        service_url: "https://service:8090".into(),
        infra_env_id: Default::default(),
        host_id: Default::default(),
        insecure: true,
        token: Some(Secret::new("a.b.c")),
    };
    let full = HostConfig {
        hostname: "node-1.example.com".into(),
        ssh_authorized_key: KEYS.into(),
        pointer: Some(Pointer {
            source: "https://10.0.0.5:22623/config/worker".into(),
            headers: vec![("Authorization".into(), Secret::new("Bearer a.b.c"))],
        }),
        beacon: Some(Beacon { binary: binary(), env }),
        ca_pem: Some(CA.into()),
        ignition_override: OVERRIDE.into(),
        role_config: Some(ROLE.into()),
        nodeip_hint: Some([192, 0, 2, 0].into()),
        pool: Some("gpu".into()),
        persistent_boot: true,
    };
    let named = HostConfig { hostname: "node-1".into(), ..HostConfig::default() };
    for (name, host) in [("empty", HostConfig::default()), ("named", named), ("full", full)] {
        assert_eq!(report(&program, &host::build(&host).unwrap()).unwrap(), "", "{name}");
    }
}

#[test]
fn the_validator_does_tell() {
    let Some(program) = validator() else { return };
    let host = HostConfig { hostname: "a".into(), ..HostConfig::default() };
    let mut config = host::build(&host).unwrap();
    config.storage.files[0].contents.source = Some("data:,a b".into());
    let report = report(&program, &config).unwrap();
    assert!(report.contains("$.storage.files.0.contents.source"), "{report}");
}
