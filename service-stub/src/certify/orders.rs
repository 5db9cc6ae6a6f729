//! What the service does for a run with its own functions: makes a cluster of one host, installs it, and takes it apart again; has
//! a TPM sign what its host sent.

use super::record::{HostRun, Run};
use super::{engine, result};
use crate::attest;
use crate::check::host::valid_hostname;
use crate::find::{find_host, find_infra_env};
use crate::handlers::{clusters, lifecycle, new_cluster};
use crate::http::{Call, Refusal};
use crate::model::{HostKey, HostRecord};
use crate::service::Service;
use crate::state::{ClusterState, HostState};
use api::attest::Digest;
use api::{ClusterCreateParams, ClusterId, Platform, Secret, Timestamp};
use certify::{
    manifest::{self, Entry},
    result::ATTESTATION,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// The domain of clusters that exist for a certification.
const DOMAIN: &str = "certify.example.com";
/// Without a control plane the version is only recorded.
const VERSION: &str = "4.20";
/// Without a control plane there is no registry to log in to.
const NO_PULL_SECRET: &str = r#"{"auths":{"registry.example.com":{"auth":"bm9uZTpub25l"}}}"#;

fn change(service: &Service, id: Uuid, work: impl FnOnce(&mut Run)) -> Result<(), Refusal> {
    service.certifications.change(id, work).map_err(|error| Refusal::internal(&error))?;
    Ok(())
}

/// The host of a run, and the cluster that it has or gets.
fn host(service: &Service, id: Uuid, index: usize) -> Result<(HostKey, Option<ClusterId>), Refusal> {
    let run = service.certifications.get(id).ok_or_else(|| Refusal::not_found(format!("run {id} was not found")))?;
    let host = run.hosts.get(index).ok_or_else(|| Refusal::not_found(format!("run {id} has no host {index}")))?;
    Ok((host.key(), host.cluster_id))
}

/// Makes a cluster of the host alone, and binds it.
pub(super) fn bind(service: &Service, id: Uuid, index: usize) -> Result<(), Refusal> {
    let (key, planned) = host(service, id, index)?;
    let model = service.store.model();
    let record = find_host(&model, key)?;
    if record.host.cluster_id.is_some() || record.state != HostState::KnownUnbound {
        return Ok(());
    }
    let cluster = match planned.filter(|id| model.clusters.contains_key(id)) {
        // An earlier start of the service came this far.
        Some(cluster) => cluster,
        None => {
            let cluster = ClusterId::random();
            // First, so that no cluster is left behind that no run knows.
            change(service, id, |run| {
                if let Some(host) = run.hosts.get_mut(index) {
                    host.cluster_id = Some(cluster);
                }
            })?;
            let params = single_node(service, key, &format!("certify-{}", first(&cluster)))?;
            new_cluster::create_as(service, &Call::internal(&[], &json!(params)), cluster)?;
            cluster
        }
    };
    name_host(service, key, &format!("certify-{}", first(&cluster)))?;
    let path = [("infra_env_id", key.infra_env.to_string()), ("host_id", key.host.to_string())];
    lifecycle::bind(service, &Call::internal(&path, &json!({"cluster_id": cluster})))?;
    Ok(())
}

/// The first part of an identifier.
fn first(id: &ClusterId) -> String {
    id.to_string().split('-').next().unwrap_or_default().to_owned()
}

fn single_node(service: &Service, key: HostKey, name: &str) -> Result<ClusterCreateParams, Refusal> {
    let model = service.store.model();
    let infra_env = find_infra_env(&model, key.infra_env)?;
    let own = &infra_env.infra_env;
    let version = Some(own.openshift_version.clone()).filter(|version| !version.is_empty());
    let version = version.or_else(|| service.settings.openshift_versions.last().cloned());
    let secret = Some(infra_env.pull_secret.clone()).filter(|secret| !secret.is_empty());
    Ok(ClusterCreateParams {
        name: name.to_owned(),
        base_dns_domain: Some(DOMAIN.to_owned()),
        openshift_version: version.unwrap_or_else(|| VERSION.to_owned()),
        cpu_architecture: Some(own.cpu_architecture.clone()).filter(|architecture| !architecture.is_empty()),
        control_plane_count: Some(1),
        high_availability_mode: Some("None".to_owned()),
        platform: Some(Platform { kind: "none".to_owned(), ..Platform::default() }),
        user_managed_networking: Some(true),
        pull_secret: secret.unwrap_or_else(|| Secret::new(NO_PULL_SECRET)),
        ssh_public_key: Some(own.ssh_authorized_key.clone()).filter(|key| !key.is_empty()),
        ..ClusterCreateParams::default()
    })
}

/// Gives a host without a usable name one: nodes need it.
fn name_host(service: &Service, key: HostKey, name: &str) -> Result<(), Refusal> {
    service.change("", |change| {
        let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
        if !record.hostname().is_some_and(valid_hostname) {
            name.clone_into(&mut record.host.requested_hostname);
            change.put_host(record);
        }
        Ok(())
    })
}

/// Starts the installation of the host's cluster.
pub(super) fn install(service: &Service, id: Uuid, index: usize) -> Result<(), Refusal> {
    let (_, cluster) = host(service, id, index)?;
    let Some(cluster) = cluster else { return Ok(()) };
    let is_ready =
        service.store.model().clusters.get(&cluster).is_some_and(|record| record.state == ClusterState::Ready);
    if !is_ready {
        return Ok(());
    }
    clusters::install(service, &Call::internal(&[("cluster_id", cluster.to_string())], &Value::Null))?;
    Ok(())
}

/// Deletes the cluster; its host may register again.
pub(super) fn release(service: &Service, id: Uuid, index: usize) -> Result<(), Refusal> {
    let (_, cluster) = host(service, id, index)?;
    let model = service.store.model();
    let record = cluster.and_then(|cluster| model.clusters.get(&cluster));
    // It may finish first.
    let Some(record) = record.filter(|record| record.state != ClusterState::Installing) else { return Ok(()) };
    clusters::delete(service, &Call::internal(&[("cluster_id", record.cluster.id.to_string())], &Value::Null))?;
    change(service, id, |run| {
        if let Some(host) = run.hosts.get_mut(index) {
            host.cluster_id = None;
        }
    })
}

/// Has the host's TPM sign all that the host sent, or takes the signature if it is there.
pub(super) fn attest(service: &Service, id: Uuid, index: usize) -> Result<(), Refusal> {
    let internal = |error: std::io::Error| Refusal::internal(&error);
    let (key, _) = host(service, id, index)?;
    let Some(run) = service.certifications.get(id) else { return Ok(()) };
    let Some(host) = run.hosts.get(index) else { return Ok(()) };
    let Some(at) = host.current() else { return Ok(()) };
    let nonce = match host.steps.get(at).and_then(|step| step.nonce) {
        Some(nonce) => nonce,
        None => {
            let nonce = Digest(sum(service, id, index, host).map_err(internal)?);
            change(service, id, |run| {
                if let Some(step) = run.hosts.get_mut(index).and_then(|host| host.steps.get_mut(at)) {
                    step.nonce = Some(nonce);
                }
            })?;
            nonce
        }
    };
    let signed = match attest::evidence(service, key, nonce.0) {
        None => {
            attest::demand(service, key, nonce.0);
            return Ok(());
        }
        Some(Ok(evidence)) => {
            let bytes = serde_json::to_vec(&evidence).map_err(|error| Refusal::internal(&error))?;
            service.certifications.put_document(id, index, ATTESTATION, &bytes).map_err(internal)?;
            Ok(())
        }
        Some(Err(reason)) => Err(reason),
    };
    change(service, id, |run| engine::attested(run, index, signed, Timestamp::now()))
}

/// What an archive's verifier computes of the host's files.
fn sum(service: &Service, id: Uuid, index: usize, host: &HostRun) -> std::io::Result<[u8; 32]> {
    let folder = result::host(host).folder();
    let names = host.steps.iter().flat_map(|step| &step.files);
    let entry =
        |name: &String| Ok(Entry::new(format!("{folder}/{name}"), &service.certifications.document(id, index, name)?));
    let entries = names.map(entry).collect::<std::io::Result<Vec<_>>>()?;
    Ok(manifest::nonce(&entries, &folder))
}
