//! Which clusters have control-plane hosts that power each other off.

use super::platform;
use crate::releases::version;
use api::Cluster;

/// Possible since.
const SINCE: &str = "4.20";

/// Whether the hosts of a cluster may have credentials for that.
pub(crate) fn check(cluster: &Cluster) -> Result<(), String> {
    if version::older(&cluster.openshift_version, SINCE) {
        return Err(format!("cluster's openshift version must be at least {SINCE}"));
    }
    match cluster.platform.as_ref().map(|platform| platform.kind.as_str()) {
        Some(platform::BAREMETAL | platform::NONE) => Ok(()),
        _ => Err("cluster's platform must be baremetal or none".to_owned()),
    }
}
