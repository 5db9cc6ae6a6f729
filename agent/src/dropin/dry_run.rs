//! The flags of dry runs, whose defaults come from the environment (docs/compatibility.md#agent-flags).

use super::flags::{Flag, FlagError, Values, parse_bool};
use crate::dry::DryRun;
use std::path::PathBuf;

/// Flag, variable, and what it is.
const TEXTS: [(&str, &str, &str); 5] = [
    ("force-id", "DRY_HOST_ID", "The identity of the pretended host"),
    ("force-mac", "DRY_FORCED_MAC_ADDRESS", "The MAC address of the pretended host"),
    ("force-hostname", "DRY_FORCED_HOSTNAME", "The name of the pretended host"),
    ("forced-ipv4", "DRY_FORCED_HOST_IPV4", "The IPv4 address of the pretended host, with its prefix length"),
    (
        "fake-reboot-marker-path",
        "DRY_FAKE_REBOOT_MARKER_PATH",
        "A file whose creation stands for the reboot of the pretended host",
    ),
];

/// The flags; `variable` reads the environment.
pub(super) fn flags(variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Flag>, FlagError> {
    let value = |name: &str| variable(&format!("DRYCONFIG_{name}")).or_else(|| variable(name)).unwrap_or_default();
    let enable = value("DRY_ENABLE");
    let on = match enable.as_str() {
        "" => false,
        text => parse_bool(text).ok_or_else(|| FlagError::Bool { value: enable.clone(), flag: "dry-run".into() })?,
    };
    let mut flags =
        vec![Flag::bool("dry-run", on, "Pretend: answer steps without looking at this host or changing it")];
    flags.extend(TEXTS.into_iter().map(|(flag, name, usage)| Flag::text(flag, value(name), usage)));
    Ok(flags)
}

/// The same in the words of `landfall agent`; nothing without `--dry-run`.
pub(super) fn ours(values: &Values) -> Vec<String> {
    if !values.is_on("dry-run") {
        return Vec::new();
    }
    let texts = TEXTS.iter().filter(|(flag, ..)| !values.text(flag).is_empty());
    let texts = texts.map(|(flag, ..)| format!("--{flag}={}", values.text(flag)));
    std::iter::once("--dry-run".to_owned()).chain(texts).collect()
}

/// The pretended host; none without `--dry-run`. An invalid identity is left to the agent, which reports it.
pub(super) fn pretended(values: &Values) -> Option<DryRun> {
    let text = |flag| Some(values.text(flag)).filter(|text| !text.is_empty()).map(str::to_owned);
    values.is_on("dry-run").then(|| DryRun {
        host_id: text("force-id").and_then(|id| id.parse().ok()),
        mac: text("force-mac"),
        hostname: text("force-hostname"),
        ipv4: text("forced-ipv4"),
        reboot_marker: text("fake-reboot-marker-path").map(PathBuf::from),
    })
}
