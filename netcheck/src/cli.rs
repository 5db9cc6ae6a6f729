//! `landfall netcheck`: the probes by hand, and as the child process of an agent's step.

use crate::{Options, Selection, measure, request, table};
use anyhow::{Context, bail};
use std::{
    fs::File,
    io::{IsTerminal, Read, Write, stdin, stdout},
    path::{Path, PathBuf},
    time::Duration,
};

/// A request for a thousand hosts is a few hundred KiB.
const MAX_REQUEST_BYTES: u64 = 16 << 20;

/// Look at the network from this host.
///
/// Results go to stdout, everything else to stderr. Probes need root or the capability CAP_NET_RAW.
#[derive(clap::Args, Clone, Debug)]
pub struct Netcheck {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Command {
    Mesh(Mesh),
}

/// Probe other hosts: who answers on the segment, how many echoes come back, which packet sizes pass.
///
/// Every address is probed through every physical, bond and VLAN interface that owns an address: IPv4 neighbours by ARP
/// (only on their own network), IPv6 neighbours by neighbour solicitation, all addresses by echo, and paths from interfaces
/// whose MTU is not 1500 by packets that may not be fragmented. When all answer this takes about a second.
///
/// A host that does not answer is a result, not an error: the exit status is 0 whenever the check took place.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"The request is what the service sends with a connectivity-check step, for example:
  [{"host_id":"856f4f9c-3c08-4d97-8ec7-ea0ad7d4cadf",
    "nics":[{"name":"ens3","mac":"52:54:00:aa:bb:02","ip_addresses":["192.168.126.12","fd00::12"]}]}]

Examples:
  landfall netcheck mesh --request hosts.json
  landfall netcheck mesh --interface bond0.100 --count 100 --interval-ms 20 < hosts.json"#)]
pub struct Mesh {
    /// File with the hosts to probe, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    request: PathBuf,
    /// Probes for each address
    #[arg(long, value_name = "N", default_value_t = Options::default().count)]
    count: u16,
    /// Pause between two probes of one address, milliseconds
    #[arg(long, value_name = "N", default_value = "100")]
    interval_ms: u64,
    /// How long to wait for the answer to an echo, milliseconds
    #[arg(long, value_name = "N", default_value = "3000")]
    timeout_ms: u64,
    /// Packets sent a second at most, to all hosts together
    #[arg(long, value_name = "N", default_value_t = Options::default().packets_per_second)]
    packets_per_second: u32,
    /// End the check after this time and report what was seen until then, seconds
    #[arg(long, value_name = "N", default_value = "30")]
    deadline_s: u64,
    /// Probe from this interface, whatever its kind, instead of all that qualify (may be given several times)
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// Print the report as one line of JSON, as when stdout is no terminal
    #[arg(long)]
    json: bool,
}

impl Netcheck {
    /// Runs the subcommand. An error means that no probe was sent or no result could be printed.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Mesh(mesh) => mesh.run(),
        }
    }
}

impl Mesh {
    fn run(self) -> anyhow::Result<()> {
        let hosts = request::from_json(&read_request(&self.request)?)?;
        let findings = measure(&hosts, &self.options())?;
        let text = if self.json || !stdout().is_terminal() {
            let mut line = serde_json::to_string(&findings.report()).context("cannot print the report")?;
            line.push('\n');
            line
        } else {
            table::render(&findings)
        };
        stdout().write_all(text.as_bytes()).context("cannot print the report")
    }

    fn options(&self) -> Options {
        let interfaces =
            if self.interfaces.is_empty() { Selection::Contract } else { Selection::Named(self.interfaces.clone()) };
        Options {
            count: self.count,
            interval: Duration::from_millis(self.interval_ms),
            timeout: Duration::from_millis(self.timeout_ms),
            packets_per_second: self.packets_per_second,
            deadline: Duration::from_secs(self.deadline_s),
            interfaces,
            ..Options::default()
        }
    }
}

fn read_request(path: &Path) -> anyhow::Result<Vec<u8>> {
    let (reader, name): (Box<dyn Read>, _) = if path == Path::new("-") {
        (Box::new(stdin()), "standard input".to_owned())
    } else {
        let name = path.display().to_string();
        (Box::new(File::open(path).with_context(|| format!("cannot open the request {name}"))?), name)
    };
    let mut bytes = Vec::new();
    reader
        .take(MAX_REQUEST_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read the request from {name}"))?;
    if u64::try_from(bytes.len())? > MAX_REQUEST_BYTES {
        bail!("the request from {name} is longer than {} MiB", MAX_REQUEST_BYTES >> 20);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        netcheck: Netcheck,
    }

    fn mesh(arguments: &[&str]) -> Mesh {
        let program = Program::parse_from(["netcheck", "mesh"].iter().chain(arguments));
        let Command::Mesh(mesh) = program.netcheck.command;
        mesh
    }

    #[test]
    fn without_flags_the_options_are_the_librarys() {
        let mesh = mesh(&[]);
        assert_eq!(mesh.options(), Options::default());
        assert_eq!(mesh.request, Path::new("-"));
    }

    #[test]
    fn flags_reach_the_options() {
        let mesh =
            mesh(&["--count", "3", "--interval-ms", "20", "--interface", "a", "--interface", "b", "--request", "x"]);
        let expected = Options {
            count: 3,
            interval: Duration::from_millis(20),
            interfaces: Selection::Named(vec!["a".into(), "b".into()]),
            ..Options::default()
        };
        assert_eq!(mesh.options(), expected);
    }

    #[test]
    fn bad_requests_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("request.json");
        std::fs::write(&path, "[{\"host_id\": 7}]").unwrap();
        let run = |path: &Path| mesh(&["--request", path.to_str().unwrap()]).run().unwrap_err();
        let text = format!("{:#}", run(&path));
        assert!(text.starts_with("element 0 of the connectivity request is not a host (host_id and nics): "), "{text}");
        let text = format!("{:#}", run(Path::new("/nonexistent/request")));
        assert!(text.starts_with("cannot open the request /nonexistent/request: "), "{text}");
    }
}
