//! What the steps may do: in docs/security.md, in the agent's unit, and at most.

use super::{
    kind::{Deadline, Kind},
    *,
};
use crate::privileges::PODMAN;
use caps::Capability::{self, *};
use std::{collections::BTreeSet, env, fs, time::Duration};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/security.md");
const BEGIN: &str = "<!-- What each step may do: WRITE_TABLE=1 cargo test -p agent --lib table -->\n";
const END: &str = "<!-- End -->\n";

fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        86_400 => "1 day".to_owned(),
        seconds if seconds % 3600 == 0 => format!("{} h", seconds / 3600),
        seconds => format!("{} min", seconds / 60),
    }
}

fn row(kind: &Kind) -> String {
    let Privileges { capabilities, memory_bytes, .. } = kind.privileges;
    let names: Vec<_> = capabilities.iter().map(|name| name.to_string().replacen("CAP_", "", 1)).collect();
    let whose = if capabilities == PODMAN { " (podman's)" } else { "" };
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let pace = crate::settings::Pace::default();
    let deadline = match kind.deadline {
        Deadline::After(duration) => in_words(duration),
        Deadline::Network => in_words(pace.network),
        Deadline::Inventory => in_words(pace.inventory),
        Deadline::Requested { grace } => format!("the request's, and {}", in_words(grace)),
    };
    format!("| `{}` | {names}{whose} | {} GiB | {deadline} |\n", kind.step_type, memory_bytes >> 30)
}

#[test]
fn the_table_people_read_is_the_one_that_holds() {
    let rows: String = KINDS.into_iter().map(row).collect();
    let table = format!("| step | capabilities | memory | deadline |\n|---|---|---|---|\n{rows}");
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (documented, after) = rest.split_once(END).unwrap();
    if env::var_os("WRITE_TABLE").is_some() {
        return fs::write(PAGE, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    }
    assert!(documented == table, "docs/security.md needs this table (WRITE_TABLE=1 writes it):\n{table}");
}

#[test]
fn the_list_is_sorted_and_has_each_type_once() {
    let names: Vec<_> = KINDS.iter().map(|kind| kind.step_type.as_str()).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
}

#[test]
fn the_agents_unit_leaves_what_steps_need_and_the_power_to_take_it() {
    let unit = include_str!("../../../rootfs-overlay/overlay/usr/lib/systemd/system/agent.service");
    let lines = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let left: BTreeSet<_> = lines.flat_map(str::split_whitespace).map(str::to_owned).collect();
    let steps = StepType::NAMES.into_iter().map(|name| serde_json::from_value(name.into()).unwrap());
    let needed = steps.flat_map(|step: StepType| privileges(&step).capabilities).chain([&CAP_SETPCAP]);
    assert_eq!(left, needed.map(Capability::to_string).collect());
}

#[test]
fn no_step_is_all_powerful() {
    for name in StepType::NAMES {
        let step: StepType = serde_json::from_value(name.into()).unwrap();
        for power in [CAP_SYS_MODULE, CAP_SYS_TIME, CAP_SETPCAP, CAP_AUDIT_CONTROL, CAP_BPF, CAP_SYS_RESOURCE] {
            assert!(!privileges(&step).capabilities.contains(&power), "{name} {power}");
        }
    }
}
