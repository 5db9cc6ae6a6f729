//! Media types of the API, and the service's checks of a request's `Accept` and `Content-Type`.

use std::fmt;

/// A media type that the API's description names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json,
    OctetStream,
    /// A form with a file in it.
    Multipart,
}

impl Media {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::OctetStream => "application/octet-stream",
            Self::Multipart => "multipart/form-data",
        }
    }

    /// Whether `Accept` headers with these values admit it; without any, everything is admitted.
    pub fn is_accepted<'a>(self, accept: impl IntoIterator<Item = &'a str>) -> bool {
        let mut ranges = accept.into_iter().flat_map(|value| value.split(',')).filter_map(Range::parse).peekable();
        ranges.peek().is_none() || ranges.any(|range| range.admits(self))
    }

    /// The service's text if [`Self::is_accepted`] is false.
    pub fn not_accepted(self) -> String {
        format!("unsupported media type requested, only [{self}] are available")
    }

    /// Checks that the body of a request with this `Content-Type` has it. Otherwise returns the service's text.
    pub fn check_content_type(self, content_type: Option<&str>) -> Result<(), String> {
        // A body without a type counts as a file.
        let header = content_type.filter(|value| !value.is_empty()).unwrap_or(Self::OctetStream.as_str());
        let name = header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if let Some(why) = fault_of_name(&name) {
            return Err(format!("parsing Content-Type header from {header:?} failed, because {why}"));
        }
        if name == self.as_str() {
            return Ok(());
        }
        Err(format!("unsupported media type {name:?}, only [{self}] are allowed"))
    }
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One element of an `Accept` header (RFC 9110, 12.5.1).
struct Range<'a> {
    name: &'a str,
    is_refused: bool,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let quality = parts.find_map(|parameter| parameter.strip_prefix("q="));
        let is_refused = quality.is_some_and(|quality| quality.parse::<f32>().is_ok_and(|quality| quality == 0.0));
        Some(Self { name, is_refused })
    }

    fn admits(&self, media: Media) -> bool {
        let offer = media.as_str();
        let admits = match self.name.strip_suffix("/*") {
            Some("*") => true,
            Some(kind) => offer.split('/').next() == Some(kind),
            None => offer == self.name,
        };
        admits && !self.is_refused
    }
}

/// Why a name is not a media type, in Go's words.
fn fault_of_name(name: &str) -> Option<&'static str> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let after_kind = name.trim_start_matches(is_token);
    if after_kind.len() == name.len() {
        return Some("mime: no media type");
    }
    if after_kind.is_empty() {
        return None;
    }
    let Some(subtype) = after_kind.strip_prefix('/') else { return Some("mime: expected slash after first token") };
    match subtype.trim_start_matches(is_token) {
        rest if rest.len() == subtype.len() => Some("mime: expected token after slash"),
        "" => None,
        _ => Some("mime: unexpected content after media subtype"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_admits_a_file() {
        let file = |accept: &[&'static str]| Media::OctetStream.is_accepted(accept.iter().copied());
        for accept in [
            &[][..],
            &[""],
            &["*/*"],
            &["application/octet-stream"],
            &["application/*"],
            &["text/html, application/xml;q=0.9, */*;q=0.8"],
            &["application/json", "application/octet-stream"],
            &["application/octet-stream; charset=x"],
        ] {
            assert!(file(accept), "{accept:?}");
        }
        for accept in [
            &["application/json"][..],
            &["text/*"],
            &["application/octet-stream;q=0"],
            &["*/*;q=0.0"],
            &["application/octet-strea"],
            &["application/json, text/html"],
        ] {
            assert!(!file(accept), "{accept:?}");
        }
        assert_eq!(
            Media::OctetStream.not_accepted(),
            "unsupported media type requested, only [application/octet-stream] are available"
        );
    }

    #[test]
    fn what_is_json() {
        let json = |content_type| Media::Json.check_content_type(content_type);
        for good in ["application/json", "Application/JSON", "application/json; charset=utf-8"] {
            assert_eq!(json(Some(good)), Ok(()), "{good}");
        }
        let refused = |content_type| json(content_type).unwrap_err();
        assert_eq!(
            refused(Some("text/plain")),
            r#"unsupported media type "text/plain", only [application/json] are allowed"#
        );
        assert_eq!(refused(Some("Text/Plain; a=b")), refused(Some("text/plain")));
        let untyped = r#"unsupported media type "application/octet-stream", only [application/json] are allowed"#;
        assert_eq!((refused(None), refused(Some(""))), (untyped.to_owned(), untyped.to_owned()));
        assert_eq!(
            refused(Some("a b")),
            r#"parsing Content-Type header from "a b" failed, because mime: expected slash after first token"#
        );
        assert!(refused(Some(";x")).ends_with("mime: no media type"));
        assert!(refused(Some("application/")).ends_with("mime: expected token after slash"));
        assert!(refused(Some("application/json x")).ends_with("mime: unexpected content after media subtype"));
        assert_eq!(Media::Multipart.check_content_type(Some("multipart/form-data; boundary=x")), Ok(()));
    }
}
