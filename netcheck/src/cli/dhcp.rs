//! `landfall netcheck dhcp`.

use super::{print, read_request};
use crate::dhcp::{DhcpTiming, allocate, offers, request_from_json, table};
use api::Mac;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Some servers send an echo to an address and wait three seconds for an answer before they offer it.
const LISTEN_S: u64 = 5;

/// List the offers of DHCP servers, or take the leases of a cluster's virtual addresses.
///
/// With --interface: broadcasts a DHCPDISCOVER and lists every offer. None is accepted; most servers only reserve the offered
/// address for a minute or two, for the same MAC address. Two servers on one network are the classic fault that this shows.
///
/// With --request: runs the service's step. Takes one lease each for the API and the ingress address with the given MAC
/// addresses; if the request contains an earlier lease, asks for its address. The leases last on the server until they
/// expire; the same MAC addresses get the same leases again. Nothing is configured on this host.
///
/// The source of the frames is the requested MAC address, so a switch learns it on this port. Ports locked to one MAC address
/// need an exception.
///
/// The exit status is 0 even if there is no offer, and 1 if either lease is missing.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"The request is what the service sends with a dhcp-lease-allocate step, for example:
  {"interface":"ens3","api_vip_mac":"00:1a:4a:10:20:30",
   "ingress_vip_mac":"00:1a:4a:40:50:60"}

Examples:
  landfall netcheck dhcp --interface ens3
  landfall netcheck dhcp --interface bond0.100 --mac 00:1a:4a:10:20:30 --json
  landfall netcheck dhcp --request vips.json"#)]
pub(super) struct Dhcp {
    /// Ask for offers on this interface
    #[arg(long, value_name = "NAME", required_unless_present = "request", conflicts_with = "request")]
    interface: Option<String>,
    /// Ask for this MAC address instead of the interface's own
    #[arg(long, value_name = "MAC", requires = "interface")]
    mac: Option<Mac>,
    /// File with the step's request, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// How long to listen for offers (default 5), or to try for both leases (default 28), seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout_s: Option<u64>,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Dhcp {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match (&self.request, &self.interface) {
            (Some(request), _) => {
                let request = request_from_json(&read_request(request)?)?;
                let allocation = allocate(&request, &self.options(DhcpTiming::default().timeout))?;
                print(self.json, &allocation.response(), || table::leases(&allocation))?;
            }
            (None, interface) => {
                let interface = interface.as_deref().unwrap_or_default();
                let found = offers(interface, self.mac, &self.options(Duration::from_secs(LISTEN_S)))?;
                print(self.json, &found, || table::offers(&found))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self, timeout: Duration) -> DhcpTiming {
        DhcpTiming { timeout: self.timeout_s.map_or(timeout, Duration::from_secs), ..DhcpTiming::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        dhcp: Dhcp,
    }

    fn parse(arguments: &[&str]) -> Result<Dhcp, clap::Error> {
        Program::try_parse_from(["dhcp"].iter().chain(arguments)).map(|program| program.dhcp)
    }

    #[test]
    fn either_an_interface_or_a_request() {
        let mac = parse(&["--interface", "ens3", "--mac", "00:1A:4A:10:20:30"]).unwrap().mac;
        assert_eq!(mac, Some(Mac([0, 0x1a, 0x4a, 0x10, 0x20, 0x30])));
        for wrong in [
            &[][..],
            &["--mac", "00:1a:4a:10:20:30"],
            &["--interface", "a", "--request", "-"],
            &["--interface", "a", "--mac", "b"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_time_is_the_real_agents_by_default() {
        let default = DhcpTiming::default();
        assert_eq!(parse(&["--request", "-"]).unwrap().options(default.timeout), default);
        let given = parse(&["--request", "-", "--timeout-s", "3"]).unwrap().options(default.timeout);
        assert_eq!(given.timeout, Duration::from_secs(3));
    }

    #[test]
    fn a_bad_request_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("request.json");
        std::fs::write(&path, r#"{"interface": "ens3", "api_vip_mac": "x"}"#).unwrap();
        let error = parse(&["--request", path.to_str().unwrap()]).unwrap().run().unwrap_err();
        let text = format!("{error:#}");
        let start =
            "the request is not a DHCP allocation request (interface, api_vip_mac, ingress_vip_mac): 'x' is not a MAC";
        assert!(text.starts_with(start), "{text}");
    }
}
