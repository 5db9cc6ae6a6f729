//! Secrets are in the configs that are built, and in nothing else: no debug output, no error, no redacted text, no message of
//! the command line.
#![allow(clippy::unwrap_used)]

use api::{Proxy, Secret};
use ignition::customize::{self, Customize, Input};
use ignition::discovery::assisted::{self, Assisted, Mirror, StaticNetwork};
use ignition::host::{self, Beacon, BeaconEnv, HostConfig, Pointer};
use ignition::network::{Flow, NetworkFile};
use ignition::{
    AgentBinary, BuildError, Discovery, ParseError, data_url, discovery, merge_all, parse, redact, translate,
};
use proptest::prelude::*;
use std::error::Error;

/// Stands in every secret, and in nothing else.
const MARK: &str = "hunter2";

/// An error with its causes, in words and in debug output.
fn chain(error: &dyn Error) -> String {
    let mut text = format!("{error}\n{error:?}\n");
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!("{cause}\n{cause:?}\n");
        source = cause.source();
    }
    text
}

/// Whether the mark can be seen, also encoded in any of the ways that configs have.
fn shows(text: &str) -> bool {
    let base64 = |bytes: &str| data_url::base64(bytes.as_bytes()).replace("data:;base64,", "");
    // What base64 makes of it, wherever it begins: without the characters that depend on its neighbours.
    let forms = [
        MARK.to_owned(),
        base64("hunter"),
        base64("xxhunter2")[4..11].to_owned(),
        base64("xhunter2")[4..10].to_owned(),
    ];
    forms.iter().any(|form| text.contains(form.as_str()))
}

/// An override in which the secret stands wherever one may, whole or with a fault.
fn config(secret: &str, fault: usize) -> String {
    let encoded = data_url::percent(secret.as_bytes());
    let quoted = serde_json::to_string(secret).unwrap();
    let text = format!(
        r#"{{"ignition":{{"version":"3.4.0","config":{{"merge":[{{"source":"https://h/a?k=x{MARK}","httpHeaders":[{{"name":"Authorization","value":{quoted}}}]}}]}},
        "proxy":{{"httpProxy":"http://u:{MARK}@p"}},"security":{{"tls":{{"certificateAuthorities":[{{"source":"{encoded}"}}]}}}}}},
        "passwd":{{"users":[{{"name":"core","passwordHash":{quoted},"sshAuthorizedKeys":[{quoted}]}}],"groups":[{{"name":"g","passwordHash":{quoted}}}]}},
        "storage":{{"files":[{{"path":"/a","mode":420,"contents":{{"source":"{encoded}"}},"append":[{{"source":"{encoded}"}}]}}],
            "luks":[{{"name":"l","device":"/dev/x","keyFile":{{"source":"{encoded}"}},"clevis":{{"custom":{{"pin":"tpm2","config":{quoted}}}}}}}]}},
        "systemd":{{"units":[{{"name":"a.service","contents":{unit},"dropins":[{{"name":"b.conf","contents":{unit}}}]}}]}}}}"#,
        unit = serde_json::to_string(&format!("[Service]\nEnvironment=A={secret}\n")).unwrap(),
    );
    match fault {
        1 => text.replacen("\"mode\":420", "\"mode\":\"420\"", 1),
        2 => text.replacen("\"/a\"", "\"a\"", 1),
        3 => text.replace("data:,", "data:, "),
        4 => text.replace("[Service]", "[Service"),
        5 => text.replace("[Service]\\n", "[Service] garbage\\n"),
        6 => text.replace("https://h", "bad://h"),
        7 => text.replace("3.4.0", "3.1.0"),
        8 => text.replace("3.4.0", "1.0.0"),
        9 => text[..text.len() - 1].to_owned(),
        10 => text.replace("\"sshAuthorizedKeys\":[", "\"sshAuthorizedKeys\":[5,"),
        11 => text.replacen("\"value\":", "\"value\":[],\"value\":", 1),
        12 => text.replace("data:,", "data:;base64,"),
        13 => text.replace("http://u", "ftp://u"),
        14 => text.replace("\"core\",", "\"core\",\"gecos\":{},"),
        15 => text.replace("%", "%z"),
        16 => text.replace("\"device\"", "\"uuid\""),
        _ => text,
    }
}

