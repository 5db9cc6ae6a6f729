//! What an infra-env's text fields hold.

use ignition::network::HostNetwork;
use serde::Deserialize;

/// The image type of hosts that bring their own service. Such images are not made here.
pub const DISCONNECTED_ISO: &str = "disconnected-iso";

/// An argument of a kernel, and what is done with it.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KernelArgument {
    /// `append`.
    pub operation: String,
    /// The argument.
    pub value: String,
}

/// The appended arguments of an infra-env.
pub fn appended(kernel_arguments: Option<&str>) -> Vec<String> {
    let list: Vec<KernelArgument> =
        kernel_arguments.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    list.into_iter().map(|argument| argument.value).collect()
}

/// The networks of an infra-env's hosts; they were checked when they were set.
pub fn networks(static_network_config: &str) -> Vec<HostNetwork> {
    serde_json::from_str(static_network_config).unwrap_or_default()
}
