//! Names, domains, time sources, tags, pull secrets and certificates.

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{RootCertStore, pki_types::CertificateDer, pki_types::pem::PemObject};
use serde_json::Value;
use std::net::IpAddr;

const DNS_NAME: &str = r"^([a-z\d]([\-]*[a-z\d]+)*\.)+[a-z\d]+([\-]*[a-z\d]+)+$";
/// What stands before a cluster's domain to find wildcards.
const WILDCARD_PROBE: &str = "validateNoWildcardDNS.";
const MAX_LABEL_BYTES: usize = 63;
const MAX_DOMAIN_BYTES: usize = 255;

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Lower-case letters, digits, and hyphens that are neither first nor last.
fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let outer = |byte: Option<&u8>| byte.is_some_and(|byte| is_lower(*byte));
    outer(bytes.first()) && outer(bytes.last()) && bytes.iter().all(|byte| is_lower(*byte) || *byte == b'-')
}

/// A cluster's name: one label; several on platform `none`.
pub(crate) fn cluster_name(name: &str, platform: &str) -> Result<(), String> {
    let fits = name.is_empty() || is_label(name) || platform == "none" && name.split('.').all(is_label);
    if fits {
        return Ok(());
    }
    Err(format!(
        "Cluster name format is not valid: '{name}'. Name must start and end with either a letter or number and consist of \
         lower-case letters, numbers, and hyphens. Subdomains in cluster names are only valid with none platform."
    ))
}

/// A domain: one label, or several of which the last has at least two characters.
pub(crate) fn domain(given: &str) -> Result<(), String> {
    let probed = given.strip_prefix(WILDCARD_PROBE).filter(|rest| !rest.is_empty());
    let name = probed.map_or(given, |rest| rest.strip_suffix('.').unwrap_or(rest));
    if is_label(name) && (2..MAX_LABEL_BYTES).contains(&name.len()) {
        return Ok(());
    }
    let labels: Vec<&str> = name.split('.').collect();
    let dns = labels.len() > 1
        && labels.iter().all(|label| is_label(label))
        && labels.last().is_some_and(|last| last.len() > 1);
    if dns && !holds_dotted_decimal(&labels) && name.len() <= MAX_DOMAIN_BYTES {
        return Ok(());
    }
    Err(format!(
        "DNS format mismatch: {given} domain name is not valid. Must match regex [{DNS_NAME}], be no more than 255 characters, and not be in dotted decimal format (##.##.##.##)"
    ))
}

/// Three numbers in a row, and behind them a label that begins with a digit.
fn holds_dotted_decimal(labels: &[&str]) -> bool {
    let digits = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let ends = |label: &str| label.bytes().last().is_some_and(|byte| byte.is_ascii_digit());
    let begins = |label: &str| label.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    labels.windows(4).any(|four| ends(four[0]) && digits(four[1]) && digits(four[2]) && begins(four[3]))
}

/// A cluster's name and base domain together.
pub(crate) fn cluster_domain(name: &str, base: &str) -> Result<(), String> {
    domain(base)?;
    let apps = format!("apps.{name}.{base}");
    if apps.len() > MAX_DOMAIN_BYTES - MAX_LABEL_BYTES - 1 {
        return Err("Combination of cluster name and base DNS domain too long".to_owned());
    }
    match apps.split('.').find(|label| label.len() > MAX_LABEL_BYTES) {
        Some(label) => Err(format!("DNS label '{label}' is longer than 63 bytes")),
        None => Ok(()),
    }
}

/// A comma list of addresses and host names.
pub(crate) fn ntp_sources(list: &str) -> Result<(), String> {
    if list.split(',').all(is_ntp_source) {
        return Ok(());
    }
    Err(format!("Invalid NTP source: {list}"))
}

fn is_ntp_source(text: &str) -> bool {
    let bytes = text.as_bytes();
    let outer = |byte: Option<&u8>| byte.is_some_and(|byte| is_lower(*byte));
    let name = (2..=MAX_LABEL_BYTES).contains(&bytes.len())
        && outer(bytes.first())
        && outer(bytes.last())
        && bytes.iter().all(|byte| is_lower(*byte) || matches!(byte, b'-' | b'.'));
    name || text.parse::<IpAddr>().is_ok()
}

/// A comma list of words, or of words with single blanks between them.
pub(crate) fn tags(list: &str) -> Result<(), String> {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if list.is_empty() || list.split(',').all(|tag| tag.split(' ').all(word)) {
        return Ok(());
    }
    Err(format!(
        "Invalid format for Tags: {list}. Tags should be a comma-separated list (e.g. tag1,tag2,tag3). Each tag can consist of the following characters: Alphanumeric (aA-zZ, 0-9), underscore (_) and white-spaces."
    ))
}

