//! Releases that are fetched: the versions in channels of an update graph, with the support level of their minor release.
//!
//! Parse (both services' documents), then plan (releases), then apply: a new catalogue, in which the operator's own list counts first.

use super::{
    Catalogue, CatalogueError, DEFAULT_ARCHITECTURE, Listing, MULTI, Release, SupportLevel, file, normal_architecture,
    version,
};
use api::http::{HttpConfigError, build, configuration, public_url};
use api::proxy::ProxyVariables;
use api::{BodyError, read_body};
use kernel::Cancel;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, time::Duration};
use version::{Form, Version};

/// Where the images of releases are.
const REPOSITORY: &str = "quay.io/openshift-release-dev/ocp-release";
/// Below the base URL of the update service.
const GRAPH: &str = "api/upgrades_info/v1/graph";
/// The name by which the support levels are asked for.
const PRODUCT: &str = "Red Hat OpenShift Container Platform";
/// A graph with all its edges has one or two.
const MAX_BYTES: u64 = 16 << 20;
/// Most releases of all sources together.
const MAX_RELEASES: usize = 4096;
/// For one document.
const TIME: Duration = Duration::from_secs(60);
/// The longest pause after a failure.
const RETRY: Duration = Duration::from_secs(300);

/// The versions of a channel for an architecture.
type Versions<'a> = dyn Fn(&str, &str) -> Result<Vec<String>, FetchError> + 'a;

/// A minor release and where its releases are listed, as the published service has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    pub(super) openshift_version: String,
    #[serde(default)]
    pub(super) multi_cpu_architectures: Vec<String>,
    pub(super) upgrade_channels: Vec<Channels>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Channels {
    pub(super) cpu_architecture: String,
    channels: Vec<Channel>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Channel {
    Candidate,
    Fast,
    Stable,
    Eus,
}

impl Channel {
    fn as_str(self) -> &'static str {
        match self {
            Self::Candidate => "candidate",
            Self::Fast => "fast",
            Self::Stable => "stable",
            Self::Eus => "eus",
        }
    }
}

/// Which releases are fetched, from where, and how often.
#[derive(Clone, Debug, Default)]
pub struct ReleaseSources {
    pub(crate) list: Vec<Source>,
    /// The update service.
    graph_url: String,
    /// The support levels of minor releases.
    levels_url: String,
    interval: Duration,
}

/// By minor release.
type Levels = BTreeMap<String, SupportLevel>;

