//! A certification in forms that other programs read.

mod bom;
mod ocptv;
mod page;

use crate::{result::Run, verify::Verified};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Ocptv,
    Cyclonedx,
    Html,
}

impl std::str::FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ocptv" => Ok(Self::Ocptv),
            "cyclonedx" => Ok(Self::Cyclonedx),
            "html" => Ok(Self::Html),
            _ => Err("the forms are ocptv, cyclonedx and html".to_owned()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error("the archive was not verified")]
    Unverified,
    #[error("no host has the serial number {serial}; there are {known}")]
    NoHost { serial: String, known: String },
    #[error("ocptv describes one host: choose one with --host; there are {known}")]
    Choose { known: String },
}

/// The text of a verified archive in that form, of all hosts or of one.
pub(crate) fn export(verified: &Verified, form: Form, serial: Option<&str>) -> Result<String, ExportError> {
    let run = verified.run.as_ref().ok_or(ExportError::Unverified)?;
    let known = run.hosts.iter().map(|host| host.serial.as_str()).collect::<Vec<_>>().join(", ");
    let chosen: Vec<usize> =
        (0..run.hosts.len()).filter(|place| serial.is_none_or(|serial| run.hosts[*place].serial == serial)).collect();
    match (serial, &chosen[..]) {
        (Some(serial), []) => return Err(ExportError::NoHost { serial: serial.to_owned(), known }),
        (None, places) if form == Form::Ocptv && places.len() != 1 => return Err(ExportError::Choose { known }),
        _ => {}
    }
    let hosts: Vec<_> = chosen.iter().map(|place| (&run.hosts[*place], verified.reports.get(place))).collect();
    Ok(match form {
        Form::Ocptv => hosts.iter().map(|(host, report)| ocptv::lines(run, host, *report)).collect(),
        Form::Cyclonedx => bom::document(run, &hosts),
        Form::Html => page::page(run, &hosts, &verified.checks),
    })
}

/// Seconds since 1970 as RFC 3339.
fn timestamp(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())
}

/// When a run ended; one that has not is exported as of its begin.
fn end(run: &Run) -> u64 {
    run.ended_unix_seconds.unwrap_or(run.started_unix_seconds)
}

#[cfg(test)]
mod tests;
