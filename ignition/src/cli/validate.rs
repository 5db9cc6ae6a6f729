//! `landfall ignition validate`.

use super::butane::Butane;
use super::read;
use crate::butane::{self, ButaneError};
use crate::report::Report;
use crate::{ParseError, parse};
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check a config, as ignition-validate does.
///
/// Specifications 3.0 to 3.6 and 3.7-experimental. Each finding is one line with its position; the exit status is 1 if
/// Ignition would reject the config. Warnings alone are not a failure.
///
/// A Butane document is translated; findings name the place in the document.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition validate host.ign\n  \
    landfall ignition validate --json - < host.ign | jq .entries")]
pub(super) struct Validate {
    /// The config, or - for standard input
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    butane: Butane,
}

/// The answer of `landfall ignition validate --json`.
#[derive(Debug, Serialize)]
struct Verdict {
    schema: u32,
    /// Whether Ignition accepts it.
    valid: bool,
    /// Its version, if that is known; of a Butane document with the variant.
    version: Option<String>,
    /// Why it can't be read at all.
    error: Option<String>,
    #[serde(flatten)]
    findings: Report,
}

impl Verdict {
    fn judge(text: &[u8]) -> Self {
        let (version, error, findings) = match parse(text) {
            Ok((_, version, findings)) => (Some(version.to_string()), None, findings),
            Err(ParseError::Invalid(findings)) => (None, None, findings),
            Err(error) => (None, Some(error.to_string()), Report::default()),
        };
        Self { schema: 1, valid: error.is_none() && !findings.is_fatal(), version, error, findings }
    }

    fn judge_butane(text: &[u8], butane: &Butane) -> Self {
        let (version, error, findings) = match butane::translate(text, &butane.options(true)) {
            Ok(translated) => (Some(translated.edition), None, translated.report),
            Err(ButaneError::Invalid(findings)) => (None, None, findings),
            Err(error) => (None, Some(format!("{:#}", anyhow::Error::from(error))), Report::default()),
        };
        let is_bad = findings.is_fatal() || butane.is_strict() && !findings.entries.is_empty();
        Self { schema: 1, valid: error.is_none() && !is_bad, version, error, findings }
    }

    /// As ignition-validate prints it.
    fn print(&self, out: &mut impl Write, err: &mut impl Write) -> std::io::Result<ExitCode> {
        write!(out, "{}", self.findings)?;
        if let Some(error) = &self.error {
            writeln!(err, "couldn't parse config: {error}")?;
        }
        Ok(self.exit_code())
    }

    fn exit_code(&self) -> ExitCode {
        if self.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Validate {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let config = read(&self.file)?;
        let verdict = match kernel::butane::is_butane(&config) {
            true => Verdict::judge_butane(&config, &self.butane),
            false => Verdict::judge(&config),
        };
        let out = &mut std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &verdict)?;
            writeln!(out)?;
            return Ok(verdict.exit_code());
        }
        Ok(verdict.print(out, &mut std::io::stderr())?)
    }
}

/// The name of Ignition's own program.
const NAME: &str = "ignition-validate";
/// As Go's `flag` prints it; the first line ends where the program's name goes.
const FLAGS: &str = " [flags] config.ign\n\n  -version\n    \tprint the version of ignition-validate\n";

/// The program `ignition-validate`: its command line, output and exit codes (docs/compatibility.md#ignition-validation).
pub fn ignition_validate(args: impl IntoIterator<Item = OsString>) -> std::io::Result<ExitCode> {
    let mut err = std::io::stderr();
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_else(|| NAME.into());
    let usage = format!("Usage:\n  {}{FLAGS}", program.display());
    let mut files: Vec<OsString> = args.collect();
    if let Some(flag) = files.first().and_then(|first| first.to_str()).filter(|first| first.len() > 1) {
        match flag.strip_prefix("--").or(flag.strip_prefix('-')) {
            Some("version") => {
                writeln!(std::io::stdout(), "Ignition (landfall {})", env!("CARGO_PKG_VERSION"))?;
                return Ok(ExitCode::SUCCESS);
            }
            Some("help" | "h") => {
                write!(err, "{usage}")?;
                return Ok(ExitCode::SUCCESS);
            }
            Some("") => drop(files.remove(0)),
            Some(name) => {
                write!(err, "flag provided but not defined: -{name}\n{usage}")?;
                return Ok(ExitCode::from(2));
            }
            None => {}
        }
    }
    let [file] = &files[..] else {
        write!(err, "{usage}")?;
        return Ok(ExitCode::FAILURE);
    };
    match read(Path::new(file)) {
        Ok(text) => Verdict::judge(&text).print(&mut std::io::stdout(), &mut err),
        Err(error) => {
            writeln!(err, "couldn't read config: {error:#}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}
