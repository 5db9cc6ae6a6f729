//! `landfall netcheck tang`.

use super::{print, read_request};
use crate::tang::{TangOptions, check, from_json, list, report, response, table};
use api::{TangConnectivityResponse, TangServer};
use std::{
    io::{Write, stderr},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

/// Ask Tang servers for the keys that disks will be bound to.
///
/// Each server is asked for the advertisement of the key with the given thumbprint, as Clevis does when it binds a disk. The
/// check succeeds only if all of them answer; otherwise stderr has the errors, in the form that the service shows to its
/// users, and the exit status is 1.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"The request is what the service sends with a tang-connectivity-check step, for example:
  {"tang_servers":
    "[{\"url\":\"http://tang:7500\",\"thumbprint\":\"PLjNyRdGw03zlRoG...\"}]"}

Examples:
  landfall netcheck tang http://tang.example.com:7500 \
    PLjNyRdGw03zlRoGjQYMahSZGu9
  landfall netcheck tang --request servers.json"#)]
pub(super) struct Tang {
    /// The server
    #[arg(
        value_name = "URL",
        required_unless_present = "request",
        requires = "thumbprint",
        conflicts_with = "request"
    )]
    url: Option<String>,
    /// Thumbprint of its signing key, as `tang-show-keys` prints it
    #[arg(value_name = "THUMBPRINT")]
    thumbprint: Option<String>,
    /// File with the servers, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Give up on servers that have not answered after this time, seconds
    #[arg(long, value_name = "N", default_value_t = TangOptions::default().timeout.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout_s: u64,
    /// Print the reply as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Tang {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let servers = match self.servers() {
            Ok(servers) => servers,
            Err(error) => {
                print(self.json, &TangConnectivityResponse::default(), String::new)?;
                return Ok(fail(&list(&[format!("{error:#}")])));
            }
        };
        let options = TangOptions { timeout: Duration::from_secs(self.timeout_s), ..TangOptions::default() };
        let findings = check(&servers, &options)?;
        print(self.json, &response(&findings), || table(&findings))?;
        Ok(report(&findings).map_or(ExitCode::SUCCESS, |report| fail(&report)))
    }

    fn servers(&self) -> anyhow::Result<Vec<TangServer>> {
        let Some(path) = &self.request else {
            let [url, thumbprint] = [&self.url, &self.thumbprint].map(|text| text.clone().unwrap_or_default());
            return Ok(vec![TangServer { url, thumbprint }]);
        };
        Ok(from_json(&read_request(path)?)?)
    }
}

/// The service stores stderr as its report: nothing else may be in it.
fn fail(report: &str) -> ExitCode {
    let _ = stderr().write_all(report.as_bytes());
    ExitCode::FAILURE
}
