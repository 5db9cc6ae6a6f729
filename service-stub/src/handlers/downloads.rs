//! Configs and addresses of files; the files themselves stream elsewhere.

use super::{agent, infra_envs, manifests};
use crate::cluster_files::ClusterFiles;
use crate::course::OperatorStatus;
use crate::disconnected;
use crate::documents;
use crate::find::{find_cluster, find_host, find_infra_env};
use crate::http::{Answer, Call, Refusal, range};
use crate::infra_env::DISCONNECTED_ISO;
use crate::install_config;
use crate::kubeconfig;
use crate::model::{ClusterRecord, HostKey};
use crate::netboot;
use crate::preparing;
use crate::service::Service;
use crate::state::ClusterState;
use api::{ClusterId, HostId, HostStage, InfraEnv};
use axum::http::{StatusCode, header};
use serde_json::json;

const INSTALL_CONFIG: &str = "install-config.yaml";
const CLUSTER_FILES: [&str; 8] = [
    "bootstrap.ign",
    "master.ign",
    "metadata.json",
    "worker.ign",
    INSTALL_CONFIG,
    "custom_manifests.json",
    "custom_manifests.yaml",
    "arbiter.ign",
];
/// Files with access to an installed cluster.
pub(crate) const CREDENTIALS: [&str; 3] = ["kubeadmin-password", "kubeconfig", "kubeconfig-noingress"];

/// GET /v2/infra-envs/{id}/downloads/files.
pub(crate) fn infra_env_file(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    let name = call.query_one_of("file_name", &["discovery.ign", "ipxe-script", "static-network-config"])?;
    let model = service.store.model();
    let record = find_infra_env(&model, id)?;
    let contents = match name {
        "discovery.ign" => {
            let kind = call.query("discovery_iso_type").unwrap_or(&record.infra_env.kind_of_image);
            match kind {
                DISCONNECTED_ISO => disconnected::config(service, &record)?,
                kind => documents::discovery_for(service, &record, kind != "minimal-iso")?,
            }
        }
        "static-network-config" => network_archive(&record.infra_env)?,
        _ => netboot::script(service, call, &model, &record)?.into_bytes(),
    };
    let modified = range::http_date(record.infra_env.updated_at);
    Ok(Answer::file(name, contents).with(header::LAST_MODIFIED, &modified))
}

/// GET /v2/infra-envs/{id}/downloads/minimal-initrd.
pub(crate) fn minimal_initrd(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_infra_env(&service.store.model(), call.infra_env_id()?)?;
    Ok(match netboot::minimal_initrd(&record.infra_env)? {
        Some(archive) => Answer::file("minimal-initrd.img", archive),
        None => Answer::empty(StatusCode::NO_CONTENT),
    })
}

/// A tar of `/etc/assisted/network`, with absolute names as clients expect; empty without networks.
fn network_archive(infra_env: &InfraEnv) -> Result<Vec<u8>, Refusal> {
    let mut archive = tar::Builder::new(Vec::new());
    let network = documents::static_network(infra_env)?;
    for file in network.iter().flat_map(|network| &network.files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(file.bytes.len()).unwrap_or(u64::MAX));
        header.set_mode(file.mode);
        // The library makes every name relative; names too long for the header are left to it.
        let appended = match header.as_old_mut().name.get_mut(..file.path.len()) {
            Some(name) => {
                name.copy_from_slice(file.path.as_bytes());
                header.set_cksum();
                archive.append(&header, file.bytes.as_slice())
            }
            None => archive.append_data(&mut header, file.path.trim_start_matches('/'), file.bytes.as_slice()),
        };
        appended.map_err(|error| Refusal::internal(&error))?;
    }
    archive.into_inner().map_err(|error| Refusal::internal(&error))
}

/// GET /v2/infra-envs/{id}/downloads/image-url.
pub(crate) fn image_url(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_infra_env(&service.store.model(), call.infra_env_id()?)?;
    let (url, expires_at) = infra_envs::image_url(service, &record);
    let document = json!({"url": url, "expires_at": expires_at});
    Ok(Answer::json(StatusCode::OK, &document))
}

/// GET /v2/clusters/{id}/downloads/files.
pub(crate) fn cluster_file(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    given_file(service, call, &CLUSTER_FILES)
}

