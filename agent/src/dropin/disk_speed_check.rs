//! `disk_speed_check`: `landfall disk speed` (docs/compatibility.md#installation-disk-speed-check).

use super::{DOCUMENT, NEGATIVE, Name, Plan, Refusal, Work, flags::Values, logging::logging, words};

/// Its caller ends it by its own timeout, at which the disk gets back what was on it.
const TIMEOUT: &str = "--timeout=86400";

pub(super) fn plan(values: &Values) -> Result<Plan, Refusal> {
    // The last word, whatever is before it.
    let Some(request) = values.rest.last() else {
        return Err(Refusal::ArgCount { name: Name::DiskSpeedCheck, given: 0 });
    };
    let request = request.clone();
    let work = if values.is_on("dry-run") {
        Work::PretendedSpeed { request }
    } else {
        let words = words(["disk", "speed", "--json", TIMEOUT, "--request", DOCUMENT]);
        Work::Command { words, document: Some(request) }
    };
    Ok(Plan { log: logging(values, "disk-speed-check", false), work, failed: NEGATIVE })
}
