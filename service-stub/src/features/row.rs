//! A row of the table of features, and how it is read.

use super::architecture::Architecture;
use super::feature::Feature;
use crate::releases::version::{Version, at_least};
use serde::Serialize;

/// How well something is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    /// In full.
    Supported,
    /// It works, without any promise.
    TechPreview,
    /// It may work.
    DevPreview,
    /// It makes no sense there.
    Unsupported,
    /// It does not work.
    Unavailable,
}

impl Level {
    /// It may be chosen.
    pub(crate) fn is_usable(self) -> bool {
        !matches!(self, Self::Unsupported | Self::Unavailable)
    }
}

/// Why something is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Reason {
    CpuArchitecture,
    OpenshiftVersion,
    Platform,
    /// Oracle's cloud boots no full ISO.
    OciExternalIntegrationDisabled,
}

/// Platforms of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    Baremetal,
    None,
    Nutanix,
    Vsphere,
    External,
}

impl Platform {
    /// Published names, in the published order.
    pub(crate) const NAMES: [&'static str; 5] = ["baremetal", "none", "nutanix", "vsphere", "external"];

    const ALL: [Self; 5] = [Self::Baremetal, Self::None, Self::Nutanix, Self::Vsphere, Self::External];

    /// The platform of a published name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|platform| platform.name() == name)
    }

    /// Its published name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Baremetal => Self::NAMES[0],
            Self::None => Self::NAMES[1],
            Self::Nutanix => Self::NAMES[2],
            Self::Vsphere => Self::NAMES[3],
            Self::External => Self::NAMES[4],
        }
    }
}

/// Name of Oracle's cloud among the external platforms.
pub(crate) const OCI: &str = "oci";

/// What support levels are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a> {
    pub(crate) version: &'a str,
    pub(crate) architecture: Architecture,
    /// Platform; none for any.
    pub(crate) platform: Option<Platform>,
    /// Name of an external platform.
    pub(crate) external_name: Option<&'a str>,
}

impl Query<'_> {
    fn is_oci(&self) -> bool {
        self.platform == Some(Platform::External) && self.external_name == Some(OCI)
    }
}

/// Levels, each from a version on; before the first there is none. An empty version is the first of all.
pub(crate) type Levels = &'static [(&'static str, Level)];

/// In full, with every version.
pub(crate) const ALWAYS: Levels = &[("", Level::Supported)];

/// The level at a version. A version that can't be read has the first level only where no other follows.
pub(crate) fn level_at(levels: Levels, version: &str) -> Level {
    if let [("", level)] = levels {
        return *level;
    }
    let readable = version.is_empty() || Version::parse_base(version).is_some();
    let reached = |since: &str| if since.is_empty() { readable } else { at_least(version, since) == Some(true) };
    let found = levels.iter().rev().find(|(since, _)| reached(since));
    found.map_or(Level::Unavailable, |(_, level)| *level)
}

