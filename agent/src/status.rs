//! One line for people at the console, whenever something changes for them.

use api::{HostId, StepType};
use nix::ifaddrs::getifaddrs;
use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

/// What the line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    host_id: Option<HostId>,
    addresses: Vec<String>,
    service: &'static str,
    last_step: String,
}

/// The state behind the line.
#[derive(Debug, Default)]
pub(crate) struct Status(Mutex<Line>);

impl Status {
    /// The host has this identity.
    pub(crate) fn identified(&self, host_id: HostId) {
        self.update(|line| line.host_id = Some(host_id));
    }

    /// The service was asked and is `state`.
    pub(crate) fn service(&self, state: &'static str) {
        self.update(|line| line.service = state);
    }

    /// A step ended.
    pub(crate) fn step_ended(&self, kind: &StepType, exit_code: i64) {
        let result = if exit_code == 0 { "ok".to_owned() } else { format!("failed ({exit_code})") };
        self.update(|line| line.last_step = format!("{kind} {result}"));
    }

    fn update(&self, change: impl FnOnce(&mut Line)) {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = line.clone();
        change(&mut line);
        line.addresses = addresses();
        if *line == before {
            return;
        }
        let host = line.host_id.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
        let addresses = if line.addresses.is_empty() { "none".to_owned() } else { line.addresses.join(" ") };
        tracing::info!(host, addresses, service = line.service, last_step = line.last_step, "status");
    }
}

/// Addresses others can reach this host at, sorted.
fn addresses() -> Vec<String> {
    let all = getifaddrs().into_iter().flatten().filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
        let ip = v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())))?;
        let local = match ip {
            IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
        };
        (!local).then(|| ip.to_string())
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_is_local_or_twice() {
        let addresses = addresses();
        assert!(addresses.is_sorted_by(|a, b| a < b));
        assert!(
            !addresses.iter().any(|a| a.starts_with("127.") || a == "::1" || a.starts_with("fe80")),
            "{addresses:?}"
        );
    }
}
