//! Infra-envs: made, shown, changed, deleted.

use super::{clusters::check_pull_secret, find_cluster, find_infra_env, infra_env_settings, shapes};
use crate::auth;
use crate::documents;
use crate::events::{self, kinds};
use crate::http::{Answer, Call, Refusal};
use crate::model::InfraEnvRecord;
use crate::service::Service;
use api::{InfraEnv, InfraEnvCreateParams, InfraEnvId, InfraEnvUpdateParams, Secret, Timestamp};
use axum::http::StatusCode;

/// POST /v2/infra-envs.
pub fn create(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    create_as(service, call, InfraEnvId::random())
}

/// As [`create`], under an id of our own.
pub fn create_as(service: &Service, call: &Call, id: InfraEnvId) -> Result<Answer, Refusal> {
    let params: InfraEnvCreateParams = call.json(&shapes::NEW_INFRA_ENV)?;
    if params.name.is_empty() {
        return Err(Refusal::bad_request("name in body is required"));
    }
    check_pull_secret(params.pull_secret.expose())?;
    let infra_env = InfraEnv {
        cluster_id: params.cluster_id,
        cpu_architecture: params.cpu_architecture.unwrap_or_else(|| "x86_64".into()),
        href: format!("{}/v2/infra-envs/{id}", api::API_PATH),
        id,
        kind: "InfraEnv".into(),
        kind_of_image: "full-iso".into(),
        name: params.name,
        user_name: "admin".into(),
        ..InfraEnv::default()
    };
    let agent_token = service.settings.auth.agent_token(id).unwrap_or_default();
    let signing_key = auth::new_signing_key();
    let mut record = InfraEnvRecord { infra_env, pull_secret: Secret::default(), agent_token, signing_key };
    let settings = InfraEnvUpdateParams {
        additional_ntp_sources: params.additional_ntp_sources,
        additional_trust_bundle: params.additional_trust_bundle,
        ignition_config_override: params.ignition_config_override,
        image_type: params.image_type,
        kernel_arguments: params.kernel_arguments,
        network_discovery_delay_seconds: params.network_discovery_delay_seconds,
        ntp_sources: params.ntp_sources,
        openshift_version: params.openshift_version,
        proxy: params.proxy,
        pull_secret: Some(params.pull_secret),
        rendezvous_ip: params.rendezvous_ip,
        ssh_authorized_key: params.ssh_authorized_key,
        static_network_config: params.static_network_config,
    };
    infra_env_settings::apply(&mut record, settings)?;
    documents::check_discovery(service, &record)?;
    service.change(call.request_id(), |change| {
        if let Some(cluster) = record.infra_env.cluster_id {
            find_cluster(change.model(), cluster)?;
        }
        record.infra_env.created_at = change.now;
        record.infra_env.updated_at = change.now;
        events::infra_env(change, &record, kinds::INFRA_ENV_REGISTERED);
        events::image_updated(change, &record);
        let answer = Answer::json(StatusCode::CREATED, &shown(service, &record));
        change.put_infra_env(record);
        Ok(answer)
    })
}

/// PATCH /v2/infra-envs/{id}: the next image that is fetched has the new settings.
pub fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    let params: InfraEnvUpdateParams = call.json(&shapes::UPDATE_INFRA_ENV)?;
    service.change(call.request_id(), |change| {
        let mut record = InfraEnvRecord::clone(find_infra_env(change.model(), id)?.as_ref());
        infra_env_settings::apply(&mut record, params)?;
        documents::check_discovery(service, &record)?;
        record.infra_env.updated_at = change.now;
        events::image_updated(change, &record);
        let answer = Answer::json(StatusCode::CREATED, &shown(service, &record));
        change.put_infra_env(record);
        Ok(answer)
    })
}

/// An infra-env as it is published: its ISO's address follows the service's, which may have moved since.
fn shown(service: &Service, record: &InfraEnvRecord) -> InfraEnv {
    let (download_url, expires_at) = image_url(service, record);
    InfraEnv { download_url, expires_at, ..record.infra_env.clone() }
}

/// Where an infra-env's ISO is, and until when: short, and without a query, for management controllers.
pub fn image_url(service: &Service, record: &InfraEnvRecord) -> (String, Timestamp) {
    let infra_env = &record.infra_env;
    let part = |text: &str| {
        let plain = text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
        let plain: String = plain.collect();
        if plain.is_empty() { "any".to_owned() } else { plain }
    };
    let (id, version, architecture) = (infra_env.id, &infra_env.openshift_version, &infra_env.cpu_architecture);
    let (place, expires_at) = match service.settings.auth.image_token(record) {
        Some((token, expires_at)) => (format!("bytoken/{token}"), expires_at),
        None => (format!("byid/{id}"), Timestamp::ZERO),
    };
    let file = if infra_env.kind_of_image == "minimal-iso" { "minimal.iso" } else { "full.iso" };
    (format!("{}/{place}/{}/{}/{file}", service.settings.url, part(version), part(architecture)), expires_at)
}

/// POST /v2/infra-envs/{id}/regenerate-signing-key: addresses signed before are no longer good.
pub fn regenerate_signing_key(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    service.change(call.request_id(), |change| {
        let mut record = InfraEnvRecord::clone(&*find_infra_env(change.model(), id)?);
        record.signing_key = auth::new_signing_key();
        change.put_infra_env(record);
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}

/// GET /v2/infra-envs.
pub fn list(service: &Service, call: &Call) -> Result<Answer, Refusal> {
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
    let all: Vec<InfraEnv> = infra_envs.filter(wanted).map(|record| shown(service, record)).collect();
    Ok(Answer::json(StatusCode::OK, &all))
}

/// GET /v2/infra-envs/{id}.
pub fn get(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_infra_env(&service.store.model(), call.infra_env_id()?)?;
    Ok(Answer::json(StatusCode::OK, &shown(service, &record)))
}

/// DELETE /v2/infra-envs/{id}; refused while hosts are registered in it.
pub fn delete(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    service.change(call.request_id(), |change| {
        let record = find_infra_env(change.model(), id)?;
        let hosts = change.model().hosts_of_infra_env(id).len();
        if hosts > 0 {
            return Err(Refusal::invalid(format!("infra_env {id} still has {hosts} host(s): delete them first")));
        }
        events::infra_env(change, &record, kinds::INFRA_ENV_DEREGISTERED);
        change.remove_infra_env(id);
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}
