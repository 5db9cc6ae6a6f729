use super::*;
use proptest::prelude::*;
use std::{fs, time::Duration};
use tempfile::TempDir;
use testkit::tree::put;

const ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";

/// A directory that stands for `/`, with these files.
fn system(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        put(dir.path(), path, content);
    }
    dir
}

fn read(dir: &TempDir, line: &[(Key, &str)], variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let command_line = line.iter().map(|(key, text)| (*key, (*text).to_owned())).collect();
    let environment =
        |name: &str| variables.iter().find(|(variable, _)| *variable == name).map(|(_, text)| (*text).to_owned());
    let root = Root::open(dir.path()).unwrap();
    Config::read(&Sources { command_line, environment: &environment, file: None, root: &root })
}

/// An SMBIOS table of a structure with OEM strings (DSP0134, 7.12).
fn smbios(strings: &[&str]) -> Vec<u8> {
    let mut table = vec![11, 5, 0, 0, u8::try_from(strings.len()).unwrap()];
    for text in strings {
        table.extend(text.bytes().chain([0]));
    }
    table.extend([0, 127, 4, 0xfe, 0xff, 0, 0]);
    table
}

const DMI: &str = "sys/firmware/dmi/tables/DMI";
const FW_CFG: &str = "sys/firmware/qemu_fw_cfg/by_name/opt";

#[test]
fn the_most_deliberate_source_wins() {
    let table = smbios(&["Acme", "io.landfall.url=http://oem", "io.systemd.credential:landfall.token=t0ken"]);
    let fw_cfg = format!("{FW_CFG}/landfall/url/raw");
    let dir = system(&[
        ("etc/landfall/agent.toml", b"url = 'http://file'\ninsecure = true\ninterval = 5\n"),
        (
            "proc/cmdline",
            b"quiet landfall.url=http://kernel landfall.infra-env-id=first landfall.infra_env_id=\"last\" ro\n",
        ),
        (DMI, &table),
        (&fw_cfg, b"http://fw_cfg\0"),
    ]);
    let (line, environment) = ([(Key::Url, "http://line")], [("LANDFALL_URL", "http://variable")]);
    let url = |config: &Config| {
        let value = config.get(Key::Url).unwrap();
        (value.display(Key::Url), value.source.to_string())
    };
    let all = read(&dir, &line, &environment).unwrap();
    assert_eq!(url(&all), ("http://line".into(), "the command line".into()));
    let rest = read(&dir, &[(Key::Url, " ")], &environment).unwrap();
    assert_eq!(url(&rest), ("http://variable".into(), "the environment variable LANDFALL_URL".into()));
    let file = read(&dir, &[], &[("LANDFALL_URL", "")]).unwrap();
    assert_eq!(url(&file), ("http://file".into(), "/etc/landfall/agent.toml".into()));
    fs::remove_file(dir.path().join("etc/landfall/agent.toml")).unwrap();
    let kernel = read(&dir, &[], &[]).unwrap();
    assert_eq!(url(&kernel), ("http://kernel".into(), "the kernel argument landfall.url".into()));
    assert_eq!(kernel.get(Key::InfraEnvId).unwrap().display(Key::InfraEnvId), "last");
    fs::remove_file(dir.path().join("proc/cmdline")).unwrap();
    let oem = read(&dir, &[], &[]).unwrap();
    assert_eq!(url(&oem), ("http://oem".into(), "the SMBIOS OEM string io.landfall.url".into()));
    assert_eq!(oem.get(Key::Token).unwrap().display(Key::Token), "(a secret of 5 bytes)");
    fs::remove_file(dir.path().join(DMI)).unwrap();
    let last = read(&dir, &[], &[]).unwrap();
    assert_eq!(url(&last).0, "http://fw_cfg");
    assert!(url(&last).1.ends_with("opt/landfall/url/raw"));
    assert!(!format!("{oem:?}").contains("t0ken"));
}

#[test]
fn a_file_gives_everything_at_once() {
    let dir = system(&[(
        "etc/landfall/agent.toml",
        format!(
            "url = 'https://u:p@s.example/x'\ninfra_env_id = '{ENV}'\ntoken = 't0ken'\ncacert = '/ca.pem'\ninterval = 5\n\
             host_id = '{ENV}'\nagent-version = 'r.io/a:1'\nproxy = 'http://u:pass@p:1'\nno_proxy = 'x'\n"
        )
        .as_bytes(),
    )]);
    let config = read(&dir, &[], &[("HTTPS_PROXY", "http://variable")]).unwrap();
    let resolved = config.resolve().unwrap();
    assert_eq!((resolved.infra_env_id.to_string(), resolved.interval), (ENV.to_owned(), Duration::from_secs(5)));
    assert_eq!((resolved.token.expose(), resolved.agent_version.as_str()), ("t0ken", "r.io/a:1"));
    assert_eq!(resolved.ca_cert, Some(CaCert::Path("/ca.pem".into())));
    assert_eq!(resolved.host_id.unwrap().to_string(), ENV);
    let proxies: Vec<_> = resolved.proxies.iter().map(|(name, value)| (*name, value.expose())).collect();
    let http = "http://u:pass@p:1";
    assert_eq!(proxies, [("HTTP_PROXY", http), ("http_proxy", http), ("NO_PROXY", "x"), ("no_proxy", "x")]);
    let shown: String = config.values().map(|(key, value)| value.display(key)).collect();
    assert!(!shown.contains("t0ken") && !shown.contains("pass") && !shown.contains("u:p@"), "{shown}");
}

