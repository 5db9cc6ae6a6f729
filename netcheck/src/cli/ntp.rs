//! `landfall netcheck ntp`.

use super::{print, read_request};
use crate::ntp::{NtpOptions, from_json, measure, synchronize, table};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// List the time sources of this host's chronyd, after ADDING the named servers that it lacks.
///
/// Also shows whether the host's clock follows one of them. A named server is added as by `chronyc add server NAME iburst`,
/// and chronyd uses it until it restarts: to only look, name none or use --direct. A new source is unreachable for some
/// seconds: look again. If chronyd does not run, the named servers are asked directly, which sets no clock.
///
/// The exit status is 0 whenever the check took place, even if a server does not answer. Adding servers needs root; other
/// users see what chronyd reports to any client.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"The request is what the service sends with a ntp-synchronizer step, for example:
  {"ntp_source":"ntp1.example.com,192.168.126.1"}

Examples:
  landfall netcheck ntp                                      # its sources
  landfall netcheck ntp ntp1.example.com                     # after adding it
  landfall netcheck ntp --direct ntp1.example.com 10.0.0.1   # how far off"#)]
pub(super) struct Ntp {
    /// Names or addresses of servers. Without --direct each one that chronyd lacks is ADDED to it; with --direct each is only
    /// asked, and may be NAME:PORT
    #[arg(value_name = "SERVER", conflicts_with = "request")]
    servers: Vec<String>,
    /// File with the servers, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Ask the servers for the time directly, and leave chronyd alone
    #[arg(long, requires = "servers")]
    direct: bool,
    /// chronyd's command socket
    #[arg(long, value_name = "PATH", default_value_os_t = NtpOptions::default().chrony_socket)]
    chrony_socket: PathBuf,
    /// End the check after this time, seconds
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=600))]
    deadline_s: u64,
    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Ntp {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let options = self.options();
        let servers = match &self.request {
            Some(path) => from_json(&read_request(path)?)?,
            None => self.servers,
        };
        let findings = if self.direct { measure(&servers, &options)? } else { synchronize(&servers, &options)? };
        print(self.json, &findings.response(), || table::render(&findings))?;
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self) -> NtpOptions {
        NtpOptions {
            chrony_socket: self.chrony_socket.clone(),
            deadline: Duration::from_secs(self.deadline_s),
            ..NtpOptions::default()
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
        ntp: Ntp,
    }

    #[test]
    fn flags_reach_the_options() {
        let ntp =
            |arguments: &[&str]| Program::try_parse_from(["ntp"].iter().chain(arguments)).map(|program| program.ntp);
        assert_eq!(ntp(&[]).unwrap().options(), NtpOptions::default());
        let expected =
            NtpOptions { chrony_socket: "/s".into(), deadline: Duration::from_secs(5), ..NtpOptions::default() };
        assert_eq!(ntp(&["--chrony-socket", "/s", "--deadline-s", "5", "a"]).unwrap().options(), expected);
        for bad in [&["--direct"][..], &["--request", "x", "a"], &["--deadline-s", "0"]] {
            assert!(ntp(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_short_help_says_what_naming_a_server_changes() {
        let help = <Program as clap::CommandFactory>::command().render_help().to_string();
        assert_eq!(help.matches("ADD").count(), 2, "{help}");
    }

    #[test]
    fn bad_sources_are_named() {
        let run = |server: &str| Program::parse_from(["ntp", server]).ntp.run().unwrap_err().to_string();
        assert_eq!(run("Bad"), "Invalid NTP source: Bad");
    }
}
