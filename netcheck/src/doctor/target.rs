//! Where the service is.

use super::Error;
use api::http::public_url;
pub(super) use api::proxy::Endpoint;
use ureq::http::Uri;

/// The service's URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// As asked for, without what may be secret.
    pub url: String,
    /// The same, parsed.
    pub uri: Uri,
    pub is_https: bool,
    pub endpoint: Endpoint,
    /// In front of the API's paths; without a slash at its end.
    pub prefix: String,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let refused = || Error::Url { url: public_url(url) };
        let uri: Uri = url.parse().map_err(|_| refused())?;
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(refused()),
        };
        let endpoint = Endpoint::from_uri(&uri).ok_or_else(refused)?;
        let prefix = uri.path().trim_end_matches('/').to_owned();
        let url = public_url(url);
        // Without the password.
        let uri = url.parse().map_err(|_| refused())?;
        Ok(Self { url, uri, is_https, endpoint, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, is_https, endpoint, prefix) in [
            ("https://api.example.com", true, "api.example.com:443", ""),
            ("http://192.0.2.7:8090/", false, "192.0.2.7:8090", ""),
            ("http://[fd00::7]:8090/behind/", false, "[fd00::7]:8090", "/behind"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.is_https, target.endpoint.to_string().as_str()), (is_https, endpoint));
            assert_eq!(target.prefix, prefix);
        }
        for url in ["", "api.example.com", "ftp://a", "https://", "http://a b"] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
        let error = Target::parse("ftp://user:secret@a/").unwrap_err().to_string();
        assert_eq!(error, "'ftp://a/' is not the URL of a service: expected http:// or https:// and a host");
    }
}
