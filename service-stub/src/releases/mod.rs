//! The catalogue: which releases can be installed, from which image, and which OS images hosts boot.
//!
//! It is read once, from the operator's files; [`ReleaseSources`] add to it. Without one the service takes any version as it is written.

mod args;
mod error;
mod file;
mod os_images;
mod sources;
#[cfg(test)]
mod tests;
pub(crate) mod version;

pub(crate) use args::CatalogueArgs;
pub(crate) use error::{CatalogueError, NotListed};
pub use file::Listing;
pub(crate) use file::{ARCHITECTURES, string_map};
pub use os_images::{IsoArgument, OsImage, Target};
pub use sources::ReleaseSources;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use version::{Form, Version};

/// Architecture of a request that names none.
pub(crate) const DEFAULT_ARCHITECTURE: &str = "x86_64";
/// The newest minor release whose rules and features this program knows.
pub(crate) const NEWEST_MINOR: &str = "4.22";
/// A release for several architectures.
pub(crate) const MULTI: &str = "multi";
const MULTI_SUFFIX: &str = "-multi";

/// How well a release is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SupportLevel {
    /// Before it is final.
    Beta,
    /// In full.
    Production,
    /// Only mended.
    Maintenance,
    /// No longer.
    EndOfLife,
}

impl SupportLevel {
    fn guess(version: &str) -> Self {
        match Version::parse(without_multi(version)) {
            Some(version) if version.is_prerelease() => Self::Beta,
            _ => Self::Production,
        }
    }
}

/// `release-image`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// What a request names, as `4.22`.
    pub openshift_version: String,
    /// One architecture, or `multi`.
    pub cpu_architecture: String,
    pub(crate) cpu_architectures: Vec<String>,
    pub url: String,
    /// In full, as `4.22.9`.
    pub version: String,
    /// Recommended.
    pub default: bool,
    /// As listed; else by the version.
    pub(crate) support_level: Option<SupportLevel>,
}

impl Release {
    fn runs_on(&self, architecture: &str) -> bool {
        self.cpu_architecture == architecture || self.cpu_architectures.iter().any(|own| own == architecture)
    }

    /// Its hosts may differ in architecture.
    pub(crate) fn is_multi(&self) -> bool {
        self.cpu_architectures.len() > 1
    }

    /// As listed; one that is not listed so is in production once it is final.
    pub fn level(&self) -> SupportLevel {
        self.support_level.unwrap_or_else(|| SupportLevel::guess(&self.version))
    }

    fn is_listed_beta(&self) -> bool {
        self.support_level == Some(SupportLevel::Beta)
    }
}

/// Images that gather logs, by name: `ocp` is the cluster's own, others are those of operators.
pub type MustGather = BTreeMap<String, String>;

/// What can be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    releases: Vec<Release>,
    os_images: Vec<OsImage>,
    /// Hosts of versions without an OS image boot another ISO.
    others_boot: bool,
    must_gather: BTreeMap<String, MustGather>,
    /// Versions, in full or minor, whose releases are not offered.
    ignored: Vec<String>,
}

