//! Checks of a cluster (docs/compatibility.md#cluster-validations).

mod networks;
mod operators;
#[cfg(test)]
mod tests;

pub(crate) use networks::{DEFAULT_HOST_PREFIX_V4, DEFAULT_HOST_PREFIX_V6, NETWORK_TYPES, is_free};

use super::{FORMER_CHECK, Finding, OPERATORS_CATEGORY, Verdict, Waived, to_json, verdict};
use crate::model::{ClusterRecord, HostRecord};
use crate::net::Cidr;
use crate::state::{ClusterChecks, HostState};
use api::HostRole;
use std::sync::Arc;

/// Everything a check may look at.
pub(crate) struct Context<'a> {
    pub(crate) record: &'a ClusterRecord,
    pub(crate) hosts: &'a [Arc<HostRecord>],
    /// The networks its machines are to be in.
    pub(crate) machine_networks: &'a [Cidr],
    /// Clocks of the hosts at their last polls, Unix seconds.
    pub(crate) clocks: &'a [i64],
    /// The user added manifests.
    pub(crate) has_manifests: bool,
    /// It gets a control plane, which needs a majority of its nodes.
    pub(crate) with_control_plane: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// A user's setting is missing.
    Input,
    /// The same, for virtual addresses.
    Vips,
    /// Not ready yet.
    Ready,
    /// Nothing: it is only shown.
    Nothing,
}

struct Check {
    id: &'static str,
    category: &'static str,
    gate: Gate,
    run: fn(&Context) -> Verdict,
}

const fn check(id: &'static str, category: &'static str, gate: Gate, run: fn(&Context) -> Verdict) -> Check {
    Check { id, category, gate, run }
}

const CONFIGURATION: &str = "configuration";
const HOSTS: &str = "hosts-data";
const NETWORK: &str = "network";

#[rustfmt::skip]
const CHECKS: &[Check] = &[
    check("pull-secret-set", CONFIGURATION, Gate::Input, pull_secret_set),
    check("platform-requirements-satisfied", CONFIGURATION, Gate::Nothing, platform_requirements),
    check("all-hosts-are-ready-to-install", HOSTS, Gate::Ready, all_hosts_ready),
    check("sufficient-masters-count", HOSTS, Gate::Ready, sufficient_masters),
    check("machine-cidr-defined", NETWORK, Gate::Input, networks::machine_cidr_defined),
    check("cluster-cidr-defined", NETWORK, Gate::Input, networks::cluster_cidr_defined),
    check("service-cidr-defined", NETWORK, Gate::Input, networks::service_cidr_defined),
    check("machine-cidr-equals-to-calculated-cidr", NETWORK, Gate::Ready, networks::machine_cidr_as_calculated),
    check("api-vips-defined", NETWORK, Gate::Vips, networks::api_vips_defined),
    check("ingress-vips-defined", NETWORK, Gate::Vips, networks::ingress_vips_defined),
    check("api-vips-valid", NETWORK, Gate::Ready, networks::api_vips_valid),
    check("ingress-vips-valid", NETWORK, Gate::Ready, networks::ingress_vips_valid),
    check("no-cidrs-overlapping", NETWORK, Gate::Ready, networks::none_overlapping),
    check("network-prefix-valid", NETWORK, Gate::Ready, networks::prefix_valid),
    check("networks-same-address-families", NETWORK, Gate::Ready, networks::same_families),
    check("network-type-valid", NETWORK, Gate::Ready, networks::type_valid),
    check("custom-manifests-requirements-satisfied", NETWORK, Gate::Ready, networks::custom_manifests),
    check("ntp-server-configured", NETWORK, Gate::Ready, clocks_agree),
    check("dns-domain-defined", NETWORK, Gate::Input, dns_domain_defined),
];

/// Names of all checks of a cluster, those of operators included.
pub(crate) fn ids() -> impl Iterator<Item = String> {
    let operators = crate::operators::OPERATORS.iter().map(|operator| operator.check);
    let operators = operators.chain([operators::MODELS_GPU, FORMER_CHECK]);
    CHECKS.iter().map(|check| check.id).chain(operators).map(str::to_owned)
}

/// All findings about one cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    all: Vec<(&'static str, Gate, Finding)>,
    waived: Waived,
}

impl Findings {
    /// One by one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.all.iter().map(|(_, _, finding)| finding)
    }

    /// The published JSON text.
    pub(crate) fn to_json(&self) -> String {
        to_json(self.all.iter().map(|(category, _, finding)| (*category, finding)))
    }

    /// What the cluster's state depends on.
    pub(crate) fn for_state(&self) -> ClusterChecks {
        ClusterChecks {
            vips_defined: !self.fails(Gate::Vips),
            inputs_given: !self.fails(Gate::Input),
            installable: !self.fails(Gate::Ready),
        }
    }

    fn fails(&self, gate: Gate) -> bool {
        let fails = |finding: &Finding| !finding.passes() && !self.waived.ignored.contains(finding.id);
        self.all.iter().any(|(_, own, finding)| *own == gate && fails(finding))
    }
}

/// Runs every check; waived ones block nothing.
pub(crate) fn run(context: &Context, waived: Waived) -> Findings {
    let run = |check: &Check| {
        let (status, message) = waived.verdict(check.id).unwrap_or_else(|| (check.run)(context));
        (check.category, check.gate, Finding { id: check.id, status, message })
    };
    let of_operator = |(id, verdict): (&'static str, Verdict)| {
        let (status, message) = waived.verdict(id).unwrap_or(verdict);
        (OPERATORS_CATEGORY, Gate::Ready, Finding { id, status, message })
    };
    let of_operators = operators::all(context).into_iter().map(of_operator);
    Findings { all: CHECKS.iter().map(run).chain(of_operators).collect(), waived }
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
    let is_pair = masters == wanted && wanted == 2 && context.with_control_plane;
    if is_pair && count(&[HostRole::Arbiter]) == 0 && !context.record.is_fenced_pair(context.hosts) {
        return verdict(false, "", || {
            "Two control plane nodes have no majority without each other: give a host the role arbiter, or both fencing credentials".to_owned()
        });
    }
    verdict(masters == wanted, "The cluster has the exact amount of dedicated control plane nodes.", || {
        format!("The cluster must have exactly {wanted} dedicated control plane node(s); it has {masters}.")
    })
}

/// Oracle's cloud needs its own manifests; nothing is known about other platforms.
fn platform_requirements(context: &Context) -> Verdict {
    let platform = context.record.cluster.platform.as_ref().filter(|platform| platform.kind == "external");
    let oracle = platform.is_some_and(|platform| platform.external["platform_name"] == "oci");
    verdict(!oracle || context.has_manifests, "Platform requirements satisfied", || {
        "Platform oci needs its manifests: upload them to the cluster".to_owned()
    })
}

/// Compares the hosts' clocks at their last polls, even if these were at different times, as published.
fn clocks_agree(context: &Context) -> Verdict {
    let (least, most) = (context.clocks.iter().min(), context.clocks.iter().max());
    let apart = least.zip(most).map_or(0, |(least, most)| most.saturating_sub(*least));
    verdict(apart / 60 <= 4, "No ntp problems found", || {
        format!("Hosts' clocks are {apart} s apart: give the cluster an NTP server that all hosts reach")
    })
}
