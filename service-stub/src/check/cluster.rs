//! Checks of a cluster.

use super::{Finding, Verdict, to_json, verdict};
use crate::model::{ClusterRecord, HostRecord};
use crate::state::{ClusterChecks, HostState};
use api::HostRole;
use std::sync::Arc;

/// Everything a check may look at.
pub struct Context<'a> {
    /// The cluster.
    pub record: &'a ClusterRecord,
    /// Its hosts.
    pub hosts: &'a [Arc<HostRecord>],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// The user must still say something.
    Input,
    /// Not ready yet.
    Ready,
}

struct Check {
    id: &'static str,
    category: &'static str,
    gate: Gate,
    run: fn(&Context) -> Verdict,
}

#[rustfmt::skip]
const CHECKS: &[Check] = &[
    Check { id: "pull-secret-set", category: "configuration", gate: Gate::Input, run: pull_secret_set },
    Check { id: "all-hosts-are-ready-to-install", category: "hosts-data", gate: Gate::Ready, run: all_hosts_ready },
    Check { id: "sufficient-masters-count", category: "hosts-data", gate: Gate::Ready, run: sufficient_masters },
    Check { id: "dns-domain-defined", category: "network", gate: Gate::Input, run: dns_domain_defined },
];

/// All findings about one cluster.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    all: Vec<(&'static str, Gate, Finding)>,
}

impl Findings {
    /// The published JSON text.
    pub fn to_json(&self) -> String {
        to_json(self.all.iter().map(|(category, _, finding)| (*category, finding)))
    }

    /// What the cluster's state depends on.
    pub fn for_state(&self) -> ClusterChecks {
        ClusterChecks {
            vips_defined: true,
            inputs_given: !self.fails(Gate::Input),
            installable: !self.fails(Gate::Ready),
        }
    }

    fn fails(&self, gate: Gate) -> bool {
        self.all.iter().any(|(_, own, finding)| *own == gate && !finding.passes())
    }
}

/// Runs every check.
pub fn run(context: &Context) -> Findings {
    let run = |check: &Check| {
        let (status, message) = (check.run)(context);
        (check.category, check.gate, Finding { id: check.id, status, message })
    };
    Findings { all: CHECKS.iter().map(run).collect() }
}

fn pull_secret_set(context: &Context) -> Verdict {
    verdict(context.record.cluster.pull_secret_set, "The pull secret is set.", || {
        "The pull secret is not set.".to_owned()
    })
}

fn dns_domain_defined(context: &Context) -> Verdict {
    verdict(!context.record.cluster.base_dns_domain.is_empty(), "The base domain is defined.", || {
        "The base domain is undefined and must be provided.".to_owned()
    })
}

fn all_hosts_ready(context: &Context) -> Verdict {
    let ready = |record: &&Arc<HostRecord>| {
        matches!(record.state, HostState::Known | HostState::PreparingForInstallation | HostState::PreparingSuccessful)
    };
    let missing = context.hosts.len() - context.hosts.iter().filter(ready).count();
    verdict(missing == 0, "All hosts in the cluster are ready to install.", || {
        format!("The cluster has {missing} host(s) that are not ready to install.")
    })
}

fn sufficient_masters(context: &Context) -> Verdict {
    let count = |roles: &[HostRole]| context.hosts.iter().filter(|host| roles.contains(&host.effective_role())).count();
    let wanted = usize::try_from(context.record.cluster.control_plane_count).unwrap_or(usize::MAX);
    let masters = count(&[HostRole::Master, HostRole::Bootstrap]);
    let workers = count(&[HostRole::Worker]);
    if context.record.single_node() && workers > 0 {
        return verdict(false, "", || format!("A single-node cluster takes no workers; it has {workers}."));
    }
    verdict(masters == wanted, "The cluster has the exact amount of dedicated control plane nodes.", || {
        format!("The cluster must have exactly {wanted} dedicated control plane node(s); it has {masters}.")
    })
}
