//! The names of what is read.

/// The file of a small plan, whose document needs no kind.
pub(crate) const RACK_FILE: &str = "rack.toml";

pub(crate) const CLUSTER_DEPLOYMENT: &str = "ClusterDeployment";
pub(crate) const AGENT_CLUSTER_INSTALL: &str = "AgentClusterInstall";
pub(crate) const INFRA_ENV: &str = "InfraEnv";
pub(crate) const NMSTATE_CONFIG: &str = "NMStateConfig";
pub(crate) const CLUSTER_IMAGE_SET: &str = "ClusterImageSet";
pub(crate) const SECRET: &str = "Secret";
pub(crate) const CONFIG_MAP: &str = "ConfigMap";
pub(crate) const BARE_METAL_HOST: &str = "BareMetalHost";
pub(crate) const RACK: &str = "Rack";
pub(crate) const NODES_CONFIG: &str = "NodesConfig";
pub(crate) const AGENT_CONFIG: &str = "AgentConfig";
pub(crate) const INSTALL_CONFIG: &str = "InstallConfig";
/// The key of registry credentials in a Secret.
pub(crate) const DOCKER_CONFIG: &str = ".dockerconfigjson";
