//! From the records to what a run needs.

use super::Generation;
use crate::dhcp_vips;
use crate::generated_manifests;
use crate::machine_networks;
use crate::manifest_files;
use crate::model::{ClusterRecord, HostRecord, Model};
use crate::node_addresses;
use crate::service::Service;
use crate::text::chain;
use api::HostRole;
use preparation::{Folder, Job, Manifest, Node, NodeSettings, Source, edit};
use std::sync::Arc;

pub(super) fn of_cluster(
    service: &Service,
    generation: &Generation,
    model: &Model,
    record: &ClusterRecord,
    release_image: String,
) -> Result<Job, String> {
    let cluster = &record.cluster;
    let hosts = model.hosts_of_cluster(cluster.id);
    let platform = cluster.platform.as_ref().map_or("none", |platform| platform.kind.as_str());
    let workers = hosts.iter().filter(|host| host.effective_role() == HostRole::Worker).count();
    let bootstrap_address = node_addresses::bootstrap_address(record, &hosts);
    let job = Job {
        cluster: cluster.id,
        install_config: record.course.install_config.clone(),
        openshift_version: cluster.openshift_version.clone(),
        release_image,
        invoker: generation.invoker.clone(),
        bootstrap_address: bootstrap_address.map_err(|error| error.to_string())?,
        platform: platform.to_owned(),
        workers,
        manifests: manifests(service, model, record)?,
        signers: generation.signers.clone(),
        nodes: nodes(service, record, &hosts),
    };
    edit::check(&job.nodes, &job.manifests).map_err(|error| chain(&error))?;
    Ok(job)
}

fn nodes(service: &Service, record: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> NodeSettings {
    let cluster = &record.cluster;
    let has_ipv6 = |host: &Arc<HostRecord>| {
        let inventory = host.facts().inventory.as_ref();
        inventory.is_some_and(|inventory| inventory.interfaces.iter().any(|nic| !nic.ipv6_addresses.is_empty()))
    };
    let machine_networks = machine_networks::find(record, hosts);
    let families = |v6: bool| machine_networks.iter().any(|network| network.address.is_ipv6() == v6);
    let name = |host: &HostRecord| host.hostname().map_or_else(|| host.host.id.to_string(), str::to_owned);
    let node = |host: &Arc<HostRecord>| Node {
        role: host.effective_role(),
        name: name(host),
        requested_hostname: host.host.requested_hostname.clone(),
        pool: host.pool().map(str::to_owned),
        inventory: host.facts().inventory.clone().unwrap_or_default(),
    };
    NodeSettings {
        openshift_version: cluster.openshift_version.clone(),
        single_node: record.single_node(),
        has_arbiter: hosts.iter().any(|host| host.effective_role() == HostRole::Arbiter),
        has_ipv6: hosts.iter().all(has_ipv6),
        dual_stack: families(false) && families(true),
        machine_networks,
        service_ca_pem: service.settings.ca_pem.clone(),
        dhcp: dhcp_vips::both(record),
        nodes: hosts.iter().map(node).collect(),
    }
}

/// The service's own, then the user's.
fn manifests(service: &Service, model: &Model, record: &ClusterRecord) -> Result<Vec<Manifest>, String> {
    let id = record.cluster.id;
    let state = service.store.directory();
    let unreadable = |error: std::io::Error| format!("cannot read the manifests of cluster {id}: {error}");
    let folder = |name: &str| if name == Folder::Openshift.as_str() { Folder::Openshift } else { Folder::Manifests };
    let generated = generated_manifests::of_cluster(service, model, record).map_err(unreadable)?.into_iter();
    let mut all: Vec<Manifest> = generated
        .map(|manifest| Manifest {
            folder: folder(manifest.folder),
            file: manifest.file,
            content: manifest.content.into_bytes(),
            source: Source::System,
        })
        .collect();
    for (name, content) in manifest_files::read_all(state, id).map_err(unreadable)? {
        all.push(Manifest { folder: folder(name.folder), file: name.file, content, source: Source::User });
    }
    Ok(all)
}
