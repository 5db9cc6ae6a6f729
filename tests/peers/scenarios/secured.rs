//! A service that wants tokens, and one that is reached by TLS.

use super::*;
use crate::{
    host::Plan,
    service::ServiceOptions,
    site::{AGENT_IMAGE, landfall},
};
use std::{fs, net::SocketAddr, path::Path, process::Command};

const NAMES: &[(&str, &str)] = &[("quay.io", "192.0.2.80"), ("service.example.com", "192.168.131.1")];

fn openssl(directory: &Path, words: &str) -> Vec<u8> {
    let output = Command::new("openssl").args(words.split(' ')).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The token that a discovery config hands to the agent.
fn token_of(discovery: &[u8]) -> String {
    let config: Value = serde_json::from_slice(discovery).unwrap();
    let units = config["systemd"]["units"].as_array().unwrap();
    let agent = units.iter().find(|unit| unit["name"] == "agent.service").unwrap()["contents"].as_str().unwrap();
    let line = agent.lines().find_map(|line| line.strip_prefix("Environment=PULL_SECRET_TOKEN=")).unwrap();
    line.to_owned()
}

#[test]
fn the_token_of_the_discovery_config_is_taken() {
    scenario("j: AUTH_TYPE=local, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let keys = tempfile::tempdir().unwrap();
        openssl(keys.path(), "ecparam -name prime256v1 -genkey -noout -out private.pem");
        openssl(keys.path(), "ec -in private.pem -pubout -out public.pem");
        let pem = |name: &str| fs::read_to_string(keys.path().join(name)).unwrap();
        // A service with local tokens has no users; what it serves was made before.
        let open = site.real_service(peers, ServiceOptions::default());
        let (_, env) = create(&open.api, single_node_cluster());
        let (_, other) = create(&open.api, {
            let mut body = single_node_cluster();
            body["name"] = "other".into();
            body
        });
        let store = open.store();
        drop(open);
        let environment = [
            ("AUTH_TYPE", "local".to_owned()),
            ("EC_PRIVATE_KEY_PEM", pem("private.pem")),
            ("EC_PUBLIC_KEY_PEM", pem("public.pem")),
        ];
        let first = signed(keys.path(), &json!({"infra_env_id": env}));
        let options = ServiceOptions {
            environment: &environment,
            token: Some(first),
            store: Some(store),
            ..ServiceOptions::default()
        };
        let service = site.real_service(peers, options);
        let (status, discovery) =
            service.api.file(&format!("/infra-envs/{env}/downloads/files?file_name=discovery.ign"));
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&discovery));
        let token = token_of(&discovery);
        let landfall = landfall();
        let words = [
            &landfall.display().to_string(),
            "agent",
            "--url",
            &site.url(),
            "--infra-env-id",
            &env,
            "--agent-version",
            AGENT_IMAGE,
            "--no-reboot",
        ];
        let service_words = words.map(str::to_owned).to_vec();
        let environment = [("PULL_SECRET_TOKEN", token.as_str())];
        let plan = Plan {
            number: 0,
            programs: &[("landfall", landfall)],
            scripts: &[],
            service: service_words,
            environment: &environment,
        };
        let (_host, _clock) = site.host(plan);
        await_known(&service.api, &env, 1);
        let seen = exchanges(site);
        assert!(seen.iter().all(|one| one.status.is_none_or(|status| status < 300)), "all requests were taken");
        let tokens = seen.iter().flat_map(|one| one.request.headers.iter().filter(|(name, _)| name == "x-secret-key"));
        assert!({ tokens }.all(|(_, value)| *value == token));
        // Without a token, and with one that nobody signed, a host is refused and goes on asking.
        for (number, given) in [(1, ""), (2, "nobody.signed.this")] {
            let before = exchanges(site).len();
            let landfall = crate::site::landfall();
            let words = [
                &landfall.display().to_string(),
                "agent",
                "--url",
                &site.url(),
                "--infra-env-id",
                &other,
                "--agent-version",
                AGENT_IMAGE,
                "--refused-interval",
                "5",
            ];
            let environment = [("PULL_SECRET_TOKEN", given)];
            let plan = Plan {
                number,
                programs: &[("landfall", landfall)],
                scripts: &[],
                service: words.map(str::to_owned).to_vec(),
                environment: &environment,
            };
            let (_refused, _clock) = site.host(plan);
            await_exchanges(site, "two refusals", |all| {
                all[before..].iter().filter(|one| one.is("POST", "/hosts") && one.status == Some(401)).count() >= 2
            });
        }
        let tokens = Row("*", "request header x-secret-key", "the token of this scenario, looked at above");
        assert_as_recorded_but(site, Direction::OursAtTheRealService, &[tokens]).summary()
    });
}

/// A token as the service makes them, for the test's own first question.
fn signed(keys: &Path, claims: &Value) -> String {
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&json!({"alg": "ES256", "typ": "JWT"})), part(claims));
    fs::write(keys.join("text"), &text).unwrap();
    let der = openssl(keys, "dgst -sha256 -sign private.pem text");
    // SEQUENCE { INTEGER r, INTEGER s }, each made 32 bytes.
    let number = |at: usize| {
        let length = usize::from(der[at + 1]);
        let digits = &der[at + 2..at + 2 + length];
        let digits = &digits[digits.len().saturating_sub(32)..];
        ([vec![0; 32 - digits.len()], digits.to_vec()].concat(), at + 2 + length)
    };
    let (r, next) = number(2);
    let (s, _) = number(next);
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode([r, s].concat()))
}

#[test]
fn the_service_is_reached_by_tls_and_name() {
    scenario("k: TLS by name, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let keys = tempfile::tempdir().unwrap();
        let run = |words: &str| openssl(keys.path(), words);
        fs::write(keys.path().join("names"), "subjectAltName=DNS:service.example.com,IP:127.0.0.1\n").unwrap();
        run(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=peers",
        );
        run(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out request.pem -subj /CN=service.example.com",
        );
        run("x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem");
        let at = |name: &str| keys.path().join(name).display().to_string();
        let environment = [
            ("SERVE_HTTPS", "true".to_owned()),
            ("HTTPS_KEY_FILE", at("key.pem")),
            ("HTTPS_CERT_FILE", at("cert.pem")),
        ];
        let url = site.url().replace("http://192.168.131.1", "https://service.example.com");
        let options = ServiceOptions {
            environment: &environment,
            base_url: url.clone(),
            certificate: Some(fs::read(keys.path().join("ca.pem")).unwrap()),
            ..ServiceOptions::default()
        };
        let service = site.real_service(peers, options);
        let (_, env) = create(&service.api, single_node_cluster());
        // A host that trusts nobody says nothing to it.
        {
            let (host, _clock) = site.our_host(1, &env, &url, &["--interval", "1"]);
            testkit::wait::until("the certificate is refused", || host.file("agent.log").contains("certificate"));
            assert_eq!(service.api.get(&format!("/infra-envs/{env}/hosts")), json!([]));
        }
        let ca = keys.path().join("ca.pem").display().to_string();
        let (_host, _clock) = site.our_host(0, &env, &url, &["--cacert", &ca]);
        await_known(&service.api, &env, 1);
        let beginnings = site.relay.beginnings(3);
        const HANDSHAKE: u8 = 22;
        assert!(
            beginnings.len() > 2 && beginnings.iter().all(|bytes| bytes.first().is_none_or(|byte| *byte == HANDSHAKE))
        );
        let _: SocketAddr = site.relay.address;
        format!("{} connections, all of them TLS, so no exchange to compare", beginnings.len())
    });
}
