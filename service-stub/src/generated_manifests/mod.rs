//! Manifests that a cluster's settings and hosts ask for (docs/compatibility.md#generated-manifests): they are listed beside those of users,
//! and are in the files of the control plane.

mod bootstrap;
mod chrony;
mod dnsmasq;
mod encryption;
mod generated;
mod iscsi;
pub(crate) mod options;
mod scheduler;
mod stored;
mod telemeter;
#[cfg(test)]
mod tests;

pub(crate) use bootstrap::{has_scheduler, with_manifests};
pub(crate) use generated::Generated;
pub(crate) use scheduler::{are_masters_forced_schedulable, object as scheduler};
pub(crate) use stored::{of_cluster, store};

use crate::model::{ClusterRecord, HostRecord, Model};
use crate::operators;
use crate::settings::Settings;
use api::HostRole;
use options::ManifestOptions;
use std::sync::Arc;

/// All of them, in the published order.
pub(crate) fn all(
    cluster: &ClusterRecord,
    hosts: &[Arc<HostRecord>],
    model: &Model,
    settings: &Settings,
) -> Vec<Generated> {
    generate(cluster, hosts, model, &settings.manifests, &settings.url)
}

fn generate(
    cluster: &ClusterRecord,
    hosts: &[Arc<HostRecord>],
    model: &Model,
    options: &ManifestOptions,
    service_url: &str,
) -> Vec<Generated> {
    let roles = roles(hosts);
    let mut all = chrony::manifests(cluster, hosts, model, roles);
    all.extend(options.single_node_dnsmasq.then(|| dnsmasq::manifest(cluster, hosts)).flatten());
    let operators = operators::manifests(cluster, hosts).openshift.into_iter();
    all.extend(operators.map(|own| Generated::text(own.file, own.content)));
    all.extend(telemeter::manifest(service_url));
    all.extend(scheduler::patch(cluster, hosts));
    all.extend(encryption::manifests(cluster, roles, options.cipher()));
    all.extend(iscsi::manifests(roles));
    all
}

/// The machine config pools that nodes of the cluster may be in.
fn roles(hosts: &[Arc<HostRecord>]) -> &'static [&'static str] {
    match hosts.iter().any(|host| host.effective_role() == HostRole::Arbiter) {
        true => &["master", "worker", "arbiter"],
        false => &["master", "worker"],
    }
}
