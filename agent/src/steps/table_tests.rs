//! What the steps may do: in docs/security.md, in the agent's unit, and at most.

use super::{
    kind::{Deadline, Kind},
    *,
};
use crate::privileges::{ALL_MEMORY, PODMAN};
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

fn rows(kind: &Kind) -> String {
    if kind.step_type != StepType::Certify {
        return row(kind, &format!("`{}`", kind.step_type), kind.privileges);
    }
    actions()
        .map(|action| row(kind, &format!("`certify`: {action}"), privileges(&kind.step_type, Some(action))))
        .collect()
}

fn row(kind: &Kind, name: &str, privileges: Privileges) -> String {
    let Privileges { capabilities, memory_bytes, .. } = privileges;
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
    let memory = if memory_bytes == ALL_MEMORY { "all".to_owned() } else { format!("{} GiB", memory_bytes >> 30) };
    format!("| {name} | {names}{whose} | {memory} | {deadline} |\n")
}

#[test]
fn the_table_people_read_is_the_one_that_holds() {
    let rows: String = KINDS.into_iter().map(rows).collect();
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

/// Bounds of all steps and actions.
fn all() -> impl Iterator<Item = (String, Privileges)> {
    let steps = KINDS.into_iter().map(|kind| (kind.step_type.to_string(), kind.privileges));
    steps.chain(actions().map(|action| (action.to_owned(), privileges(&StepType::Certify, Some(action)))))
}

#[test]
fn the_agents_unit_leaves_what_steps_need_and_the_power_to_take_it() {
    let unit = include_str!("../../../rootfs-overlay/overlay/usr/lib/systemd/system/agent.service");
    let lines = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let left: BTreeSet<_> = lines.flat_map(str::split_whitespace).map(str::to_owned).collect();
    let needed = all().flat_map(|(_, privileges)| privileges.capabilities).chain([&CAP_SETPCAP]);
    assert_eq!(left, needed.map(Capability::to_string).collect());
}

#[test]
fn no_step_is_all_powerful() {
    for (name, privileges) in all() {
        for power in [CAP_SYS_MODULE, CAP_SYS_TIME, CAP_SETPCAP, CAP_AUDIT_CONTROL, CAP_BPF, CAP_SYS_RESOURCE] {
            assert!(!privileges.capabilities.contains(&power), "{name} {power}");
        }
    }
}
