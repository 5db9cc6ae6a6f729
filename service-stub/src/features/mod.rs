//! Features of clusters: how well a release supports each, which exclude each other, and which a cluster uses.
//!
//! `features.txt` has a line for each: id; name; level, and from which version on another one; platforms without it, `*` where
//! it is a platform itself; features it excludes; architectures without it; the operator that it is. `NAME<VERSION` holds for
//! releases before that version.

mod selection;
#[cfg(test)]
mod tests;

pub use selection::{Platforms, Selection};

use crate::releases::version;
use serde::Serialize;
use std::sync::OnceLock;

const TABLE: &str = include_str!("features.txt");
const MANAGED_BY_PLATFORM: &str = "PLATFORM_MANAGED_NETWORKING";
const ORACLE: &str = "EXTERNAL_PLATFORM_OCI";

/// How well something is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Level {
    Supported,
    Unsupported,
    TechPreview,
    DevPreview,
    Unavailable,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "supported" => Some(Self::Supported),
            "tech-preview" => Some(Self::TechPreview),
            "dev-preview" => Some(Self::DevPreview),
            "unavailable" => Some(Self::Unavailable),
            _ => None,
        }
    }
}

/// Why something is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub enum Reason {
    CpuArchitecture,
    Platform,
    OpenshiftVersion,
    OciExternalIntegrationDisabled,
}

/// A name, or one that holds for older releases only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    name: &'static str,
    before: Option<&'static str>,
}

impl Bound {
    fn parse(text: &'static str) -> Self {
        match text.split_once('<') {
            Some((name, before)) => Self { name, before: Some(before) },
            None => Self { name: text, before: None },
        }
    }

    /// A version that can't be read is an old one.
    fn holds(&self, openshift_version: &str) -> bool {
        self.before.is_none_or(|before| version::at_least(openshift_version, before) != Some(true))
    }
}

/// A feature.
#[derive(Debug)]
pub struct Feature {
    /// Its id.
    pub id: &'static str,
    /// Its name, for people.
    pub name: &'static str,
    level: Level,
    later: Vec<(&'static str, Level)>,
    platforms: Vec<Bound>,
    is_platform: bool,
    excludes: Vec<Bound>,
    architectures: Vec<Bound>,
    /// The operator that it is.
    pub operator: Option<&'static str>,
}

/// What a question about levels is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question<'a> {
    /// Of a release.
    pub openshift_version: &'a str,
    /// Of hosts.
    pub cpu_architecture: &'a str,
    /// They run on.
    pub platform: Option<&'a str>,
    /// Name of an external platform.
    pub platform_name: Option<&'a str>,
}

impl Question<'_> {
    fn is_oracle(&self) -> bool {
        self.platform == Some("external") && self.platform_name == Some("oci")
    }
}

/// All features.
pub fn all() -> &'static [Feature] {
    static PARSED: OnceLock<Vec<Feature>> = OnceLock::new();
    PARSED.get_or_init(|| TABLE.lines().filter_map(parse).collect())
}

/// The feature with this id.
pub fn find(id: &str) -> Option<&'static Feature> {
    all().iter().find(|feature| feature.id == id)
}

fn parse(line: &'static str) -> Option<Feature> {
    let mut columns = line.split(" | ");
    let mut next = || columns.next();
    let (id, name, levels) = (next()?, next()?, next()?);
    let words = |text: &'static str| text.split(' ').filter(|word| *word != "-");
    let (platforms, excludes, architectures, operator) = (next()?, next()?, next()?, next()?);
    let mut levels = levels.split(' ');
    let level = Level::parse(levels.next()?)?;
    let later = levels.map(|step| {
        let (since, level) = step.split_once(':')?;
        Some((since, Level::parse(level)?))
    });
    Some(Feature {
        id,
        name,
        level,
        later: later.collect::<Option<_>>()?,
        is_platform: platforms == "*",
        platforms: words(platforms).filter(|word| *word != "*").map(Bound::parse).collect(),
        excludes: words(excludes).map(Bound::parse).collect(),
        architectures: words(architectures).map(Bound::parse).collect(),
        operator: words(operator).next(),
    })
}

impl Feature {
    fn suits_architecture(&self, openshift_version: &str, cpu_architecture: &str) -> bool {
        !self.architectures.iter().any(|own| own.name == cpu_architecture && own.holds(openshift_version))
    }

    /// Its level, and why it has none.
    pub fn level(&self, question: &Question) -> (Level, Option<Reason>) {
        let version = question.openshift_version;
        if !self.suits_architecture(version, question.cpu_architecture) {
            return (Level::Unavailable, Some(Reason::CpuArchitecture));
        }
        if self.id == MANAGED_BY_PLATFORM {
            return match question.platform {
                Some("external" | "none") => (Level::Supported, None),
                _ => (Level::Unsupported, Some(Reason::Platform)),
            };
        }
        if self.platforms.iter().any(|own| own.name == "oci") && question.is_oracle() {
            let reason = if self.id == "FULL_ISO" { Reason::OciExternalIntegrationDisabled } else { Reason::Platform };
            return (Level::Unavailable, Some(reason));
        }
        let elsewhere = |own: &Bound| Some(own.name) == question.platform && own.holds(version);
        if self.platforms.iter().any(elsewhere) {
            return (Level::Unavailable, Some(Reason::Platform));
        }
        let level = self.exception(question).unwrap_or_else(|| self.level_of_version(version));
        (level, (level == Level::Unavailable).then_some(Reason::OpenshiftVersion))
    }

