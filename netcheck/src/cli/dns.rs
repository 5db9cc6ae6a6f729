//! `landfall netcheck dns`.

use super::{print, read_request};
use crate::dns::{DnsOptions, from_json, resolve, response, table};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Look up names as this host does: addresses, canonical names, unwanted wildcards.
///
/// The hosts file comes first, then the servers of resolv.conf in order until one says whether the name exists; all names are
/// looked up at the same time, and nothing is cached. A name with a trailing dot is absolute; otherwise the search list of
/// resolv.conf applies, as for every other program.
///
/// An installation needs addresses for api.CLUSTER.DOMAIN, api-int.CLUSTER.DOMAIN and names under apps.CLUSTER.DOMAIN, and no
/// address for validateNoWildcardDNS.CLUSTER.DOMAIN with and without trailing dot: if it resolves with the dot, the whole
/// cluster domain has a DNS wildcard; if only without, a search domain (often one from DHCP) has one.
///
/// The exit status is 0 whenever the check took place, even if a name does not resolve.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"The request is what the service sends with a domain-resolution step, for example:
  {"domains":[{"domain_name":"api.prod.example.com"},
    {"domain_name":"validateNoWildcardDNS.prod.example.com."}]}

Examples:
  landfall netcheck dns api.prod.example.com \
    validateNoWildcardDNS.prod.example.com.
  landfall netcheck dns --resolv-conf \
    /run/NetworkManager/no-stub-resolv.conf quay.io
  landfall netcheck dns --request domains.json"#)]
pub(super) struct Dns {
    /// Names to look up; a trailing dot disables the search list
    #[arg(value_name = "NAME", required_unless_present = "request", conflicts_with = "request")]
    names: Vec<String>,
    /// File with the names, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// resolv.conf with name servers and search list
    #[arg(long, value_name = "PATH", default_value_os_t = DnsOptions::default().resolv_conf)]
    resolv_conf: PathBuf,
    /// Names known without asking
    #[arg(long, value_name = "PATH", default_value_os_t = DnsOptions::default().hosts)]
    hosts: PathBuf,
    /// End the check after this time and report what was seen by then, seconds
    #[arg(long, value_name = "N", default_value_t = DnsOptions::default().deadline.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    deadline_s: u64,
    /// Print the answers as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Dns {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let names = match &self.request {
            Some(path) => from_json(&read_request(path)?)?,
            None => self.names.clone(),
        };
        let answers = resolve(&names, &self.options())?;
        print(self.json, &response(&answers), || table::render(&answers))?;
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self) -> DnsOptions {
        DnsOptions {
            resolv_conf: self.resolv_conf.clone(),
            hosts: self.hosts.clone(),
            deadline: Duration::from_secs(self.deadline_s),
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
        dns: Dns,
    }

    #[test]
    fn names_or_a_request_but_not_both() {
        let parse = |arguments: &[&str]| Program::try_parse_from(["dns"].iter().chain(arguments));
        let dns = parse(&["a", "b."]).unwrap().dns;
        assert_eq!(dns.names, ["a", "b."]);
        assert_eq!(dns.options(), DnsOptions::default());
        assert!(parse(&["--request", "-"]).is_ok());
        assert!(parse(&["a", "--deadline-s", "3601"]).is_err());
        assert!(parse(&[]).is_err());
        assert!(parse(&["a", "--request", "-"]).is_err());
    }
}
