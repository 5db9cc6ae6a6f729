//! Support levels as they are published.

use super::row::{Level, OCI, Platform, Query, Reason};
use super::{Architecture, Feature};
use crate::operators;
use crate::releases::version::Version;
use kernel::order::Gather;
use serde::Serialize;
use std::collections::BTreeMap;

/// A query that names nothing that could be installed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("invalid openshift version: Malformed version: {0}")]
    Version(String),
    #[error("cpu architecture {architecture} is not supported for openshift version {version}")]
    Architecture { architecture: &'static str, version: String },
    #[error("platform {platform} is not supported for openshift version {version} and cpu architecture {architecture}")]
    Platform { platform: &'static str, version: String, architecture: &'static str },
}

/// Whether there are clusters of this version, architecture and platform.
pub(crate) fn check_query(query: &Query) -> Result<(), Unfit> {
    let version = crate::http::call::shortened(query.version);
    if Version::parse(query.version).is_none() {
        return Err(Unfit::Version(version));
    }
    let architecture = query.architecture.name();
    if !query.architecture.runs(query.version) {
        return Err(Unfit::Architecture { architecture, version });
    }
    match query.platform {
        Some(platform) if !runs_on_platform(platform, query) => {
            Err(Unfit::Platform { platform: platform.name(), version, architecture })
        }
        _ => Ok(()),
    }
}

fn runs_on_platform(platform: Platform, query: &Query) -> bool {
    let feature = match platform {
        Platform::Baremetal => Feature::BaremetalPlatform,
        Platform::None => Feature::NonePlatform,
        Platform::Nutanix => Feature::NutanixIntegration,
        Platform::Vsphere => Feature::VsphereIntegration,
        Platform::External if query.external_name == Some(OCI) => Feature::ExternalPlatformOci,
        Platform::External => Feature::ExternalPlatform,
    };
    feature.row().level(&Query { platform: None, ..*query }).0.is_usable()
}

/// Levels of all architectures.
pub(crate) fn architectures(version: &str) -> BTreeMap<&'static str, Level> {
    Architecture::ALL.into_iter().map(|architecture| (architecture.id(), architecture.level(version))).gather()
}

/// Levels of all features. Where the version does not run on the architecture there is none.
pub(crate) fn levels(query: &Query) -> BTreeMap<&'static str, Level> {
    if !query.architecture.runs(query.version) {
        return Feature::ALL.iter().map(|feature| (feature.id(), Level::Unavailable)).gather();
    }
    listed(query).map(|feature| (feature.id(), feature.row().level(query).0)).gather()
}

fn listed(query: &Query) -> impl Iterator<Item = Feature> {
    let with_platform = query.platform.is_some();
    Feature::ALL.iter().copied().filter(move |feature| feature.is_listed(with_platform))
}

/// Levels with all that follows from them.
#[derive(Serialize)]
pub(crate) struct DetailedLevels {
    features: Vec<DetailedLevel>,
    operators: Vec<OperatorLevel>,
}

#[derive(Serialize)]
struct DetailedLevel {
    #[serde(rename = "feature-support-level-id")]
    feature: Feature,
    incompatibilities: Vec<Feature>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    support_level: Level,
}

#[derive(Serialize)]
struct OperatorLevel {
    #[serde(flatten)]
    level: DetailedLevel,
    dependencies: Vec<Feature>,
    name: &'static str,
}

/// The detailed list.
pub(crate) fn detailed_levels(query: &Query) -> DetailedLevels {
    let mut all = DetailedLevels { features: Vec::new(), operators: Vec::new() };
    for feature in listed(query) {
        let level = detailed(feature, query);
        match operators::installs(feature) {
            None => all.features.push(level),
            Some(operator) => {
                let dependencies = operator.needed_features().collect();
                all.operators.push(OperatorLevel { level, dependencies, name: operator.name });
            }
        }
    }
    all
}

fn detailed(feature: Feature, query: &Query) -> DetailedLevel {
    let row = feature.row();
    let (support_level, reason) = row.level(query);
    let with_platform = query.platform.is_some();
    let incompatibilities = row.excluded(query.version).filter(|other| other.is_listed(with_platform)).collect();
    DetailedLevel { feature, incompatibilities, reason, support_level }
}
