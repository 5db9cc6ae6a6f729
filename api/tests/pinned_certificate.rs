//! A server whose own certificate is listed as trusted, as `openssl req -x509` makes them: it may sign others.
#![allow(clippy::unwrap_used)]

use api::http::{HttpConfig, agent, agent_trusting_only, build, configuration_trusting};
use api::proxy::ProxyVariables;
use rcgen::{Certificate, CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, date_time_ymd};
use testkit::{
    http::Server,
    tls::{pem, self_signed, self_signing, server_config},
};

/// Answers each that comes.
fn serve(certificate: &Certificate, key: &KeyPair) -> Server {
    Server::with_tls(server_config(certificate, key), |_| testkit::http::ok("hi"))
}

fn url(server: &Server) -> String {
    format!("https://localhost:{}/", server.address.port())
}

/// What an agent that trusts this PEM text gets.
fn fetched(trusted: &str, url: &str) -> Result<String, String> {
    let agent = build(configuration_trusting([trusted.as_bytes()]), ProxyVariables::default());
    let mut response = agent.get(url).call().map_err(|error| error.to_string())?;
    response.body_mut().read_to_string().map_err(|error| error.to_string())
}

#[test]
fn the_very_certificate_that_is_listed_is_taken() {
    let (certificate, key) = self_signed(&self_signing());
    let (server, trusted) = (serve(&certificate, &key), pem(&certificate));
    let url = url(&server);
    assert_eq!(fetched(&trusted, &url).as_deref(), Ok("hi"));
    let by_address = url.replace("localhost", "127.0.0.1");
    assert_eq!(fetched(&trusted, &by_address).as_deref(), Ok("hi"));
    // Among others, and by all the ways there are to name it.
    let (other, _) = self_signed(&self_signing());
    assert_eq!(fetched(&(pem(&other) + &trusted), &url).as_deref(), Ok("hi"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &trusted).unwrap();
    let named = HttpConfig {
        ca_cert: Some(file.path().to_owned()),
        proxies: Some(ProxyVariables::default()),
        ..HttpConfig::default()
    };
    for agent in [agent(&named).unwrap(), agent_trusting_only(trusted.as_bytes()).unwrap()] {
        assert_eq!(agent.get(&url).call().unwrap().status(), 200);
    }
}

#[test]
fn nothing_else_is_taken_for_it() {
    let (certificate, key) = self_signed(&self_signing());
    let server = serve(&certificate, &key);
    // The same names, another key.
    let (other, _) = self_signed(&self_signing());
    assert!(fetched(&pem(&other), &url(&server)).unwrap_err().contains("certificate"));
    // The same name as the trusted one has for an issuer, but that is not who signed it.
    let (impostor, impostors_key) = self_signed(&self_signing());
    let impostors = serve(&impostor, &impostors_key);
    assert!(fetched(&pem(&certificate), &url(&impostors)).is_err());
    // One that a listed certificate signed, and that may sign others itself: only what is listed itself is taken.
    let mut child = self_signing();
    child.distinguished_name.push(rcgen::DnType::CommonName, "child");
    let child_key = KeyPair::generate().unwrap();
    let parent = self_signing();
    let issuer = Issuer::from_params(&parent, &key);
    let signed = child.signed_by(&child_key, &issuer).unwrap();
    assert!(fetched(&pem(&certificate), &url(&serve(&signed, &child_key))).is_err());
}

type Change = fn(&mut CertificateParams);

#[test]
fn name_time_and_purpose_are_checked() {
    let cases: [(&str, Change); 4] = [
        ("name", |params| params.subject_alt_names.clear()),
        ("old", |params| params.not_after = date_time_ymd(2020, 1, 1)),
        ("young", |params| params.not_before = date_time_ymd(2200, 1, 1)),
        ("purpose", |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]),
    ];
    for (case, change) in cases {
        let mut changed = self_signing();
        change(&mut changed);
        let (certificate, key) = self_signed(&changed);
        let result = fetched(&pem(&certificate), &url(&serve(&certificate, &key)));
        assert!(result.is_err(), "{case}: {result:?}");
    }
    let mut changed = self_signing();
    changed.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    let (certificate, key) = self_signed(&changed);
    assert_eq!(fetched(&pem(&certificate), &url(&serve(&certificate, &key))).as_deref(), Ok("hi"));
}
