//! A fetch for a reader at a terminal. The config itself is not shown: it holds secrets.

use super::Fetched;
use api::http::public_url;
use std::fmt::Write;

pub(crate) fn render(fetched: &Fetched) -> String {
    let url = public_url(&fetched.url);
    let mut text = format!("{url}\n");
    let mut line = |what: &str, value: String| {
        // Writing to a String does not fail. A server's text is shown without what would move the cursor.
        let value: String = value.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect();
        let _ = writeln!(text, "  {what:<10}  {value}");
    };
    match &fetched.config {
        Ok(config) => line("result", format!("an Ignition config; {} bytes of it matter to the service", config.len())),
        Err(error) => line("result", format!("FAILED: {error}")),
    }
    if let Some(status) = fetched.status {
        line("status", format!("{status}, {} bytes", fetched.body_len));
    }
    if let Some(found_at) = fetched.found_at.as_ref().filter(|found_at| **found_at != url) {
        line("found at", found_at.clone());
    }
    line("time", format!("{} ms", fetched.elapsed.as_millis()));
    text
}
