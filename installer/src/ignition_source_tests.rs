use super::*;
use std::{
    io::Write,
    net::{SocketAddr, TcpListener},
    thread::{self, JoinHandle},
};

const CONFIG: &[u8] = b"{\"ignition\":{\"version\":\"3.4.0\"}}";
const HASH: &str = "sha256-3c1a0f3d2fc2b7f0bd5d4a0ba8c8c7b9d5bfe1a3f3ae0c5a2f9b6dfbd4fdfb51";

/// Answers one connection after another with these, and returns the requests.
fn serve(replies: Vec<Vec<u8>>) -> (SocketAddr, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        replies
            .into_iter()
            .map(|reply| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                let mut byte = [0];
                while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                    request.push(byte[0]);
                }
                stream.write_all(&reply).unwrap();
                String::from_utf8(request).unwrap()
            })
            .collect()
    });
    (address, thread)
}

fn reply(status: &str, announced: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {announced}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn good() -> Vec<u8> {
    reply("200 OK", CONFIG.len(), CONFIG)
}

fn get(address: SocketAddr, retries: Retries) -> Result<Vec<u8>, IgnitionSourceError> {
    let url = format!("http://u:secret@{address}/c.ign?token=secret");
    fetch(&url, None, true, &HttpConfig::default(), retries, &Cancel::default())
}

#[test]
fn plain_http_needs_a_hash_or_a_word() {
    let fetch = |url: &str, hash, insecure| {
        fetch(url, hash, insecure, &HttpConfig::default(), Retries::Count(0), &Cancel::default())
    };
    let refused = fetch("http://127.0.0.1:1/x", None, false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "refusing to fetch Ignition config over HTTP without --ignition-hash or --insecure-ignition"
    );
    assert!(matches!(fetch("HTTP://127.0.0.1:1/x", None, false), Err(IgnitionSourceError::Insecure)));
    for url in ["ftp://h/x", "file:///etc/x", "h/x", "data:,{}"] {
        let error = fetch(url, None, true).unwrap_err();
        assert!(error.to_string().starts_with(&format!("unknown protocol for URL '{url}'")), "{error}");
    }
    assert!(matches!(fetch("http://127.0.0.1:1/x", Some("sha256-00"), false), Err(IgnitionSourceError::Hash(_))));
    assert!(matches!(fetch("http://127.0.0.1:1/x", None, true), Err(IgnitionSourceError::Transport { .. })));
}

#[test]
fn hash_is_compared() {
    let (address, server) = serve(vec![good(), good()]);
    let url = format!("http://{address}/c.ign");
    let wrong = fetch(&url, Some(HASH), false, &HttpConfig::default(), Retries::Forever, &Cancel::default());
    // A wrong config is not asked for again.
    let Err(IgnitionSourceError::Hash(IgnitionHashError::Mismatch { found, .. })) = wrong else { panic!("{wrong:?}") };
    let right = format!("sha256-{found}");
    let config = fetch(&url, Some(&right), false, &HttpConfig::default(), Retries::Forever, &Cancel::default());
    assert_eq!(config.unwrap(), CONFIG);
    let request = server.join().unwrap().remove(0).to_ascii_lowercase();
    assert!(request.contains("accept-encoding: identity\r\n"), "{request}");
}

#[test]
fn passing_failures_are_retried_as_often_as_allowed() {
    let cut = || reply("200 OK", CONFIG.len(), &CONFIG[..9]);
    let busy = || reply("503 Busy", 0, b"");
    let (address, server) = serve(vec![busy(), cut(), good()]);
    assert_eq!(get(address, Retries::Count(2)).unwrap(), CONFIG);
    assert_eq!(server.join().unwrap().len(), 3);
    let (address, server) = serve(vec![busy(), busy()]);
    let error = get(address, Retries::Count(1)).unwrap_err();
    assert!(matches!(error, IgnitionSourceError::Status { status: 503, .. }));
    assert!(!error.to_string().contains("secret"), "{error}");
    server.join().unwrap();
    let (address, server) = serve(vec![busy(), good()]);
    assert_eq!(get(address, Retries::UntilStalled).unwrap(), CONFIG);
    server.join().unwrap();
    let (address, server) = serve(vec![reply("404 Not Found", 0, b"")]);
    assert!(matches!(get(address, Retries::Forever), Err(IgnitionSourceError::Status { status: 404, .. })));
    server.join().unwrap();
}

#[test]
fn size_is_bounded() {
    let large = vec![b' '; usize::try_from(MAX_BYTES).unwrap() + 1];
    let (address, server) = serve(vec![reply("200 OK", large.len(), &large)]);
    assert!(matches!(get(address, Retries::Forever), Err(IgnitionSourceError::Size { .. })));
    server.join().unwrap();
}

#[test]
fn cancelling_ends_the_wait() {
    let cancel = Cancel::default();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/x");
    let stop = cancel.clone();
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        stop.cancel();
    });
    let result = fetch(&url, None, true, &HttpConfig::default(), Retries::Forever, &cancel);
    assert!(matches!(result, Err(IgnitionSourceError::Cancelled { .. })));
    stopper.join().unwrap();
}

#[test]
fn reads_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.ign");
    std::fs::write(&path, CONFIG).unwrap();
    assert_eq!(read(&path).unwrap(), CONFIG);
    assert!(matches!(read(&dir.path().join("no")), Err(IgnitionSourceError::Read { .. })));
    File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
    assert!(matches!(read(&path), Err(IgnitionSourceError::Size { .. })));
}

/// Serves `answer` over https, once for each of `count` clients, with a certificate as openssl makes it; its URL and that
/// certificate's file.
fn serve_securely(answer: String, count: usize) -> (String, tempfile::TempDir) {
    use rustls::{
        ServerConfig, ServerConnection, StreamOwned,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    };
    let dir = tempfile::tempdir().unwrap();
    let args = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=s -addext \
                subjectAltName=IP:127.0.0.1 -keyout key.pem -out ca.pem";
    let output = std::process::Command::new("openssl").args(args.split(' ')).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let certificate = CertificateDer::from_pem_file(dir.path().join("ca.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(dir.path().join("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(std::sync::Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let (config, listener) = (std::sync::Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let url = format!("https://{}/c.ign", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok).take(count) {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
            if stream.read(&mut [0; 4096]).is_ok() {
                let _ = stream.write_all(answer.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    (url, dir)
}

#[test]
fn https_is_left_for_http_only_with_a_hash() {
    let (address, plain) = serve(vec![good()]);
    let redirect = format!("HTTP/1.1 302 Found\r\nLocation: http://{address}/c.ign\r\nContent-Length: 0\r\n\r\n");
    let (url, dir) = serve_securely(redirect, 3);
    let http = HttpConfig { ca_cert: Some(dir.path().join("ca.pem")), ..HttpConfig::default() };
    let get = |hash, insecure| fetch(&url, hash, insecure, &http, Retries::Count(0), &Cancel::default());
    for insecure in [false, true] {
        let error = format!("{:?}", get(None, insecure).unwrap_err());
        assert!(error.contains("RequireHttpsOnly"), "{insecure}: {error}");
    }
    // It comes, and is not what the hash says.
    assert!(matches!(get(Some(HASH), true), Err(IgnitionSourceError::Hash(_))));
    assert_eq!(plain.join().unwrap().len(), 1);
}
