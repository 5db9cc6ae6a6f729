//! Processor architectures, and the versions that run on them.

use super::row::{Level, Levels, level_at};

/// A processor architecture, or a release for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    X86_64,
    Arm64,
    S390x,
    Ppc64le,
    /// A release image for several architectures.
    Multi,
}

impl Architecture {
    pub(crate) const ALL: [Self; 5] = [Self::X86_64, Self::Arm64, Self::S390x, Self::Ppc64le, Self::Multi];

    /// The architecture of a published name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let name = crate::releases::normal_architecture(name);
        Self::ALL.into_iter().find(|architecture| architecture.name() == name)
    }

    /// Its published name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "arm64",
            Self::S390x => "s390x",
            Self::Ppc64le => "ppc64le",
            Self::Multi => "multi",
        }
    }

    /// Its name in the list of support levels.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::X86_64 => "X86_64_ARCHITECTURE",
            Self::Arm64 => "ARM64_ARCHITECTURE",
            Self::S390x => "S390X_ARCHITECTURE",
            Self::Ppc64le => "PPC64LE_ARCHITECTURE",
            Self::Multi => "MULTIARCH_RELEASE_IMAGE",
        }
    }

    /// How well a version runs on it.
    pub(crate) fn level(self, version: &str) -> Level {
        use Level::{Supported, TechPreview};
        let levels: Levels = match self {
            Self::X86_64 => &[("", Supported)],
            Self::Arm64 => &[("4.10", Supported)],
            Self::S390x | Self::Ppc64le => &[("4.12", TechPreview), ("4.13", Supported)],
            Self::Multi => &[("4.11", TechPreview)],
        };
        level_at(levels, version)
    }

    /// Whether a version can be installed on it at all.
    pub(crate) fn runs(self, version: &str) -> bool {
        self.level(version).is_usable()
    }
}