    fn level_of_version(&self, openshift_version: &str) -> Level {
        if version::at_least(openshift_version, "0").is_none() && !self.later.is_empty() {
            return if self.id == ORACLE { Level::Supported } else { Level::Unavailable };
        }
        let reached = |(since, _): &&(&str, Level)| version::at_least(openshift_version, since) == Some(true);
        self.later.iter().rev().find(reached).map_or(self.level, |(_, level)| *level)
    }

    /// Levels that an architecture has for itself.
    fn exception(&self, question: &Question) -> Option<Level> {
        let minor = version::minor(question.openshift_version);
        match (self.id, question.cpu_architecture) {
            ("SNO" | "SINGLE_NODE_EXPANSION", "s390x" | "ppc64le") if minor.as_deref() == Some("4.13") => {
                Some(Level::DevPreview)
            }
            ("CNV", "arm64") => Some(Level::DevPreview),
            _ => None,
        }
    }

    /// Ids of features it can't be together with.
    pub fn excluded(&self, openshift_version: &str) -> impl Iterator<Item = &'static str> {
        self.excludes.iter().filter(|own| own.holds(openshift_version)).map(|own| own.name)
    }

    /// Told to clients: features of platforms where none is named, that of managed networking where one is.
    fn is_listed(&self, with_platform: bool) -> bool {
        match with_platform {
            true => !self.is_platform,
            false => self.id != MANAGED_BY_PLATFORM,
        }
    }
}

/// A feature with its level, as clients are told.
#[derive(Debug)]
pub struct Answered {
    /// The feature.
    pub feature: &'static Feature,
    /// Its level.
    pub level: Level,
    /// Why it has none.
    pub reason: Option<Reason>,
    /// What it excludes; none where nothing is supported.
    pub excluded: Option<Vec<&'static str>>,
}

/// All features, for one question.
pub fn answer(question: &Question) -> Vec<Answered> {
    let (version, with_platform) = (question.openshift_version, question.platform.is_some());
    if !is_architecture_supported(question.cpu_architecture, version) {
        let none = |feature| Answered { feature, level: Level::Unavailable, reason: None, excluded: None };
        return all().iter().map(none).collect();
    }
    let listed = all().iter().filter(|feature| feature.is_listed(with_platform));
    let told = listed.map(|feature| {
        let (level, reason) = feature.level(question);
        let told = |id: &&str| find(id).is_none_or(|other| other.is_listed(with_platform));
        Answered { feature, level, reason, excluded: Some(feature.excluded(version).filter(told).collect()) }
    });
    told.collect()
}

/// Architectures by the names their levels have.
pub const ARCHITECTURES: [(&str, &str); 5] = [
    ("ARM64_ARCHITECTURE", "arm64"),
    ("MULTIARCH_RELEASE_IMAGE", "multi"),
    ("PPC64LE_ARCHITECTURE", "ppc64le"),
    ("S390X_ARCHITECTURE", "s390x"),
    ("X86_64_ARCHITECTURE", "x86_64"),
];

/// How well a release supports an architecture.
pub fn architecture_level(architecture: &str, openshift_version: &str) -> Level {
    let from = |since| version::at_least(openshift_version, since) == Some(true);
    match architecture {
        "x86_64" => Level::Supported,
        "arm64" if from("4.10") => Level::Supported,
        "s390x" | "ppc64le" if from("4.13") => Level::Supported,
        "s390x" | "ppc64le" if from("4.12") => Level::TechPreview,
        "multi" if from("4.11") => Level::TechPreview,
        _ => Level::Unavailable,
    }
}

/// Whether a release runs on an architecture.
pub fn is_architecture_supported(architecture: &str, openshift_version: &str) -> bool {
    architecture_level(architecture, openshift_version) != Level::Unavailable
}

/// Whether a feature can be used with a release on an architecture.
pub fn is_available(id: &str, openshift_version: &str, cpu_architecture: &str) -> bool {
    let question = Question { openshift_version, cpu_architecture, ..Question::default() };
    find(id).is_none_or(|feature| feature.level(&question).0 != Level::Unavailable)
}

/// Why features can't be used together, with a release and on an architecture; without an architecture or a version that is not
/// asked.
pub fn check(active: &[&Feature], openshift_version: &str, cpu_architecture: &str) -> Result<(), String> {
    if !cpu_architecture.is_empty() && !openshift_version.is_empty() {
        if !is_architecture_supported(cpu_architecture, openshift_version) {
            return Err(format!(
                "cannot use {cpu_architecture} architecture because it's not compatible on version {openshift_version} of OpenShift"
            ));
        }
        for feature in active {
            let unavailable = || !is_available(feature.id, openshift_version, cpu_architecture);
            // Of no platform in particular, its level says nothing.
            if feature.id != MANAGED_BY_PLATFORM && unavailable() {
                return Err(format!(
                    "cannot use {} because it's not compatible with the {cpu_architecture} architecture on version {openshift_version} of OpenShift",
                    feature.name
                ));
            }
        }
    }
    for feature in active {
        for id in feature.excluded(openshift_version) {
            if let Some(other) = active.iter().find(|other| other.id == id) {
                return Err(format!("cannot use {} because it's not compatible with {}", feature.name, other.name));
            }
        }
    }
    Ok(())
}