#[test]
fn what_is_missing_is_said_with_every_place_it_was_looked_for() {
    let nothing = read(&system(&[]), &[], &[]).unwrap();
    assert!(!nothing.is_configured());
    let text = nothing.resolve().unwrap_err().to_string();
    assert!(text.starts_with("no url and no infra_env_id: looked on the command line (--url); "), "{text}");
    for place in [
        "LANDFALL_URL",
        "in /etc/landfall/agent.toml (which does not exist)",
        "landfall.url=",
        "io.systemd.credential:landfall.url=",
        "opt/io.landfall/url",
    ] {
        assert!(text.contains(place), "{place}: {text}");
    }
    let half = read(&system(&[]), &[(Key::Url, "http://s")], &[]).unwrap();
    assert!(half.is_configured());
    assert!(half.resolve().unwrap_err().to_string().starts_with("no infra_env_id: "));
}

#[test]
fn what_is_wrong_is_said_with_its_source_and_without_its_secrets() {
    let file = |text: &str| read(&system(&[("etc/landfall/agent.toml", text.as_bytes())]), &[], &[]);
    let error = |text: &str| file(text).unwrap_err().to_string();
    let text = error("url = 'x'\ntoken = \"t0ken\nurl = 7");
    assert!(
        text.starts_with("the agent's configuration file /etc/landfall/agent.toml is not usable (line 2): "),
        "{text}"
    );
    assert!(!text.contains("t0ken"));
    assert!(error("[url]\n").contains("url must be a string, not a table"));
    assert!(error("urll = ''").contains("'urll' is not one of url, infra_env_id, token,"));
    assert!(
        error("url = \"http://s\\u001b[2J\"")
            .contains("url from /etc/landfall/agent.toml is not usable: it contains the character '\\u{1b}'")
    );
    assert!(error(&format!("url = '{}'", "x".repeat(10_000))).contains("it has 10000 bytes"));
    let bad = |line: &str| {
        let dir =
            system(&[("proc/cmdline", format!("landfall.url=http://s landfall.infra_env_id={ENV} {line}").as_bytes())]);
        read(&dir, &[], &[]).and_then(|config| config.resolve()).unwrap_err().to_string()
    };
    assert!(
        bad("landfall.infra_env_id=x")
            .starts_with("infra_env_id from the kernel argument landfall.infra_env_id is not usable: 'x': ")
    );
    assert!(bad("landfall.insecure=maybe").contains("'maybe': it is neither on nor off"));
    assert!(bad("landfall.rendezvous-kye=x").ends_with("did you mean 'rendezvous_key'?"));
    assert!(
        bad("landfall.zzzzzzzz")
            .contains("landfall.zzzzzzzz is not usable: 'zzzzzzzz' is not a setting: it is not one of url")
    );
    assert!(bad("io.landfall.proxy").ends_with("io.landfall.proxy is not usable: it has no value"));
    assert!(bad("systemd.set_credential=landfall.tokn:x").ends_with("'tokn' is not a setting: did you mean 'token'?"));
    assert!(bad("landfall.interval=soon").contains("interval from the kernel argument landfall.interval"));
    assert!(
        bad("systemd.set_credential_binary=landfall.token:%%%")
            .contains("token from the kernel argument systemd.set_credential_binary=landfall.token")
    );
    assert!(bad("\"landfall.cacert=-----BEGIN CERTIFICATE-----\"").contains("no certificate"));
    let absent = read_named(Path::new("/nonexistent/agent.toml")).unwrap_err().to_string();
    assert_eq!(absent, "cannot read the agent's configuration file /nonexistent/agent.toml");
}

fn read_named(file: &Path) -> Result<Config, ConfigError> {
    let root = Root::open("/").unwrap();
    Config::read(&Sources { command_line: Vec::new(), environment: &|_| None, file: Some(file.into()), root: &root })
}

#[test]
fn a_bare_insecure_is_true_and_the_hosts_name_is_none_of_ours() {
    let dir = system(&[(
        "proc/cmdline",
        format!("landfall.insecure landfall.host_id={ENV} landfallx=1 other.landfall.x=1").as_bytes(),
    )]);
    let config = read(&dir, &[], &[]).unwrap();
    assert_eq!(config.values().map(|(key, _)| key).collect::<Vec<_>>(), [Key::Insecure]);
    assert_eq!(config.get(Key::Insecure).unwrap().display(Key::Insecure), "true");
}

