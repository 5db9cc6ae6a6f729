//! What can't be had together.

use super::{Architecture, ClusterFacts, Feature, Level, Query};

/// A choice that can't be installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Incompatible {
    /// The version has another network plug-in.
    #[error("Openshift version {0} is not supported for OpenShiftSDN NetworkType")]
    Sdn(String),
    /// The version does not run there.
    #[error("cannot use {architecture} architecture because it's not compatible on version {version} of OpenShift")]
    Architecture { architecture: &'static str, version: String },
    /// The feature does not work there.
    #[error(
        "cannot use {feature} because it's not compatible with the {architecture} architecture on version {version} of \
         OpenShift"
    )]
    Feature { feature: &'static str, architecture: &'static str, version: String },
    /// Two features exclude each other.
    #[error("cannot use {feature} because it's not compatible with {other}")]
    Features {
        feature: &'static str,
        /// Name of the other.
        other: &'static str,
    },
}

/// Holds the features of a cluster against each other and, where it is known, against an architecture.
pub(crate) fn check(facts: &ClusterFacts, architecture: Option<Architecture>) -> Result<(), Incompatible> {
    let version = facts.version;
    let used: Vec<Feature> = Feature::ALL.iter().copied().filter(|feature| facts.uses(*feature)).collect();
    let plain = |architecture| Query { version, architecture, platform: None, external_name: None };
    if used.contains(&Feature::SdnNetworkType) {
        let (level, _) = Feature::SdnNetworkType.row().level(&plain(Architecture::X86_64));
        if level == Level::Unavailable {
            return Err(Incompatible::Sdn(version.to_owned()));
        }
    }
    if let Some(architecture) = architecture.filter(|_| !version.is_empty()) {
        let (name, version) = (architecture.name(), version.to_owned());
        if !architecture.runs(&version) {
            return Err(Incompatible::Architecture { architecture: name, version });
        }
        let query = plain(architecture);
        if let Some(feature) = used.iter().find(|feature| feature.row().level(&query).0 == Level::Unavailable) {
            return Err(Incompatible::Feature { feature: feature.row().name, architecture: name, version });
        }
    }
    for feature in &used {
        if let Some(other) = feature.row().excluded(version).find(|other| used.contains(other)) {
            return Err(Incompatible::Features { feature: feature.row().name, other: other.row().name });
        }
    }
    Ok(())
}
