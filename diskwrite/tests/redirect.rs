//! A server that sends a client from https to http: followed only where something else than the server vouches for the image.
#![allow(clippy::unwrap_used)]

#[path = "../../api/tests/common/tls.rs"]
mod tls;

use api::{http::HttpConfig, proxy::ProxyVariables};
use diskwrite::{Copy, InstallOptions, Packing, Retries, Source, Trust};
use rcgen::{CertificateParams, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sha2::{Digest, Sha256};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Serves `image` over http; the URL, and how often it was asked for.
fn plain(image: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/image", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", image.len());
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&image));
        }
    });
    (url, count)
}

fn redirect(config: Arc<ServerConfig>, stream: TcpStream, to: &str) -> Option<()> {
    let mut stream = StreamOwned::new(ServerConnection::new(config).ok()?, stream);
    let _ = stream.read(&mut [0; 4096]).ok()?;
    let answer = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()
}

/// Answers each request over https with a redirect to `to`; the URL. Its certificate is put into `pem`.
fn secure(pem: &Path, to: String) -> String {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    fs::write(pem, tls::pem(&certificate)).unwrap();
    let (config, listener) = (tls::server_config(&certificate, &key), TcpListener::bind("127.0.0.1:0").unwrap());
    let url = format!("https://{}/image", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            redirect(config.clone(), stream, &to);
        }
    });
    url
}

#[test]
fn without_a_signature_https_is_not_left() {
    let image = vec![7; 2 << 20];
    let sum = Sha256::digest(&image).into();
    let (there, asked) = plain(image);
    let dir = tempfile::tempdir().unwrap();
    let pem = dir.path().join("ca.pem");
    let options = |trust| InstallOptions {
        source: Source::Url(secure(&pem, there.clone())),
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
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    // Whatever comes, it has this sum.
    let summed = Trust { sha256: Some(sum), ..Trust::default() };
    let copy = Copy::open(&options(summed), None, Packing::AsItComes).unwrap();
    assert_eq!(copy.write(None, &mut |_| ()).unwrap(), 2 << 20);
}
