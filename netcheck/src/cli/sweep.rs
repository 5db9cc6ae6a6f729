//! `landfall netcheck sweep`.

use super::{print, read_request};
use crate::{
    Selection,
    sweep::{Findings, Network, Progress, SweepOptions, own_networks, request, sweep, table},
};
use std::{
    io::{IsTerminal, Write, stderr},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

/// Shorter sweeps need no progress line.
const QUIET: Duration = Duration::from_secs(1);

/// Find the free addresses of a network, and who holds the others.
///
/// Every address is probed by ARP: first without a sender address, then, if there was no answer, from this host's own
/// address. Hosts answer these even behind a firewall. A /24 takes less than a second, a /16 half a minute. Addresses held by
/// several stations are flagged.
///
/// A network that can't be probed (no interface on it, no link) is left out with a warning; it is an error if none is left.
///
/// Without arguments the networks of all physical, bond and VLAN interfaces are swept.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = r#"The request is what the service sends with a free-network-addresses step; its reply lists the free addresses, network
and broadcast address included:
  ["192.168.126.0/24"]

Examples:
  landfall netcheck sweep
  landfall netcheck sweep 10.20.0.0/16 --packets-per-second 1000
  landfall netcheck sweep --interface ens4 --json
  landfall netcheck sweep --request networks.json"#
)]
pub(super) struct Sweep {
    /// Networks to sweep, in canonical form and no larger than a /16
    #[arg(value_name = "NETWORK")]
    networks: Vec<Network>,
    /// File with the networks as the service sends them, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "networks")]
    request: Option<PathBuf>,
    /// Maximum ARP requests per second; every station of the network receives each
    #[arg(long, value_name = "N", default_value_t = SweepOptions::default().packets_per_second,
          value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    packets_per_second: u32,
    /// Fail if the sweep is not done after this time, seconds
    #[arg(long, value_name = "N", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600))]
    deadline_s: u64,
    /// Probe from this interface, whatever its kind, instead of those that qualify (may be given several times)
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// Print the free addresses as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Sweep {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let options = self.options();
        let networks = match &self.request {
            Some(path) => request::from_json(&read_request(path)?)?,
            None if self.networks.is_empty() => own_networks(&options)?,
            None => self.networks,
        };
        let mut line = ProgressLine::new();
        let findings = sweep(&networks, &options, &mut |progress| line.show(progress))?;
        drop(line);
        let reply: Vec<_> = findings.iter().map(Findings::reply).collect();
        print(self.json, &reply, || table::render(&findings))?;
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self) -> SweepOptions {
        let interfaces =
            if self.interfaces.is_empty() { Selection::Automatic } else { Selection::Named(self.interfaces.clone()) };
        SweepOptions {
            packets_per_second: self.packets_per_second,
            deadline: Duration::from_secs(self.deadline_s),
            interfaces,
            ..SweepOptions::default()
        }
    }
}

/// A line that is written over, for people only; gone when dropped.
struct ProgressLine {
    start: Instant,
    is_terminal: bool,
    is_drawn: bool,
}

impl ProgressLine {
    fn new() -> Self {
        Self { start: Instant::now(), is_terminal: stderr().is_terminal(), is_drawn: false }
    }

    fn show(&mut self, Progress { round, done, total }: Progress) {
        if self.is_terminal && self.start.elapsed() >= QUIET {
            // A closed terminal must not stop the check.
            let _ = write!(stderr(), "\rround {round} of 2: {done} of {total} addresses\x1b[K");
            self.is_drawn = true;
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_drawn {
            let _ = write!(stderr(), "\r\x1b[K");
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
        sweep: Sweep,
    }

    #[test]
    fn without_flags_the_options_are_the_librarys() {
        let sweep = Program::parse_from(["sweep"]).sweep;
        assert_eq!(sweep.options(), SweepOptions::default());
    }

    #[test]
    fn bad_networks_are_wrong_usage_with_the_reason() {
        let error = Program::try_parse_from(["sweep", "10.0.0.1/24"]).map(drop).unwrap_err().to_string();
        assert!(error.contains("Requested CIDR 10.0.0.0/24 is not equal to provided network 10.0.0.1/24"), "{error}");
    }
}
