//! Whether a response is a config.

use super::DownloadError;
use serde::de::IgnoredAny;
use std::error::Error;

/// Longer documents are not shown whole in an error.
const SHOWN_BYTES: usize = 512;
/// What a server says to a refused request is shown whole, unless it is too long for a message.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// Whether there is JSON in the response.
pub(super) fn check_json(status: u16, body: &[u8]) -> Result<(), DownloadError> {
    if !(200..300).contains(&status) {
        return Err(DownloadError::Status { status, body: start(body, MAX_REFUSAL_BYTES) });
    }
    if body.is_empty() {
        return Err(DownloadError::Empty { status });
    }
    let text = || start(body, SHOWN_BYTES);
    serde_json::from_slice::<IgnoredAny>(body).map(drop).map_err(|source| match body.len() <= SHOWN_BYTES {
        true => DownloadError::Json { body: text(), source },
        false => DownloadError::LongJson { start: text() },
    })
}

/// The config in `document` as the service wants it, if the config parser could read one there.
pub fn judge(document: &[u8], config: Result<String, Box<dyn Error + Send + Sync>>) -> Result<String, DownloadError> {
    let text = || start(document, SHOWN_BYTES);
    config.map_err(|source| match document.len() <= SHOWN_BYTES {
        true => DownloadError::Config { body: text(), source },
        false => DownloadError::LongConfig { start: text() },
    })
}

fn start(bytes: &[u8], max_len: usize) -> String {
    String::from_utf8_lossy(bytes.get(..max_len).unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, body: &str) -> String {
        let body = body.as_bytes();
        check_json(status, body).and_then(|()| judge(body, Err("no config".into()))).unwrap_err().to_string()
    }

    #[test]
    fn the_texts_are_the_real_agents() {
        let failed = "ignition file download failed: ";
        assert_eq!(error(404, "not found"), format!("{failed}bad status code: 404. server response: not found"));
        assert_eq!(error(302, ""), format!("{failed}bad status code: 302. server response: "));
        let empty = format!("{failed}server responsed with status code 204 but the response was empty");
        assert_eq!(error(204, ""), empty);
        assert_eq!(
            error(200, "<html>"),
            format!("{failed}response is not valid json:\n<html>\nparse error is: expected value at line 1 column 1")
        );
        let long = "<".repeat(513);
        let start = "<".repeat(512);
        assert_eq!(
            error(200, &long),
            format!("{failed}expected ignition but got non-valid json, first 512 bytes are:\n{start}")
        );
        assert_eq!(error(200, "{}"), "response is not a valid ignition file:\n{}\nparse error is: no config");
        let long = format!("\"{}\"", "x".repeat(511));
        assert_eq!(
            error(200, &long),
            format!("response JSON is not a valid ignition file, first 512 bytes are:{}", &long[..512])
        );
    }

    #[test]
    fn a_config_is_what_its_reader_makes_of_it() {
        check_json(200, b"{}").unwrap();
        assert_eq!(judge(b"{}", Ok("read".to_owned())).unwrap(), "read");
        let bytes = check_json(500, &[0xff; 1 << 20]).unwrap_err().to_string();
        assert!(bytes.len() < 200 << 10, "bounded");
    }
}
