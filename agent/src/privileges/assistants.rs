//! What the assistants of steps start and make writable.

use super::Assistant;
use crate::confine::OF_INSTALLATIONS;
use api::proxy;
use assist::Program;

/// podman, which pulls and keeps images.
pub(super) const PULLS: Assistant = Assistant {
    programs: &[Program {
        name: "/usr/bin/podman",
        arguments: &[
            &["image", "exists", "--", "*"],
            &["image", "inspect", "--format={{.Size}}", "--", "*"],
            &["pull", "--quiet", "--", "*"],
        ],
        variables: &PROXIES,
    }],
    ..NO_HELP
};

/// Makes room for boot artifacts.
pub(super) const CLEANS_UP: Assistant = Assistant {
    programs: &[Program { name: "rpm-ostree", arguments: &[&["cleanup", "--os=rhcos", "-r"]], variables: &[] }],
    remounts: &["boot"],
    ..NO_HELP
};

/// Writes the boot record of s390x.
pub(super) const WRITES_BOOT_RECORD: Assistant = Assistant {
    programs: &[Program {
        name: "zipl",
        arguments: &[&["-V", "-t", "/boot", "-i", "/discovery/vmlinuz", "-r", "/discovery/initrd", "-P", "*"]],
        variables: &[],
    }],
    ..NO_HELP
};

/// LVM's facts, and the cluster's gathering.
pub(super) const GATHERS: Assistant = Assistant {
    programs: &[
        Program { name: "/usr/sbin/pvdisplay", arguments: &[&["-v"]], variables: &[] },
        Program { name: "/usr/sbin/vgdisplay", arguments: &[&["-v"]], variables: &[] },
        Program { name: "/usr/sbin/lvdisplay", arguments: &[&["-v"]], variables: &[] },
        Program { name: "/usr/local/bin/ovs-installer-gather.sh", arguments: &[&["--id", "*", "**"]], variables: &[] },
        Program { name: "/usr/local/bin/installer-gather.sh", arguments: &[&["--id", "*", "**"]], variables: &[] },
    ],
    ..NO_HELP
};

const NO_HELP: Assistant = Assistant { programs: &[], remounts: &[], forbidden: OF_INSTALLATIONS };

/// What programs find proxies in.
const PROXIES: [&str; 7] = proxy::VARIABLES;