impl Catalogue {
    /// Reads the given lists; without any there is no catalogue.
    pub fn read(
        release_images: Option<&Listing>,
        os_images: Option<&Listing>,
        must_gather_images: Option<&Listing>,
    ) -> Result<Option<Self>, CatalogueError> {
        if release_images.is_none() && os_images.is_none() && must_gather_images.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            releases: release_images.map(file::releases).transpose()?.unwrap_or_default(),
            os_images: os_images.map(file::os_images).transpose()?.unwrap_or_default(),
            others_boot: false,
            must_gather: must_gather_images.map(file::must_gather).transpose()?.unwrap_or_default(),
            ignored: Vec::new(),
        }))
    }

    /// From now on releases of these versions, in full or minor, are not offered.
    pub fn ignore(&mut self, versions: &Listing) -> Result<(), CatalogueError> {
        self.ignored = file::versions(versions)?;
        Ok(())
    }

    fn is_ignored(&self, release: &Release) -> bool {
        let version = without_multi(&release.version);
        let minor = version::minor(version);
        self.ignored.iter().any(|own| own == version || Some(own) == minor.as_ref())
    }

    fn check_ignored<'a>(&self, release: &'a Release) -> Result<&'a Release, NotListed> {
        if self.is_ignored(release) {
            return Err(NotListed::Ignored(without_multi(&release.version).to_owned()));
        }
        Ok(release)
    }

    /// Release images are listed: only those can be installed.
    pub(crate) fn lists_releases(&self) -> bool {
        !self.releases.is_empty()
    }

    /// The recommended release; without one the last in the operator's list.
    pub(crate) fn default_release(&self) -> Option<&Release> {
        self.releases.iter().find(|release| release.default).or_else(|| self.releases.last())
    }

    /// All releases, in the operator's order.
    pub fn releases(&self) -> &[Release] {
        &self.releases
    }

    /// The release for a requested version: exactly that, or the latest of a minor release.
    pub fn release(&self, version: &str, architecture: &str) -> Result<&Release, NotListed> {
        let architecture = normal_architecture(architecture);
        let fits = |release: &&Release| release.runs_on(architecture);
        let missing = || NotListed::Release { version: version.to_owned(), architecture: architecture.to_owned() };
        match version::form(version) {
            None | Some(Form::Major) => Err(NotListed::Version(version.to_owned())),
            Some(Form::Patch) => {
                let found = self.releases.iter().filter(fits).find(|release| release.version == version);
                self.check_ignored(found.ok_or_else(missing)?)
            }
            Some(Form::Minor) => {
                let named = || self.releases.iter().filter(fits).filter(|release| release.openshift_version == version);
                named().next().ok_or_else(missing)?;
                latest(named().filter(|release| !self.is_ignored(release))).ok_or(NotListed::NoneMatching)
            }
        }
    }

    /// The release with this image, for an architecture.
    pub(crate) fn release_at(&self, url: &str, architecture: &str) -> Result<&Release, NotListed> {
        let architecture = normal_architecture(architecture);
        let found = self.releases.iter().find(|release| release.url == url);
        let release = found.ok_or_else(|| NotListed::Image(url.to_owned()))?;
        if self.is_ignored(release) {
            let version = without_multi(&release.version).to_owned();
            return Err(NotListed::ImageIgnored { url: url.to_owned(), version });
        }
        let refused = || NotListed::ImageArchitecture {
            url: url.to_owned(),
            architecture: architecture.to_owned(),
            others: release.cpu_architectures.join(" "),
        };
        match architecture {
            MULTI if !release.is_multi() => Err(NotListed::ImageOfOne(url.to_owned())),
            MULTI => Ok(release),
            one if release.cpu_architectures.iter().any(|own| own == one) => Ok(release),
            _ => Err(refused()),
        }
    }

    /// Images that gather logs of a version: listed for it and its architecture, for its minor release and architecture, or for
    /// its minor release.
    pub fn must_gather(&self, version: &str, architecture: &str) -> Option<&MustGather> {
        let minor = version::minor(version);
        let keys =
            [Some(format!("{version}-{architecture}")), minor.as_ref().map(|minor| format!("{minor}-{architecture}"))];
        keys.into_iter().flatten().chain(minor.clone()).find_map(|key| self.must_gather.get(&key))
    }

    /// Releases by the name clients see them by: those whose version holds a text, and of those perhaps only the latest of each
    /// minor release. Architectures without an OS image are left out.
    pub(crate) fn offers(&self, version: Option<&str>, only_latest: bool) -> BTreeMap<String, Offer> {
        let offered: Vec<&Release> = self.releases.iter().filter(|release| !self.is_ignored(release)).collect();
        let latest = latest_of_each_minor(&offered);
        let wanted = |release: &&Release| {
            version.is_none_or(|text| release.version.contains(text))
                && (!only_latest || latest.iter().any(|latest| latest.url == release.url))
        };
        let mut offers: BTreeMap<String, Offer> = BTreeMap::new();
        for release in offered.iter().copied().filter(wanted) {
            for architecture in &release.cpu_architectures {
                if self.lists_os_images() && self.os_image(&release.version, architecture, "").is_err() {
                    continue;
                }
                let name = display_name(release);
                let offer = offers.entry(name.clone()).or_insert_with(|| Offer::new(&name, release.level()));
                offer.default |= release.default;
                offer.add(architecture);
            }
        }
        offers
    }

    /// Whether a host of this architecture can join a cluster of several: some release of that minor version runs on it. Says
    /// which versions do, otherwise.
    pub(crate) fn check_host_release(&self, version: &str, architecture: &str) -> Result<(), NotListed> {
        if architecture == MULTI {
            return Err(NotListed::HostsOfSeveral);
        }
        let minor = version::minor(version).ok_or(NotListed::Malformed)?;
        let mut others: Vec<&str> = Vec::new();
        for release in self.releases.iter().filter(|release| release.runs_on(architecture)) {
            if version::minor(&release.openshift_version).as_deref() == Some(minor.as_str()) {
                return Ok(());
            }
            others.push(&release.openshift_version);
        }
        Err(NotListed::HostRelease { minor, architecture: architecture.to_owned(), others: others.join(",") })
    }
}

