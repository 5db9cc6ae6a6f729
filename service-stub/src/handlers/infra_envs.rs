//! Infra-envs: made, shown, changed, deleted.

use super::{infra_env_settings, models, support_levels};
use crate::auth;
use crate::documents;
use crate::events::{self, kinds};
use crate::find::{find_cluster, find_infra_env};
use crate::http::body::{self, BodyShape, form, integer, length, object, one_of, shape, text, uuid};
use crate::http::{Answer, Call, Refusal};
use crate::infra_env::DISCONNECTED_ISO;
use crate::model::{ClusterRecord, InfraEnvRecord};
use crate::releases::{ARCHITECTURES, Catalogue, MULTI, NEWEST_MINOR, normal_architecture, version};
use crate::service::Service;
use crate::text::url_part;
use crate::view;
use api::{InfraEnv, InfraEnvCreateParams, InfraEnvId, InfraEnvUpdateParams, Timestamp};
use axum::http::StatusCode;
use serde_json::json;

pub(crate) const NEW_INFRA_ENV: BodyShape = shape(
    "infraenvCreateParams",
    "InfraEnvCreateParams",
    &[
        text("additional_ntp_sources").nullable(),
        length("additional_trust_bundle", 0, 65_535),
        uuid("cluster_id").nullable(),
        one_of("cpu_architecture", &ARCHITECTURES).or_zero(),
        text("ignition_config_override"),
        one_of("image_type", models::IMAGE_TYPES).or_zero().described("=full-iso"),
        body::list("kernel_arguments", &models::KERNEL_ARGUMENTS),
        object("mirror_registry_configuration", &models::MIRROR_REGISTRY),
        text("name").required(),
        integer("network_discovery_delay_seconds", 0, i64::MAX).nullable(),
        text("ntp_sources").nullable(),
        text("openshift_version"),
        text("os_stream").nullable(),
        object("proxy", &models::PROXY),
        text("pull_secret").required(),
        form("rendezvous_ip", &models::RENDEZVOUS_IP).nullable(),
        text("ssh_authorized_key").nullable(),
        body::list("static_network_config", &models::HOST_NETWORK),
    ],
);

/// POST /v2/infra-envs.
pub(crate) fn create(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let params: InfraEnvCreateParams = call.json(&NEW_INFRA_ENV)?;
    create_from(service, call, params, InfraEnvId::random())
}

/// As [`create`], under an id of our own.
pub(crate) fn create_as(service: &Service, call: &Call, id: InfraEnvId) -> Result<Answer, Refusal> {
    create_from(service, call, call.json(&NEW_INFRA_ENV)?, id)
}

