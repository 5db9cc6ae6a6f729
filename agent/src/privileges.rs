//! What a step may do and use, besides being root, and what several steps share of it. Each step's is in its file in
//! [`crate::steps`]; docs/security.md shows it under "Table of steps".
//!
//! A child of the agent keeps the capabilities named here and can get no others (its bounding set, capabilities(7), and
//! `PR_SET_NO_NEW_PRIVS`). Many give up even these once their sockets are open.

use crate::confine::{CA_VARIABLE, calls::OF_INSTALLATIONS};
use api::proxy;
use assist::{HostProgram, Program};
use caps::Capability::{self, *};
use libc::c_long;

/// Bounds of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// The capabilities of root that it retains.
    pub capabilities: &'static [Capability],
    /// Its memory, bytes (`RLIMIT_DATA` of getrlimit(2)). `ALL_MEMORY` is no limit.
    pub memory_bytes: u64,
    /// How much sooner than others the kernel ends it when the machine's memory is short: 0 to 1000 (`oom_score_adj` of proc(5)).
    /// An installation is what all the rest is for.
    pub oom_score_adj: u16,
    /// Whether it gets the proxies, whose URLs may contain passwords.
    pub proxies: bool,
    /// What it may touch.
    pub reach: Reach,
}

/// What a step may touch, whatever its capabilities: held by [`crate::confine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nothing but this. It executes no program.
    Only(Rules),
    /// As [`Reach::Only`], but with programs and mounts by an assistant that it forked before.
    Assisted(Rules, Assistant),
}

/// What a step needs that itself starts no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Files and directories to read.
    pub reads: &'static [&'static [&'static str]],
    /// Whether it reads all files of the live system but those in /proc.
    pub reads_live_system: bool,
    /// Whether it reads from any disk and NVMe controller, and sends them [`Rules::ioctls`].
    pub reads_disks: bool,
    /// Whether it also sends them to enclosures and RAID controllers.
    pub asks_controllers: bool,
    /// Files to change, and directories to create and remove files in.
    pub writes: &'static [&'static str],
    /// Directories with whole trees to change. They are created if missing.
    pub trees: &'static [&'static str],
    /// Directories to move files out of.
    pub takes: &'static [&'static str],
    /// Files to change, or create if missing, in directories where it creates nothing else.
    pub makes: &'static [&'static str],
    /// Whether it writes to the disks that its request names.
    pub writes_its_disks: bool,
    /// Whether it takes down what lies on them, such as volumes and arrays.
    pub takes_down: bool,
    /// Whether it changes the live system, all but devices and the kernel's trees, where its request asks for that.
    pub changes_live_system: bool,
    /// Directories below the node's root that its request names, with what it does there.
    pub node: &'static [(&'static str, InTree)],
    /// Files of each process's directory in /proc to read. The rest of it has secrets in it.
    pub reads_of_processes: &'static [&'static str],
    /// Environment variables that name files or directories to read, and what to append to their values.
    pub reads_named_by: &'static [(&'static str, &'static str)],
    /// What it opens besides its way to the journal.
    pub sockets: &'static [Socket],
    /// Ports its TCP connections may lead to; none stands for all. Landlock knows no rules for UDP.
    pub tcp_ports: &'static [u16],
    /// Ports it accepts TCP connections at.
    pub listens: &'static [u16],
    /// Whether it signals processes that it did not start.
    pub signals_others: bool,
    /// Requests to devices and interfaces.
    pub ioctls: &'static [u64],
    pub calls: Calls,
}

/// System calls, besides those that no step makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Those of every step, and these; of requests to devices those of [`Rules::ioctls`], and the sockets of [`Rules::sockets`].
    Only(&'static [&'static [c_long]]),
    /// All but these.
    AllBut(&'static [&'static [c_long]]),
}

/// What a step does with a tree of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTree {
    /// Reads it.
    Reads,
    /// Changes it, too.
    Changes,
}

/// What the assistant of a step does for it. It has the step's capabilities, and may touch any file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assistant {
    /// What it starts, and when, on the host or within the root of the node that the request names.
    pub programs: &'static [(When, &'static [Program])],
    /// What it makes writable, below that root, or below that of the live system where that is changed.
    pub remounts: &'static [&'static str],
    /// Directories that it mounts partitions of the request's disks below.
    pub mount_points: &'static [&'static str],
    /// System calls that neither step, assistant nor programs make, besides those no step makes.
    pub forbidden: &'static [c_long],
}

/// When an assistant starts a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// Only where the live system is changed.
    LiveSystemChanges,
    /// Only if this existed before the step began.
    There(&'static str),
}

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// The journal's. chronyd's is one, too.
    Journal,
    /// UDP, also to ask for an interface's facts.
    Udp,
    /// TCP connections. It listens only at [`Rules::listens`].
    Tcp,
    /// Raw ICMP.
    Echo,
    /// Frames.
    Packet,
    /// The kernel's tables of interfaces and routes.
    Route,
    /// The kernel's families of messages, such as ethtool's.
    Generic,
}

/// For what tests the memory itself.
pub(crate) const ALL_MEMORY: u64 = u64::MAX;

pub(crate) const SELF: &[&str] = &["/proc/self"];
/// Where names are resolved.
pub(crate) const RESOLVER: &[&str] = &["/etc/resolv.conf", "/etc/hosts"];
/// What this system trusts.
pub(crate) const CERTIFICATES: &[&str] = &[
    "/etc/ca-certificates",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/share/pki",
    "/var/lib/ca-certificates",
];
/// Registries, their certificates, and who this host is to them: what podman reads, too.
const REGISTRIES: &[&str] = &[
    "/etc/containers",
    "/etc/docker/certs.d",
    "/root/.config/containers",
    "/root/.docker/config.json",
    "/run/containers/0/auth.json",
    "/var/lib/kubelet/config.json",
];

