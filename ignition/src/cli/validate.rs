//! `landfall ignition validate`.

use super::read;
use crate::report::Report;
use crate::{ParseError, parse};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Tell what is wrong with a config, as ignition-validate does.
///
/// Specifications 3.0 to 3.6 and 3.7-experimental. Each finding is a line with its place; the exit status is 1 if Ignition would
/// not take the config. Warnings alone are no failure.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition validate host.ign\n  \
    landfall ignition validate --json - < host.ign | jq .entries")]
pub struct Validate {
    /// The config, or - for standard input
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The answer of `landfall ignition validate --json`.
#[derive(Debug, Serialize)]
struct Verdict {
    schema: u32,
    /// Whether Ignition takes it.
    valid: bool,
    /// What it says it is of, if that is known.
    version: Option<String>,
    /// Why it can't be read at all.
    error: Option<String>,
    #[serde(flatten)]
    findings: Report,
}

impl Validate {
    /// Prints the findings.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let text = read(&self.file)?;
        let verdict = match parse(&text) {
            Ok((_, version, findings)) => {
                let valid = !findings.is_fatal();
                Verdict { schema: 1, valid, version: Some(version.to_string()), error: None, findings }
            }
            Err(ParseError::Invalid(findings)) => {
                Verdict { schema: 1, valid: false, version: None, error: None, findings }
            }
            Err(error) => {
                let error = Some(error.to_string());
                Verdict { schema: 1, valid: false, version: None, error, findings: Report::default() }
            }
        };
        let out = &mut std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &verdict)?;
            writeln!(out)?;
        } else {
            write!(out, "{}", verdict.findings)?;
            if let Some(error) = &verdict.error {
                writeln!(std::io::stderr(), "couldn't parse config: {error}")?;
            }
        }
        Ok(if verdict.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
