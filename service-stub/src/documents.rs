//! The Ignition configs: for the live host, for the installed host, and for its pointer.

use crate::auth::Auth;
use crate::cluster_files::ClusterFiles;
use crate::dhcp_vips;
use crate::disconnected;
use crate::http::Refusal;
use crate::ignition_endpoint::{self, Endpoint};
use crate::infra_env::{self, DISCONNECTED_ISO};
use crate::machine_networks;
use crate::model::{ClusterRecord, HostRecord, InfraEnvRecord, Model};
use crate::node_addresses;
use crate::releases::{DEFAULT_ARCHITECTURE, normal_architecture};
use crate::rendezvous;
use crate::service::Service;
use crate::text::chain;
use api::{HostRole, InfraEnv, Secret};
use ignition::discovery::assisted::{Assisted, INSECURE_POLICY, Mirror, Ntp, StaticNetwork};
use ignition::network::{self, Flow};
use ignition::{AgentBinary, Discovery, HostConfig, discovery, host};
use preparation::edit;
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc};

/// URL of our binary for a processor.
fn binary(service: &Service, architecture: &str) -> Option<AgentBinary> {
    let sha512_hex = service.media.agent_sha512(architecture)?.to_owned();
    let query = match normal_architecture(architecture) {
        DEFAULT_ARCHITECTURE => String::new(),
        other => format!("?arch={other}"),
    };
    Some(AgentBinary { url: format!("{}/boot-artifacts/landfall{query}", service.settings.url), sha512_hex })
}

/// The token of an infra-env's agents; `None` without authentication.
fn token(service: &Service, record: &InfraEnvRecord) -> Option<Secret> {
    Some(record.agent_token.clone()).filter(|token| !token.is_empty() && !matches!(service.settings.auth, Auth::None))
}

/// The config of a live host.
pub(crate) fn discovery(service: &Service, record: &InfraEnvRecord) -> Result<Vec<u8>, Refusal> {
    discovery_for(service, record, true)
}

/// The same, without networks if they are delivered separately.
pub(crate) fn discovery_for(
    service: &Service,
    record: &InfraEnvRecord,
    with_networks: bool,
) -> Result<Vec<u8>, Refusal> {
    let infra_env = &record.infra_env;
    if infra_env.kind_of_image == DISCONNECTED_ISO {
        return disconnected::config(service, record);
    }
    let discovery = Discovery {
        service_url: service.settings.url.clone(),
        infra_env_id: infra_env.id,
        agent_version: service.settings.agent_image.clone(),
        ca_pem: service.settings.ca_pem.clone(),
        token: token(service, record),
        proxy: infra_env.proxy.clone(),
        ssh_authorized_key: infra_env.ssh_authorized_key.clone(),
        deliver_agent: service.settings.deliver_agent.then(|| binary(service, &infra_env.cpu_architecture)).flatten(),
        ignition_override: infra_env.ignition_config_override.clone(),
        ..Discovery::default()
    };
    let site = Assisted {
        trust_bundle_pem: Some(infra_env.additional_trust_bundle.clone()).filter(|bundle| !bundle.is_empty()),
        mirror: mirror(service, record),
        ntp: time_sources(infra_env),
        static_network: if with_networks { static_network(infra_env)? } else { None },
        ..Assisted::default()
    };
    let config = discovery::build_for_site(&discovery, Some(&site)).map_err(|error| Refusal::invalid(chain(&error)))?;
    Ok(config.to_json())
}

/// The registries that replace others: the infra-env's own, else the service's.
fn mirror(service: &Service, record: &InfraEnvRecord) -> Option<Mirror> {
    let own = &record.infra_env.mirror_registry_configuration;
    let own = (!own.registries_conf.is_empty()).then(|| Mirror {
        registries_conf: own.registries_conf.clone(),
        ca_pem: Some(own.ca_bundle.clone()).filter(|bundle| !bundle.is_empty()),
        policy_json: None,
    });
    let mirror = own.or_else(|| service.settings.mirror.as_deref().cloned())?;
    Some(Mirror { policy_json: service.settings.insecure_policy.then(|| INSECURE_POLICY.to_owned()), ..mirror })
}

fn time_sources(infra_env: &InfraEnv) -> Option<Ntp> {
    let only = !infra_env.ntp_sources.is_empty();
    let list = if only { &infra_env.ntp_sources } else { &infra_env.additional_ntp_sources };
    let sources: Vec<String> =
        list.split(',').map(str::trim).filter(|source| !source.is_empty()).map(str::to_owned).collect();
    (!sources.is_empty()).then_some(Ntp { sources, only })
}

