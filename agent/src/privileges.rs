//! What each step may do and use, besides being root: the table that README.md shows under "What each step may do".
//!
//! A child of the agent keeps the capabilities named here and can get no others (its bounding set, capabilities(7), and
//! `PR_SET_NO_NEW_PRIVS`). Many give up even these once their sockets are open.

mod assistants;

use crate::confine::{
    CA_VARIABLE, CHANGE_FILES, DONE_BY_ASSISTANTS, FILE_USER, FORK, NO_INSTALLATION, REBOOT, REPLACE_FILES, SIGNAL,
    SIGNALS_BY_FILE, SYNC,
};
use api::StepType;
use assist::{INSTALLATION_DIRECTORY, INSTALLATION_LOCK, Program};
use assistants::{CLEANS_UP, GATHERS, INSTALLS, PULLS, WRITES_BOOT_RECORD};
use caps::Capability::{self, *};
use libc::c_long;

/// Bounds of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// What it keeps of root's power.
    pub capabilities: &'static [Capability],
    /// Memory of its own, bytes (`RLIMIT_DATA` of getrlimit(2)).
    pub memory_bytes: u64,
    /// How much sooner than others the kernel ends it when the machine's memory is short: 0 to 1000 (`oom_score_adj` of proc(5)).
    /// An installation is what all the rest is for.
    pub oom_score_adj: u16,
    /// Whether it is told of the proxies, whose URLs may hold passwords.
    pub proxies: bool,
    /// What it may touch.
    pub reach: Reach,
}

/// What a step may touch, whatever its capabilities: held by [`crate::confine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nothing but this. It executes no program.
    Only(Rules),
    /// As [`Reach::Only`], but programs and mounts are to be had from an assistant that it forked before.
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
    /// Files to change, and directories to create and remove files in.
    pub writes: &'static [&'static str],
    /// Directories with whole trees to change. They are created where they are missing.
    pub trees: &'static [&'static str],
    /// Directories to move files out of.
    pub takes: &'static [&'static str],
    /// Files to change that are made where they are missing, in directories where it makes nothing else.
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
    /// Only where this was there before the step began.
    There(&'static str),
}

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// The journal's. chronyd's is one, too.
    Journal,
    /// UDP, also to ask for an interface's facts.
    Udp,
    /// TCP connections; none listens.
    Tcp,
    /// Raw ICMP.
    Echo,
    /// Frames.
    Packet,
    /// The kernel's tables of interfaces and routes.
    Route,
}

