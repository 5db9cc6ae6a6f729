//! `inventory`: `landfall inventory` (docs/compatibility.md#agent-programs).

use super::{
    Plan, Work, dry_run,
    flags::{Flag, Values},
    logging::logging,
    passed_on, words,
};
use ::inventory::Limits;

pub(super) fn flags(dry: Vec<Flag>) -> Vec<Flag> {
    let own = [
        Flag::text("gpu-config-file", "", "Which PCI functions count as graphics or accelerators: a YAML file"),
        Flag::int("output-max-size", 0, "Leave out disks until the output has no more bytes than this; 0: no limit"),
        Flag::int("disk-min-size", 0, "Leave out disks with fewer bytes than this; 0: no limit"),
    ];
    own.into_iter().chain(super::common_flags(dry)).collect()
}

pub(super) fn plan(values: &Values) -> Plan {
    let bytes = |flag| u64::try_from(values.int(flag)).unwrap_or(0);
    let (output, disk) = (bytes("output-max-size"), bytes("disk-min-size"));
    let work = match dry_run::pretended(values) {
        Some(dry) => {
            let limit = |bytes| (bytes > 0).then_some(bytes);
            let limits = Limits { output_max_bytes: limit(output), disk_min_bytes: limit(disk) };
            Work::PretendedInventory { dry, limits }
        }
        None => {
            let mut command = words(["inventory"]);
            command.extend(passed_on(values, &["gpu-config-file"]));
            command.extend([format!("--output-max-size={output}"), format!("--disk-min-size={disk}")]);
            Work::command(command)
        }
    };
    // It never fails: unknown facts are left out.
    Plan { log: logging(values, "inventory", false), work, failed: 0 }
}
