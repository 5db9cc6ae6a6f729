//! Traffic of the real service, replayed against ours: the same status, headers and bodies, to the last leaf. Where ours differs on
//! purpose, the reason stands in a table of the test.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

#[path = "wire/agents.rs"]
mod agents;
use crate::common;
#[path = "wire/compare.rs"]
mod compare;
#[path = "wire/errors.rs"]
mod errors;
#[path = "wire/exchange.rs"]
mod exchange;
#[path = "wire/installation.rs"]
mod installation;
#[path = "wire/media_types.rs"]
mod media_types;
#[path = "wire/records.rs"]
mod records;
#[path = "wire/steps.rs"]
mod steps;
#[path = "wire/validations.rs"]
mod validations;

use api::{Cluster, ClusterId, ClusterNetwork, Host, HostId, InfraEnv, InfraEnvId, MachineNetwork, Platform, Secret};
use common::{Files, Running, recorded};
use compare::{Meant, meant};
use exchange::{Exchange, exchanges, replay};
use serde_json::{Value, json};
use service_stub::instructions::options::StepOptions;
use service_stub::model::{ClusterRecord, HostKey, HostRecord, InfraEnvRecord};
use service_stub::state::{ClusterState, HostState};
use service_stub::store::{Store, StoreError};

const VARY: Meant = meant("*", "header vary", "ours says so where an answer may be compressed, in lower case");
const NOSNIFF: Meant = meant("*", "header x-content-type-options", "no browser takes a client's words for a page");

/// Files of the bootstrap's config, by their places.
const MANIFESTS: [Meant; 6] = {
    const DOWNLOAD: &str = "GET v2/clusters/*/downloads/files";
    const WHY: &str = "ours puts manifests into ready-made files; the recorded ones are dummies without any";
    [
        meant(DOWNLOAD, ".storage.files[1].*", WHY),
        meant(DOWNLOAD, ".storage.files[2].*", WHY),
        meant(DOWNLOAD, ".storage.files[3].*", WHY),
        meant(DOWNLOAD, ".storage.files[4].*", WHY),
        meant(DOWNLOAD, ".storage.files[5].*", WHY),
        meant(DOWNLOAD, ".storage.files[6].*", WHY),
    ]
};

const NO_CATALOGUE: &str = "the replay's service has no catalogue of releases";

fn id(text: &str) -> uuid::Uuid {
    text.parse().unwrap()
}

fn put(store: &Store, cluster: ClusterRecord, infra_env: InfraEnvRecord, host: Option<HostRecord>) {
    store
        .change("", |change| {
            change.put_cluster(cluster);
            change.put_infra_env(infra_env);
            if let Some(host) = host {
                change.put_host(host);
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
}

fn cluster(id: ClusterId, state: ClusterState) -> ClusterRecord {
    let cluster = Cluster {
        id,
        name: "sno4".into(),
        kind: "Cluster".into(),
        base_dns_domain: "example.com".into(),
        control_plane_count: 1,
        pull_secret_set: true,
        image_info: json!({"created_at": "0001-01-01T00:00:00Z", "expires_at": "0001-01-01T00:00:00.000Z"}),
        user_managed_networking: true,
        openshift_version: "4.22.9".into(),
        platform: Some(Platform { external: json!({}), kind: "none".into() }),
        network_type: "OVNKubernetes".into(),
        cluster_networks: vec![ClusterNetwork { cidr: "10.128.0.0/14".into(), cluster_id: Some(id), host_prefix: 23 }],
        service_networks: vec![MachineNetwork { cidr: "172.30.0.0/16".into(), cluster_id: Some(id) }],
        href: format!("{}/v2/clusters/{id}", common::API),
        cpu_architecture: "x86_64".into(),
        high_availability_mode: "Full".into(),
        hyperthreading: "all".into(),
        user_name: "admin".into(),
        created_at: api::Timestamp::now(),
        ..Cluster::default()
    };
    ClusterRecord::new(state, cluster, Secret::new("{}"))
}

fn infra_env(id: InfraEnvId, cluster: ClusterId) -> InfraEnvRecord {
    let infra_env = InfraEnv { id, cluster_id: Some(cluster), name: "sno4".into(), ..InfraEnv::default() };
    InfraEnvRecord { infra_env, pull_secret: Secret::new("{}"), ..InfraEnvRecord::default() }
}