/// Where a feature is not supported, if a platform is named.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ground {
    /// On these.
    On(&'static [Platform]),
    /// On all but these.
    NotOn(&'static [Platform]),
    /// On this one, before a version.
    Before(Platform, &'static str),
    /// On Oracle's cloud.
    OnOci,
}

impl Ground {
    fn holds(self, query: &Query) -> bool {
        let Some(platform) = query.platform else { return false };
        match self {
            Self::On(platforms) => platforms.contains(&platform),
            Self::NotOn(platforms) => !platforms.contains(&platform),
            Self::Before(bounded, version) => bounded == platform && at_least(query.version, version) != Some(true),
            Self::OnOci => query.is_oci(),
        }
    }
}

/// Some that hold always, and some that hold before a version.
#[derive(Clone, Copy, Debug)]
struct Excluded<T: 'static> {
    always: &'static [T],
    bound: &'static str,
    before: &'static [T],
}

impl<T: Copy> Excluded<T> {
    const NONE: Self = Self { always: &[], bound: "", before: &[] };

    /// Those that hold at a version; of one that can't be read all.
    fn at(self, version: &str) -> impl Iterator<Item = T> {
        let before = if at_least(version, self.bound) == Some(true) { &[] } else { self.before };
        self.always.iter().chain(before).copied()
    }
}

/// The rules of one feature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// As refusals name it.
    pub(crate) name: &'static str,
    levels: Levels,
    levels_on: (&'static [Architecture], Levels),
    grounds: &'static [Ground],
    ground_level: Level,
    ground_reason: Reason,
    version_first: bool,
    features: Excluded<Feature>,
    architectures: Excluded<Architecture>,
}

/// Building a row.
impl Row {
    /// A feature with these levels, where nothing else is said.
    pub(crate) const fn new(name: &'static str, levels: Levels) -> Self {
        Self {
            name,
            levels,
            levels_on: (&[], &[]),
            grounds: &[],
            ground_level: Level::Unavailable,
            ground_reason: Reason::Platform,
            version_first: false,
            features: Excluded::NONE,
            architectures: Excluded::NONE,
        }
    }

    /// Other levels on some architectures.
    pub(crate) const fn levels_on(self, architectures: &'static [Architecture], levels: Levels) -> Self {
        Self { levels_on: (architectures, levels), ..self }
    }

    /// Not supported for any of these grounds.
    pub(crate) const fn unless(self, grounds: &'static [Ground]) -> Self {
        Self { grounds, ..self }
    }

    /// Level and reason where one of the grounds holds.
    pub(crate) const fn refused_as(self, level: Level, reason: Reason) -> Self {
        Self { ground_level: level, ground_reason: reason, ..self }
    }

    /// Where both the version and the platform are wrong, the version is the reason.
    pub(crate) const fn version_first(self) -> Self {
        Self { version_first: true, ..self }
    }

    /// Not together with these.
    pub(crate) const fn excludes(self, features: &'static [Feature]) -> Self {
        Self { features: Excluded { always: features, ..self.features }, ..self }
    }

    /// Before a version not together with these either.
    pub(crate) const fn excludes_before(self, bound: &'static str, features: &'static [Feature]) -> Self {
        Self { features: Excluded { bound, before: features, ..self.features }, ..self }
    }

    pub(crate) const fn not_on(self, architectures: &'static [Architecture]) -> Self {
        Self { architectures: Excluded { always: architectures, ..self.architectures }, ..self }
    }

    /// Before a version not on these either.
    pub(crate) const fn not_on_before(self, bound: &'static str, architectures: &'static [Architecture]) -> Self {
        Self { architectures: Excluded { bound, before: architectures, ..self.architectures }, ..self }
    }
}

/// Reading a row.
impl Row {
    pub(crate) fn excluded(&self, version: &str) -> impl Iterator<Item = Feature> {
        self.features.at(version)
    }

    /// Whether it works on an architecture, with a version that does.
    pub(crate) fn fits(&self, version: &str, architecture: Architecture) -> bool {
        self.architectures.at(version).all(|other| other != architecture)
    }

    /// Its level, and why where it is not supported. The architecture as a whole is not looked at.
    pub(crate) fn level(&self, query: &Query) -> (Level, Option<Reason>) {
        if !self.fits(query.version, query.architecture) {
            return (Level::Unavailable, Some(Reason::CpuArchitecture));
        }
        let (others, levels) = self.levels_on;
        let levels = if others.contains(&query.architecture) { levels } else { self.levels };
        let level = level_at(levels, query.version);
        let by_version = (level == Level::Unavailable).then_some((level, Some(Reason::OpenshiftVersion)));
        let refused = self.grounds.iter().any(|ground| ground.holds(query));
        let by_platform = refused.then_some((self.ground_level, Some(self.ground_reason)));
        let (first, second) = if self.version_first { (by_version, by_platform) } else { (by_platform, by_version) };
        first.or(second).unwrap_or((level, None))
    }
}
