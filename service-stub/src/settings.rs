//! The service's settings.

use crate::attest::Attest;
use crate::auth::Auth;
use crate::check::requirements::Requirements;
use crate::cluster_files::given::GivenFiles;
use crate::events::limits::EventLimits;
use crate::generated_manifests::options::ManifestOptions;
use crate::http::{hosts::Hosts, limits::Limits};
use crate::install_config::Site;
use crate::mirrors::Mirrors;
use crate::model::IgnoredValidations;
use crate::payload::ImageArgs;
use crate::preparing::args::Generation;
use crate::releases::{Catalogue, ReleaseSources};
use crate::rendezvous::Rendezvous;
use crate::state::limits::FinalizingLimits;
use crate::steps::options::StepOptions;
use ignition::discovery::assisted::Mirror;
use std::{sync::Arc, time::Duration};

/// The operator's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Base URL for hosts, without a slash at the end.
    pub url: String,
    /// The same for firmware and initramfs, which don't trust our certificate.
    pub boot_url: String,
    /// The host names under which clients may reach this service.
    pub hosts: Hosts,
    /// Seconds between two polls of a host.
    pub poll_interval: u64,
    /// Time between runs of the monitor.
    pub monitor_interval: Duration,
    pub requirements: Requirements,
    /// Name of the agent's image, for agents that don't report theirs.
    pub agent_image: String,
    /// Name of the installer's image.
    pub installer_image: String,
    /// Name of the controller's image.
    pub controller_image: String,
    /// The discovery config fetches the binary, for an ISO without it.
    pub deliver_agent: bool,
    /// Clusters have a control plane, and its files are in these directories.
    pub cluster_files: Option<GivenFiles>,
    /// Clusters have a control plane, and its files are made for each of them.
    pub generation: Option<Generation>,
    pub manifests: ManifestOptions,
    /// Images in install requests, named by the operator.
    pub image_args: ImageArgs,
    /// How to read release images, which name the other images; `None` without a control plane.
    pub registry: Option<Arc<netcheck::image::ImageOptions>>,
    /// What hosts must prove of their boot.
    pub attest: Attest,
    /// How callers are authenticated.
    pub auth: Auth,
    /// CA certificates with which hosts verify ours, PEM; `None` if they trust its CA already, or without TLS.
    pub ca_pem: Option<String>,
    /// A cluster is not installed before its controller has reported operators and ingress.
    pub await_controller: bool,
    /// Stages and connections that take too long are flagged, and the installation continues.
    pub soft_timeouts: bool,
    /// Disabled validations, unless a cluster has its own list.
    pub disabled_validations: IgnoredValidations,
    /// Limits on clients.
    pub limits: Limits,
    /// Versions to offer, listed by the operator; the last is the default. Others are accepted as well.
    pub openshift_versions: Vec<String>,
    /// Available releases and OS images, which replace that list: others are refused. Without it any version is accepted.
    pub catalogue: Option<Arc<Catalogue>>,
    /// What images of the type `disconnected-iso` carry, as Ignition.
    pub disconnected_ignition: Option<Arc<[u8]>>,
    /// Which steps hosts are given.
    pub steps: StepOptions,
    /// How long untouched records are retained.
    pub retention: Retention,
    /// CA certificates that every cluster trusts, PEM; may be empty.
    pub cluster_ca_pem: String,
    /// Registries that replace others on live hosts, unless an infra-env has its own.
    pub mirror: Option<Arc<Mirror>>,
    /// Live hosts accept images without signatures where registries are replaced.
    pub insecure_policy: bool,
    /// Web pages from these origins may read boot artifacts.
    pub allowed_origins: Vec<String>,
    /// How often an event is recorded.
    pub event_limits: EventLimits,
    /// How long finalizing may take.
    pub finalizing: FinalizingLimits,
    /// Channels whose releases are fetched.
    pub release_sources: ReleaseSources,
    /// The rack this service brings up from one of its hosts.
    pub rendezvous: Option<Arc<Rendezvous>>,
}

impl Settings {
    /// Whether clusters have a control plane.
    pub(crate) fn has_control_plane(&self) -> bool {
        self.cluster_files.is_some() || self.generation.is_some()
    }

    /// What every cluster's install configuration has from the service.
    pub(crate) fn site(&self) -> Site {
        let mirror = self.mirror.as_deref();
        // A file that names registries without mirrors is as good as none.
        let read =
            |mirror: &Mirror| Mirrors::read(&mirror.registries_conf, mirror.ca_pem.as_deref().unwrap_or_default());
        Site { mirrors: mirror.and_then(|mirror| read(mirror).ok()), root_ca: self.cluster_ca_pem.clone() }
    }
}

/// How long untouched clusters and infra-envs are retained, seconds; `None` for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention(pub Option<i64>);

impl std::str::FromStr for Retention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err("write a duration like 480h or 20d, or 'never'".to_owned()),
        };
        let number: i64 = number.parse().map_err(|_| "its number is invalid".to_owned())?;
        number
            .checked_mul(seconds)
            .filter(|s| *s > 0)
            .map(|s| Self(Some(s)))
            .ok_or_else(|| "its number must be positive, and not that large".to_owned())
    }
}

impl Retention {
    /// Seconds between two sweeps.
    pub fn interval(self) -> Option<i64> {
        self.0.map(|limit| limit.min(3600))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        let read = |text: &str| text.parse::<Retention>();
        assert_eq!(read("never"), Ok(Retention(None)));
        let seconds = [("30s", 30), ("5m", 300), ("480h", 1_728_000), ("20d", 1_728_000)];
        assert!(seconds.iter().all(|(text, seconds)| read(text) == Ok(Retention(Some(*seconds)))));
        for bad in ["", "20", "d", "0h", "-1h", "1w", "9223372036854775807d"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
