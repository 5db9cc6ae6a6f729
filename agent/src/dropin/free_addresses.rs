//! `free_addresses`: `landfall netcheck sweep` (docs/compatibility.md#free-network-addresses).

use super::{DOCUMENT, NEGATIVE, Name, Plan, Refusal, Work, flags::Values, logging::logging, words};

pub(super) fn plan(values: &Values) -> Result<Plan, Refusal> {
    let [request] = values.rest.as_slice() else {
        return Err(Refusal::ArgCount { name: Name::FreeAddresses, given: values.rest.len() });
    };
    Ok(Plan {
        log: logging(values, "free_addresses", false),
        work: Work::Command {
            words: words(["netcheck", "sweep", "--json", "--request", DOCUMENT]),
            document: Some(request.clone()),
        },
        failed: NEGATIVE,
    })
}
