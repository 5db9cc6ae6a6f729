//! Encryption of disks by what users set.

use serde_json::Value;

/// Tang servers must be named where they unlock disks.
pub fn check(setting: &Value) -> Result<(), String> {
    if setting["mode"] != "tang" {
        return Ok(());
    }
    let servers = setting["tang_servers"].as_str().unwrap_or_default();
    if servers.is_empty() {
        return Err("Setting Tang mode but tang_servers isn't set".to_owned());
    }
    let unreadable = |why: String| format!("Unable to unmarshal tang_servers: {why}");
    let list: Value = serde_json::from_str(servers).map_err(|error| unreadable(error.to_string()))?;
    let Value::Array(list) = list else {
        return Err(unreadable("json: cannot unmarshal object into Go value of type []tang.TangServer".to_owned()));
    };
    for server in list {
        let url = server["url"].as_str().unwrap_or_default();
        if !is_request_uri(url) {
            return Err(format!("Tang URL isn't valid: parse {url:?}: invalid URI for request"));
        }
        if server["thumbprint"].as_str().unwrap_or_default().is_empty() {
            return Err("Tang thumbprint isn't set".to_owned());
        }
    }
    Ok(())
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
        for (setting, why) in [
            (json!({"enable_on": "all", "mode": "tpmv2"}), ""),
            (json!({"mode": "tang", "tang_servers": good}), ""),
            (json!({"mode": "tang"}), "Setting Tang mode but tang_servers isn't set"),
            (json!({"mode": "tang", "tang_servers": "x"}), "Unable to unmarshal tang_servers: "),
            (
                json!({"mode": "tang", "tang_servers": r#"[{"url":"x","thumbprint":"a"}]"#}),
                "Tang URL isn't valid: parse \"x\"",
            ),
            (json!({"mode": "tang", "tang_servers": r#"[{"url":"http://x"}]"#}), "Tang thumbprint isn't set"),
        ] {
            let found = check(&setting).err().unwrap_or_default();
            assert!(found.starts_with(why) && found.is_empty() == why.is_empty(), "{setting}: {found}");
        }
    }
}
