//! A server that sends a client from https to http: followed only where something else than the server vouches for the image.
#![allow(clippy::unwrap_used)]

use api::{http::HttpConfig, proxy::ProxyVariables};
use diskwrite::{Copy, InstallOptions, Packing, Retries, Source, Trust};
use rcgen::{CertificateParams, KeyPair};
use sha2::{Digest, Sha256};
use std::{fs, path::Path};
use testkit::{
    http::{Request, Server},
    tls,
};

/// Answers each request over https with a redirect to `to`. Its certificate is put into `pem`.
fn secure(pem: &Path, to: String) -> Server {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    fs::write(pem, tls::pem(&certificate)).unwrap();
    let found = move |_: &Request| testkit::http::reply("302 Found", &format!("Location: {to}\r\n"), "");
    Server::with_tls(tls::server_config(&certificate, &key), found)
}

#[test]
fn without_a_signature_https_is_not_left() {
    let image = vec![7; 2 << 20];
    let sum = Sha256::digest(&image).into();
    let plain = Server::start(move |_| testkit::http::ok(&image));
    let dir = tempfile::tempdir().unwrap();
    let pem = dir.path().join("ca.pem");
    let server = secure(&pem, plain.url("/image"));
    let options = |trust| InstallOptions {
        source: Source::Url(server.url("/image")),
        http: HttpConfig {
            ca_cert: Some(pem.clone()),
            proxies: Some(ProxyVariables::default()),
            ..HttpConfig::default()
        },
        retries: Retries::Count(0),
        trust,
        ..InstallOptions::default()
    };
    // As `--insecure` and a service's installation have it.
    let Err(error) = Copy::open(&options(Trust::default()), None, Packing::AsItComes) else {
        panic!("it was followed")
    };
    let error = format!("{error:?}");
    assert!(error.contains("RequireHttpsOnly"), "{error}");
    assert_eq!(plain.requests(), []);
    // Whatever comes, it has this sum.
    let summed = Trust { sha256: Some(sum), ..Trust::default() };
    let copy = Copy::open(&options(summed), None, Packing::AsItComes).unwrap();
    assert_eq!(copy.write(None, &mut |_| ()).unwrap(), 2 << 20);
}