/// The networks of an infra-env's hosts as files below `/etc/assisted/network`, if it sets any
/// (docs/compatibility.md#static-network).
pub(crate) fn static_network(infra_env: &InfraEnv) -> Result<Option<StaticNetwork>, Refusal> {
    static_network_in(infra_env, Flow::of_version(&infra_env.openshift_version))
}

/// The same as keyfiles for any version, for systems without nmstatectl.
pub(crate) fn static_network_keyfiles(infra_env: &InfraEnv) -> Result<Option<StaticNetwork>, Refusal> {
    static_network_in(infra_env, Flow::Keyfiles)
}

fn static_network_in(infra_env: &InfraEnv, flow: Flow) -> Result<Option<StaticNetwork>, Refusal> {
    let networks = infra_env::networks(&infra_env.static_network_config);
    if networks.is_empty() {
        return Ok(None);
    }
    let files = network::files(&networks, flow).map_err(|error| Refusal::invalid(chain(&error)))?;
    let delay = infra_env.network_discovery_delay_seconds.unwrap_or(0);
    let discovery_delay_s = u32::try_from(delay).unwrap_or(u32::MAX);
    Ok(Some(StaticNetwork { flow, files, discovery_delay_s }))
}

/// Whether the config of a live host fits into an ISO; only a user's part can make it too large.
pub(crate) fn check_discovery(service: &Service, record: &InfraEnvRecord) -> Result<(), Refusal> {
    if record.infra_env.kind_of_image == DISCONNECTED_ISO {
        return Ok(());
    }
    ignition::check_budget(&discovery(service, record)?).map(drop).map_err(|error| Refusal::invalid(chain(&error)))
}

/// The config written to an installed host's disk.
pub(crate) fn installed_host(service: &Service, model: &Model, record: &HostRecord) -> Result<Vec<u8>, Refusal> {
    let cluster = record.host.cluster_id.and_then(|id| model.clusters.get(&id));
    let files = cluster.and_then(|cluster| ClusterFiles::of_cluster(service, cluster));
    installed_host_with(service, model, record, files.as_ref())
}

/// The same with these files of its cluster.
pub(crate) fn installed_host_with(
    service: &Service,
    model: &Model,
    record: &HostRecord,
    files: Option<&ClusterFiles>,
) -> Result<Vec<u8>, Refusal> {
    let cluster = record.host.cluster_id.and_then(|id| model.clusters.get(&id));
    let added = cluster.filter(|cluster| cluster.day2() && ignition_endpoint::is_elsewhere(cluster, false));
    let endpoint = added.and_then(|cluster| Endpoint::for_host(false, cluster, record));
    let mut config = match (endpoint, files) {
        (Some(endpoint), _) => added_node(&endpoint, record),
        (None, Some(files)) => node_of_cluster(files, model, cluster.map(AsRef::as_ref), record)?,
        (None, None) if service.settings.has_control_plane() => return Err(without_files(cluster)),
        (None, None) => node_alone(service, model, cluster.map(AsRef::as_ref), record),
    };
    // A node of a cluster that exists gets the rest of its config there.
    let rendezvous = service.settings.rendezvous.as_ref().filter(|rendezvous| rendezvous.rack.existing.is_none());
    if rendezvous.is_some_and(|rendezvous| rendezvous.serving_host == Some(record.host.id)) {
        // The service is gone when it boots: the config must not fetch from it or report to it.
        (config.pointer, config.beacon) = (None, None);
        let role_config = config
            .role_config
            .unwrap_or_else(|| role_config(record.effective_role().as_str()).to_string().into_bytes());
        config.role_config = Some(rendezvous::with_records(service, model, &role_config)?);
    }
    let config = host::build(&config).map_err(|error| Refusal::invalid(chain(&error)))?;
    Ok(config.to_json())
}

/// There is nothing to install the host with.
fn without_files(cluster: Option<&Arc<ClusterRecord>>) -> Refusal {
    match cluster {
        Some(cluster) => Refusal::not_found(format!("cluster {} has no install-time files", cluster.cluster.id)),
        None => Refusal::not_found("the host has no cluster, whose files it is installed with"),
    }
}

