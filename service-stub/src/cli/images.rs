//! Options of `landfall serve` about the images of its programs.

/// References that hosts get.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Images")]
pub(crate) struct ProgramImages {
    /// Agent image reference for agents that report none
    #[arg(long, value_name = "IMAGE", default_value = "quay.io/edge-infrastructure/assisted-installer-agent:latest")]
    pub(super) agent_image: String,

    /// Image reference of the installer in install requests
    #[arg(long, value_name = "IMAGE", default_value = "quay.io/edge-infrastructure/assisted-installer:latest")]
    pub(super) installer_image: String,

    /// Image reference of the controller in install requests
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = "quay.io/edge-infrastructure/assisted-installer-controller:latest"
    )]
    pub(super) controller_image: String,
}