/// Nothing beyond itself.
pub(crate) const NOTHING: Rules = Rules {
    reads: &[SELF],
    reads_live_system: false,
    reads_disks: false,
    asks_controllers: false,
    writes: &["/dev/null"],
    trees: &[],
    takes: &[],
    makes: &[],
    writes_its_disks: false,
    takes_down: false,
    changes_live_system: false,
    node: &[],
    reads_of_processes: &[],
    reads_named_by: &[],
    sockets: &[],
    tcp_ports: &[],
    listens: &[],
    signals_others: false,
    ioctls: &[],
    calls: Calls::Only(&[]),
};

/// Names, and the servers that know them.
pub(crate) const RESOLVE: Rules =
    Rules { reads: &[SELF, RESOLVER], sockets: &[Socket::Udp, Socket::Tcp], tcp_ports: &[53], ..NOTHING };

/// URLs on any port, and the certificates that this system trusts.
pub(crate) const FETCH: Rules = Rules {
    reads: &[SELF, RESOLVER, CERTIFICATES],
    reads_named_by: &[("SSL_CERT_FILE", ""), ("SSL_CERT_DIR", ""), (CA_VARIABLE, "")],
    tcp_ports: &[],
    ..RESOLVE
};

/// Frames and echoes through the interfaces of this host, whose facts are in sysfs.
pub(crate) const PROBE: Rules = Rules {
    reads: &[SELF, &["/sys/class/net", "/sys/devices"]],
    sockets: &[Socket::Udp, Socket::Echo, Socket::Packet, Socket::Route],
    ioctls: &[SIOCGIFMTU],
    ..NOTHING
};

/// Images, fetched where there is no podman.
pub(crate) const IMAGES: Rules = Rules {
    reads: &[SELF, RESOLVER, CERTIFICATES, REGISTRIES],
    reads_named_by: &[
        ("SSL_CERT_FILE", ""),
        ("SSL_CERT_DIR", ""),
        ("CONTAINERS_REGISTRIES_CONF", ""),
        ("CONTAINERS_REGISTRIES_CONF", ".d"),
        ("REGISTRY_AUTH_FILE", ""),
        ("HOME", "/.config/containers"),
        ("HOME", "/.docker/config.json"),
        ("XDG_CONFIG_HOME", "/containers"),
        ("XDG_RUNTIME_DIR", "/containers"),
    ],
    ..FETCH
};

/// Of linux/sockios.h; 64-bit machines share it.
const SIOCGIFMTU: u64 = 0x8921;

/// Requests to the management controller: numbers of linux/ipmi.h, which 64-bit machines share.
pub(crate) const IPMI: &[u64] = &[0x8028_690d, 0xc030_690b];
/// Its nodes.
pub(crate) const IPMI_NODES: [&str; 3] = ["/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"];

/// A check of a host: small, and less important than the agent or an installation.
pub(crate) const CHECK: Privileges = Privileges {
    capabilities: &[],
    memory_bytes: 1 << 30,
    oom_score_adj: 500,
    proxies: false,
    reach: Reach::Only(NOTHING),
};

/// What podman needs to unpack images, with owners, devices and file capabilities, into overlays of its own.
pub(crate) const PODMAN: &[Capability] = &[
    CAP_CHOWN,
    CAP_DAC_OVERRIDE,
    CAP_DAC_READ_SEARCH,
    CAP_FOWNER,
    CAP_FSETID,
    CAP_KILL,
    CAP_MKNOD,
    CAP_NET_ADMIN,
    CAP_SETFCAP,
    CAP_SETGID,
    CAP_SETUID,
    CAP_SYS_ADMIN,
    CAP_SYS_CHROOT,
];

/// Raw sockets, and buffers for bursts of answers.
pub(crate) const PROBES: Privileges =
    Privileges { capabilities: &[CAP_NET_ADMIN, CAP_NET_RAW], reach: Reach::Only(PROBE), ..CHECK };

pub(crate) const FETCHES: Privileges = Privileges { proxies: true, reach: Reach::Only(FETCH), ..CHECK };

pub(crate) const PULLS: Privileges =
    Privileges { capabilities: PODMAN, memory_bytes: 4 << 30, reach: Reach::Assisted(IMAGES, PODMAN_PULLS), ..FETCHES };

/// podman, which pulls and stores images.
pub(crate) const PODMAN_PULLS: Assistant = Assistant {
    programs: &[(
        When::Always,
        &[Program {
            name: HostProgram::Podman.path(),
            arguments: &[
                &["image", "exists", "--", "*"],
                &["image", "inspect", "--format={{.Size}}", "--", "*"],
                &["pull", "--quiet", "--", "*"],
            ],
            variables: &proxy::VARIABLES,
        }],
    )],
    ..NO_HELP
};

/// LVM's displays, and the cluster's own scripts that gather its logs.
pub(crate) const GATHERERS: &[Program] = &[
    Program { name: HostProgram::Pvdisplay.path(), arguments: &[&["-v"]], variables: &[] },
    Program { name: HostProgram::Vgdisplay.path(), arguments: &[&["-v"]], variables: &[] },
    Program { name: HostProgram::Lvdisplay.path(), arguments: &[&["-v"]], variables: &[] },
    Program { name: HostProgram::OvsGather.path(), arguments: &[&["--id", "*", "**"]], variables: &[] },
    Program { name: HostProgram::InstallerGather.path(), arguments: &[&["--id", "*", "**"]], variables: &[] },
];

/// Nothing, for the step itself or its programs.
pub(crate) const NO_HELP: Assistant =
    Assistant { programs: &[], remounts: &[], mount_points: &[], forbidden: OF_INSTALLATIONS };