fn create_from(
    service: &Service,
    call: &Call,
    params: InfraEnvCreateParams,
    id: InfraEnvId,
) -> Result<Answer, Refusal> {
    let architecture = normal_architecture(params.cpu_architecture.as_deref().unwrap_or_default()).to_owned();
    let catalogue = service.catalogue();
    let catalogue = catalogue.as_deref();
    let model = service.store.model();
    if let Some(cluster) = params.cluster_id {
        let unknown = || Refusal::not_found(format!("Cluster ID {cluster} does not exist"));
        let cluster = model.clusters.get(&cluster).ok_or_else(unknown)?;
        let version = params.openshift_version.as_deref().unwrap_or_default();
        check_cluster(catalogue, cluster, &architecture, version).map_err(Refusal::invalid)?;
    }
    infra_env_settings::check_new(params.ssh_authorized_key.as_deref(), params.pull_secret.expose())?;
    let of_cluster = params.cluster_id.and_then(|id| model.clusters.get(&id)?.settings.get("os_stream")?.as_str());
    let own_stream = params.os_stream.as_deref().filter(|stream| !stream.is_empty());
    let os_stream = own_stream.or(of_cluster).unwrap_or_default().to_owned();
    let infra_env = InfraEnv {
        cluster_id: params.cluster_id,
        cpu_architecture: architecture,
        href: format!("{}/v2/infra-envs/{id}", api::API_PATH),
        id,
        kind: "InfraEnv".into(),
        kind_of_image: params.image_type.clone().unwrap_or_else(|| "full-iso".into()),
        name: params.name,
        openshift_version: params.openshift_version.unwrap_or_default(),
        os_stream,
        user_name: "admin".into(),
        ..InfraEnv::default()
    };
    let listed = os_image_version(catalogue, &infra_env).map_err(Refusal::invalid)?;
    let openshift_version = listed.unwrap_or_else(|| infra_env.openshift_version.clone());
    let cluster = params.cluster_id.and_then(|id| model.clusters.get(&id));
    let openshift_version = match openshift_version.as_str() {
        "" => default_version(service, cluster.map(AsRef::as_ref)),
        _ => openshift_version,
    };
    let agent_token = service.settings.auth.agent_token(id, 0).unwrap_or_default();
    let signing_key = auth::new_signing_key();
    let mut record = InfraEnvRecord { infra_env, agent_token, signing_key, ..InfraEnvRecord::default() };
    let settings = InfraEnvUpdateParams {
        additional_ntp_sources: params.additional_ntp_sources,
        additional_trust_bundle: params.additional_trust_bundle,
        ignition_config_override: params.ignition_config_override,
        image_type: params.image_type,
        kernel_arguments: params.kernel_arguments,
        mirror_registry_configuration: params.mirror_registry_configuration,
        network_discovery_delay_seconds: params.network_discovery_delay_seconds,
        ntp_sources: params.ntp_sources,
        openshift_version: Some(openshift_version),
        os_stream: None,
        proxy: params.proxy,
        pull_secret: Some(params.pull_secret),
        rendezvous_ip: params.rendezvous_ip,
        ssh_authorized_key: params.ssh_authorized_key,
        static_network_config: params.static_network_config,
    };
    let notes = infra_env_settings::apply(&mut record, settings)?;
    documents::check_discovery(service, &record)?;
    service.change(call.request_id(), |change| {
        if let Some(cluster) = record.infra_env.cluster_id {
            find_cluster(change.model(), cluster)?;
            support_levels::check_infra_env(change.model(), &record)?;
        }
        record.infra_env.created_at = change.now;
        record.infra_env.updated_at = change.now;
        events::infra_env(change, &record, kinds::INFRA_ENV_REGISTERED);
        events::image_updated(change, &record);
        events::networks_without_effect(change, &record, &notes);
        let answer = Answer::json(StatusCode::CREATED, &published(service, &record));
        change.put_infra_env(record);
        Ok(answer)
    })
}

/// Hosts of an infra-env have one architecture: that of the cluster, or of a cluster of several one that its release runs on.
fn check_cluster(
    catalogue: Option<&Catalogue>,
    cluster: &ClusterRecord,
    architecture: &str,
    version: &str,
) -> Result<(), String> {
    let own = &cluster.cluster;
    if own.cpu_architecture != MULTI {
        if !own.cpu_architecture.is_empty() && normal_architecture(&own.cpu_architecture) != architecture {
            return Err(format!(
                "Specified CPU architecture ({architecture}) doesn't match the cluster ({})",
                own.cpu_architecture
            ));
        }
        return Ok(());
    }
    let version = if version.is_empty() { own.openshift_version.as_str() } else { version };
    match catalogue.filter(|catalogue| catalogue.lists_releases()) {
        Some(catalogue) => catalogue.check_host_release(version, architecture).map_err(|why| why.to_string()),
        None => Ok(()),
    }
}

/// The minor release of an infra-env that names no version and has no OS image: the cluster's, else the one offered by default,
/// else the newest known.
fn default_version(service: &Service, cluster: Option<&ClusterRecord>) -> String {
    let of_cluster =
        cluster.map(|record| record.cluster.openshift_version.as_str()).filter(|version| !version.is_empty());
    let catalogue = service.catalogue();
    let release = catalogue.as_deref().and_then(Catalogue::default_release);
    let offered = release.map(|release| &release.version).or(service.settings.openshift_versions.last());
    let full = of_cluster.or(offered.map(String::as_str)).unwrap_or(NEWEST_MINOR);
    version::minor(full).unwrap_or_else(|| full.to_owned())
}

