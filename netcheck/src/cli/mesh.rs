//! `landfall netcheck mesh`.

use super::{print, read_request};
use crate::{
    Selection,
    mesh::{MeshOptions, measure, request, table},
};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Probe other hosts: who answers on the segment, how many echoes come back, which packet sizes pass.
///
/// Every address is probed through every physical, bond and VLAN interface that has an address: IPv4 neighbours by ARP
/// (only on their own network), IPv6 neighbours by neighbour solicitation, all addresses by echo, and paths from interfaces
/// whose MTU is not 1500 by packets that may not be fragmented (if those are lost, the largest size that passes is searched
/// for). If all hosts answer, this takes about a second.
///
/// The exit status is 0 whenever the check took place, even if a host does not answer.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"The request is what the service sends with a connectivity-check step, for example:
  [{"host_id":"856f4f9c-3c08-4d97-8ec7-ea0ad7d4cadf",
    "nics":[{"name":"ens3","mac":"52:54:00:aa:bb:02",
      "ip_addresses":["192.168.126.12","fd00::12"]}]}]

Examples:
  landfall netcheck mesh --request hosts.json
  landfall netcheck mesh --interface bond0.100 --count 100 --interval-ms 20 \
    < hosts.json"#)]
pub(super) struct Mesh {
    /// File with the hosts to probe, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    request: PathBuf,
    /// Probes for each address
    #[arg(long, value_name = "N", default_value_t = MeshOptions::default().count)]
    count: u16,
    /// Pause between two probes of one address, milliseconds
    #[arg(long, value_name = "N", default_value = "100")]
    interval_ms: u64,
    /// How long to wait for the answer to an echo, milliseconds
    #[arg(long, value_name = "N", default_value = "3000")]
    timeout_ms: u64,
    /// Maximum packets per second, to all hosts together
    #[arg(long, value_name = "N", default_value_t = MeshOptions::default().packets_per_second)]
    packets_per_second: u32,
    /// End the check after this time and report what was seen by then, seconds
    #[arg(long, value_name = "N", default_value = "30")]
    deadline_s: u64,
    /// Probe from this interface, whatever its kind, instead of all that qualify (may be given several times)
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Mesh {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let hosts = request::from_json(&read_request(&self.request)?)?;
        let findings = measure(&hosts, &self.options())?;
        print(self.json, &findings.report(), || table::render(&findings))?;
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self) -> MeshOptions {
        let interfaces =
            if self.interfaces.is_empty() { Selection::Automatic } else { Selection::Named(self.interfaces.clone()) };
        MeshOptions {
            count: self.count,
            interval: Duration::from_millis(self.interval_ms),
            timeout: Duration::from_millis(self.timeout_ms),
            packets_per_second: self.packets_per_second,
            deadline: Duration::from_secs(self.deadline_s),
            interfaces,
            ..MeshOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        mesh: Mesh,
    }

    fn mesh(arguments: &[&str]) -> Mesh {
        Program::parse_from(["mesh"].iter().chain(arguments)).mesh
    }

    #[test]
    fn without_flags_the_options_are_the_librarys() {
        let mesh = mesh(&[]);
        assert_eq!(mesh.options(), MeshOptions::default());
        assert_eq!(mesh.request, Path::new("-"));
    }

    #[test]
    fn flags_reach_the_options() {
        let mesh =
            mesh(&["--count", "3", "--interval-ms", "20", "--interface", "a", "--interface", "b", "--request", "x"]);
        let expected = MeshOptions {
            count: 3,
            interval: Duration::from_millis(20),
            interfaces: Selection::Named(vec!["a".into(), "b".into()]),
            ..MeshOptions::default()
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
