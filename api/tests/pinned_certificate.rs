//! A server whose own certificate is listed as trusted, as `openssl req -x509` makes them: it may sign others.
#![allow(clippy::unwrap_used)]

use api::http::{HttpConfig, agent, agent_trusting_only, build, configuration_trusting};
use api::proxy::ProxyVariables;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::Arc,
    thread,
};

/// What `openssl req -x509` makes: signed by itself, may sign others, and says nothing of what it is for.
fn params() -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn made(params: &CertificateParams) -> (Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap(), key)
}

fn pem(certificate: &Certificate) -> String {
    let encoded: String = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, certificate.der());
    format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n")
}

/// Serves one answer to each that comes; the URL.
fn serve(certificate: &Certificate, key: &KeyPair) -> String {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialized_der().to_vec()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
            let mut head = [0; 4096];
            if stream.read(&mut head).is_ok_and(|length| length > 0) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    format!("https://localhost:{port}/")
}

/// What an agent that trusts this PEM text gets.
fn fetched(trusted: &str, url: &str) -> Result<String, String> {
    let agent = build(configuration_trusting([trusted.as_bytes()]), ProxyVariables::default());
    let mut response = agent.get(url).call().map_err(|error| error.to_string())?;
    response.body_mut().read_to_string().map_err(|error| error.to_string())
}

#[test]
fn the_very_certificate_that_is_listed_is_taken() {
    let (certificate, key) = made(&params());
    let (url, trusted) = (serve(&certificate, &key), pem(&certificate));
    assert_eq!(fetched(&trusted, &url).as_deref(), Ok("hi"));
    let by_address = url.replace("localhost", "127.0.0.1");
    assert_eq!(fetched(&trusted, &by_address).as_deref(), Ok("hi"));
    // Among others, and by all the ways there are to name it.
    let (other, _) = made(&params());
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
    let (certificate, key) = made(&params());
    let url = serve(&certificate, &key);
    // The same names, another key.
    let (other, _) = made(&params());
    assert!(fetched(&pem(&other), &url).unwrap_err().contains("certificate"));
    // The same name as the trusted one has for an issuer, but that is not who signed it.
    let (impostor, impostors_key) = made(&params());
    let impostors_url = serve(&impostor, &impostors_key);
    assert!(fetched(&pem(&certificate), &impostors_url).is_err());
    // One that a listed certificate signed, and that may sign others itself: only what is listed itself is taken.
    let mut child = params();
    child.distinguished_name.push(rcgen::DnType::CommonName, "child");
    let child_key = KeyPair::generate().unwrap();
    let parent = params();
    let issuer = Issuer::from_params(&parent, &key);
    let signed = child.signed_by(&child_key, &issuer).unwrap();
    assert!(fetched(&pem(&certificate), &serve(&signed, &child_key)).is_err());
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
        let mut changed = params();
        change(&mut changed);
        let (certificate, key) = made(&changed);
        let result = fetched(&pem(&certificate), &serve(&certificate, &key));
        assert!(result.is_err(), "{case}: {result:?}");
    }
    let mut changed = params();
    changed.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    let (certificate, key) = made(&changed);
    assert_eq!(fetched(&pem(&certificate), &serve(&certificate, &key)).as_deref(), Ok("hi"));
}