/// The version by which the OS image is listed that hosts boot; none where none is listed.
fn os_image_version(catalogue: Option<&Catalogue>, own: &InfraEnv) -> Result<Option<String>, String> {
    let (version, architecture) = (own.openshift_version.as_str(), own.cpu_architecture.as_str());
    let offline = || catalogue?.offline_image(version, architecture).filter(|_| own.kind_of_image == DISCONNECTED_ISO);
    if let Some(image) = offline() {
        return Ok(Some(image.openshift_version.clone()));
    }
    let Some(catalogue) = catalogue.filter(|catalogue| catalogue.lists_os_images()) else { return Ok(None) };
    let image = match version {
        "" => catalogue
            .latest_os_image(architecture, &own.os_stream)
            .map_err(|why| format!("Failed to get latest OS image for architecture {architecture}: {why}"))?,
        version => catalogue.os_image(version, architecture, &own.os_stream).map_err(|why| {
            format!("No OS image for Openshift version {version} and architecture {architecture}: {why}")
        })?,
    };
    Ok(Some(image.openshift_version.clone()))
}

pub(crate) const CHANGED_INFRA_ENV: BodyShape = shape(
    "infraEnvUpdateParams",
    "InfraEnvUpdateParams",
    &[
        text("additional_ntp_sources").nullable(),
        length("additional_trust_bundle", 0, 65_535).nullable(),
        text("ignition_config_override"),
        one_of("image_type", models::IMAGE_TYPES).or_zero().described("=full-iso"),
        body::list("kernel_arguments", &models::KERNEL_ARGUMENTS),
        object("mirror_registry_configuration", &models::MIRROR_REGISTRY),
        integer("network_discovery_delay_seconds", 0, i64::MAX).nullable(),
        text("ntp_sources").nullable(),
        text("openshift_version").nullable(),
        text("os_stream").nullable(),
        object("proxy", &models::PROXY),
        text("pull_secret"),
        form("rendezvous_ip", &models::RENDEZVOUS_IP).nullable(),
        text("ssh_authorized_key").nullable(),
        body::list("static_network_config", &models::HOST_NETWORK),
    ],
);

/// PATCH /v2/infra-envs/{id}: the next image that is fetched has the new settings.
pub(crate) fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    let params: InfraEnvUpdateParams = call.json(&CHANGED_INFRA_ENV)?;
    let catalogue = service.catalogue();
    let catalogue = catalogue.as_deref();
    service.change(call.request_id(), |change| {
        let mut record = InfraEnvRecord::clone(find_infra_env(change.model(), id)?.as_ref());
        let notes = infra_env_settings::apply(&mut record, params)?;
        let own = &record.infra_env;
        os_image_version(catalogue, own).map_err(Refusal::invalid)?;
        if let Some(cluster) = own.cluster_id.and_then(|id| change.model().clusters.get(&id)) {
            check_cluster(catalogue, cluster, &own.cpu_architecture, &own.openshift_version)
                .map_err(Refusal::invalid)?;
        }
        support_levels::check_infra_env(change.model(), &record)?;
        documents::check_discovery(service, &record)?;
        record.infra_env.updated_at = change.now;
        events::image_updated(change, &record);
        events::networks_without_effect(change, &record, &notes);
        let answer = Answer::json(StatusCode::CREATED, &published(service, &record));
        change.put_infra_env(record);
        Ok(answer)
    })
}

/// An infra-env as it is published: its ISO's address follows the service's, which may have moved since.
fn published(service: &Service, record: &InfraEnvRecord) -> InfraEnv {
    let (download_url, expires_at) = image_url(service, record);
    let mut infra_env =
        InfraEnv { download_url, expires_at, email_domain: view::NO_DOMAIN.to_owned(), ..record.infra_env.clone() };
    if infra_env.openshift_version.is_empty() {
        // Stored by a program that knew no default.
        infra_env.openshift_version = default_version(service, None);
    }
    infra_env
}