/// Its role's config with its name, its override, and the address that its kubelet is to use.
fn node_of_cluster(
    files: &ClusterFiles,
    model: &Model,
    cluster: Option<&ClusterRecord>,
    record: &HostRecord,
) -> Result<HostConfig, Refusal> {
    let role = record.effective_role();
    let name = ClusterFiles::file_name(role);
    let role_config = files.read(name).map_err(|error| Refusal::internal(&error))?;
    let mut role_config = role_config.ok_or_else(|| Refusal::not_found(format!("{name} was not found")))?;
    let is_master = matches!(role, HostRole::Master | HostRole::Bootstrap);
    if let Some(vips) = cluster.filter(|_| is_master).and_then(dhcp_vips::both) {
        role_config = edit::with_vips(&role_config, &vips).map_err(|error| Refusal::internal(&error))?;
    }
    Ok(HostConfig {
        role_config: Some(role_config),
        nodeip_hint: cluster.and_then(|cluster| node_address(model, cluster, record)),
        pool: record.pool().map(str::to_owned),
        ..host_config(record)
    })
}

/// What tells the kubelet its address: the network of a single node as it is written, or that of the address chosen for the host.
fn node_address(model: &Model, cluster: &ClusterRecord, record: &HostRecord) -> Option<IpAddr> {
    let hosts = model.hosts_of_cluster(cluster.cluster.id);
    if cluster.single_node() {
        return machine_networks::find(cluster, &hosts).first().map(|network| network.address);
    }
    let chosen = node_addresses::allocate(cluster, &hosts)?;
    chosen.get(&record.host.id).map(|address| address.network().address)
}

/// Its name, and the URL of the rest of its config at the control plane it is added to.
fn added_node(endpoint: &Endpoint, record: &HostRecord) -> HostConfig {
    HostConfig {
        pointer: Some(host::Pointer { source: endpoint.url.clone(), headers: endpoint.headers.clone() }),
        ca_pem: endpoint.ca_pem(),
        ..host_config(record)
    }
}

/// What any installed host has.
fn host_config(record: &HostRecord) -> HostConfig {
    HostConfig {
        hostname: record.hostname().unwrap_or_default().to_owned(),
        ignition_override: record.host.ignition_config_overrides.clone(),
        persistent_boot: record.boots_from_disk(),
        ..HostConfig::default()
    }
}

/// Its name, its user, the URL of the rest of its config, and a beacon that reports when it has booted.
fn node_alone(service: &Service, model: &Model, cluster: Option<&ClusterRecord>, record: &HostRecord) -> HostConfig {
    let infra_env = model.infra_envs.get(&record.host.infra_env_id);
    let key = cluster.map(|record| record.cluster.ssh_public_key.as_str()).filter(|key| !key.is_empty());
    let key = key.or(infra_env.map(|record| record.infra_env.ssh_authorized_key.as_str()));
    let (url, role, id) = (&service.settings.url, record.effective_role(), record.host.id);
    let token = infra_env.and_then(|record| token(service, record));
    // One added to a cluster is done when it reboots: no more reports are accepted from it.
    let architecture = infra_env.map(|record| record.infra_env.cpu_architecture.as_str()).unwrap_or_default();
    let beacon = binary(service, architecture).filter(|_| !record.day2()).map(|binary| host::Beacon {
        binary,
        env: host::BeaconEnv {
            service_url: url.clone(),
            infra_env_id: record.host.infra_env_id,
            host_id: id,
            insecure: false,
            token: token.clone(),
        },
    });
    HostConfig {
        ssh_authorized_key: key.unwrap_or_default().to_owned(),
        pointer: Some(host::Pointer {
            source: format!("{url}/landfall/config/{role}?host={id}"),
            headers: token.map(|token| ("X-Secret-Key".to_owned(), token)).into_iter().collect(),
        }),
        beacon,
        ca_pem: service.settings.ca_pem.clone(),
        ..host_config(record)
    }
}

/// Whether a host's override can be merged.
pub(crate) fn check_host_override(text: &str) -> Result<(), Refusal> {
    let config = HostConfig { ignition_override: text.to_owned(), ..HostConfig::default() };
    host::build(&config).map(drop).map_err(|error| Refusal::invalid(chain(&error)))
}

/// The target of a host's pointer: instead of a control plane's config, a file that marks that it was followed.
pub(crate) fn role_config(role: &str) -> Value {
    json!({
        "ignition": {"version": "3.2.0"},
        "storage": {"files": [{
            "path": "/etc/landfall/role",
            "mode": 0o644,
            "overwrite": true,
            "contents": {"source": format!("data:,{role}%0A")},
        }]},
    })
}
