//! URLs for the HTTP client, and where redirects lead.

/// `url` in the characters a request may have: Go escapes the others, too. What follows a `#` is for the reader.
pub(super) fn escaped(url: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let mut text = String::with_capacity(url.len());
    for byte in url.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Where `reference`, found at `base`, leads (RFC 3986, section 5.2). None if that is neither http: nor https:.
pub(super) fn resolve(base: &str, reference: &str) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    let (scheme, rest) = base.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = path.split('?').next().unwrap_or_default();
    let has_scheme = |name: &str| reference.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    if has_scheme("http://") || has_scheme("https://") {
        return Some(escaped(reference));
    }
    let first = reference.split(['/', '?']).next().unwrap_or_default();
    if first.contains(':') {
        return None;
    }
    let url = if let Some(rest) = reference.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if reference.is_empty() || reference.starts_with('?') {
        format!("{scheme}://{authority}{path}{reference}")
    } else {
        let directory = path.rfind('/').map_or("/", |at| path.get(..=at).unwrap_or("/"));
        let (target, query) = reference.split_at(reference.find('?').unwrap_or(reference.len()));
        let target = if target.starts_with('/') { target.to_owned() } else { format!("{directory}{target}") };
        format!("{scheme}://{authority}{}{query}", without_dots(&target))
    };
    Some(escaped(&url))
}

/// An absolute path without its `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut segments = Vec::new();
    let mut is_directory = false;
    for segment in path.split('/').skip(1) {
        is_directory = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let end = if is_directory && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_rfc_3986_says() {
        let base = "https://user@h:8443/a/b/c?q=1";
        for (reference, expected) in [
            ("http://other/x#y", Some("http://other/x")),
            ("HTTPS://other", Some("HTTPS://other")),
            ("//other/x", Some("https://other/x")),
            ("/x?y=z", Some("https://user@h:8443/x?y=z")),
            ("d", Some("https://user@h:8443/a/b/d")),
            ("./d/?e=../f", Some("https://user@h:8443/a/b/d/?e=../f")),
            ("../d", Some("https://user@h:8443/a/d")),
            ("../../../d/.", Some("https://user@h:8443/d/")),
            ("..", Some("https://user@h:8443/a/")),
            ("../..", Some("https://user@h:8443/")),
            ("?x", Some("https://user@h:8443/a/b/c?x")),
            ("", Some("https://user@h:8443/a/b/c")),
            ("a b/ü", Some("https://user@h:8443/a/b/a%20b/%C3%BC")),
            ("ftp://other/", None),
            ("data:,x", None),
            ("file:/etc/passwd", None),
        ] {
            assert_eq!(resolve(base, reference).as_deref(), expected, "{reference}");
        }
        assert_eq!(resolve("http://h", "x").as_deref(), Some("http://h/x"));
        assert_eq!(resolve("http://h?q", "x").as_deref(), Some("http://h/x"));
    }
}
