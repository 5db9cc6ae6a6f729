//! Findings for a reader at a terminal, and for the log.

use super::{Attempt, Availability, Finding, Findings, ImageError, rate};
use crate::codec::text::printable;
use std::{error::Error, fmt::Write, path::Path};

/// One paragraph an image: the verdict, then each place where it was not available.
pub(crate) fn render(findings: &Findings, certificates: &Path) -> String {
    if findings.images.is_empty() {
        return "no images to check\n".to_owned();
    }
    findings.images.iter().map(|finding| render_image(finding, certificates)).collect::<Vec<_>>().join("\n")
}

fn render_image(finding: &Finding, certificates: &Path) -> String {
    let (verdict, attempts): (_, &[Attempt]) = match &finding.outcome {
        Ok(Availability::Present) => ("available, already on this host".to_owned(), &[]),
        Ok(Availability::Fetched { endpoint, size_bytes: 0, attempts, .. }) => {
            (format!("available from {}, all parts shared with images above", endpoint.reference), attempts)
        }
        Ok(Availability::Fetched { endpoint, size_bytes, time, attempts }) => {
            let mirror = if endpoint.mirror { "mirror " } else { "" };
            let numbers = numbers(*size_bytes, time.as_secs_f64());
            (format!("available from {mirror}{}, {numbers}", endpoint.reference), attempts)
        }
        Ok(Availability::Stored { size_bytes, time }) => {
            (format!("available, now stored, {}", numbers(*size_bytes, time.as_secs_f64())), &[])
        }
        Err(ImageError::Nowhere(attempts)) => ("NOT AVAILABLE".to_owned(), attempts),
        Err(error) => (format!("NOT AVAILABLE: {}", chain(error)), &[]),
    };
    // A name that can't be read may hold anything.
    let mut text = format!("{}\n  {verdict}\n", finding.name.escape_debug());
    for attempt in attempts {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {}\n    {}", explain(attempt), attempt.error.advice(certificates));
    }
    text
}

/// `mirror a.b/c:1: certificate: …`.
pub(crate) fn explain(attempt: &Attempt) -> String {
    let role = if attempt.endpoint.mirror { "mirror" } else { "source" };
    format!("{role} {}: {}: {}", attempt.endpoint.reference, attempt.error.phase(), chain(&attempt.error))
}

/// An error with its causes, some of which quote a server.
pub(crate) fn chain(error: &dyn Error) -> String {
    printable(kernel::in_full(error).as_bytes())
}

/// Size, time and rate.
pub(crate) fn numbers(bytes: u64, seconds: f64) -> String {
    format!("{} in {seconds:.1} s, {:.1} MB/s", megabytes(bytes), rate(bytes, seconds))
}

pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", rate(bytes, 1.0))
}
