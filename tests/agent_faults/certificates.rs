//! Certificates of a service, good and otherwise.

use crate::agent_faults::service::Identity;
use std::{path::PathBuf, process::Command};
use tempfile::TempDir;

/// Start and end of those that are only good for a time, as openssl has them.
const TIMES: [(&str, &str, &str); 3] = [
    ("good", "20200101000000Z", "20990101000000Z"),
    ("expired", "20200101000000Z", "20210101000000Z"),
    // What a host sees whose clock was set two years back, or never.
    ("future", "20980101000000Z", "20990101000000Z"),
];

pub(crate) struct Certificates(TempDir);

impl Certificates {
    pub(crate) fn new() -> Self {
        let ours = Self(tempfile::tempdir().unwrap());
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        for ca in ["ca", "other"] {
            ours.openssl(&format!("req -x509 {key} -subj /CN={ca} -keyout {ca}.key -out {ca}.pem -days 3650"));
        }
        let conf = "[ca]\ndefault_ca=x\n[x]\nnew_certs_dir=.\ndatabase=index\nrand_serial=yes\ndefault_md=sha256\npolicy=any\n\
                    unique_subject=no\nx509_extensions=names\n[any]\ncommonName=supplied\n[names]\n\
                    subjectAltName=IP:127.0.0.1\n";
        std::fs::write(ours.path("ca.conf"), conf).unwrap();
        std::fs::write(ours.path("index"), "").unwrap();
        let sign = |name: &str, ca: &str, from: &str, until: &str| {
            ours.openssl(&format!("req -new {key} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
            let sign =
                format!("ca -batch -config ca.conf -cert {ca}.pem -keyfile {ca}.key -in {name}.csr -out {name}.pem");
            ours.openssl(&format!("{sign} -notext -startdate {from} -enddate {until}"));
        };
        for (name, from, until) in TIMES {
            sign(name, "ca", from, until);
        }
        sign("stranger", "other", TIMES[0].1, TIMES[0].2);
        ours
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    pub(crate) fn identity(&self, name: &str) -> Identity {
        testkit::tls::server_config_of_files(&self.path(&format!("{name}.pem")), &self.path(&format!("{name}.key")))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let output = Command::new("openssl").current_dir(self.0.path()).args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