/// GET /v2/clusters/{id}/downloads/credentials.
pub(crate) fn credentials(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    given_file(service, call, &CREDENTIALS)
}

/// GET /v2/clusters/{id}/credentials: the login for the console, once it exists.
pub(crate) fn console(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let model = service.store.model();
    let record = find_cluster(&model, id)?;
    let Some(files) = ClusterFiles::of_cluster(service, &record) else {
        return Err(Refusal::conflict(format!("cluster {id} has no console: it has no control plane")));
    };
    // A cluster may be installed without a controller that reports operators.
    let mut operators = record.course.operators.iter();
    let has_console = operators.any(|own| own.name == "console" && own.status == Some(OperatorStatus::Available));
    if !has_console && record.state != ClusterState::Installed {
        return Err(Refusal::conflict(
            "console-url isn't available yet, it will be once console operator is ready as part of cluster finalizing stage",
        ));
    }
    let password = files.read("kubeadmin-password").map_err(|error| Refusal::internal(&error))?;
    let password = password.ok_or_else(|| Refusal::not_found("kubeadmin-password was not found"))?;
    let (name, domain) = (&record.cluster.name, &record.cluster.base_dns_domain);
    Ok(Answer::json(
        StatusCode::OK,
        &json!({
            "username": "kubeadmin",
            "password": String::from_utf8_lossy(&password).trim(),
            "console_url": format!("https://console-openshift-console.apps.{name}.{domain}"),
        }),
    ))
}