/// Where an infra-env's ISO is, and until when: short, and without a query, for management controllers.
pub(crate) fn image_url(service: &Service, record: &InfraEnvRecord) -> (String, Timestamp) {
    let infra_env = &record.infra_env;
    let part = |text: &str| {
        let plain = url_part(text);
        if plain.is_empty() { "any".to_owned() } else { plain }
    };
    let (id, version, architecture) = (infra_env.id, &infra_env.openshift_version, &infra_env.cpu_architecture);
    let (place, expires_at) = match service.settings.auth.image_token(record) {
        Some((token, expires_at)) => (format!("bytoken/{token}"), expires_at),
        None => (format!("byid/{id}"), Timestamp::ZERO),
    };
    let file = match infra_env.kind_of_image.as_str() {
        "minimal-iso" => "minimal.iso",
        DISCONNECTED_ISO => "disconnected.iso",
        _ => "full.iso",
    };
    (format!("{}/{place}/{}/{}/{file}", service.settings.url, part(version), part(architecture)), expires_at)
}

/// POST /v2/infra-envs/{id}/regenerate-signing-key: addresses signed before are no longer good, nor are agents' tokens, which
/// everybody who had such an address may have.
pub(crate) fn regenerate_signing_key(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    service.change(call.request_id(), |change| {
        let mut record = InfraEnvRecord::clone(&*find_infra_env(change.model(), id)?);
        record.signing_key = auth::new_signing_key();
        record.key_generation = record.key_generation.saturating_add(1);
        record.agent_token = service.settings.auth.agent_token(id, record.key_generation).unwrap_or_default();
        let generation = record.key_generation;
        tracing::warn!(infra_env = %id, generation, "new signing key: agents need an image with their new token");
        change.put_infra_env(record);
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}

/// GET /v2/infra-envs.
pub(crate) fn list(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let cluster = call.query_uuid("cluster_id")?.map(api::ClusterId);
    let model = service.store.model();
    let owner = call.query("owner");
    let wanted = |record: &&InfraEnvRecord| {
        let infra_env = &record.infra_env;
        (cluster.is_none() || infra_env.cluster_id == cluster)
            && owner.is_none_or(|owner| infra_env.user_name == owner)
            && call.caller.sees_infra_env(&model, infra_env.id)
    };
    let infra_envs = model.infra_envs.values().map(AsRef::as_ref);
    let all: Vec<InfraEnv> = infra_envs
        .filter(wanted)
        .map(|record| match call.watches {
            // An image has the agents' token in it.
            true => InfraEnv { download_url: String::new(), expires_at: Timestamp::ZERO, ..published(service, record) },
            false => published(service, record),
        })
        .collect();
    Ok(Answer::json(StatusCode::OK, &all))
}

/// GET /v2/infra-envs/{id}.
pub(crate) fn get(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_infra_env(&service.store.model(), call.infra_env_id()?)?;
    Ok(Answer::json(StatusCode::OK, &published(service, &record)))
}

/// DELETE /v2/infra-envs/{id}; refused while hosts are registered in it.
pub(crate) fn delete(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    service.change(call.request_id(), |change| {
        let record = find_infra_env(change.model(), id)?;
        let hosts = change.model().hosts_of_infra_env(id).len();
        if hosts > 0 {
            let reason = format!("failed to deregister infraEnv {id}, {hosts} hosts are still associated");
            events::infra_env_with(change, &record, kinds::INFRA_ENV_DEREGISTER_FAILED, json!({"error": reason}));
            return Ok(Err(Refusal::invalid(reason)));
        }
        events::infra_env(change, &record, kinds::INFRA_ENV_DEREGISTERED);
        change.remove_infra_env(id);
        Ok(Ok(Answer::empty(StatusCode::NO_CONTENT)))
    })?
}
