//! What identifies an agent's container image, for its builder and for programs that look for the agent in it.

/// Where the program is in the image; the service's unit copies it from there (docs/compatibility.md#agent-launch).
pub const AGENT_PATH: &str = "/usr/bin/agent";

/// Label of the image that says that [`AGENT_PATH`] is this project's agent; its value is the version.
pub const AGENT_LABEL: &str = "org.landfall.agent";

/// Additional names of the program, sorted: the real programs' and `cp`, each a link beside [`AGENT_PATH`].
pub const AGENT_LINKS: [&str; 9] = [
    "assisted-installer-controller",
    "cp",
    "disk_speed_check",
    "free_addresses",
    "installer",
    "inventory",
    "landfall",
    "logs_sender",
    "next_step_runner",
];
