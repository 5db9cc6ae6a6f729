//! Mirrors of image registries, of one cluster or of one infra-env.

use crate::{is_zero, json::null_is_default};
use serde::{Deserialize, Serialize};

/// `mirror_registry_configuration`. Clients of the published API cannot set it: there it comes from Kubernetes objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorRegistry {
    /// Text of a `registries.conf`; empty for no mirrors.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub registries_conf: String,
    /// CA certificates of the mirrors, PEM.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub ca_bundle: String,
}
