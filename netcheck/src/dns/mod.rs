//! What names of the cluster resolve to from here (docs/compatibility.md#domain-resolution): the host's own resolver
//! settings, read each time, and absolute names separate from those that the search list applies to.

mod request;
pub(crate) mod table;

pub use request::{RequestError, from_json};

use crate::privileges::{self, PrivilegeError};
use api::{DomainResolution, DomainResolutionResponse};
use kernel::order;
use resolve::{Answer, ReadError, Resolver};
use std::{path::PathBuf, time::Duration};

/// How to look up names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsOptions {
    /// Servers and search list.
    pub resolv_conf: PathBuf,
    /// Names known without asking.
    pub hosts: PathBuf,
    /// For all names together, an hour at most; what has no answer by then has failed.
    pub deadline: Duration,
}

impl Default for DnsOptions {
    fn default() -> Self {
        Self {
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            // Two rounds through three servers that are all silent.
            deadline: Duration::from_secs(30),
        }
    }
}

/// Of one lookup. A request of the service has a few for each cluster.
const MAX_NAMES: usize = 1000;

/// Why names were not looked up.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Too much for one check.
    #[error("{count} names to look up; the limit is {MAX_NAMES}")]
    TooMany { count: usize },
}

/// Looks `names` up, all at the same time; answers are in their order, addresses ascending.
///
/// This thread loses all capabilities for good.
pub fn resolve(names: &[String], options: &DnsOptions) -> Result<Vec<Answer>, ResolveError> {
    privileges::drop_all()?;
    if names.len() > MAX_NAMES {
        return Err(ResolveError::TooMany { count: names.len() });
    }
    let resolver = Resolver::from_files(&options.resolv_conf, &options.hosts)?;
    let mut answers = resolver.lookup_all(names, options.deadline);
    for answer in &mut answers {
        order::sort(&mut answer.v4);
        order::sort(&mut answer.v6);
    }
    Ok(answers)
}

/// The step's reply.
pub fn response(answers: &[Answer]) -> DomainResolutionResponse {
    DomainResolutionResponse { resolutions: answers.iter().map(resolution).collect() }
}

/// A name's element in the step's reply.
fn resolution(answer: &Answer) -> DomainResolution {
    DomainResolution {
        cnames: answer.canonical.clone().map(|name| vec![name]),
        domain_name: answer.name.clone(),
        ipv4_addresses: answer.v4.iter().map(ToString::to_string).collect(),
        ipv6_addresses: answer.v6.iter().map(ToString::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_names_and_an_hour_are_enough() {
        let resolve = |names: Vec<String>, options: DnsOptions| {
            // It takes its thread's capabilities.
            std::thread::spawn(move || resolve(&names, &options)).join().unwrap()
        };
        let names = vec!["a".to_owned(); 1001];
        assert_eq!(
            resolve(names, DnsOptions::default()).unwrap_err().to_string(),
            "1001 names to look up; the limit is 1000"
        );
        let longest = DnsOptions { deadline: Duration::MAX, ..DnsOptions::default() };
        assert!(resolve(Vec::new(), longest).unwrap().is_empty());
    }
}
