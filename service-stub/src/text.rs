//! Values as people read them, on the page and on the command line.

use api::Inventory;
use kernel::units::binary;
use serde_json::Value;
use std::fmt::Write;

/// Text of a document's member, by JSON pointer; empty if missing or not text.
pub(crate) fn at<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// Number of a document's member, by JSON pointer; 0 if missing.
pub(crate) fn number_at(document: &Value, pointer: &str) -> u64 {
    document.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// One line without characters that move a terminal's cursor or reverse text: names come from untrusted machines.
pub(crate) fn plain(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.trim().chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c }).collect()
}

/// The same with the spaces it begins with.
pub(crate) fn plain_end(text: &str) -> String {
    let indent = text.len() - text.trim_start_matches(' ').len();
    format!("{}{}", &text[..indent], plain(&text[indent..]))
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// At most `max` characters, the last then an ellipsis.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(max.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Seconds as `45s`, `12m`, `3h 5m`, `2d 4h`.
pub(crate) fn duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let mut text = String::new();
    let _ = match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => write!(text, "{seconds}s"),
        (0, 0, minutes) => write!(text, "{minutes}m"),
        (0, hours, minutes) => write!(text, "{hours}h {minutes}m"),
        (days, hours, _) => write!(text, "{days}d {hours}h"),
    };
    text
}

/// One validation, whatever service it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validation {
    /// `hardware`, `network`, …
    pub(crate) category: String,
    pub(crate) id: String,
    /// `success`, `failure`, `pending`, `error`, `disabled`.
    pub(crate) status: String,
    /// Why, for people.
    pub(crate) message: String,
}

impl Validation {
    /// Whether it blocks the installation.
    pub(crate) fn stands_in_the_way(&self) -> bool {
        !matches!(self.status.as_str(), "success" | "success-suppressed" | "disabled")
    }
}

/// The validations inside a `validations_info`, by category; none when it can't be read.
pub(crate) fn validations(info: &str) -> Vec<Validation> {
    let parsed: serde_json::Map<String, Value> = serde_json::from_str(info).unwrap_or_default();
    let of = |category: &str, finding: &Value| Validation {
        category: category.to_owned(),
        id: at(finding, "/id").to_owned(),
        status: at(finding, "/status").to_owned(),
        message: at(finding, "/message").to_owned(),
    };
    let all = parsed
        .iter()
        .flat_map(|(category, list)| list.as_array().into_iter().flatten().map(move |finding| of(category, finding)));
    all.collect()
}

/// The validation of what a host booted.
pub(crate) const BOOT_CHECK: &str = "boot-attested";

/// What is said of a host's boot in its `validations_info`; none where hosts are not asked.
pub(crate) fn boot(info: &str) -> Option<String> {
    validations(info).into_iter().find(|found| found.id == BOOT_CHECK).map(|found| found.message)
}

/// `8 CPU, 16 GiB, 447 GiB + 1.8 TiB`: processors, memory, disks that may be installed to.
pub(crate) fn hardware(inventory: &Inventory) -> String {
    let mut parts = Vec::new();
    parts.extend(inventory.cpu.as_ref().map(|cpu| format!("{} CPU", cpu.count)));
    parts.extend(inventory.memory.as_ref().map(|memory| binary(memory.physical_bytes)));
    let disks = inventory.disks.iter().filter(|disk| disk.installation_eligibility.eligible);
    let disks: Vec<String> = disks.map(|disk| binary(disk.size_bytes)).collect();
    parts.push(if disks.is_empty() { "no disk to install to".to_owned() } else { disks.join(" + ") });
    parts.join(", ")
}

/// The address of the management controller, if there is one.
pub(crate) fn bmc(inventory: &Inventory) -> String {
    let own = [("0.0.0.0", &inventory.bmc_address), ("::/0", &inventory.bmc_v6address)];
    let all = own.into_iter().filter(|(none, address)| !address.is_empty() && *address != none);
    all.map(|(_, address)| address.as_str()).collect::<Vec<_>>().join(", ")
}

/// Manufacturer and model.
pub(crate) fn machine(inventory: &Inventory) -> String {
    let Some(vendor) = &inventory.system_vendor else { return String::new() };
    let kind = if vendor.r#virtual { "(virtual)" } else { "" };
    let words = [vendor.manufacturer.as_str(), vendor.product_name.as_str(), kind];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// What of a name can stand in an address as it is.
pub(crate) fn url_part(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        for (seconds, text) in [(-5, "0s"), (45, "45s"), (720, "12m"), (11_100, "3h 5m"), (187_200, "2d 4h")] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn hostile_text_is_one_harmless_line() {
        assert_eq!(plain("a\x1b[2Jb\nc\u{202e}d"), "a [2Jb c d");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("äöü", 3), "äöü");
    }

    #[test]
    fn validations_come_out_by_category() {
        let info = r#"{"network":[{"id":"ntp-synced","status":"failure","message":"no"}],"odd":7}"#;
        let found = validations(info);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].category.as_str(), found[0].id.as_str()), ("network", "ntp-synced"));
        assert!(found[0].stands_in_the_way());
        assert_eq!((validations("no json"), boot(info)), (Vec::new(), None));
        let info = r#"{"hardware":[{"id":"boot-attested","status":"success","message":"as recorded"}]}"#;
        assert_eq!(boot(info).as_deref(), Some("as recorded"));
    }

    #[test]
    fn a_machine_in_a_few_words() {
        let inventory: Inventory = serde_json::from_value(serde_json::json!({
            "bmc_address": "0.0.0.0", "bmc_v6address": "fd00::7",
            "cpu": {"count": 8}, "memory": {"physical_bytes": 17_179_869_184_u64},
            "system_vendor": {"manufacturer": "QEMU", "virtual": true},
            "disks": [
                {"size_bytes": 480_000_000_000_u64, "installation_eligibility": {"eligible": true}},
                {"size_bytes": 1_000_000_000_u64, "installation_eligibility": {}},
            ],
        }))
        .unwrap();
        assert_eq!(hardware(&inventory), "8 CPU, 16 GiB, 447 GiB");
        assert_eq!((bmc(&inventory).as_str(), machine(&inventory).as_str()), ("fd00::7", "QEMU (virtual)"));
        assert_eq!(hardware(&Inventory::default()), "no disk to install to");
    }
}
