//! `landfall netcheck vip`.

use super::{print, read_request};
use crate::claim::{ClaimOptions, duplicates, holders, request, table, verify};
use std::{net::IpAddr, path::PathBuf, process::ExitCode};

/// Find out who holds an address: whether a virtual address is free, or an address of this host has a second owner.
///
/// An address on a network of this host is probed on the segment, by ARP or by IPv6 duplicate address detection: three probes
/// in half a second, then half a second to answer. Hosts answer these even behind a firewall. If two links have the same
/// network, both are probed. Any other address gets echoes, which a host may ignore.
///
/// The exit status is 1 if one of the ADDRESSes could not be probed (no link, no route). With --request it is 0: as with
/// nmap, such an address is reported to the service as free.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = r#"The request is what the service sends with a verify-vips step; its reply says "failed" for an address in use,
also by this host:
  [{"vip":"192.168.126.100","vip_type":"api"},
   {"vip":"192.168.126.101","vip_type":"ingress"}]

Examples:
  landfall netcheck vip 192.168.126.100 fd00::100
  landfall netcheck vip --own                       # owners of ours
  landfall netcheck vip 10.1.2.3 --interface ens4   # on this link
  landfall netcheck vip --request vips.json"#
)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["addresses", "request", "own"]))]
pub(super) struct Vip {
    /// Addresses to check
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<IpAddr>,
    /// File with the addresses as the service sends them, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Check all addresses of this host, and list those that another station holds too
    #[arg(long)]
    own: bool,
    /// Probe on this interface, whatever its addresses (may be given several times)
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Vip {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let options = ClaimOptions { interfaces: self.interfaces, ..ClaimOptions::default() };
        if self.own {
            let found = duplicates(&options)?;
            print(self.json, &found, || table::render_duplicates(&found))?;
        } else if let Some(path) = self.request {
            let vips = request::from_json(&read_request(&path)?)?;
            let (reply, claims) = verify(&vips, &options)?;
            print(self.json, &reply, || table::render(&claims))?;
        } else {
            let claims = holders(&self.addresses, &options)?;
            print(self.json, &claims, || table::render(&claims))?;
            if claims.iter().any(|claim| claim.obstacle.is_some()) {
                return Ok(ExitCode::FAILURE);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
