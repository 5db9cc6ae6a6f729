//! What this machine is: `landfall inventory`.

use super::{IN_CONTAINER, Kind, Refusal, Run, arg_count};
use crate::{
    dry::{Dry, DryRun},
    settings::Settings,
};
use api::{HostId, Step, StepType};
use std::borrow::Cow;

/// Flags a service may add, each with a number of bytes.
const WISHES: [&str; 2] = ["--output-max-size", "--disk-min-size"];

pub(super) static KIND: Kind = Kind {
    step_type: StepType::Inventory,
    fields: &[],
    act,
    dry: Dry::Edited(edit),
    failed: IN_CONTAINER,
    prints_json: true,
};

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
    Ok(Run { args, ..Run::new([], Vec::new(), settings.pace.inventory) })
}

fn edit(dry: &DryRun, output: &str) -> serde_json::Result<String> {
    serde_json::from_str(output).and_then(|inventory| serde_json::to_string(&dry.edit(inventory)))
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
