//! Certificates by openssl.

use std::{fs, process::Command, sync::Arc};
use testkit::{http::ServerConfig, tls::server_config_of_files};

/// A CA, another one, and a server whose certificate is the first one's.
pub(crate) struct Certificates {
    pub ca_pem: String,
    pub other_ca_pem: String,
    pub server: Arc<ServerConfig>,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let openssl = |arguments: &str| {
            let output = Command::new("openssl").args(arguments.split(' ')).current_dir(&directory).output().unwrap();
            assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
        for name in ["ca", "other"] {
            openssl(&format!("req -x509 {key} -subj /CN={name} -keyout {name}.key -out {name}.crt"));
        }
        openssl(&format!(
            "req -x509 {key} -subj /CN=server -addext subjectAltName=IP:127.0.0.1 \
             -addext basicConstraints=critical,CA:FALSE -CA ca.crt -CAkey ca.key -keyout server.key -out server.crt"
        ));
        let path = |name: &str| directory.path().join(name);
        let read = |name: &str| fs::read_to_string(path(name)).unwrap();
        let server = server_config_of_files(&path("server.crt"), &path("server.key"));
        Self { ca_pem: read("ca.crt"), other_ca_pem: read("other.crt"), server }
    }
}
