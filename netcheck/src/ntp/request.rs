//! What the service asks for.

use api::NtpSynchronizationRequest;
use std::net::IpAddr;

/// The service sends a handful; each may cost a name lookup.
const MAX_SOURCES: usize = 64;

/// Why a request can't be carried out.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("the request is not an ntp-synchronizer request, {{\"ntp_source\": \"NAMES\"}}")]
    Document { source: serde_json::Error },
    /// The text the service knows (docs/compatibility.md#ntp-synchronizer).
    #[error("Invalid NTP source: {source_name}")]
    Source { source_name: String },
    #[error("the request has {found} NTP sources, more than {MAX_SOURCES}")]
    TooMany { found: usize },
}

/// The sources of a request, in its order.
pub fn from_json(document: &[u8]) -> Result<Vec<String>, RequestError> {
    let request: NtpSynchronizationRequest =
        serde_json::from_slice(document).map_err(|source| RequestError::Document { source })?;
    match request.ntp_source.as_str() {
        "" => Ok(Vec::new()),
        sources => Ok(sources.split(',').map(str::to_owned).collect()),
    }
}

/// Names and addresses only: they are passed to chronyd and to DNS.
pub(super) fn check(sources: &[String]) -> Result<(), RequestError> {
    if sources.len() > MAX_SOURCES {
        return Err(RequestError::TooMany { found: sources.len() });
    }
    match sources.iter().find(|source| !is_valid(source)) {
        Some(source) => Err(RequestError::Source { source_name: source.clone() }),
        None => Ok(()),
    }
}

/// `^[a-z0-9][a-z0-9\-\.]{0,61}[a-z0-9]$` or an address.
fn is_valid(source: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let name = match source.as_bytes() {
        [first, middle @ .., last] => {
            middle.len() <= 61
                && inner(*first)
                && inner(*last)
                && middle.iter().all(|byte| inner(*byte) || b"-.".contains(byte))
        }
        _ => false,
    };
    name || source.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lists() {
        let list = |document: &str| from_json(document.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(list(r#"{"ntp_source":""}"#), Ok(vec![]));
        assert_eq!(list(r#"{"ntp_source":"ntp1.example.com,::1"}"#), Ok(vec!["ntp1.example.com".into(), "::1".into()]));
        for bad in ["{}", "[]", r#"{"ntp_source":null}"#, ""] {
            assert_eq!(
                list(bad),
                Err("the request is not an ntp-synchronizer request, {\"ntp_source\": \"NAMES\"}".to_owned()),
                "{bad}"
            );
        }
    }

    #[test]
    fn sources_are_names_or_addresses() {
        let longest = "a".repeat(63);
        for good in ["ntp1.example.com", "a1", "10.0.0.1", "fd00::1", "FD00::1", "::", "0.pool", longest.as_str()] {
            assert!(check(&[good.to_owned()]).is_ok(), "{good}");
        }
        let too_long = "a".repeat(64);
        for bad in ["", "a", "-a", "a-", ".a", "a.", "A.example", " a1", "a1 ", "a_b", "é1", "[::1]", too_long.as_str()]
        {
            let error = check(&["a1".to_owned(), bad.to_owned()]).unwrap_err();
            assert_eq!(error.to_string(), format!("Invalid NTP source: {bad}"));
        }
        let error = check(&vec!["a1".to_owned(); 65]).unwrap_err();
        assert_eq!(error.to_string(), "the request has 65 NTP sources, more than 64");
    }
}
