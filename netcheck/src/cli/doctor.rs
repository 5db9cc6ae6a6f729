//! `landfall netcheck doctor`.

use super::print;
use crate::doctor::{DoctorOptions, ProxyVariables, diagnose};
use api::http::HttpConfig;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Find out why this host cannot reach the service, and what to do about it.
///
/// Checks the way to the service step by step: link, address, gateway, duplicate address, DNS, time, proxy, TLS, service.
/// Each is OK, WARN (wrong, but not blocking), BROKEN, or - (not checked, because of an earlier one). Repair the first that
/// is BROKEN; the line below it says how.
///
/// Takes about two seconds if all is well, and at most nine times --timeout-s. Nothing is changed and no credentials are
/// sent, so it can be interrupted and repeated at will. Without root (or CAP_NET_RAW) neighbours are not probed; the rest is
/// checked.
///
/// Exit status: 0 when the service can be reached, 1 when it cannot (or the check did not take place), 2 for wrong usage.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Proxies come from the environment, as for the agent: HTTPS_PROXY for https://, HTTP_PROXY for http://, unless NO_PROXY \
names the host.

The time comes from --ntp, else from chronyd's servers, else from the date of the service's answer.

Examples:
  landfall netcheck doctor --url https://api.example.com
  landfall netcheck doctor --url https://api.example.com --ca-cert ca.pem \\
    --ntp 192.0.2.1
  landfall netcheck doctor --url http://192.0.2.7:8090 --json | jq .cause")]
pub(super) struct Doctor {
    /// URL of the service, as given to agents
    #[arg(long, value_name = "URL")]
    url: String,
    /// PEM bundle of CA certificates to trust in addition to the system's
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// Accept an untrusted certificate, as an agent with --insecure does
    #[arg(long)]
    insecure: bool,
    /// Ask this server for the time instead of chronyd's (may be given several times)
    #[arg(long = "ntp", value_name = "SERVER")]
    ntp_servers: Vec<String>,
    /// chronyd's configuration
    #[arg(long, value_name = "FILE", default_value = "/etc/chrony.conf")]
    chrony_conf: PathBuf,
    /// Name servers and search list
    #[arg(long, value_name = "FILE", default_value = "/etc/resolv.conf")]
    resolv_conf: PathBuf,
    /// How long to wait for each connection and answer, seconds; 1 to 60
    #[arg(long, value_name = "N", default_value_t = 5)]
    timeout_s: u64,
    /// Print the findings as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let report = diagnose(&self.options())?;
        print(self.json, &report, || report.to_text(kernel::terminal::line_columns()))?;
        Ok(if report.reachable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn options(&self) -> DoctorOptions {
        DoctorOptions {
            http: HttpConfig { ca_cert: self.ca_cert.clone(), insecure: self.insecure, proxies: None },
            proxy: ProxyVariables::from_env(),
            ntp_servers: self.ntp_servers.clone(),
            chrony_conf: self.chrony_conf.clone(),
            resolv_conf: self.resolv_conf.clone(),
            timeout: Duration::from_secs(self.timeout_s),
            ..DoctorOptions::new(&self.url)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        doctor: Doctor,
    }

    fn options(arguments: &[&str]) -> DoctorOptions {
        Program::parse_from(["doctor", "--url", "http://host"].iter().chain(arguments)).doctor.options()
    }

    #[test]
    fn without_flags_the_options_are_the_librarys() {
        assert_eq!(format!("{:?}", options(&[])), format!("{:?}", DoctorOptions::new("http://host")));
    }

    #[test]
    fn flags_reach_the_options() {
        let flags = ["--ca-cert", "ca", "--insecure", "--ntp", "a", "--ntp", "b", "--chrony-conf", "c"];
        let given = options(&[&flags[..], &["--resolv-conf", "r", "--timeout-s", "9"]].concat());
        let expected = DoctorOptions {
            http: HttpConfig { ca_cert: Some("ca".into()), insecure: true, proxies: None },
            ntp_servers: vec!["a".into(), "b".into()],
            chrony_conf: "c".into(),
            resolv_conf: "r".into(),
            timeout: Duration::from_secs(9),
            ..DoctorOptions::new("http://host")
        };
        assert_eq!(format!("{given:?}"), format!("{expected:?}"));
    }
}