const SELF: &[&str] = &["/proc/self"];
/// Who knows names.
const RESOLVER: &[&str] = &["/etc/resolv.conf", "/etc/hosts"];
/// What this system trusts.
const CERTIFICATES: &[&str] = &[
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
const NOTHING: Rules = Rules {
    reads: &[SELF],
    reads_live_system: false,
    reads_disks: false,
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
    signals_others: false,
    ioctls: &[],
    calls: Calls::Only(&[]),
};

/// Names, and the servers that know them.
const RESOLVE: Rules =
    Rules { reads: &[SELF, RESOLVER], sockets: &[Socket::Udp, Socket::Tcp], tcp_ports: &[53], ..NOTHING };

/// URLs on any port, and the certificates that this system trusts.
const FETCH: Rules = Rules {
    reads: &[SELF, RESOLVER, CERTIFICATES],
    reads_named_by: &[("SSL_CERT_FILE", ""), ("SSL_CERT_DIR", ""), (CA_VARIABLE, "")],
    tcp_ports: &[],
    ..RESOLVE
};

/// Frames and echoes through the interfaces of this host, whose facts are in sysfs.
const PROBE: Rules = Rules {
    reads: &[SELF, &["/sys/class/net", "/sys/devices"]],
    sockets: &[Socket::Udp, Socket::Echo, Socket::Packet, Socket::Route],
    ioctls: &[SIOCGIFMTU],
    ..NOTHING
};

/// The kernel's and udev's facts, and what devices say of themselves. No more of /proc, where a kcore is.
const INVENTORY: Rules = Rules {
    reads: &[
        SELF,
        &[
            "/dev/disk",
            "/proc/1/mountinfo",
            "/proc/cmdline",
            "/proc/cpuinfo",
            "/proc/device-tree",
            "/proc/meminfo",
            "/proc/swaps",
            "/proc/sys",
            "/proc/sysinfo",
            "/proc/uptime",
            "/proc/xen",
            "/run/udev/data",
            "/sys",
            "/usr/share/hwdata",
            "/usr/share/misc",
        ],
    ],
    reads_named_by: &[("PCIDB_PATH", "")],
    reads_disks: true,
    // The management controller answers what was written to it.
    writes: &["/dev/null", "/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"],
    sockets: &[Socket::Udp, Socket::Route],
    ioctls: &[SIOCETHTOOL, SG_IO, NVME_IOCTL_ADMIN_CMD, IPMICTL_SEND_COMMAND, IPMICTL_RECEIVE_MSG_TRUNC],
    // Each question is asked by a process that can be ended.
    calls: Calls::Only(&[SIGNAL, FORK]),
    ..NOTHING
};

/// The disk of the request, and everything that tells who uses it.
const DISK_SPEED: Rules = Rules {
    reads: &[SELF, &["/proc/cmdline", "/proc/misc", "/proc/swaps", "/run/udev/data", "/sys"]],
    reads_of_processes: &["comm", "mountinfo"],
    writes_its_disks: true,
    // If the contents can't be put back they are saved there.
    writes: &["/dev/null", "/tmp"],
    ioctls: &[BLKFLSBUF, BLKGETSIZE64, BLKSSZGET],
    calls: Calls::Only(&[CHANGE_FILES]),
    ..NOTHING
};

/// Servers by name, and chronyd, which answers to sockets in a directory of its own.
const NTP: Rules =
    Rules { writes: &["/dev/null", "/run/chrony"], calls: Calls::Only(&[CHANGE_FILES, FILE_USER]), ..RESOLVE };

/// The running installation's lock and process.
const STOP: Rules = Rules {
    reads_of_processes: &["stat"],
    writes: &["/dev/null", INSTALLATION_LOCK],
    signals_others: true,
    calls: Calls::Only(&[SIGNAL]),
    ..NOTHING
};

/// Images, fetched where there is no podman.
const IMAGES: Rules = Rules {
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

/// The same, and the agent that is in one.
const UPGRADE: Rules =
    Rules { trees: &["/run/landfall"], calls: Calls::Only(&[CHANGE_FILES, REPLACE_FILES]), ..IMAGES };

/// The node's boot file system, and a directory for what arrives.
const BOOT_ARTIFACTS: Rules = Rules {
    trees: &["/run/landfall/reclaim"],
    node: &[("boot", InTree::Changes)],
    calls: Calls::Only(&[CHANGE_FILES, REPLACE_FILES, SYNC]),
    ..FETCH
};

/// Its loader entry, and the end of this system.
const RECLAIM: Rules = Rules {
    reads: &[SELF, &["/proc/cmdline"]],
    node: &[("boot", InTree::Reads)],
    signals_others: true,
    calls: Calls::Only(&[FORK, REBOOT, SIGNAL, SYNC]),
    ..NOTHING
};

/// Journals, crashes, and facts of this host; and what the cluster's own scripts have made of theirs, in /root and /tmp.
const LOGS: Rules = Rules {
    reads: &[
        SELF,
        RESOLVER,
        CERTIFICATES,
        &[
            "/dev/disk",
            "/dev/kmsg",
            "/etc/localtime",
            "/run/log/journal",
            "/run/udev/data",
            "/sys",
            "/tmp",
            "/usr/share/zoneinfo",
            "/var/lib/systemd/coredump",
        ],
    ],
    trees: &["/var/log"],
    takes: &["/root"],
    calls: Calls::Only(&[CHANGE_FILES, REPLACE_FILES, SIGNALS_BY_FILE]),
    ..FETCH
};

/// Disks and what lies on them, boot entries, any file to read but other processes'; an installed system's files through mounts that
/// only it sees, and the end of this system.
const INSTALLATION: Rules = Rules {
    reads: &[
        SELF,
        &["/proc/cmdline", "/proc/cpuinfo", "/proc/meminfo", "/proc/misc", "/proc/swaps", "/proc/sys", "/proc/uptime"],
    ],
    reads_live_system: true,
    reads_of_processes: &["comm", "mountinfo", "stat"],
    reads_disks: true,
    writes: &["/dev/null", "/dev/mapper/control", "/sys/fs/selinux/enforce"],
    makes: &[INSTALLATION_LOCK],
    // Mounts; logs that are gathered, and what their scripts have made.
    trees: &[INSTALLATION_DIRECTORY, "/mnt", "/sys/firmware/efi/efivars", "/var/log"],
    takes: &["/root"],
    writes_its_disks: true,
    takes_down: true,
    changes_live_system: true,
    signals_others: true,
    calls: Calls::AllBut(&[DONE_BY_ASSISTANTS, NO_INSTALLATION]),
    ..FETCH
};

// Numbers of linux/sockios.h, linux/fs.h, scsi/sg.h, linux/nvme_ioctl.h and linux/ipmi.h, which 64-bit machines share.
const SIOCGIFMTU: u64 = 0x8921;
const SIOCETHTOOL: u64 = 0x8946;
const BLKFLSBUF: u64 = 0x1261;
const BLKSSZGET: u64 = 0x1268;
const BLKGETSIZE64: u64 = 0x8008_1272;
const SG_IO: u64 = 0x2285;
const NVME_IOCTL_ADMIN_CMD: u64 = 0xc048_4e41;
const IPMICTL_SEND_COMMAND: u64 = 0x8028_690d;
const IPMICTL_RECEIVE_MSG_TRUNC: u64 = 0xc030_690b;

/// A check of a host: small, and worth nothing next to the agent or an installation.
const CHECK: Privileges = Privileges {
    capabilities: &[],
    memory_bytes: 1 << 30,
    oom_score_adj: 500,
    proxies: false,
    reach: Reach::Only(NOTHING),
};

/// What podman needs to unpack images, with owners, devices and file capabilities, into overlays of its own.
const PODMAN: &[Capability] = &[
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

/// Disks, file systems, boot entries, a reboot, and the programs that the node's first system is prepared with.
const INSTALL: &[Capability] = &[
    CAP_CHOWN,
    CAP_DAC_OVERRIDE,
    CAP_DAC_READ_SEARCH,
    CAP_FOWNER,
    CAP_FSETID,
    CAP_IPC_LOCK,
    CAP_KILL,
    CAP_LINUX_IMMUTABLE,
    CAP_MAC_ADMIN,
    CAP_MKNOD,
    CAP_NET_ADMIN,
    CAP_SETFCAP,
    CAP_SETGID,
    CAP_SETUID,
    CAP_SYS_ADMIN,
    CAP_SYS_BOOT,
    CAP_SYS_CHROOT,
    CAP_SYS_RAWIO,
];

/// Bounds of a step of this type.
pub fn of(kind: &StepType) -> Privileges {
    let check = |capabilities, rules| Privileges { capabilities, reach: Reach::Only(rules), ..CHECK };
    let fetch = |capabilities, reach| Privileges { capabilities, proxies: true, reach, ..CHECK };
    let images = |rules| Privileges { memory_bytes: 4 << 30, ..fetch(PODMAN, Reach::Assisted(rules, PULLS)) };
    match kind {
        // NVMe and SCSI commands, a card's module.
        StepType::Inventory => check(&[CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_RAWIO], INVENTORY),
        // Raw sockets, and buffers for bursts of answers.
        StepType::ConnectivityCheck
        | StepType::DhcpLeaseAllocate
        | StepType::FreeNetworkAddresses
        | StepType::VerifyVips => check(&[CAP_NET_ADMIN, CAP_NET_RAW], PROBE),
        // chronyd listens to its own user.
        StepType::NtpSynchronizer => check(&[CAP_SETGID, CAP_SETUID], NTP),
        StepType::ApiVipConnectivityCheck | StepType::TangConnectivityCheck => fetch(&[], Reach::Only(FETCH)),
        StepType::DomainResolution => check(&[], RESOLVE),
        StepType::ContainerImageAvailability => images(IMAGES),
        StepType::UpgradeAgent => images(UPGRADE),
        // Locked buffers of the writer.
        StepType::InstallationDiskSpeedCheck => check(&[CAP_IPC_LOCK, CAP_SYS_ADMIN], DISK_SPEED),
        StepType::Install => Privileges {
            capabilities: INSTALL,
            memory_bytes: 16 << 30,
            oom_score_adj: 0,
            proxies: true,
            reach: Reach::Assisted(INSTALLATION, INSTALLS),
        },
        StepType::StopInstallation => check(&[CAP_KILL], STOP),
        // The kernel's log, what others have written, and the cluster's own gathering scripts, which ask its containers.
        StepType::LogsGather => fetch(
            &[
                CAP_CHOWN,
                CAP_DAC_OVERRIDE,
                CAP_DAC_READ_SEARCH,
                CAP_FOWNER,
                CAP_NET_ADMIN,
                CAP_SETGID,
                CAP_SETUID,
                CAP_SYSLOG,
                CAP_SYS_ADMIN,
                CAP_SYS_PTRACE,
            ],
            Reach::Assisted(LOGS, GATHERS),
        ),
        // To make /boot writable, and for the node's own rpm-ostree.
        StepType::DownloadBootArtifacts => {
            fetch(&[CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, CAP_SYS_CHROOT], Reach::Assisted(BOOT_ARTIFACTS, CLEANS_UP))
        }
        StepType::RebootForReclaim => Privileges {
            capabilities: &[CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, CAP_SYS_BOOT, CAP_SYS_CHROOT],
            reach: Reach::Assisted(RECLAIM, WRITES_BOOT_RECORD),
            ..CHECK
        },
        StepType::Execute | StepType::NextStepRunner | StepType::Other(_) => CHECK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Type and capabilities of each row of the table in README.md.
    fn documented() -> Vec<(String, BTreeSet<String>)> {
        let readme = include_str!("../../README.md");
        let (_, section) = readme.split_once("## What each step may do").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        rows.map(|row| {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let kind = cells.next().unwrap().trim_matches('`').to_owned();
            let words = cells
                .next()
                .unwrap()
                .split(" (")
                .next()
                .unwrap()
                .split([',', ' '])
                .filter(|word| !word.is_empty() && *word != "none");
            (kind, words.map(|word| format!("CAP_{word}")).collect())
        })
        .collect()
    }

    #[test]
    fn the_agents_unit_leaves_what_steps_need_and_the_power_to_take_it() {
        let unit = include_str!("../../rootfs-overlay/overlay/usr/lib/systemd/system/agent.service");
        let lines = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
        let left: BTreeSet<_> = lines.flat_map(str::split_whitespace).map(str::to_owned).collect();
        let steps = StepType::NAMES.into_iter().map(|name| serde_json::from_value(name.into()).unwrap());
        let needed = steps.flat_map(|step: StepType| of(&step).capabilities).chain([&CAP_SETPCAP]);
        assert_eq!(left, needed.map(Capability::to_string).collect());
    }

    #[test]
    fn the_table_people_read_is_the_one_that_holds() {
        let documented = documented();
        let acted_on = |name: &&str| !["execute", "next-step-runner"].contains(name);
        let mut names: Vec<_> = StepType::NAMES.into_iter().filter(acted_on).collect();
        names.sort_unstable();
        assert_eq!(documented.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), names);
        for (kind, capabilities) in documented {
            let step: StepType = serde_json::from_value(kind.as_str().into()).unwrap();
            let held: BTreeSet<_> = of(&step).capabilities.iter().map(Capability::to_string).collect();
            assert_eq!(capabilities, held, "{kind}");
        }
    }

    #[test]
    fn no_step_is_all_powerful() {
        for name in StepType::NAMES {
            let step: StepType = serde_json::from_value(name.into()).unwrap();
            for power in [CAP_SYS_MODULE, CAP_SYS_TIME, CAP_SETPCAP, CAP_AUDIT_CONTROL, CAP_BPF, CAP_SYS_RESOURCE] {
                assert!(!of(&step).capabilities.contains(&power), "{name} {power}");
            }
        }
    }
}
