//! What the assistants of steps start and make writable.

use super::{Assistant, When};
use crate::confine::OF_INSTALLATIONS;
use api::proxy;
use assist::{INSTALLATION_DIRECTORY, Program, TRANSPOSE_SCRIPT};

/// podman, which pulls and keeps images.
pub(super) const PULLS: Assistant = Assistant {
    programs: &[(
        When::Always,
        &[Program {
            name: "/usr/bin/podman",
            arguments: &[
                &["image", "exists", "--", "*"],
                &["image", "inspect", "--format={{.Size}}", "--", "*"],
                &["pull", "--quiet", "--", "*"],
            ],
            variables: &PROXIES,
        }],
    )],
    ..NO_HELP
};

/// Makes room for boot artifacts.
pub(super) const CLEANS_UP: Assistant = Assistant {
    programs: &[(
        When::Always,
        &[Program { name: "rpm-ostree", arguments: &[&["cleanup", "--os=rhcos", "-r"]], variables: &[] }],
    )],
    remounts: &["boot"],
    ..NO_HELP
};

/// Writes the boot record of s390x.
pub(super) const WRITES_BOOT_RECORD: Assistant = Assistant {
    programs: &[(
        When::Always,
        &[Program {
            name: "zipl",
            arguments: &[&["-V", "-t", "/boot", "-i", "/discovery/vmlinuz", "-r", "/discovery/initrd", "-P", "*"]],
            variables: &[],
        }],
    )],
    ..NO_HELP
};

/// LVM's facts, and the cluster's gathering.
pub(super) const GATHERS: Assistant = Assistant { programs: &[(When::Always, GATHERERS)], ..NO_HELP };

const GATHERERS: &[Program] = &[
    Program { name: "/usr/sbin/pvdisplay", arguments: &[&["-v"]], variables: &[] },
    Program { name: "/usr/sbin/vgdisplay", arguments: &[&["-v"]], variables: &[] },
    Program { name: "/usr/sbin/lvdisplay", arguments: &[&["-v"]], variables: &[] },
    Program { name: "/usr/local/bin/ovs-installer-gather.sh", arguments: &[&["--id", "*", "**"]], variables: &[] },
    Program { name: "/usr/local/bin/installer-gather.sh", arguments: &[&["--id", "*", "**"]], variables: &[] },
];

/// Mounts partitions of the written disk and puts a newer system on them; makes the live system a bootstrap host, or deploys another
/// system beside it, where the request asks for that.
pub(super) const INSTALLS: Assistant = Assistant {
    programs: &[
        (When::Always, GATHERERS),
        (
            When::Always,
            &[
                Program {
                    name: "systemctl",
                    arguments: &[&["list-units", "--no-legend", "*"], &["--no-block", "stop", "agent.service"]],
                    variables: &PROXIES,
                },
                Program {
                    name: "ostree",
                    arguments: &[&[
                        "container",
                        "image",
                        "deploy",
                        "--sysroot",
                        "/mnt",
                        "--authfile",
                        "*",
                        "--imgref",
                        "*",
                        "--karg **",
                        "--stateroot",
                        "*",
                        "--karg **",
                    ]],
                    variables: &PROXIES,
                },
                Program { name: "/usr/sbin/bootlist", arguments: &[&["-m", "normal", "-o", "*"]], variables: &PROXIES },
            ],
        ),
        // A medium that carries a registry.
        (
            When::There("/mnt/agentdata"),
            &[Program { name: "/bin/sh", arguments: &[&[TRANSPOSE_SCRIPT, "*"]], variables: &PROXIES }],
        ),
        (
            When::LiveSystemChanges,
            &[
                Program {
                    name: "systemctl",
                    arguments: &[
                        &["daemon-reload"],
                        &["disable", "**"],
                        &["enable", "**"],
                        &["restart", "*"],
                        &["show", "-P", "*", "*"],
                        &["start", "**"],
                        &["start", "--no-block", "**"],
                        &["stop", "**"],
                    ],
                    variables: &PROXIES,
                },
                Program { name: "hostnamectl", arguments: &[&["set-hostname", "*"]], variables: &PROXIES },
                Program {
                    name: "ostree",
                    arguments: &[
                        &["admin", "finalize-staged"],
                        &["admin", "stateroot-init", "*"],
                        &[
                            "container",
                            "image",
                            "deploy",
                            "--stateroot",
                            "*",
                            "--sysroot",
                            "/",
                            "--authfile",
                            "*",
                            "--karg **",
                            "--image",
                            "*",
                        ],
                        &["refs", "--repo", "/ostree/repo", "--delete", "coreos/node-image"],
                    ],
                    variables: &PROXIES,
                },
                Program {
                    name: "rpm-ostree",
                    arguments: &[&["kargs", "--os", "*", "--append **", "--delete-if-present **"]],
                    variables: &PROXIES,
                },
            ],
        ),
    ],
    remounts: &["boot", "sysroot"],
    mount_points: &["/mnt", INSTALLATION_DIRECTORY],
    forbidden: &[],
};

const NO_HELP: Assistant = Assistant { programs: &[], remounts: &[], mount_points: &[], forbidden: OF_INSTALLATIONS };

/// What programs find proxies in.
const PROXIES: [&str; 7] = proxy::VARIABLES;