/// A final release before any beta, then the newest.
fn latest<'a>(releases: impl Iterator<Item = &'a Release>) -> Option<&'a Release> {
    releases.reduce(|best, release| {
        let newer = Version::parse(without_multi(&release.version)) >= Version::parse(without_multi(&best.version));
        let better = match (best.is_listed_beta(), release.is_listed_beta()) {
            (true, false) => true,
            (true, true) | (false, false) => newer,
            (false, true) => false,
        };
        if better { release } else { best }
    })
}

/// Of each minor release the releases with the best version, one for each architecture.
fn latest_of_each_minor<'a>(releases: &[&'a Release]) -> Vec<&'a Release> {
    let mut minors: Vec<String> =
        releases.iter().filter_map(|release| version::minor(&release.openshift_version)).collect();
    minors.sort_unstable();
    minors.dedup();
    let mut all = Vec::new();
    for minor in minors {
        let of_minor =
            || releases.iter().copied().filter(|release| version::minor(&release.version).as_ref() == Some(&minor));
        let Some(best) = latest(of_minor()) else { continue };
        all.extend(of_minor().filter(|release| without_multi(&release.version) == without_multi(&best.version)));
    }
    all
}

/// `openshift-version`: a release as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Offer {
    cpu_architectures: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    default: bool,
    display_name: String,
    support_level: SupportLevel,
}

impl Offer {
    fn new(name: &str, support_level: SupportLevel) -> Self {
        Self { cpu_architectures: Vec::new(), default: false, display_name: name.to_owned(), support_level }
    }

    fn add(&mut self, architecture: &str) {
        if !self.cpu_architectures.iter().any(|own| own == architecture) {
            self.cpu_architectures.push(architecture.to_owned());
        }
    }
}

fn without_multi(version: &str) -> &str {
    version.strip_suffix(MULTI_SUFFIX).unwrap_or(version)
}

/// The name under which clients see a release: one for several architectures says so.
fn display_name(release: &Release) -> String {
    match release.is_multi() && !release.version.ends_with(MULTI_SUFFIX) {
        true => format!("{}{MULTI_SUFFIX}", release.version),
        false => release.version.clone(),
    }
}

/// Architectures have two names.
pub(crate) fn normal_architecture(architecture: &str) -> &str {
    match architecture {
        "" => DEFAULT_ARCHITECTURE,
        "amd64" => "x86_64",
        "aarch64" => "arm64",
        other => other,
    }
}
