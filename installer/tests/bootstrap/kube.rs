//! The client of the Kubernetes API.

use super::*;
use installer::kube::{Client, ConfigError, KubeError, Kubeconfig};
use proptest::prelude::*;
use std::path::Path;

fn kubeconfig(cluster: Value, user: Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "admin", "preferences": {},
        "clusters": [{"name": "other", "cluster": {"server": "https://other"}}, {"name": "c", "cluster": cluster}],
        "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
    })
    .to_string()
}

fn parse(text: &str) -> Result<Kubeconfig, ConfigError> {
    Kubeconfig::parse(Path::new("/k/kubeconfig"), text.as_bytes())
}

#[test]
fn a_kubeconfig_is_bounded_before_it_is_parsed() {
    for (text, reason) in [
        ("{a: ".repeat(10_000), "it is nested too deeply: at most 128 levels of lists and mappings are allowed"),
        (format!("[{}]", "a,".repeat(300_000)), "it has too many values: at most 160000, with aliases followed"),
        ("- &a [*a]".to_owned(), "an alias in it contains itself"),
        (" ".repeat((1 << 20) + 1), "it has 1048577 bytes, more than 1048576"),
        ("clusters: [secret".to_owned(), "it can't be read at line 1 column 12"),
    ] {
        let error = format!("{:#}", anyhow::Error::new(parse(&text).unwrap_err()));
        assert_eq!(error, format!("the kubeconfig /k/kubeconfig is not valid: {reason}"));
    }
}

fn client(service: &FakeService, cancel: &Cancel) -> Client {
    let config = parse(&kubeconfig(
        json!({"server": format!("{}/", service.url), "insecure-skip-tls-verify": true}),
        json!({"token": "s3cret"}),
    ))
    .unwrap();
    Client::new(&config, testkit::wait::LIMIT, cancel).unwrap()
}

