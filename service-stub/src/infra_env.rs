//! The text fields of an infra-env, parsed.

use ignition::network::HostNetwork;
use serde::Deserialize;

/// The image type of hosts that bring their own service. Such images are not made here.
pub(crate) const DISCONNECTED_ISO: &str = "disconnected-iso";

/// A kernel argument and its operation.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct KernelArgument {
    /// `append`.
    pub(crate) operation: String,
    pub(crate) value: String,
}

/// The appended arguments of an infra-env.
pub(crate) fn appended(kernel_arguments: Option<&str>) -> Vec<String> {
    let list: Vec<KernelArgument> =
        kernel_arguments.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    list.into_iter().map(|argument| argument.value).collect()
}

/// The networks of an infra-env's hosts; they were checked when they were set.
pub(crate) fn networks(static_network_config: &str) -> Vec<HostNetwork> {
    serde_json::from_str(static_network_config).unwrap_or_default()
}