/// Why nothing new is known.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error(transparent)]
    Http(#[from] HttpConfigError),
    #[error("cannot fetch {url}")]
    Request { url: String, source: Box<ureq::Error> },
    #[error("cannot fetch {url}")]
    Body { url: String, source: BodyError },
    #[error("{url} is not {expected}")]
    Form { url: String, expected: &'static str, source: serde_json::Error },
    #[error("the sources have more than {MAX_RELEASES} releases")]
    TooMany,
}

#[derive(Deserialize)]
struct Graph {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    version: String,
}

#[derive(Deserialize)]
struct LifeCycle {
    data: Vec<Product>,
}

#[derive(Deserialize)]
struct Product {
    versions: Vec<MinorRelease>,
}

#[derive(Deserialize)]
struct MinorRelease {
    name: String,
    #[serde(rename = "type")]
    phase: String,
}

impl LifeCycle {
    fn levels(self) -> Levels {
        let level = |phase: &str| match phase {
            "End of life" => Some(SupportLevel::EndOfLife),
            "Maintenance Support" => Some(SupportLevel::Maintenance),
            "Full Support" => Some(SupportLevel::Production),
            _ => None,
        };
        let versions = self.data.into_iter().flat_map(|product| product.versions);
        versions.filter_map(|minor| Some((minor.name, level(&minor.phase)?))).collect()
    }
}

impl Source {
    /// `version` is one of its minor release.
    fn release(&self, version: &str, architecture: &str, channel: Channel, levels: &Levels) -> Release {
        let image = if architecture == "arm64" { "aarch64" } else { architecture };
        let is_beta = channel == Channel::Candidate || Version::parse(version).is_some_and(|own| own.is_prerelease());
        let several = self.multi_cpu_architectures.iter().map(|own| normal_architecture(own).to_owned());
        let named = |version: &str| match architecture {
            MULTI => format!("{version}-{MULTI}"),
            _ => version.to_owned(),
        };
        Release {
            openshift_version: named(&self.openshift_version),
            cpu_architecture: architecture.to_owned(),
            cpu_architectures: match architecture {
                MULTI => several.collect(),
                one => vec![one.to_owned()],
            },
            url: format!("{REPOSITORY}:{version}-{image}"),
            version: named(version),
            default: false,
            support_level: if is_beta {
                Some(SupportLevel::Beta)
            } else {
                levels.get(&self.openshift_version).copied()
            },
        }
    }
}

impl ReleaseSources {
    /// Without a list nothing is fetched.
    pub fn read(
        list: Option<&Listing>,
        graph_url: &str,
        levels_url: &str,
        interval: Duration,
    ) -> Result<Self, CatalogueError> {
        let list = list.map(sources).transpose()?.unwrap_or_default();
        Ok(Self { list, graph_url: graph_url.to_owned(), levels_url: levels_url.to_owned(), interval })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All releases, each image once. `versions` gives those of a channel for an architecture, by the graph's name of it.
    fn releases(&self, levels: &Levels, versions: &Versions<'_>) -> Result<Vec<Release>, FetchError> {
        let mut all: BTreeMap<String, Release> = BTreeMap::new();
        for source in &self.list {
            for Channels { cpu_architecture, channels } in &source.upgrade_channels {
                let architecture = normal_architecture(cpu_architecture);
                let asked = if architecture == DEFAULT_ARCHITECTURE { "amd64" } else { architecture };
                for channel in channels {
                    let listed = versions(&format!("{}-{}", channel.as_str(), source.openshift_version), asked)?;
                    // A channel has releases of other minors too, that can be updated.
                    let own = |text: &&String| {
                        version::form(text) == Some(Form::Patch)
                            && version::minor(text).as_ref() == Some(&source.openshift_version)
                    };
                    for text in listed.iter().filter(own) {
                        let release = source.release(text, architecture, *channel, levels);
                        let known = all.entry(release.url.clone()).or_insert_with(|| release.clone());
                        if known.support_level == Some(SupportLevel::Beta) {
                            known.support_level = release.support_level;
                        }
                    }
                }
            }
            if all.len() > MAX_RELEASES {
                return Err(FetchError::TooMany);
            }
        }
        let mut all: Vec<Release> = all.into_values().collect();
        let of_default = |release: &&mut Release| {
            release.cpu_architecture == DEFAULT_ARCHITECTURE && release.level() == SupportLevel::Production
        };
        if let Some(newest) = all.iter_mut().filter(of_default).max_by_key(|release| Version::parse(&release.version)) {
            newest.default = true;
        }
        Ok(all)
    }

    /// What both services say now.
    fn fetch(&self, agent: &ureq::Agent, listed: &Catalogue) -> Result<Catalogue, FetchError> {
        let life_cycle: LifeCycle = get(agent, &self.levels_url, &[("name", PRODUCT)], "a list of support levels")?;
        let levels = life_cycle.levels();
        let graph = format!("{}/{GRAPH}", self.graph_url.trim_end_matches('/'));
        let fetched = self.releases(&levels, &|channel, architecture| {
            let query = [("channel", channel), ("arch", architecture)];
            let graph: Graph = get(agent, &graph, &query, "an update graph")?;
            Ok(graph.nodes.into_iter().map(|node| node.version).collect())
        })?;
        Ok(listed.with(fetched, &levels))
    }

    /// Fetches until it is cancelled. What is fetched is added to what the operator has listed, and published.
    pub(crate) fn work(&self, listed: &Catalogue, cancel: &Cancel, publish: &dyn Fn(Catalogue)) {
        let agent = match configuration(&[], false) {
            Ok(configured) => build(configured.timeout_global(Some(TIME)), ProxyVariables::from_env()),
            Err(error) => return tracing::error!(error = crate::text::chain(&error), "cannot fetch lists of releases"),
        };
        while !cancel.is_cancelled() {
            let pause = match self.fetch(&agent, listed) {
                Ok(catalogue) => {
                    tracing::info!(releases = catalogue.releases().len(), "fetched the lists of releases");
                    publish(catalogue);
                    self.interval
                }
                Err(error) => {
                    let pause = self.interval.min(RETRY);
                    let error = crate::text::chain(&error);
                    tracing::warn!(error, retry_in_s = pause.as_secs(), "cannot fetch the lists of releases");
                    pause
                }
            };
            cancel.sleep(pause);
        }
    }
}

/// The list of sources of releases.
fn sources(list: &Listing) -> Result<Vec<Source>, CatalogueError> {
    let all: Vec<Source> = file::parse(list, "a JSON list of release sources")?;
    file::bound(list, all.len())?;
    let known = |name: &str| file::is_architecture(normal_architecture(name), true);
    for (index, source) in all.iter().enumerate() {
        let of_channels = source.upgrade_channels.iter().map(|own| &own.cpu_architecture);
        let mut architectures = source.multi_cpu_architectures.iter().chain(of_channels);
        let why = if version::form(&source.openshift_version) != Some(Form::Minor) {
            format!(
                "openshift_version: '{}' is not a minor release such as 4.22",
                file::shortened(&source.openshift_version)
            )
        } else if let Some(bad) = architectures.find(|name| !known(name)) {
            format!("'{}' is not an architecture", file::shortened(bad))
        } else {
            continue;
        };
        return Err(CatalogueError::Entry { path: list.name(), index: index + 1, why });
    }
    Ok(all)
}

impl Catalogue {
    /// The same with releases that are not listed yet, and with support levels where none is listed.
    fn with(&self, fetched: Vec<Release>, levels: &Levels) -> Self {
        let mut all = self.clone();
        for release in &mut all.releases {
            if release.support_level.is_none() && release.level() != SupportLevel::Beta {
                let minor = version::minor(&release.version);
                release.support_level = minor.and_then(|minor| levels.get(&minor).copied());
            }
        }
        let has_default = all.releases.iter().any(|release| release.default);
        let is_new = |release: &Release| self.releases.iter().all(|listed| listed.url != release.url);
        let new = fetched.into_iter().filter(is_new);
        all.releases.extend(new.map(|release| Release { default: release.default && !has_default, ..release }));
        all
    }
}

fn get<T: DeserializeOwned>(
    agent: &ureq::Agent,
    url: &str,
    query: &[(&str, &str)],
    expected: &'static str,
) -> Result<T, FetchError> {
    let shown = || public_url(url);
    let request = agent.get(url).query_pairs(query.iter().copied());
    let response = request.call();
    let mut response = response.map_err(|source| FetchError::Request { url: shown(), source: Box::new(source) })?;
    let bytes = read_body(&mut response, MAX_BYTES).map_err(|source| FetchError::Body { url: shown(), source })?;
    serde_json::from_slice(&bytes).map_err(|source| FetchError::Form { url: shown(), expected, source })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use std::cell::RefCell;
    use testkit::http::{Server, reply};

    fn made(list: &serde_json::Value, base: &str) -> ReleaseSources {
        let list = Listing::Text(list.to_string());
        let (graph, levels) = (format!("{base}/graph/"), format!("{base}/levels"));
        ReleaseSources::read(Some(&list), &graph, &levels, Duration::from_secs(1800)).unwrap()
    }

    /// Version, image, level and default of each.
    fn shown(releases: &[Release]) -> Vec<String> {
        let line = |release: &Release| {
            let image = release.url.rsplit(':').next().unwrap();
            let default = if release.default { " default" } else { "" };
            format!("{} {image} {:?}{default}", release.version, release.level())
        };
        releases.iter().map(line).collect()
    }

    #[test]
    fn channels_are_read_by_minor_release_and_architecture() {
        let sources = made(
            &json!([
                {"openshift_version": "4.22", "multi_cpu_architectures": ["x86_64", "aarch64"], "upgrade_channels": [
                    {"cpu_architecture": "x86_64", "channels": ["candidate", "stable"]},
                    {"cpu_architecture": "arm64", "channels": ["stable"]},
                    {"cpu_architecture": "multi", "channels": ["stable"]}]},
                {"openshift_version": "4.20", "upgrade_channels": [{"cpu_architecture": "amd64", "channels": ["eus"]}]},
            ]),
            "",
        );
        let asked = RefCell::new(Vec::new());
        let versions = |channel: &str, architecture: &str| {
            asked.borrow_mut().push(format!("{channel} {architecture}"));
            let listed: &[&str] = match channel {
                "candidate-4.22" => &["4.22.10", "4.22.11", "4.23.0-ec.1", "4.22.0-rc.1", "4.22.9/../x", "x\n"],
                "stable-4.22" => &["4.21.9", "4.22.9", "4.22.10"],
                _ => &["4.20.30"],
            };
            Ok(listed.iter().map(|text| (*text).to_owned()).collect())
        };
        let levels = [("4.22", SupportLevel::Production), ("4.20", SupportLevel::Maintenance)];
        let levels = levels.map(|(minor, level)| (minor.to_owned(), level)).into();
        let releases = sources.releases(&levels, &versions).unwrap();
        let expected = [
            "4.20.30 4.20.30-x86_64 Maintenance",
            "4.22.0-rc.1 4.22.0-rc.1-x86_64 Beta",
            "4.22.10 4.22.10-aarch64 Production",
            "4.22.10-multi 4.22.10-multi Production",
            "4.22.10 4.22.10-x86_64 Production default",
            "4.22.11 4.22.11-x86_64 Beta",
            "4.22.9 4.22.9-aarch64 Production",
            "4.22.9-multi 4.22.9-multi Production",
            "4.22.9 4.22.9-x86_64 Production",
        ];
        assert_eq!(shown(&releases), expected);
        let several = releases.iter().find(|release| release.version == "4.22.9-multi").unwrap();
        assert_eq!((several.openshift_version.as_str(), several.is_multi()), ("4.22-multi", true));
        let all =
            ["candidate-4.22 amd64", "stable-4.22 amd64", "stable-4.22 arm64", "stable-4.22 multi", "eus-4.20 amd64"];
        assert_eq!(*asked.borrow(), all);
    }

    #[test]
    fn what_is_fetched_is_added_to_the_operators_list() {
        let list = json!([{"openshift_version": "4.22", "cpu_architecture": "x86_64", "version": "4.22.9",
            "url": format!("{REPOSITORY}:4.22.9-x86_64"), "default": true}]);
        let listed = Catalogue::read(Some(&Listing::Text(list.to_string())), None, None).unwrap().unwrap();
        let server = Server::start(|request| match request.path() {
            path if path.starts_with("/graph") => reply(
                "200 OK",
                "",
                br#"{"nodes": [{"version": "4.22.9"}, {"version": "4.22.10", "payload": "x"}], "edges": [[0, 1]]}"#,
            ),
            _ => reply("200 OK", "", br#"{"data": [{"versions": [{"name": "4.22", "type": "Full Support"}]}]}"#),
        });
        let list = json!([{"openshift_version": "4.22",
            "upgrade_channels": [{"cpu_architecture": "x86_64", "channels": ["stable"]}]}]);
        let sources = made(&list, &server.url(""));
        let cancel = Cancel::in_simulated_time();
        let published = RefCell::new(None);
        sources.work(&listed, &cancel, &|catalogue| {
            published.replace(Some(catalogue));
            cancel.cancel();
        });
        let requests = server.requests();
        let targets: Vec<&str> = requests.iter().map(|request| request.target()).collect();
        let levels = "/levels?name=Red%20Hat%20OpenShift%20Container%20Platform";
        assert_eq!(targets, [levels, "/graph/api/upgrades_info/v1/graph?channel=stable-4.22&arch=amd64"]);
        let catalogue = published.take().unwrap();
        assert_eq!(
            shown(catalogue.releases()),
            ["4.22.9 4.22.9-x86_64 Production default", "4.22.10 4.22.10-x86_64 Production"]
        );
        assert_eq!(catalogue.release("4.22", "x86_64").unwrap().version, "4.22.10");
    }
}
