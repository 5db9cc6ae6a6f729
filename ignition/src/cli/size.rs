//! `landfall ignition size`.

use super::{butane::Butane, len};
use crate::budget::{self, AREA_BYTES, BudgetError, Part};
use crate::check_budget;
use anyhow::Context;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;

/// Check whether a config fits a live ISO, and list its largest parts.
///
/// A live ISO has 262144 bytes for the compressed config. Prints the packed size of the config, and its largest entries
/// by their length inside the config. The exit status is 1 if it doesn't fit.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition size discovery.ign\n  \
    landfall iso ignition show live.iso | landfall ignition size --json -")]
pub(super) struct Size {
    /// The config, or - for standard input
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How many of the largest entries to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    butane: Butane,
}

/// The answer of `landfall ignition size --json`.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    config_bytes: u64,
    packed_bytes: u64,
    area_bytes: u64,
    fits: bool,
    entries: Vec<Part>,
}

impl Size {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let config = self.butane.read(&self.file)?;
        let report =
            report(&config, self.top).with_context(|| format!("{} is not an Ignition config", self.file.display()))?;
        let out = &mut std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)?;
        } else {
            print(out, &report)?;
        }
        check_budget(&config)?;
        Ok(())
    }
}

fn report(config: &[u8], top: usize) -> anyhow::Result<Report> {
    let value: Value = serde_json::from_slice(config)?;
    anyhow::ensure!(value.pointer("/ignition/version").is_some_and(Value::is_string), "it has no ignition.version");
    let packed_bytes = match check_budget(config) {
        Ok(packed_bytes) | Err(BudgetError::TooLarge { packed_bytes, .. }) => packed_bytes,
        Err(error) => return Err(error.into()),
    };
    let mut entries = budget::parts(&value);
    entries.truncate(top);
    Ok(Report {
        schema: 1,
        config_bytes: len(config),
        packed_bytes,
        area_bytes: AREA_BYTES,
        fits: packed_bytes <= AREA_BYTES,
        entries,
    })
}

fn print(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let Report { config_bytes, packed_bytes, area_bytes, .. } = report;
    let verdict = if report.fits {
        format!("{} bytes are left", area_bytes.saturating_sub(*packed_bytes))
    } else {
        format!("{} bytes too many", packed_bytes.saturating_sub(*area_bytes))
    };
    writeln!(out, "{packed_bytes} of {area_bytes} bytes packed ({config_bytes} unpacked): {verdict}")?;
    for entry in &report.entries {
        writeln!(out, "{:>10}  {:<11}  {}", entry.bytes, entry.kind, entry.name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_largest_entries_come_first_and_show_no_secret() {
        let config = json!({
            "ignition": {"version": "3.2.0", "config": {"merge": [{"source": "data:,hunter2"}]}},
            "storage": {"files": [{"path": "/small"}, {"path": "/large", "contents": {"source": format!("data:,{}", "x".repeat(500))}}]},
            "systemd": {"units": [{"name": "a.service"}]},
        });
        let report = report(config.to_string().as_bytes(), 3).unwrap();
        assert_eq!(
            report.entries.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(),
            ["/large", "data:*****", "a.service"]
        );
        assert!(report.fits && report.packed_bytes < report.config_bytes);
        let mut text = Vec::new();
        print(&mut text, &report).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with(&format!("{} of 262144 bytes packed (", report.packed_bytes)), "{text}");
    }

    #[test]
    fn what_is_no_config_is_refused() {
        for bad in ["", "{", "[]", "{}", r#"{"ignition":{"version":3}}"#] {
            assert!(report(bad.as_bytes(), 1).is_err(), "{bad}");
        }
    }
}
