//! The config that a running cluster gives its new workers, as the service wants it told (agent contract §6.9).

use crate::{V3_1, V3_2, bounded, merge};
use serde_json::{Map, Value};

/// Versions that become 3.2.0 by saying so: what 3.1 and 3.2 changed is new fields.
const VERSIONS: [&str; 3] = ["3.0.0", V3_1, V3_2];

/// What the service reads of a config. Newer services want the last one too.
const FILES: [&str; 4] = [
    "/etc/kubernetes/manifests/coredns.yaml",
    "/etc/kubernetes/manifests/keepalived.yaml",
    "/etc/kubernetes/kubeconfig",
    "/etc/ignition-machine-config-encapsulated.json",
];

/// Of objects, lists and what is in them. A cluster's config has some thousand.
const MAX_VALUES: usize = 1 << 16;

/// Why a document is no config of a cluster. No text of it is shown: it holds secrets.
#[derive(Debug, thiserror::Error)]
pub enum Day2Error {
    /// Not a config at all, or one with values of wrong types.
    #[error(transparent)]
    Shape(#[from] crate::MergeError),
    /// More than any cluster's.
    #[error("the config has more than {MAX_VALUES} values, which no cluster's has")]
    TooMany,
    /// A version the service does not know.
    #[error("ignition.version is {found}; 3.0.0, 3.1.0 and 3.2.0 are understood")]
    Version {
        /// As found, shortened, or `missing`.
        found: String,
    },
}

/// `json` as spec 3.2.0, with no units and with those files only that the service reads; all else, such as `storage.luks`, is kept.
///
/// Whatever `json` is, its parse takes no more than some 30 MiB beside a copy of its texts.
pub fn filtered(json: &[u8]) -> Result<String, Day2Error> {
    let config = bounded::parse(json, MAX_VALUES).map_err(|error| match error.is_data() {
        true => Day2Error::TooMany,
        false => crate::MergeError::from(error).into(),
    })?;
    // Merged over nothing, for its check of types and its spelling of keys.
    let mut config = merge(Value::Object(Map::new()), config)?;
    let version = config.pointer("/ignition/version").and_then(Value::as_str);
    if !version.is_some_and(|version| VERSIONS.contains(&version)) {
        let found = version.map_or("missing".to_owned(), |version| version.chars().take(32).collect());
        return Err(Day2Error::Version { found });
    }
    if let Some(version) = config.pointer_mut("/ignition/version") {
        *version = V3_2.into();
    }
    if let Some(files) = config.pointer_mut("/storage/files").and_then(Value::as_array_mut) {
        files.retain(|file| file.get("path").and_then(Value::as_str).is_some_and(|path| FILES.contains(&path)));
    }
    if let Some(systemd) = config.get_mut("systemd").and_then(Value::as_object_mut) {
        systemd.remove("units");
    }
    Ok(config.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(config: &Value) -> Value {
        serde_json::from_str(&filtered(config.to_string().as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn only_the_files_the_service_reads_stay_and_no_units() {
        let file =
            |path: &str| json!({"path": path, "mode": 420, "contents": {"source": "data:,x"}, "user": {"id": 1}});
        let luks = json!([{"name": "root", "clevis": {"tang": [{"url": "http://t", "thumbprint": "x"}]}, "new": {}}]);
        let files: Vec<Value> = FILES.iter().map(|path| file(path)).collect();
        let mut all = files.clone();
        all.insert(1, file("/etc/passwd"));
        all.push(file("/etc/kubernetes/kubeconfig.bak"));
        let config = json!({
            "ignition": {"version": "3.1.0", "config": {"merge": [{"source": "http://m"}]}, "security": null},
            "passwd": {"users": [{"name": "core"}]},
            "storage": {"files": all, "luks": luks, "directories": [{"path": "/x"}]},
            "systemd": {"units": [{"name": "a.service"}], "later": 1},
            "kernelArguments": {"shouldExist": ["a"]},
        });
        let expected = json!({
            "ignition": {"version": "3.2.0", "config": {"merge": [{"source": "http://m"}]}},
            "passwd": {"users": [{"name": "core"}]},
            "storage": {"files": files, "luks": luks, "directories": [{"path": "/x"}]},
            "systemd": {"later": 1},
            "kernelArguments": {"shouldExist": ["a"]},
        });
        assert_eq!(of(&config), expected);
    }

    #[test]
    fn a_config_with_nothing_but_a_version_is_one() {
        for version in VERSIONS {
            let config = json!({"ignition": {"version": version}});
            assert_eq!(of(&config), json!({"ignition": {"version": "3.2.0"}}));
        }
    }

    #[test]
    fn what_is_no_config_is_told_without_its_text() {
        let error = |json: &str| filtered(json.as_bytes()).unwrap_err().to_string();
        let version = |found: &str| format!("ignition.version is {found}; 3.0.0, 3.1.0 and 3.2.0 are understood");
        for found in ["2.2.0", "3.3.0", "3.2.0-experimental", "3.2", ""] {
            assert_eq!(error(&json!({"ignition": {"version": found}}).to_string()), version(found));
        }
        assert_eq!(error("{}"), version("missing"));
        assert_eq!(error("{\"secret\""), "the config is not valid JSON");
        let many = format!(
            r#"{{"ignition":{{"version":"3.2.0"}},"storage":{{"luks":[{{}}{}]}}}}"#,
            r#",{"":0}"#.repeat(40_000)
        );
        assert_eq!(error(&many), "the config has more than 65536 values, which no cluster's has");
        assert_eq!(error("[]"), "$ in the config must be an object");
        let files = r#"{"ignition":{"version":"3.2.0"},"storage":{"files":"secret"}}"#;
        assert_eq!(error(files), "$.storage.files in the config must be a list");
    }
}
