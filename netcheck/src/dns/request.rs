//! Reads a domain-resolution request. Every name is checked before one is looked up.

use api::DomainResolutionRequest;
use std::net::Ipv4Addr;

/// The service asks for a name with this in front to find out about wildcards.
pub(crate) const WILDCARD_PREFIX: &str = "validateNoWildcardDNS.";
/// Of a single label, and of a whole name.
const LABEL_LENS: std::ops::RangeInclusive<usize> = 2..=62;
const MAX_NAME_LEN: usize = 255;

/// What is wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// Not JSON of the right shape.
    #[error("the domain resolution request is not a JSON object with a list of domains")]
    Json {
        /// Cause, with line and column.
        source: serde_json::Error,
    },
    /// The real agent's text (docs/compatibility.md#domain-resolution).
    #[error("Every domain in a domain request must have a domain name field")]
    NoName,
    /// Neither a label nor a full name.
    #[error("validation failure list:\ndomains.{index}.domain_name in body must be a domain name: \"{}\"", name.escape_debug())]
    Name {
        /// Position in the list, from 0.
        index: usize,
        /// As found, shortened.
        name: String,
    },
}

/// The names of a request, byte for byte.
pub fn from_json(json: &[u8]) -> Result<Vec<String>, RequestError> {
    let request: DomainResolutionRequest =
        serde_json::from_slice(json).map_err(|source| RequestError::Json { source })?;
    let names: Option<Vec<String>> = request.domains.into_iter().map(|domain| domain.domain_name).collect();
    let names = names.ok_or(RequestError::NoName)?;
    match names.iter().enumerate().find(|(_, name)| !is_allowed(name)) {
        Some((index, name)) => Err(RequestError::Name { index, name: name.chars().take(80).collect() }),
        None => Ok(names),
    }
}

/// The patterns of docs/compatibility.md#domain-resolution: a label `^[a-z\d]([\-]*[a-z\d]+)+$`, or a full name
/// `^([a-z\d]([\-]*[a-z\d]+)*\.)+[a-z\d]+([\-]*[a-z\d]+)+$` that is not an IPv4 address. Of a name to find wildcards
/// with, what follows the prefix counts, less one trailing dot.
fn is_allowed(name: &str) -> bool {
    let name = match name.strip_prefix(WILDCARD_PREFIX) {
        Some(rest) if rest.len() > 1 => rest.strip_suffix('.').unwrap_or(rest),
        // The prefix's pattern wants something to follow.
        _ => name,
    };
    match name.rsplit_once('.') {
        None => is_label(name) && LABEL_LENS.contains(&name.len()),
        Some((labels, last)) => {
            name.len() <= MAX_NAME_LEN
                && name.parse::<Ipv4Addr>().is_err()
                && last.len() > 1
                && is_label(last)
                && labels.split('.').all(is_label)
        }
    }
}

/// Letters, digits and dashes, with no dash at either end.
fn is_label(label: &str) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = label.as_bytes().first().is_some_and(is_plain) && label.as_bytes().last().is_some_and(is_plain);
    ends && label.bytes().all(|byte| is_plain(&byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_patterns_are_allowed() {
        let label = "a".repeat(62);
        let name = format!("{}abc", "ab.".repeat(84));
        for name in [
            "localhost",
            &label,
            "a.bc",
            "0--0.x-y.ex4mple",
            &name,
            "validateNoWildcardDNS.c.example.com",
            "validateNoWildcardDNS.c.example.com.",
        ] {
            assert!(is_allowed(name), "{name}");
        }
    }

    #[test]
    fn other_names_are_not() {
        let label = "a".repeat(63);
        let name = format!("{}abcd", "ab.".repeat(84));
        for name in [
            "",
            "a",
            &label,
            ".",
            "a.b",
            "a..bc",
            ".ab",
            "ab.cd.",
            "-a.bc",
            "a-.bc",
            "a.bc-",
            "A.bc",
            "a_b.cd",
            "192.0.2.1",
            "ä.de",
            &name,
            "validateNoWildcardDNS.",
            "validateNoWildcardDNS..",
            "validateNoWildcardDNS.a.bc..",
        ] {
            assert!(!is_allowed(name), "{name}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong_with_a_request() {
        let names = from_json(br#"{"domains":[{"domain_name":"a.bc","new":1},{"domain_name":"de"}],"x":{}}"#).unwrap();
        assert_eq!(names, ["a.bc", "de"]);
        let error = |json: &str| from_json(json.as_bytes()).unwrap_err().to_string();
        let no_name = "Every domain in a domain request must have a domain name field";
        assert_eq!(error(r#"{"domains":[{"domain_name":"A"},{}]}"#), no_name);
        assert_eq!(error(r#"{"domains":[{"domain_name":null}]}"#), no_name);
        assert_eq!(
            error(r#"{"domains":[{"domain_name":"ab"},{"domain_name":"a\"\nb"}]}"#),
            "validation failure list:\ndomains.1.domain_name in body must be a domain name: \"a\\\"\\nb\""
        );
        let shape = "the domain resolution request is not a JSON object with a list of domains";
        for json in ["", "[]", "{}", r#"{"domains":[7]}"#] {
            assert_eq!(error(json), shape, "{json}");
        }
    }
}