#[test]
fn lists_are_read_to_their_end() {
    let service = FakeService::start(|request| {
        let page = |names: &[&str], more: &str| {
            let items: Vec<_> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
            Answer::Json(200, json!({"metadata": {"continue": more}, "items": items}))
        };
        assert!(request.query.contains("limit=500"));
        match request.query.split("&continue=").nth(1) {
            None => page(&["a", "b"], "1/+="),
            Some("1%2F%2B%3D") => page(&[], "2"),
            Some("2") => page(&["c"], ""),
            other => panic!("{other:?}"),
        }
    });
    let nodes = client(&service, &Cancel::default()).nodes("l").unwrap();
    let names: Vec<_> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn a_list_that_has_expired_begins_anew_once_and_one_without_end_is_left() {
    let expires = |times: u32| {
        let count = Mutex::new(0);
        FakeService::start(move |request| {
            let mut count = count.lock().unwrap();
            if !request.query.contains("continue") {
                return Answer::Json(
                    200,
                    json!({"metadata": {"continue": "x"}, "items": [{"metadata": {"name": "a"}}]}),
                );
            }
            *count += 1;
            if *count <= times { Answer::Status(410) } else { Answer::Json(200, json!({"items": null})) }
        })
    };
    assert_eq!(client(&expires(1), &Cancel::default()).nodes("l").unwrap().len(), 1, "not twice");
    let error = client(&expires(2), &Cancel::default()).nodes("l").unwrap_err();
    assert_eq!(error.status(), Some(410));
    let endless = FakeService::start(|_| Answer::Json(200, json!({"metadata": {"continue": "x"}, "items": []})));
    assert!(matches!(client(&endless, &Cancel::default()).nodes("l"), Err(KubeError::Endless { .. })));
}

#[test]
fn errors_tell_what_the_server_said_and_nothing_secret() {
    let service = FakeService::start(|request| match request.path.as_str() {
        "/api/v1/namespaces/a/configmaps/refused" => Answer::Json(403, json!({"kind": "Status", "message": "no\nway"})),
        "/api/v1/namespaces/a/configmaps/html" => Answer::Text(502, "<html>"),
        "/api/v1/namespaces/a/configmaps/moved" => Answer::Status(302),
        "/api/v1/namespaces/a/configmaps/garbage" => Answer::Garbage,
        _ => Answer::Text(200, r#"{"data": {"password": 7}}"#),
    });
    let client = client(&service, &Cancel::default());
    let error = |name: &str| client.config_map("a", name).unwrap_err();
    assert_eq!(
        error("refused").to_string(),
        "GET /api/v1/namespaces/a/configmaps/refused: the Kubernetes API answered 403: no way"
    );
    assert_eq!((error("html").status(), error("moved").status()), (Some(502), Some(302)));
    assert!(matches!(error("garbage"), KubeError::Transport { .. }));
    let decode = error("../x");
    assert!(matches!(decode, KubeError::Decode { line: 1, .. }), "{decode}");
    assert!(service.requests().last().unwrap().path.ends_with("/..%2Fx"));
    assert!(!format!("{client:?}").contains("s3cret"));
}

#[test]
fn a_request_that_hangs_ends_when_cancelled() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let config = parse(&kubeconfig(json!({"server": server, "insecure-skip-tls-verify": true}), json!({}))).unwrap();
    ends_when_cancelled(
        || true,
        |cancel| {
            let client = Client::new(&config, Duration::from_secs(600), cancel).unwrap();
            matches!(client.nodes("l"), Err(KubeError::Cancelled))
        },
    );
    // And by itself after its time.
    let client = Client::new(&config, Duration::from_millis(50), &Cancel::default()).unwrap();
    assert!(matches!(client.nodes("l"), Err(KubeError::Transport { .. })));
}

#[test]
fn kubeconfigs_of_no_use_say_what_they_lack() {
    let server = json!({"server": "https://api:6443"});
    let fails = |cluster: Value, user: Value| parse(&kubeconfig(cluster, user)).unwrap_err().to_string();
    assert!(parse(&kubeconfig(server.clone(), json!({}))).is_ok());
    assert!(parse("").is_err() && parse("[]").is_err() && parse("{}").is_err());
    assert!(fails(json!({}), json!({})).contains("no server URL"));
    assert!(fails(json!({"server": "api:6443"}), json!({})).contains("no server URL"));
    assert!(fails(json!({"server": "https://a", "tls-server-name": "b"}), json!({})).contains("tls-server-name"));
    assert!(
        fails(json!({"server": "https://a", "certificate-authority-data": "eA=="}), json!({})).contains("authority")
    );
    assert!(fails(json!({"server": "https://a", "certificate-authority-data": "?"}), json!({})).contains("authority"));
    assert!(fails(json!({"server": "https://a", "certificate-authority": "gone"}), json!({})).contains("/k/gone"));
    assert!(fails(server.clone(), json!({"exec": {"command": "x"}})).contains("exec"));
    assert!(fails(server.clone(), json!({"client-certificate-data": "eA=="})).contains("only one"));
    let both = json!({"client-certificate-data": "eA==", "client-key-data": "eA=="});
    assert!(fails(server.clone(), both).contains("client certificate with its key"));
    let error = fails(server.clone(), json!({"token": "a\nb"}));
    assert!(error.contains("token") && !error.contains("a\nb"));
    assert!(!fails(server, json!({"client-key-data": {"s3cret": 1}})).contains("s3cret"));
    let wrong_context =
        kubeconfig(json!({"server": "https://a"}), json!({})).replace(r#""current-context":"admin""#, r#""x":1"#);
    assert!(parse(&wrong_context).unwrap_err().to_string().contains("context"));
}

proptest! {
    #[test]
    fn no_kubeconfig_makes_it_panic(
        text in "[ \\n:\\[\\]{}&*!|>'\"a-z0-9-]{0,200}",
        data in "[A-Za-z0-9+/=]{0,60}", server in "(https?://)?[a-z:/@\\[\\] ]{0,20}",
    ) {
        let _ = parse(&text);
        let user = json!({"client-certificate-data": data, "client-key-data": data, "token": text});
        let cluster = json!({"server": server, "certificate-authority-data": data, "insecure-skip-tls-verify": text.is_empty()});
        if let Ok(config) = parse(&kubeconfig(cluster, user)) {
            let _ = Client::new(&config, Duration::from_millis(1), &Cancel::default());
        }
    }
}

/// Certificates by openssl: an authority, a server and a client of it, and a stranger.
mod tls {
    use super::*;
    use rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    };
    use std::process::Command;
    use testkit::http::{Server, ok};

    struct Pki {
        dir: tempfile::TempDir,
    }

    impl Pki {
        fn new() -> Self {
            let pki = Self { dir: tempfile::tempdir().unwrap() };
            for authority in ["ca", "stranger"] {
                pki.openssl(&format!("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={authority} -keyout {authority}.key -out {authority}.pem"));
            }
            fs::write(pki.dir.path().join("server.ext"), "subjectAltName=IP:127.0.0.1\n").unwrap();
            fs::write(pki.dir.path().join("client.ext"), "extendedKeyUsage=clientAuth\n").unwrap();
            for (name, authority) in [("server", "ca"), ("client", "ca"), ("intruder", "stranger")] {
                let extensions = if name == "server" { "server" } else { "client" };
                pki.openssl(&format!("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"));
                pki.openssl(&format!("x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days 2 -extfile {extensions}.ext -out {name}.pem"));
            }
            pki
        }

        fn openssl(&self, args: &str) {
            let output = Command::new("openssl").args(args.split(' ')).current_dir(self.dir.path()).output().unwrap();
            assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        }

        fn read(&self, name: &str) -> Vec<u8> {
            fs::read(self.dir.path().join(name)).unwrap()
        }

        fn packed(&self, name: &str) -> String {
            use base64::{Engine, engine::general_purpose::STANDARD};
            STANDARD.encode(self.read(name))
        }

        /// Takes clients of its authority only, and answers each with an empty list.
        fn serve(&self) -> Server {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(&self.read("ca.pem")).unwrap()).unwrap();
            let provider = Arc::new(ring::default_provider());
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
            let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
            let chain = vec![CertificateDer::from_pem_slice(&self.read("server.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(&self.read("server.key")).unwrap();
            let config = config.with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
            Server::with_tls(Arc::new(config), |_| ok(r#"{"items":[]}"#))
        }
    }

    #[test]
    fn both_sides_are_known_by_their_certificates() {
        let pki = Pki::new();
        let running = pki.serve();
        let server = running.url("");
        let nodes = |cluster: Value, user: Value| {
            let config = Kubeconfig::parse(&pki.dir.path().join("kubeconfig"), kubeconfig(cluster, user).as_bytes())?;
            Client::new(&config, testkit::wait::LIMIT, &Cancel::default())?.nodes("l")
        };
        let ours = || json!({"client-certificate-data": pki.packed("client.pem"), "client-key-data": pki.packed("client.key")});
        let ca = |name: &str| json!({"server": server, "certificate-authority-data": pki.packed(name)});
        assert_eq!(nodes(ca("ca.pem"), ours()).unwrap(), []);
        // The same by names of files, which are beside the kubeconfig.
        let cluster = json!({"server": server, "certificate-authority": "ca.pem"});
        assert_eq!(
            nodes(cluster, json!({"client-certificate": "client.pem", "client-key": "client.key"})).unwrap(),
            []
        );
        let insecure = json!({"server": server, "insecure-skip-tls-verify": true});
        assert_eq!(nodes(insecure, ours()).unwrap(), []);

        let refused =
            |result: Result<_, KubeError>| assert!(matches!(result, Err(KubeError::Transport { .. })), "{result:?}");
        refused(nodes(ca("stranger.pem"), ours()));
        refused(nodes(json!({"server": server}), ours()));
        refused(nodes(ca("ca.pem"), json!({})));
        let intruder = json!({"client-certificate-data": pki.packed("intruder.pem"), "client-key-data": pki.packed("intruder.key")});
        refused(nodes(ca("ca.pem"), intruder));
        let mixed =
            json!({"client-certificate-data": pki.packed("client.pem"), "client-key-data": pki.packed("server.key")});
        assert!(matches!(nodes(ca("ca.pem"), mixed), Err(KubeError::Config(ConfigError::Unusable { .. }))));
    }
}
