//! A config as it may be logged.

use crate::model::Document;
use serde_json::Value;

const HIDDEN: &str = "*****";

/// The JSON of the config without what may be secret: contents of `data:` URLs, units and drop-ins, password hashes and SSH keys,
/// header values, user and query parts of URLs, and text of the Clevis configuration.
pub fn redact(config: &Document<'_>) -> String {
    // What was just written can be read.
    serde_json::from_slice(&config.to_json()).map(|config| redact_value(&config).to_string()).unwrap_or_default()
}

/// The same of a part of a config.
pub(crate) fn redact_value(part: &Value) -> Value {
    walk(part, "", 0)
}

/// Deeper than any config of the specification; serde_json itself stops at 128.
const MAX_DEPTH: u32 = 128;

fn walk(value: &Value, key: &str, depth: u32) -> Value {
    match value {
        _ if depth > MAX_DEPTH => Value::from(HIDDEN),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), walk(v, k, depth + 1))).collect()),
        Value::Array(items) => Value::Array(items.iter().map(|v| walk(v, key, depth + 1)).collect()),
        Value::String(text) => Value::from(redact_text(key, text)),
        other => other.clone(),
    }
}

fn redact_text(key: &str, text: &str) -> String {
    // Keys are compared without case because Ignition reads them so.
    const SECRET_KEYS: [&str; 5] = ["contents", "passwordHash", "sshAuthorizedKeys", "value", "config"];
    if SECRET_KEYS.iter().any(|secret| secret.eq_ignore_ascii_case(key)) {
        return HIDDEN.to_owned();
    }
    if text.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("data:")) {
        return format!("data:{HIDDEN}");
    }
    redact_url(text)
}

/// `text` without the user and query parts, when it is a URL; otherwise as it is.
pub fn redact_url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_secret_is_left() {
        let config = json!({
            "ignition": {"version": "3.2.0", "proxy": {"httpProxy": "http://user:hunter2@proxy:3128/"},
                "config": {"merge": [{"source": "https://h/a?token=hunter2", "httpHeaders": [{"name": "Authorization", "value": "Bearer hunter2"}]}]}},
            "passwd": {"users": [{"name": "core", "passwordHash": "hunter2", "sshAuthorizedKeys": ["ssh-rsa hunter2"]}]},
            "storage": {"files": [{"path": "/a", "contents": {"source": "data:,hunter2"}}, {"path": "/b", "contents": {"Source": " DATA:,hunter2"}}],
                "luks": [{"name": "x", "clevis": {"custom": {"config": "hunter2", "pin": "tang"}}}]},
            "systemd": {"units": [{"name": "x.service", "contents": "Environment=hunter2", "dropins": [{"name": "a.conf", "contents": "hunter2"}]}]},
        });
        let shown = redact_value(&config).to_string();
        assert!(!shown.contains("hunter2"), "{shown}");
        for visible in ["http://proxy:3128/", "https://h/a", "Authorization", "/b", "x.service", "tang"] {
            assert!(shown.contains(visible), "{visible} in {shown}");
        }
    }

    #[test]
    fn a_config_is_shown_without_its_secrets() {
        let text = br#"{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/a","contents":{"source":"data:,hunter2"}}]}}"#;
        let (config, _, _) = crate::parse(text).unwrap();
        assert_eq!(
            redact(&config),
            r#"{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/a","contents":{"source":"data:*****"}}]}}"#
        );
        assert_eq!(format!("{config:?}"), "Document(3.1.0)");
    }
}
