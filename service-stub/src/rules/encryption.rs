//! Encryption of disks by what users set.

use api::TangServer;
use serde_json::{Map, Value};

/// Tang servers must be named where they unlock disks.
pub(crate) fn check(setting: &Value) -> Result<(), String> {
    if setting["mode"] != "tang" {
        return Ok(());
    }
    let text = setting["tang_servers"].as_str().unwrap_or_default();
    if text.is_empty() {
        return Err("Setting Tang mode but tang_servers isn't set".to_owned());
    }
    for server in tang_servers(text)? {
        let url = &server.url;
        if !is_request_uri(url) {
            let why = if url.is_empty() { "empty url" } else { "invalid URI for request" };
            return Err(format!("Tang URL isn't valid: parse {url:?}: {why}"));
        }
        if server.thumbprint.is_empty() {
            return Err("Tang thumbprint isn't set".to_owned());
        }
    }
    Ok(())
}

/// The servers of a setting's text. Names of fields are the same in capitals.
pub(crate) fn tang_servers(text: &str) -> Result<Vec<TangServer>, String> {
    let unreadable = |why: String| format!("Unable to unmarshal tang_servers: {why}");
    let list: Vec<Map<String, Value>> =
        serde_json::from_str::<Value>(text).map_err(|error| unreadable(error.to_string())).and_then(|value| {
            api::json::from_value(value)
                .map_err(|_| unreadable("json: cannot unmarshal object into Go value of type []tang.TangServer".into()))
        })?;
    let field = |server: &Map<String, Value>, name: &str| {
        let mut found = server.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next_back().and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
    };
    Ok(list
        .iter()
        .map(|server| TangServer { url: field(server, "url"), thumbprint: field(server, "thumbprint") })
        .collect())
}

/// An absolute URL, or a path from the root.
fn is_request_uri(url: &str) -> bool {
    let absolute = url.split_once("://").is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric())
    });
    (absolute || url.starts_with('/')) && !url.chars().any(|c| c.is_control() || c == ' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tang_needs_servers() {
        let good = r#"[{"url":"http://tang.example.com:7500","thumbprint":"PLj"}]"#;
        let capitals = r#"[{"URL":"http://tang.example.com:7500","Thumbprint":"PLj"}]"#;
        for (setting, why) in [
            (json!({"enable_on": "all", "mode": "tpmv2"}), ""),
            (json!({"mode": "tang", "tang_servers": good}), ""),
            (json!({"mode": "tang", "tang_servers": capitals}), ""),
            (json!({"mode": "tang"}), "Setting Tang mode but tang_servers isn't set"),
            (json!({"mode": "tang", "tang_servers": "x"}), "Unable to unmarshal tang_servers: "),
            (json!({"mode": "tang", "tang_servers": "{}"}), "Unable to unmarshal tang_servers: json: cannot"),
            (json!({"mode": "tang", "tang_servers": "[7]"}), "Unable to unmarshal tang_servers: json: cannot"),
            (json!({"mode": "tang", "tang_servers": "[{}]"}), "Tang URL isn't valid: parse \"\": empty url"),
            (
                json!({"mode": "tang", "tang_servers": r#"[{"url":"x","thumbprint":"a"}]"#}),
                "Tang URL isn't valid: parse \"x\": invalid URI for request",
            ),
            (json!({"mode": "tang", "tang_servers": r#"[{"url":"http://x"}]"#}), "Tang thumbprint isn't set"),
        ] {
            let found = check(&setting).err().unwrap_or_default();
            assert!(found.starts_with(why) && found.is_empty() == why.is_empty(), "{setting}: {found}");
        }
    }
}
