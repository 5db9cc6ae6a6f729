//! A fetch for a reader at a terminal. The config itself is not shown: it holds secrets.

use super::{DownloadError, Fetched};
use crate::codec::text::printable;
use api::http::public_url;
use std::fmt::Write;

pub(crate) fn render(fetched: &Fetched, config: &Result<String, DownloadError>) -> String {
    let url = public_url(&fetched.url);
    let mut text = format!("{url}\n");
    let mut line = |what: &str, value: String| {
        // Some errors have several lines; those behind the first are indented, so that a server's are not ours.
        let value = value.lines().map(|line| printable(line.as_bytes())).collect::<Vec<_>>();
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {what:<10}  {}", value.join(&format!("\n{:14}", "")));
    };
    match config {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_a_server_says_neither_steers_the_terminal_nor_looks_like_ours() {
        let body = "no\u{1b}[2J\n  result      an Ignition config".to_owned();
        let fetched = Fetched {
            url: "http://host/config".into(),
            found_at: None,
            status: Some(404),
            body_len: 9,
            elapsed: Duration::from_millis(3),
        };
        let expected = "\
http://host/config
  result      FAILED: ignition file download failed: bad status code: 404. server response: no\u{fffd}[2J
                result      an Ignition config
  status      404, 9 bytes
  time        3 ms
";
        assert_eq!(render(&fetched, &Err(DownloadError::Status { status: 404, body })), expected);
    }
}
