//! What each action may do and use.

use super::{LINK_PORT, REPORT};
use crate::{
    confine::calls::{CHANGE_FILES, DETACH, FORK, IO_URING, LISTEN, LOAD, REBOOT, SIGNAL, SIGNALS_BY_FILE, SYNC},
    privileges::{
        ALL_MEMORY, CERTIFICATES, CHECK, Calls, FETCH, FETCHES, IPMI, IPMI_NODES, NOTHING, PROBE, PROBES, Privileges,
        RESOLVER, Reach, Rules, SELF, Socket,
    },
    steps::{
        installation_disk_speed_check::{BLKFLSBUF, BLKGETSIZE64, BLKSSZGET, PRIVILEGES as DISK_SPEED},
        inventory::{
            FACTS, NVME_IOCTL_ADMIN_CMD, PRIVILEGES as INVENTORY, RULES as INVENTORY_RULES, SG_IO, SIOCETHTOOL,
        },
    },
};
use caps::Capability::{
    CAP_IPC_LOCK, CAP_MKNOD, CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_BOOT, CAP_SYS_RAWIO, CAP_SYSLOG,
};

/// Bounds by action, in the order of their names.
pub(in crate::steps) static ACTIONS: [(&str, Privileges); 9] = [
    ("burnin", BURNIN),
    ("capture", DEVICES),
    ("disk-speed", DISK_SPEED),
    ("doctor", DOCTOR),
    ("network-serve", NETWORK_SERVE),
    ("network-test", NETWORK_TEST),
    ("power-cut", POWER_CUT),
    ("reboot", RESTART),
    (REPORT, DEVICES),
];

/// The narrowest for no action.
pub(in crate::steps) fn privileges(action: &str) -> Privileges {
    ACTIONS.iter().find(|(name, _)| *name == action).map_or(CHECK, |(_, privileges)| *privileges)
}

/// The facts of an inventory, and those that enclosures, RAID controllers, TPMs and the ports of network cards tell.
const DEVICES: Privileges = Privileges {
    // The node of a RAID controller's driver, which is opened before the rules hold.
    capabilities: &[CAP_MKNOD, CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_RAWIO],
    reach: Reach::Only(Rules {
        reads: &[SELF, FACTS, &["/dev/cpu", "/etc/hostname", "/proc/devices", "/proc/driver/nvidia"]],
        asks_controllers: true,
        // A TPM answers what was written to it, as a management controller does.
        writes: &[
            "/dev/null",
            IPMI_NODES[0],
            IPMI_NODES[1],
            IPMI_NODES[2],
            "/dev/tpm0",
            "/dev/tpm1",
            "/dev/tpmrm0",
            "/dev/tpmrm1",
        ],
        sockets: &[Socket::Udp, Socket::Route, Socket::Generic],
        ioctls: &[
            SIOCETHTOOL,
            SG_IO,
            NVME_IOCTL_ADMIN_CMD,
            MEGASAS_IOC_FIRMWARE,
            MPT3[0],
            MPT3[1],
            MPT3[2],
            CXL_MEM_SEND_COMMAND,
            IPMI[0],
            IPMI[1],
        ],
        ..INVENTORY_RULES
    }),
    ..INVENTORY
};

/// Of drivers/scsi/megaraid/megaraid_sas.h, on 64-bit machines.
const MEGASAS_IOC_FIRMWARE: u64 = 0xc194_4d01;
/// MPT3IOCINFO, MPT3COMMAND and MPT3BTDHMAPPING of drivers/scsi/mpt3sas/mpt3sas_ctl.h, likewise.
const MPT3: [u64; 3] = [0xc05c_4c11, 0xc048_4c14, 0xc018_4c1f];
/// Of linux/cxl_mem.h.
const CXL_MEM_SEND_COMMAND: u64 = 0xc030_ce02;

/// What all tests of the machine read meanwhile: its processors and memory, sensors, counters of errors, the kernel's log.
const WATCHED: &[&str] = &[
    "/dev/kmsg",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/device-tree",
    "/proc/interrupts",
    "/proc/meminfo",
    "/proc/misc",
    "/proc/swaps",
    "/proc/sys",
    "/run/udev/data",
    "/sys",
];

/// Processors, memory, any disk to read, and those that its request names to write.
const BURNIN: Privileges = Privileges {
    // Memory that stays in place and where it is, the clocks of processors, the kernel's log.
    capabilities: &[CAP_IPC_LOCK, CAP_SYSLOG, CAP_SYS_ADMIN, CAP_SYS_RAWIO],
    memory_bytes: ALL_MEMORY,
    oom_score_adj: 1000,
    reach: Reach::Only(Rules {
        reads: &[SELF, WATCHED, &["/dev/cpu", "/dev/disk"]],
        reads_of_processes: &["comm", "mountinfo"],
        reads_disks: true,
        writes_its_disks: true,
        ioctls: &[BLKFLSBUF, BLKGETSIZE64, BLKSSZGET, SG_IO, NVME_IOCTL_ADMIN_CMD],
        calls: Calls::Only(&[CHANGE_FILES, FORK, IO_URING, LOAD, SIGNAL, SIGNALS_BY_FILE]),
        ..NOTHING
    }),
    ..CHECK
};

/// A peer that serves.
const NETWORK_TEST: Privileges = Privileges {
    // Buffers for bursts.
    capabilities: &[CAP_NET_ADMIN, CAP_SYSLOG],
    reach: Reach::Only(Rules {
        reads: &[SELF, WATCHED],
        sockets: &[Socket::Udp, Socket::Tcp],
        tcp_ports: &[LINK_PORT],
        calls: Calls::Only(&[FORK, LOAD, SIGNAL, SIGNALS_BY_FILE]),
        ..NOTHING
    }),
    ..CHECK
};

const NETWORK_SERVE: Privileges = Privileges {
    capabilities: &[CAP_NET_ADMIN],
    reach: Reach::Only(Rules {
        sockets: &[Socket::Udp, Socket::Tcp],
        // It connects to none.
        tcp_ports: &[LINK_PORT],
        listens: &[LINK_PORT],
        calls: Calls::Only(&[LISTEN, SIGNALS_BY_FILE]),
        ..NOTHING
    }),
    ..CHECK
};

/// The way to the service, by name, with the certificates that this system trusts; neighbours and sources of time.
const DOCTOR: Privileges = Privileges {
    reach: Reach::Only(Rules {
        reads: &[
            SELF,
            RESOLVER,
            CERTIFICATES,
            &["/etc/chrony.conf", "/etc/chrony.d", "/run/chrony-dhcp", "/sys/class/net", "/sys/devices"],
        ],
        reads_named_by: FETCH.reads_named_by,
        sockets: &[Socket::Udp, Socket::Tcp, Socket::Echo, Socket::Packet, Socket::Route],
        tcp_ports: &[],
        ..PROBE
    }),
    capabilities: PROBES.capabilities,
    ..FETCHES
};

/// The end of this system.
const RESTART: Privileges = Privileges {
    capabilities: &[CAP_SYS_BOOT],
    reach: Reach::Only(Rules { signals_others: true, calls: Calls::Only(&[FORK, REBOOT, SIGNAL, SYNC]), ..NOTHING }),
    ..CHECK
};

/// The management controller, which ends it.
const POWER_CUT: Privileges = Privileges {
    reach: Reach::Only(Rules {
        writes: &["/dev/null", IPMI_NODES[0], IPMI_NODES[1], IPMI_NODES[2]],
        ioctls: IPMI,
        calls: Calls::Only(&[FORK, DETACH]),
        ..NOTHING
    }),
    ..CHECK
};
