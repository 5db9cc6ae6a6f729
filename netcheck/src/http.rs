//! What checks over HTTP have in common: how they fail.

/// Why a request got no response, in the words of whoever would be asked about it.
pub(crate) fn explain(error: &ureq::Error, max_redirects: u32) -> String {
    match error {
        ureq::Error::TooManyRedirects => format!("stopped after {max_redirects} redirects"),
        other => other.to_string(),
    }
}
