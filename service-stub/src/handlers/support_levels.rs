//! Support levels, and the refusals that follow from them.

use crate::features::{self, Architecture, ClusterFacts, Feature, Incompatible, Level, Platform, Query};
use crate::find::find_cluster;
use crate::http::{Answer, Call, Refusal};
use crate::model::{ClusterRecord, InfraEnvRecord, Model};
use crate::service::Service;
use axum::http::StatusCode;
use serde_json::json;

impl From<Incompatible> for Refusal {
    fn from(incompatible: Incompatible) -> Self {
        Self::invalid(incompatible)
    }
}

/// The query of a request for levels; `architectures` are those it may name.
pub(super) fn query<'a>(call: &'a Call, version: &'a str, architectures: &[&str]) -> Result<Query<'a>, Refusal> {
    let architecture = match call.query("cpu_architecture") {
        None => Architecture::X86_64,
        Some(_) => {
            let name = call.query_one_of("cpu_architecture", architectures)?;
            Architecture::parse(name).unwrap_or(Architecture::X86_64)
        }
    };
    let platform = match call.query("platform_type") {
        None => None,
        Some(_) => Platform::parse(call.query_one_of("platform_type", &Platform::NAMES)?),
    };
    Ok(Query { version, architecture, platform, external_name: call.query("external_platform_name") })
}

/// Names of architectures that a query may have.
pub(super) const ARCHITECTURES: [&str; 6] = ["x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi"];

fn version(call: &Call) -> Result<&str, Refusal> {
    call.query("openshift_version").ok_or_else(|| Refusal::bad_request("openshift_version in query is required"))
}

/// GET /v2/support-levels/features.
pub(crate) fn features(_: &Service, call: &Call) -> Result<Answer, Refusal> {
    let query = query(call, version(call)?, &ARCHITECTURES)?;
    Ok(Answer::json(StatusCode::OK, &json!({"features": features::levels(&query)})))
}

/// GET /v2/support-levels/features/detailed.
pub(crate) fn detailed_features(_: &Service, call: &Call) -> Result<Answer, Refusal> {
    let query = query(call, version(call)?, &["x86_64", "arm64", "ppc64le", "s390x", "multi"])?;
    features::check_query(&query).map_err(Refusal::invalid)?;
    Ok(Answer::json(StatusCode::OK, &features::detailed_levels(&query)))
}

/// GET /v2/support-levels/architectures.
pub(crate) fn architectures(_: &Service, call: &Call) -> Result<Answer, Refusal> {
    Ok(Answer::json(StatusCode::OK, &json!({"architectures": features::architectures(version(call)?)})))
}

/// Whether a new cluster's features go together, on the architecture that was asked for.
pub(crate) fn check_new_cluster(record: &ClusterRecord, architecture: &str) -> Result<(), Refusal> {
    Ok(features::check(&ClusterFacts::new(record, &[]), Architecture::parse(architecture))?)
}

/// Whether a changed cluster's features go together, on the architectures of its infra-envs.
pub(crate) fn check_cluster(model: &Model, record: &ClusterRecord) -> Result<(), Refusal> {
    if record.day2() {
        return Ok(());
    }
    let hosts = model.hosts_of_cluster(record.cluster.id);
    let facts = ClusterFacts::new(record, &hosts);
    for InfraEnvRecord { infra_env, .. } in model.infra_envs_of_cluster(record.cluster.id) {
        let facts = ClusterFacts { image_type: Some(&infra_env.kind_of_image), ..facts.clone() };
        features::check(&facts, Architecture::parse(&infra_env.cpu_architecture))?;
    }
    Ok(features::check(&facts, None)?)
}

/// Whether an infra-env's image goes together with the features of its cluster.
pub(crate) fn check_infra_env(model: &Model, record: &InfraEnvRecord) -> Result<(), Refusal> {
    let infra_env = &record.infra_env;
    let cluster = infra_env.cluster_id.and_then(|id| model.clusters.get(&id));
    let Some(cluster) = cluster.filter(|cluster| !cluster.day2()) else { return Ok(()) };
    let hosts = model.hosts_of_cluster(cluster.cluster.id);
    let facts = ClusterFacts { image_type: Some(&infra_env.kind_of_image), ..ClusterFacts::new(cluster, &hosts) };
    Ok(features::check(&facts, Architecture::parse(&infra_env.cpu_architecture))?)
}

/// GET /v2/clusters/{id}/supported-platforms: those that all hosts can be installed on, by their makers.
pub(crate) fn supported_platforms(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let model = service.store.model();
    let record = find_cluster(&model, call.cluster_id()?)?;
    let hosts = model.hosts_of_cluster(record.cluster.id);
    if hosts.is_empty() || record.single_node() {
        return Ok(Answer::json(StatusCode::OK, &["none"]));
    }
    let all_by = |name: &str| {
        hosts.iter().all(|host| {
            let vendor = host.facts().inventory.as_ref().and_then(|inventory| inventory.system_vendor.as_ref());
            vendor.is_some_and(|vendor| vendor.manufacturer == name)
        })
    };
    let version = record.cluster.openshift_version.as_str();
    let works = |feature: Feature| {
        let architecture = Architecture::parse(&record.cluster.cpu_architecture);
        architecture.is_none_or(|architecture| {
            let query = Query { version, architecture, platform: None, external_name: None };
            feature.row().level(&query).0 != Level::Unavailable
        })
    };
    let platforms = [
        ("vsphere", all_by("VMware, Inc.") && works(Feature::VsphereIntegration)),
        ("baremetal", true),
        ("none", true),
        ("nutanix", all_by("Nutanix") && works(Feature::NutanixIntegration)),
        ("external", works(Feature::ExternalPlatform)),
    ];
    let names: Vec<&str> = platforms.into_iter().filter_map(|(name, works)| works.then_some(name)).collect();
    Ok(Answer::json(StatusCode::OK, &names))
}
