//! URLs as Go's `net/url` takes them apart, and those Ignition fetches from.

use crate::data_url::{self, DataUrlError};
use crate::model::Version;

/// How something is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
    Tftp,
    Data,
    S3,
    Gs,
    Arn,
    Other,
}

/// Why a URL is not valid, or not for Ignition. The URL may be secret and is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("unable to parse url")]
    Parse,
    #[error("invalid url scheme")]
    Scheme,
    #[error(transparent)]
    Data(#[from] DataUrlError),
    #[error("invalid S3 object VersionId")]
    VersionId,
    #[error("invalid S3 ARN format")]
    Arn,
}

/// Whether Ignition fetches from there.
pub(super) fn check(url: &str, version: Version) -> Result<(), UrlError> {
    match scheme(url)? {
        Scheme::Http | Scheme::Https | Scheme::Tftp => Ok(()),
        Scheme::Data => data_url::check(url).map_err(UrlError::from),
        Scheme::S3 => check_version_id(url),
        Scheme::Gs if version >= Version::V3_2 => Ok(()),
        Scheme::Arn if version >= Version::V3_4 => check_arn(url),
        Scheme::Gs | Scheme::Arn | Scheme::Other => Err(UrlError::Scheme),
    }
}

/// The scheme of what is a URL to Go.
pub(crate) fn scheme(url: &str) -> Result<Scheme, UrlError> {
    if byte_scan::has_control(url.as_bytes()) {
        return Err(UrlError::Parse);
    }
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    if !has_good_escapes(fragment) {
        return Err(UrlError::Parse);
    }
    let (name, rest) = split_scheme(url)?;
    let rest = rest.split('?').next().unwrap_or_default();
    if name.is_empty() && !rest.starts_with('/') && rest.split('/').next().is_some_and(|first| first.contains(':')) {
        return Err(UrlError::Parse);
    }
    let is_opaque = !name.is_empty() && !rest.starts_with('/');
    if !is_opaque {
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) if !name.is_empty() || !rest.starts_with('/') => {
                rest.find('/').map_or((rest, ""), |at| rest.split_at(at))
            }
            _ => ("", rest),
        };
        if !is_authority(authority) || !has_good_escapes(path) {
            return Err(UrlError::Parse);
        }
    }
    Ok(match &*name.to_ascii_lowercase() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        "tftp" => Scheme::Tftp,
        "data" => Scheme::Data,
        "s3" => Scheme::S3,
        "gs" => Scheme::Gs,
        "arn" => Scheme::Arn,
        _ => Scheme::Other,
    })
}

/// What stands before the first colon, if that is a scheme, and what follows.
fn split_scheme(url: &str) -> Result<(&str, &str), UrlError> {
    for (at, byte) in url.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at > 0 => return Ok((url.get(..at).unwrap_or_default(), url.get(at + 1..).unwrap_or_default())),
            b':' => return Err(UrlError::Parse),
            _ => break,
        }
    }
    Ok(("", url))
}

fn has_good_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|after| after.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2)
}

/// User and password, host, port.
fn is_authority(text: &str) -> bool {
    let (user, host) = text.rsplit_once('@').unwrap_or(("", text));
    let is_user = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(is_user) || !has_good_escapes(user) {
        return false;
    }
    let is_port = |port: &str| {
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let (name, port) = if host.starts_with('[') {
        match host.rfind(']') {
            Some(end) => host.split_at(end + 1),
            None => return false,
        }
    } else {
        host.rfind(':').map_or((host, ""), |at| host.split_at(at))
    };
    let is_host =
        |byte: u8| !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte);
    // Of ASCII only the zone's own percent sign may be escaped.
    let is_escape = |after: &str| {
        after.starts_with("25") || matches!(after.as_bytes().first(), Some(b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F'))
    };
    is_port(port) && name.bytes().all(is_host) && has_good_escapes(name) && name.split('%').skip(1).all(is_escape)
}

/// An object's version, where one is asked for.
fn check_version_id(url: &str) -> Result<(), UrlError> {
    let query = url.split('#').next().unwrap_or_default().split_once('?').map_or("", |(_, query)| query);
    let mut ids = query.split('&').filter_map(|pair| match pair.split_once('=').unwrap_or((pair, "")) {
        ("versionId", id) => Some(id),
        _ => None,
    });
    if ids.next().is_some_and(str::is_empty) { Err(UrlError::VersionId) } else { Ok(()) }
}

/// `arn:PARTITION:s3:REGION:ACCOUNT:BUCKET/KEY`, or through an access point.
fn check_arn(url: &str) -> Result<(), UrlError> {
    let opaque = url.split(['?', '#']).next().unwrap_or_default();
    let parts: Vec<_> = opaque.splitn(6, ':').collect();
    let [_, _, "s3", _, _, resource] = parts.as_slice() else { return Err(UrlError::Arn) };
    let slashes = opaque.matches('/').count();
    let needed = if resource.starts_with("accesspoint/") { 2 } else { 1 };
    if slashes < needed { Err(UrlError::Arn) } else { check_version_id(url) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_those_of_go() {
        for (url, expected) in [
            ("http://example.com/a%20b?x=%zz", Ok(Scheme::Http)),
            ("HTTPS://u:p@[::1]:80/", Ok(Scheme::Https)),
            ("data:,a#b%2", Err(UrlError::Parse)),
            ("data:,a", Ok(Scheme::Data)),
            ("bad://", Ok(Scheme::Other)),
            ("", Ok(Scheme::Other)),
            ("/etc/x", Ok(Scheme::Other)),
            ("http://[::1]a", Err(UrlError::Parse)),
            ("http://[::1", Err(UrlError::Parse)),
            ("http://a:b/", Err(UrlError::Parse)),
            ("http://a b/", Err(UrlError::Parse)),
            ("http://a/%zz", Err(UrlError::Parse)),
            ("http://a%20b/", Err(UrlError::Parse)),
            ("http://[fe80::1%25en0]/", Ok(Scheme::Http)),
            ("http://ex\u{7f}ample/", Err(UrlError::Parse)),
            (":a", Err(UrlError::Parse)),
            ("1a:b", Err(UrlError::Parse)),
            ("a b:c", Err(UrlError::Parse)),
        ] {
            assert_eq!(scheme(url), expected, "{url}");
        }
    }

    #[test]
    fn each_version_has_its_sources() {
        for (url, since) in [
            ("tftp://a/b", Some(Version::V3_0)),
            ("s3://bucket/key?versionId=a", Some(Version::V3_0)),
            ("gs://bucket/key", Some(Version::V3_2)),
            ("arn:aws:s3:::bucket/key", Some(Version::V3_4)),
            ("arn:aws:s3:us-west-1:1234:accesspoint/point/object/key", Some(Version::V3_4)),
            ("s3://bucket/key?versionId=", None),
            ("arn:aws:s3:::bucket", None),
            ("arn:aws:ec2:::bucket/key", None),
            ("arn:aws:s3:bucket/key", None),
            ("arn:aws:s3:us-west-1:1234:accesspoint/point", None),
            ("oem:///a", None),
        ] {
            for version in Version::ALL {
                assert_eq!(check(url, version).is_ok(), since.is_some_and(|since| version >= since), "{url} {version}");
            }
        }
    }
}
