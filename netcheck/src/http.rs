//! What checks over HTTP have in common: how they fail.

use api::http::public_url;
use std::time::Duration;

/// Of a check. Longer ones would be useless, and the longest ones overflow clocks.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(3600);

/// Some errors quote what the server sent.
const MAX_CHARS: usize = 300;

/// Why a request got no response, in terms an administrator can act on.
pub(crate) fn explain(error: &ureq::Error, max_redirects: u32) -> String {
    let text = match error {
        ureq::Error::TooManyRedirects => format!("stopped after {max_redirects} redirects"),
        // What a redirect leads to may be secret.
        ureq::Error::BadUri(uri) => format!("bad uri: {}", public_url(uri)),
        ureq::Error::RequireHttpsOnly(uri) => format!("redirected to {}, which is not https", public_url(uri)),
        other => other.to_string(),
    };
    text.chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_sent_is_neither_shown_whole_nor_with_its_secrets() {
        let text = explain(&ureq::Error::RequireHttpsOnly("http://user:secret@h/p?key=secret".into()), 0);
        assert_eq!(text, "redirected to http://h/p, which is not https");
        assert_eq!(explain(&ureq::Error::BadUri("x".repeat(1 << 20)), 0).len(), 300);
    }
}