/// All that the parts of the crate say of a config.
fn all_said(text: &str) -> String {
    let mut said = String::new();
    match parse(text.as_bytes()) {
        Ok((document, _, report)) => said += &format!("{document:?}{report}{report:?}{}", redact(&document)),
        Err(ParseError::Invalid(report)) => said += &report.to_string(),
        Err(error) => said += &chain(&error),
    }
    let empty = r#"{"ignition":{"version":"3.2.0"}}"#.as_bytes();
    for version in ignition::model::Version::ALL {
        said += &translate(text.as_bytes(), version).map_err(|error| chain(&error)).err().unwrap_or_default();
    }
    said += &merge_all(&[empty, text.as_bytes()]).map_err(|(_, error)| chain(&error)).err().unwrap_or_default();
    said += &ignition::day2::filtered(text.as_bytes()).map_err(|error| chain(&error)).err().unwrap_or_default();
    said
}

fn outcome(config: Result<ignition::model::Document<'_>, BuildError>) -> String {
    match config {
        Ok(config) => {
            assert!(String::from_utf8(config.to_json()).unwrap().len() > 20);
            format!("{config:?}{}", redact(&config))
        }
        Err(error) => chain(&error),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_config_with_secrets_is_never_quoted(before in "[ -~]{0,4}", after in "[ -~\n]{0,4}", fault in 0..17_usize) {
        let said = all_said(&config(&format!("{before}{MARK}{after}"), fault));
        prop_assert!(!shows(&said), "{said}");
    }

    #[test]
    fn builders_do_not_leak_secrets(
        before in "[ -~]{0,4}",
        after in "[ -~\n]{0,3}",
        fault in 0..17_usize,
        has_override in any::<bool>(),
    ) {
        let secret = || format!("{before}{MARK}{after}");
        let text = || if has_override { config(&secret(), fault) } else { String::new() };
        let binary = AgentBinary { url: format!("https://u:{MARK}@h/x?k={MARK}"), sha512_hex: "ab".repeat(60 + fault) };
        let discovery = Discovery {
            service_url: format!("https://u:{MARK}@service"),
            agent_version: "image".into(),
            ca_pem: Some(secret()),
            token: Some(Secret::new(secret())),
            proxy: Proxy { http_proxy: Some(format!("http://u:{MARK}@p")), https_proxy: None, no_proxy: Some("a, b".into()) },
            ssh_authorized_key: secret(),
            ignition_override: text(),
            ..Discovery::default()
        };
        let native = Discovery { deliver_agent: Some(binary.clone()), ..discovery.clone() };
        let assisted = Assisted {
            pull_secret: Secret::new(secret()),
            trust_bundle_pem: Some(secret()),
            mirror: Some(Mirror { registries_conf: secret(), ca_pem: Some(secret()), policy_json: Some(secret()) }),
            static_network: Some(StaticNetwork {
                flow: Flow::Keyfiles,
                files: vec![NetworkFile { path: "/etc/assisted/network/host0/a".into(), mode: 0o600, bytes: secret().into_bytes() }],
                discovery_delay_s: 0,
            }),
            internal_override: text(),
            ..Assisted::default()
        };
        let env = BeaconEnv {
            service_url: format!("https://u:{MARK}@service"),
            infra_env_id: Default::default(),
            host_id: Default::default(),
            insecure: false,
            token: Some(Secret::new(secret())),
        };
        let host = HostConfig {
            role_config: Some(config(&secret(), fault).into_bytes()),
            hostname: "node-1".into(),
            ssh_authorized_key: secret(),
            pointer: Some(Pointer {
                source: format!("https://u:{MARK}@h/config/worker?k={MARK}"),
                headers: vec![("Authorization".into(), Secret::new(secret()))],
            }),
            beacon: Some(Beacon { binary, env }),
            ca_pem: Some(secret()),
            ignition_override: text(),
            ..HostConfig::default()
        };
        let input = || Input { name: "a".into(), content: config(&secret(), fault).into_bytes() };
        let customize = Customize {
            dest_configs: vec![input(), input()],
            live_configs: vec![input()],
            certificate_authorities: vec![input()],
            pre_install: vec![input()],
            ..Customize::default()
        };
        let mut said = format!("{discovery:?}{native:?}{assisted:?}{host:?}{customize:?}");
        said += &outcome(discovery::build(&native));
        said += &outcome(assisted::build(&discovery, &assisted));
        said += &outcome(host::build(&host));
        match customize::live_config(&customize) {
            Ok(live) => said += &redact(&parse(&live.unwrap()).unwrap().0),
            Err(error) => said += &chain(&error),
        }
        prop_assert!(!shows(&said), "{said}");
    }
}

#[test]
fn the_mark_would_be_seen() {
    for text in [MARK, "ahunter2", "abhunter2", "abchunter2", "hunter2z"] {
        assert!(shows(&data_url::base64(text.as_bytes())) && shows(text), "{text}");
    }
    assert!(shows(&config(MARK, 0)) && !shows(&config("x", 0).replace(MARK, "")));
}
