//! What this machine is: `landfall inventory`.

use super::{
    kind::{Act, Deadline, Dry, IN_CONTAINER, Kind, Run, arg_count},
    refusal::Refusal,
};
use crate::{
    confine::calls::{FORK, SIGNAL},
    dry::DryRun,
    privileges::{CHECK, Calls, IPMI, IPMI_NODES, NOTHING, Privileges, Reach, Rules, SELF, Socket},
    settings::Settings,
};
use api::{HostId, Step, StepType};
use caps::Capability::{CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_RAWIO};
use std::borrow::Cow;

/// Flags a service may add, each with a number of bytes.
const WISHES: [&str; 2] = ["--output-max-size", "--disk-min-size"];

pub(super) static KIND: Kind = Kind {
    step_type: StepType::Inventory,
    fields: &[],
    act: Act::Run(act),
    deadline: Deadline::Inventory,
    dry: Dry::Edited(edit),
    failed: IN_CONTAINER,
    prints_json: true,
    answers_on_stderr: false,
    privileges: PRIVILEGES,
};

pub(super) const PRIVILEGES: Privileges = Privileges {
    // NVMe and SCSI commands, a card's module.
    capabilities: &[CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_RAWIO],
    reach: Reach::Only(RULES),
    ..CHECK
};

/// The kernel's and udev's facts. No more of /proc, where a kcore is.
pub(super) const FACTS: &[&str] = &[
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
];

/// Those, and what devices say of themselves.
pub(super) const RULES: Rules = Rules {
    reads: &[SELF, FACTS],
    reads_named_by: &[("PCIDB_PATH", "")],
    reads_disks: true,
    // The management controller answers what was written to it.
    writes: &["/dev/null", IPMI_NODES[0], IPMI_NODES[1], IPMI_NODES[2]],
    sockets: &[Socket::Udp, Socket::Route],
    ioctls: &[SIOCETHTOOL, SG_IO, NVME_IOCTL_ADMIN_CMD, IPMI[0], IPMI[1]],
    // Each question is asked by a process that can be ended.
    calls: Calls::Only(&[SIGNAL, FORK]),
    ..NOTHING
};

// Numbers of linux/sockios.h, scsi/sg.h and linux/nvme_ioctl.h, which 64-bit machines share.
pub(super) const SIOCETHTOOL: u64 = 0x8946;
pub(super) const SG_IO: u64 = 0x2285;
pub(super) const NVME_IOCTL_ADMIN_CMD: u64 = 0xc048_4e41;

/// The host's id and, from newer services, wishes about the size of the answer. Those we don't know are left to services
/// that can do without.
fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    let Some((id, wishes)) = step.args.split_first() else { return Err(arg_count(step, 1)) };
    if id.parse::<HostId>().is_err() {
        return Err(Refusal::Type { what: "host_id", kind: "uuid", value: id.chars().take(80).collect() });
    }
    let known = wishes.iter().filter_map(|wish| {
        let (name, bytes) = wish.split_once('=')?;
        let bytes: u64 = bytes.parse().ok()?;
        WISHES.contains(&name).then(|| Cow::from(format!("{name}={bytes}")))
    });
    let quick = settings.dry.as_ref().map(|_| Cow::from("--skip-bmc"));
    let args = std::iter::once("inventory".into()).chain(quick).chain(known).collect();
    Ok(Run { args, ..Run::new([], Vec::new()) })
}

fn edit(dry: &DryRun, output: &str) -> serde_json::Result<String> {
    serde_json::from_slice(output.as_bytes()).and_then(|inventory| serde_json::to_string(&dry.edit(inventory)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOST, act, refused};
    use api::StepType;

    #[test]
    fn an_inventory_takes_the_host_id_and_whatever_newer_services_add() {
        let wishes = [HOST, "--output-max-size=100000", "--new=1", "--disk-min-size=x", "--root=/etc", "disk-min-size"];
        let run = act(StepType::Inventory, &wishes).unwrap();
        assert_eq!(run.args, ["inventory", "--output-max-size=100000"]);
        assert_eq!(refused(StepType::Inventory, &[]), "inventory cmd accepts 1 params in args, given args []");
        let text = refused(StepType::Inventory, &["no-uuid"]);
        assert_eq!(text, "validation failure list:\nhost_id in body must be of type uuid: \"no-uuid\"");
    }
}
