//! Whether a host has what is planned for it, and the disk that was chosen. Where it has, nothing is listed: the published API knows
//! neither check.

use super::context::Context;
use crate::check::{Status, Verdict, disks::fault_of_chosen};
use crate::planned::of_host;

pub(super) fn has_chosen_disk(context: &Context) -> Option<Verdict> {
    let fault = fault_of_chosen(context.inventory()?, context.record.chosen_disk.as_ref()?)?;
    Some((Status::Failure, fault))
}

pub(super) fn has_its_part(context: &Context) -> Option<Verdict> {
    let inventory = context.inventory();
    let plan = of_host(&context.infra_env?.plan, inventory)?;
    match plan.changes(&context.record.now(), inventory?) {
        Ok(changes) if changes.is_empty() => None,
        Ok(_) => Some((Status::Pending, "The host has not got what is planned for it yet".to_owned())),
        Err(error) => {
            Some((Status::Failure, format!("The plan of the host ({}) can't be carried out: {error}", plan.label())))
        }
    }
}
