//! The service's settings.

use crate::auth::Auth;
use crate::check::requirements::Requirements;
use crate::cluster_files::ClusterFiles;
use crate::http::{hosts::Hosts, limits::Limits};
use crate::model::IgnoredValidations;
use crate::payload::ImageArgs;
use crate::releases::Catalogue;
use crate::rendezvous::Rendezvous;
use crate::steps::options::StepOptions;
use std::{sync::Arc, time::Duration};

/// Set by the operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Base URL hosts use, without a slash at the end.
    pub url: String,
    /// The same for firmware and initramfs, which check no certificate of ours.
    pub boot_url: String,
    /// The host names under which clients may reach this service.
    pub hosts: Hosts,
    /// Seconds between two polls of a host.
    pub poll_interval: u64,
    /// Time between two turns of the monitor.
    pub monitor_interval: Duration,
    pub requirements: Requirements,
    /// Name of the agent's image, for agents that don't tell theirs.
    pub agent_image: String,
    /// Name of the installer's image.
    pub installer_image: String,
    /// Name of the controller's image.
    pub controller_image: String,
    /// Have the discovery config fetch the binary: for an ISO that doesn't carry it.
    pub deliver_agent: bool,
    /// Clusters have a control plane, and these are its files.
    pub cluster_files: Option<ClusterFiles>,
    /// Images in install requests, as the operator names them.
    pub image_args: ImageArgs,
    /// How release images are read that name the others; none where they are not.
    pub registry: Option<Arc<netcheck::image::ImageOptions>>,
    /// How callers are authenticated.
    pub auth: Auth,
    /// Certificates that hosts check ours against, PEM; none when it is of an authority they know, or there is none.
    pub ca_pem: Option<String>,
    /// A cluster is not installed before its controller has told of operators and ingress.
    pub await_controller: bool,
    /// Stages and connections that take too long are flagged, and the installation goes on.
    pub soft_timeouts: bool,
    /// Checks that are switched off, unless a cluster has a list of its own.
    pub disabled_validations: IgnoredValidations,
    /// Bounds on clients.
    pub limits: Limits,
    /// Versions that may be asked for, as the operator lists them; the last is the default. Others are taken as well.
    pub openshift_versions: Vec<String>,
    /// Releases and OS images on offer, in place of that list: others are refused. Without it any version is accepted.
    pub catalogue: Option<Arc<Catalogue>>,
    /// Which steps hosts are given.
    pub steps: StepOptions,
    /// How long untouched records stay.
    pub retention: Retention,
    /// The rack this service brings up from one of its hosts.
    pub rendezvous: Option<Arc<Rendezvous>>,
}

/// How long untouched clusters and infra-envs stay, seconds; for ever without.
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
            _ => return Err("it is not a time like 480h or 20d, and not 'never'".to_owned()),
        };
        let number: i64 = number.parse().map_err(|_| "its number is none, or too large".to_owned())?;
        number
            .checked_mul(seconds)
            .filter(|s| *s > 0)
            .map(|s| Self(Some(s)))
            .ok_or_else(|| "it is not a time".to_owned())
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