/// Registry credentials: JSON with `auths`, each of a user and a password. Its text goes into no message.
pub(crate) fn pull_secret(text: &str) -> Result<(), String> {
    let Ok(Value::Object(secret)) = serde_json::from_str(text.trim()) else {
        return Err("pull secret must be a well-formed JSON".to_owned());
    };
    let auths = match secret.get("auths") {
        Some(Value::Object(auths)) if !auths.is_empty() => auths,
        None | Some(Value::Null | Value::Object(_)) => {
            return Err("pull secret must contain 'auths' JSON-object field".to_owned());
        }
        Some(_) => return Err("pull secret must be a well-formed JSON".to_owned()),
    };
    for (registry, credentials) in auths {
        let credentials = match credentials {
            Value::Null => continue,
            Value::Object(credentials) => credentials,
            _ => return Err("pull secret must be a well-formed JSON".to_owned()),
        };
        let auth = match credentials.get("auth") {
            None => continue,
            Some(Value::String(auth)) if auth.is_empty() => continue,
            Some(Value::String(auth)) => auth,
            Some(_) => return Err(format!("invalid pull secret: 'auth' field of {registry:?} should be a string")),
        };
        let Ok(decoded) = STANDARD.decode(auth) else {
            return Err(format!("invalid pull secret: 'auth' field of {registry:?} is not base64-encoded"));
        };
        if !decoded.contains(&b':') {
            return Err(format!("invalid pull secret: 'auth' for {registry} is not in 'user:password' format"));
        }
    }
    Ok(())
}

/// PEM certificates and nothing behind them.
pub(crate) fn certificates(bundle: &str) -> Result<(), String> {
    const END: &str = "-----END CERTIFICATE-----";
    let Some((_, rest)) = bundle.rsplit_once(END) else { return Err("invalid block".to_owned()) };
    if !rest.trim().is_empty() {
        return Err("invalid block".to_owned());
    }
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        let certificate = certificate.map_err(|_| "invalid block".to_owned())?;
        RootCertStore::empty().add(certificate).map_err(|_| "parse failed: x509: malformed certificate".to_owned())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains() {
        for good in [
            "example.com",
            "a-b.c1.de",
            "example",
            "validateNoWildcardDNS.a.example.com.",
            "1.2.3.example.com",
            "a--b.com",
        ] {
            assert_eq!(domain(good), Ok(()), "{good}");
        }
        let long = format!("{}.com", "a.".repeat(130));
        for bad in [
            "example.c",
            "-example.com",
            "Example.com",
            "",
            "a",
            "1.2.3.4",
            "x1.2.3.4y",
            "example..com",
            "example.com-",
            &long,
        ] {
            assert!(domain(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_tags_and_time_sources() {
        for (name, platform, good) in [
            ("edge", "baremetal", true),
            ("", "baremetal", true),
            ("a.b", "none", true),
            ("a.b", "baremetal", false),
            ("Edge", "none", false),
            ("-a", "none", false),
            ("a_b", "none", false),
        ] {
            assert_eq!(cluster_name(name, platform).is_ok(), good, "{name} {platform}");
        }
        for (list, good) in
            [("a,b c,_1", true), ("", true), ("a,,b", false), ("a, b", false), ("a  b", false), ("ü", false)]
        {
            assert_eq!(tags(list).is_ok(), good, "{list}");
        }
        for (list, good) in
            [("ntp1.example.com,1.2.3.4,fd00::1", true), ("a b", false), ("", false), ("a", false), ("Ntp", false)]
        {
            assert_eq!(ntp_sources(list).is_ok(), good, "{list}");
        }
        assert!(cluster_domain(&"a".repeat(64), "example.com").unwrap_err().starts_with("DNS label 'aaa"));
        assert!(cluster_domain("a", &"b.".repeat(100).replace("b.", "bb.")[..299]).is_err());
    }

    #[test]
    fn pull_secrets() {
        for (text, expected) in [
            (r#" {"auths":{"r.io":{"auth":"dTpw","email":"e"}}} "#, ""),
            (r#"{"auths":{"r.io":{}}}"#, ""),
            ("hunter2", "pull secret must be a well-formed JSON"),
            ("{}", "pull secret must contain 'auths' JSON-object field"),
            (r#"{"auths":{}}"#, "pull secret must contain 'auths' JSON-object field"),
            (
                r#"{"auths":{"r.io":{"auth":"hunter2!"}}}"#,
                "invalid pull secret: 'auth' field of \"r.io\" is not base64-encoded",
            ),
            (
                r#"{"auths":{"r.io":{"auth":"dXA="}}}"#,
                "invalid pull secret: 'auth' for r.io is not in 'user:password' format",
            ),
        ] {
            assert_eq!(pull_secret(text).err().unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn bundles_of_certificates() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["a".into()]).unwrap().self_signed(&key).unwrap();
        let pem =
            |der: &[u8]| format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der));
        let pem = pem(certificate.der());
        assert_eq!(certificates(&pem), Ok(()));
        assert_eq!(certificates(&pem.repeat(2)), Ok(()));
        assert_eq!(certificates("PEM"), Err("invalid block".into()));
        assert_eq!(certificates(&format!("{pem}x")), Err("invalid block".into()));
        let junk = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        assert!(certificates(junk).unwrap_err().starts_with("parse failed: x509"));
    }
}