proptest! {
    #[test]
    fn no_bytes_anywhere_are_more_than_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in "\\PC{0,200}") {
        let line = [b"landfall.url=".as_slice(), &bytes, b" io.landfall.cacert=", text.as_bytes()].concat();
        let raw = format!("{FW_CFG}/io.landfall/no_proxy/raw");
        let dir = system(&[("etc/landfall/agent.toml", &bytes), ("proc/cmdline", &line), (DMI, &bytes), (&raw, &bytes)]);
        if let Ok(config) = read(&dir, &[], &[]) {
            let _ = config.resolve();
        }
        fs::remove_file(dir.path().join("etc/landfall/agent.toml")).unwrap();
        if let Ok(config) = read(&dir, &[], &[]) {
            for (key, value) in config.values() {
                prop_assert!(!value.display(key).contains(|c: char| c.is_control() && c != '\n' && c != '\r' && c != '\t'));
            }
        }
    }
}

#[test]
fn an_announcement_must_be_proven_by_something() {
    let key = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==";
    let dir =
        system(&[("rack.pub", format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n").as_bytes())]);
    let file = dir.path().join("rack.pub");
    let trust = |line: &[(Key, &str)]| {
        let config = read(&system(&[]), line, &[]).unwrap();
        config.rendezvous().map(|found| found.unwrap().1).map_err(|error| error.to_string())
    };
    let mdns = (Key::Rendezvous, "mdns");
    let (token, ca, ours) = ((Key::Token, "t"), (Key::CaCert, "/ca.pem"), (Key::RendezvousKey, key));
    let unsigned = (Key::RendezvousUnsigned, "true");
    for line in [&[mdns][..], &[mdns, token], &[mdns, (Key::RendezvousUnsigned, "false")]] {
        let refused = trust(line).unwrap_err();
        assert!(refused.contains("any host can announce a service by multicast DNS"), "{refused}");
    }
    let form = |line: &[(Key, &str)]| {
        let trust = trust(line).unwrap();
        (trust.key.is_some(), trust.https_only, trust.authority_only)
    };
    assert_eq!(form(&[mdns, ca]), (false, true, true));
    assert_eq!(form(&[mdns, ca, token]), (false, true, true));
    assert_eq!(form(&[mdns, ours]), (true, false, false));
    assert_eq!(form(&[mdns, ours, token]), (true, true, false));
    assert_eq!(form(&[mdns, ours, ca]), (true, true, true));
    assert_eq!(form(&[mdns, (Key::RendezvousKey, file.to_str().unwrap())]), (true, false, false));
    assert_eq!(form(&[mdns, unsigned, token]), (false, false, false));
    // An address is a choice already.
    assert_eq!(form(&[(Key::Rendezvous, "192.0.2.1"), token]), (false, false, false));
    assert_eq!(form(&[(Key::Rendezvous, "192.0.2.1"), ours]), (true, false, false));
    assert!(trust(&[mdns, ours, (Key::Insecure, "true")]).unwrap_err().contains("without certificate checks"));
    assert!(trust(&[mdns, ours, unsigned]).unwrap_err().contains("rendezvous_key is set as well"));
    assert!(
        trust(&[mdns, (Key::RendezvousKey, "/nonexistent")]).unwrap_err().contains("not a public key on curve P-256")
    );
}

#[test]
fn what_is_set_at_the_console_comes_before_all_but_the_command_line() {
    let dir = system(&[("etc/landfall/agent.toml", b"rendezvous = '192.0.2.9'\n")]);
    let environment = [("LANDFALL_URL", "http://variable"), ("LANDFALL_INFRA_ENV_ID", ENV)];
    let place = |config: &Config| config.rendezvous().unwrap().map(|(place, _)| place.to_string());
    assert_eq!(place(&read(&dir, &[], &environment).unwrap()), None);
    set_at_console(dir.path(), &[(Key::Url, "http://it's".to_owned())]).unwrap();
    let set = read(&dir, &[], &environment).unwrap();
    assert_eq!((set.resolve().unwrap().url.as_str(), place(&set)), ("http://it's", None));
    assert_eq!(set.get(Key::Url).unwrap().source, Source::Console);
    assert_eq!(
        read(&dir, &[(Key::Url, "http://line")], &[]).unwrap().get(Key::Url).unwrap().display(Key::Url),
        "http://line"
    );

    set_at_console(dir.path(), &[(Key::Rendezvous, "192.0.2.1".to_owned())]).unwrap();
    let mut set = read(&dir, &[], &environment).unwrap();
    assert_eq!(place(&set).as_deref(), Some("http://192.0.2.1:8090"));
    let infra_env_id = "bbbbbbbb-0000-0000-0000-000000000002".parse().unwrap();
    set.found(&Found { url: "http://192.0.2.1:8090".into(), infra_env_id, ca_pem: None });
    let resolved = set.resolve().unwrap();
    assert_eq!((resolved.url.as_str(), resolved.infra_env_id), ("http://192.0.2.1:8090", infra_env_id));
    let line = read(&dir, &[(Key::Url, "http://line")], &environment).unwrap();
    assert_eq!(place(&line), None, "the command line is more deliberate still");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(dir.path().join("etc/landfall/console.toml")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}