/// Install-time files come from the control plane's tools; the service itself makes only the install configuration.
fn given_file(service: &Service, call: &Call, names: &[&'static str]) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let wanted = call.query_one_of("file_name", names)?;
    let cluster = find_cluster(&service.store.model(), id)?;
    let state = cluster.state;
    let files = ClusterFiles::of_cluster(service, &cluster);
    let files = files.as_ref();
    let missing = || {
        if service.settings.has_control_plane() {
            return Refusal::not_found(format!("{wanted} of cluster {id} was not found"));
        }
        Refusal::Application(
            StatusCode::NOT_IMPLEMENTED,
            format!(
                "this cluster has no {wanted}: it has no control plane; `landfall serve` brings one up with --generate or --cluster-files DIR"
            ),
        )
    };
    if !service.settings.has_control_plane() && wanted != INSTALL_CONFIG {
        return Err(missing());
    }
    let allowed = match wanted {
        // During the installation its ingress does not exist yet.
        "kubeconfig" => &ClusterState::WITH_FILES[1..],
        _ => &ClusterState::WITH_FILES[..],
    };
    if !allowed.contains(&state) {
        return Err(too_early(id, state, if wanted == "kubeconfig" { wanted } else { "files" }, allowed));
    }
    if wanted == INSTALL_CONFIG {
        return install_config(files, &cluster);
    }
    let (files, name) = files.zip(names.iter().find(|name| **name == wanted)).ok_or_else(missing)?;
    if *name == "kubeconfig" {
        let (name, contents) = kubeconfig(files, &cluster)?;
        return Ok(Answer::file(name, contents));
    }
    let found = match (files.read(name), *name) {
        (Ok(own), "custom_manifests.json") => {
            let kind = if files.are_prepared() { manifests::Files::Generated } else { manifests::Files::ReadyMade };
            Ok(manifests::custom_manifests(service, &cluster, own, kind)?)
        }
        (Ok(Some(config)), "bootstrap.ign") if !files.are_prepared() => {
            Ok(Some(manifests::bootstrap(service, &cluster, config)?))
        }
        (found, _) => found,
    };
    match found {
        Ok(Some(contents)) => Ok(Answer::file(name, contents)),
        Ok(None) => Err(Refusal::not_found(format!("{name} of cluster {id} was not found"))),
        Err(error) => Err(Refusal::internal(&error)),
    }
}

fn too_early(id: ClusterId, state: ClusterState, what: &str, allowed: &[ClusterState]) -> Refusal {
    let allowed = allowed.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(" ");
    Refusal::conflict(format!(
        "cluster {id} is in {state} state, {what} can be downloaded only when status is one of: [{allowed}]"
    ))
}

/// The operator's, if it describes this cluster: the files beside it were created from it. All clusters of the service share the
/// directory, so for another cluster it is the one that the service created when the installation began.
fn install_config(files: Option<&ClusterFiles>, cluster: &ClusterRecord) -> Result<Answer, Refusal> {
    let given = files.map(|files| files.read(INSTALL_CONFIG)).transpose();
    let given = given.map_err(|error| Refusal::internal(&error))?.flatten();
    let own = &cluster.course.install_config;
    let own = (!own.is_empty()).then(|| own.expose().as_bytes().to_vec());
    let found = given.filter(|file| install_config::describes(file, cluster)).or(own);
    let id = cluster.cluster.id;
    let found = found.ok_or_else(|| Refusal::not_found(format!("{INSTALL_CONFIG} of cluster {id} was not found")))?;
    Ok(Answer::file(INSTALL_CONFIG, found))
}

/// With the CA of the cluster's ingress once its controller has reported it; before that the operator's file of that name.
fn kubeconfig(files: &ClusterFiles, cluster: &ClusterRecord) -> Result<(&'static str, Vec<u8>), Refusal> {
    let read = |name| files.read(name).map_err(|error| Refusal::internal(&error));
    let (given, plain) = (read("kubeconfig")?, read("kubeconfig-noingress")?);
    let merged = plain.as_deref().and_then(|plain| std::str::from_utf8(plain).ok());
    let merged = merged.filter(|_| !cluster.course.ingress_ca.is_empty());
    match merged.map(|plain| kubeconfig::with_ingress(plain, &cluster.course.ingress_ca)) {
        Some(merged) => match merged {
            Ok(merged) => Ok(("kubeconfig", merged.into_bytes())),
            Err(error) => Err(Refusal::internal(&error)),
        },
        None => given
            .map(|given| ("kubeconfig", given))
            .or(plain.map(|plain| ("kubeconfig-noingress", plain)))
            .ok_or_else(|| Refusal::not_found(format!("kubeconfig of cluster {} was not found", cluster.cluster.id))),
    }
}

/// GET /v2/infra-env/{id}/hosts/{id}/downloads/ignition (the published path is singular).
pub(crate) fn host_ignition(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let (name, config) = host_config(service, call)?;
    Ok(Answer::file(&name, config))
}

/// The config that a host is installed with, and the name of its file.
pub(crate) fn host_config(service: &Service, call: &Call) -> Result<(String, Vec<u8>), Refusal> {
    let key = call.host_key()?;
    let model = service.store.model();
    let record = find_host(&model, key)?;
    let cluster = record.host.cluster_id.and_then(|id| model.clusters.get(&id)).ok_or_else(|| {
        let HostKey { host, infra_env } = key;
        Refusal::not_found(format!("Cluster not found for host {host} in infra env {infra_env}"))
    })?;
    if !cluster.state.files_available() {
        return Err(too_early(cluster.cluster.id, cluster.state, "files", &ClusterState::WITH_FILES));
    }
    let name = preparing::host_file(&record);
    let files = ClusterFiles::of_cluster(service, cluster).filter(ClusterFiles::are_prepared);
    let prepared = files.map(|files| files.read(&name)).transpose().map_err(|error| Refusal::internal(&error))?;
    match prepared.flatten() {
        Some(config) => Ok((name, config)),
        None => Ok((name, documents::installed_host(service, &model, &record)?)),
    }
}

/// GET /landfall/config/{role}: the target of the pointer in a host's config.
///
/// Only Ignition fetches it, on the first boot from the installed disk, so it shows that a host has rebooted, as the log of a
/// control plane's config server does.
pub(crate) fn role_config(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let role = call.path("role");
    if !matches!(role, "master" | "arbiter" | "worker") {
        return Err(Refusal::unknown_path(&format!("/landfall/config/{role}")));
    }
    let host = call.query_uuid("host")?.map(HostId);
    let agent = call.header(&header::USER_AGENT);
    if let Some(host) = host.filter(|_| agent.starts_with("Ignition/")) {
        let model = service.store.model();
        let rebooting = |key: &&HostKey| {
            key.host == host
                && call.caller.sees_infra_env(&model, key.infra_env)
                && model.hosts[*key].stage() == Some(HostStage::Rebooting)
        };
        for key in model.hosts.keys().filter(rebooting) {
            service
                .change(call.request_id(), |change| agent::report(service, change, *key, HostStage::Configuring, ""))?;
        }
    }
    Ok(Answer::json(StatusCode::OK, &documents::role_config(role)))
}
