//! Findings for a reader at a terminal, and for the log.

use super::{Attempt, Availability, Finding, Findings, ImageError};
use crate::codec::text::printable;
use kernel::units::one_decimal;
use std::{error::Error, fmt::Write, path::Path, time::Duration};

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
            let numbers = numbers(*size_bytes, *time);
            (format!("available from {mirror}{}, {numbers}", endpoint.reference), attempts)
        }
        Ok(Availability::Stored { size_bytes, time }) => {
            (format!("available, now stored, {}", numbers(*size_bytes, *time)), &[])
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
pub(crate) fn numbers(bytes: u64, time: Duration) -> String {
    let a_second = u128::from(bytes).saturating_mul(1000) / time.as_millis().max(1);
    let rate = one_decimal(u64::try_from(a_second).unwrap_or(u64::MAX));
    format!("{} in {:.1} s, {rate}/s", one_decimal(bytes), time.as_secs_f64())
}
