//! What each step may do and use, besides being root: the table that README.md shows under "What each step may do".
//!
//! A child of the agent keeps the capabilities named here and can get no others (its bounding set, capabilities(7), and
//! `PR_SET_NO_NEW_PRIVS`). Many give up even these once their sockets are open.

use api::StepType;
use caps::Capability::{self, *};

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
}

/// A check of a host: small, and worth nothing next to the agent or an installation.
const CHECK: Privileges = Privileges { capabilities: &[], memory_bytes: 1 << 30, oom_score_adj: 500, proxies: false };

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
    let check = |capabilities| Privileges { capabilities, ..CHECK };
    let fetch = |capabilities| Privileges { proxies: true, ..check(capabilities) };
    match kind {
        // NVMe and SCSI commands, a card's module.
        StepType::Inventory => check(&[CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_RAWIO]),
        // Raw sockets, and buffers for bursts of answers.
        StepType::ConnectivityCheck
        | StepType::DhcpLeaseAllocate
        | StepType::FreeNetworkAddresses
        | StepType::VerifyVips => check(&[CAP_NET_ADMIN, CAP_NET_RAW]),
        // chronyd listens to its own user.
        StepType::NtpSynchronizer => check(&[CAP_SETGID, CAP_SETUID]),
        StepType::ApiVipConnectivityCheck | StepType::TangConnectivityCheck => fetch(&[]),
        StepType::ContainerImageAvailability | StepType::UpgradeAgent => {
            Privileges { memory_bytes: 4 << 30, ..fetch(PODMAN) }
        }
        // Locked buffers of the writer.
        StepType::InstallationDiskSpeedCheck => check(&[CAP_IPC_LOCK, CAP_SYS_ADMIN]),
        StepType::Install => {
            Privileges { capabilities: INSTALL, memory_bytes: 16 << 30, oom_score_adj: 0, proxies: true }
        }
        StepType::StopInstallation => check(&[CAP_KILL]),
        // The kernel's log, what others have written, and the cluster's own gathering scripts, which ask its containers.
        StepType::LogsGather => fetch(&[
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
        ]),
        // To make /boot writable, and for the node's own rpm-ostree.
        StepType::DownloadBootArtifacts => fetch(&[CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, CAP_SYS_CHROOT]),
        StepType::RebootForReclaim => check(&[CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, CAP_SYS_BOOT, CAP_SYS_CHROOT]),
        StepType::DomainResolution | StepType::Execute | StepType::NextStepRunner | StepType::Other(_) => check(&[]),
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
