//! The platform's part of an install configuration.

mod baremetal;
mod nutanix;
mod vips;
mod vsphere;

use crate::install_config::facts::Facts;
use crate::text::at;
use serde_json::{Value, json};

/// The part of a platform, by its kind; the reason if the cluster lacks what it needs.
pub(crate) fn fields(facts: &Facts, kind: &str) -> Result<Value, String> {
    match kind {
        "baremetal" => baremetal::fields(facts),
        "vsphere" => vsphere::fields(facts),
        "nutanix" => nutanix::fields(facts),
        "external" => {
            let external = facts.record.cluster.platform.as_ref().map_or(&Value::Null, |platform| &platform.external);
            let manager = at(external, "/cloud_controller_manager");
            Ok(json!({"PlatformName": at(external, "/platform_name"), "CloudControllerManager": manager}))
        }
        _ => Ok(json!({})),
    }
}

/// Whether networks are taken from the hosts, which the platform itself knows nothing of.
pub(crate) fn is_user_managed(facts: &Facts, kind: &str) -> bool {
    match kind {
        "baremetal" => false,
        "vsphere" | "nutanix" => facts.record.cluster.user_managed_networking,
        _ => true,
    }
}
