//! The config that a running cluster gives its new workers, in the form the service wants
//! (docs/compatibility.md#api-vip-connectivity-check).

use crate::check::{ParseError, parse_bounded, version_text};
use crate::model::Version;
use crate::report::Report;

/// What the service reads of a config. Newer services want the last one too.
const FILES: [&str; 4] = [
    "/etc/kubernetes/manifests/coredns.yaml",
    "/etc/kubernetes/manifests/keepalived.yaml",
    "/etc/kubernetes/kubeconfig",
    "/etc/ignition-machine-config-encapsulated.json",
];

/// Of objects, lists, keys and what is in them. A cluster's config has some thousand.
const MAX_VALUES: usize = 1 << 16;

/// Why a document is not a config of a cluster. No text of it is shown: it contains secrets.
#[derive(Debug, thiserror::Error)]
pub enum Day2Error {
    /// Not JSON, JSON of another shape, or more than any cluster's.
    #[error("it can't be read: {}", .0.summary())]
    Json(Report),
    /// Not a config that Ignition would take.
    #[error("it is not valid: {}", .0.summary())]
    Invalid(Report),
    /// A version the service does not know.
    #[error("ignition.version is {found}; 3.0.0, 3.1.0 and 3.2.0 are understood")]
    Version {
        /// As found, shortened, or `missing`.
        found: String,
    },
}

/// `json` as spec 3.2.0, without units and with only those files that the service reads; all else that Ignition knows,
/// such as `storage.luks`, is retained.
///
/// Whatever `json` is, its parse takes no more than some 30 MiB beside a copy of its texts.
pub fn filtered(json: &[u8]) -> Result<String, Day2Error> {
    let unknown = || {
        let found = version_text(json).unwrap_or_else(|| "missing".to_owned());
        Day2Error::Version { found: found.chars().take(32).collect() }
    };
    let (mut config, version, report) = parse_bounded(json, MAX_VALUES).map_err(|error| match error {
        ParseError::Invalid(report) => Day2Error::Json(report),
        ParseError::Empty | ParseError::Version(_) => unknown(),
    })?;
    if version > Version::V3_2 {
        return Err(unknown());
    }
    if report.is_fatal() {
        return Err(Day2Error::Invalid(report));
    }
    config.ignition.version = Version::V3_2.name().into();
    config.storage.files.retain(|file| FILES.contains(&&*file.path));
    config.systemd.units.clear();
    // JSON is text.
    Ok(String::from_utf8(config.to_json()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn for_day2(config: &Value) -> Value {
        serde_json::from_str(&filtered(config.to_string().as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn only_the_files_the_service_reads_stay_and_no_units() {
        let file =
            |path: &str| json!({"path": path, "mode": 420, "contents": {"source": "data:,x"}, "user": {"id": 1}});
        let luks =
            json!([{"name": "root", "device": "/dev/x", "clevis": {"tang": [{"url": "http://t", "thumbprint": "x"}]}}]);
        let files: Vec<Value> = FILES.iter().map(|path| file(path)).collect();
        let mut all = files.clone();
        all.insert(1, file("/etc/passwd"));
        all.push(file("/etc/kubernetes/kubeconfig.bak"));
        let config = json!({
            "ignition": {"version": "3.2.0", "config": {"merge": [{"source": "http://m"}]}, "security": null},
            "passwd": {"users": [{"name": "core"}]},
            "storage": {"files": all, "luks": luks, "directories": [{"path": "/x"}]},
            "systemd": {"units": [{"name": "a.service"}], "later": 1},
            "kernelArguments": {"shouldExist": ["unknown in this version"]},
        });
        let expected = json!({
            "ignition": {"version": "3.2.0", "config": {"merge": [{"source": "http://m"}]}},
            "passwd": {"users": [{"name": "core"}]},
            "storage": {"files": files, "luks": luks, "directories": [{"path": "/x"}]},
        });
        assert_eq!(for_day2(&config), expected);
    }

    #[test]
    fn a_config_with_nothing_but_a_version_is_one() {
        for version in ["3.0.0", "3.1.0", "3.2.0"] {
            let config = json!({"ignition": {"version": version}});
            assert_eq!(for_day2(&config), json!({"ignition": {"version": "3.2.0"}}));
        }
    }

    #[test]
    fn what_is_not_a_config_is_reported_without_its_text() {
        let error = |json: &str| filtered(json.as_bytes()).unwrap_err().to_string();
        let version = |found: &str| format!("ignition.version is {found}; 3.0.0, 3.1.0 and 3.2.0 are understood");
        for found in ["2.2.0", "3.3.0", "3.2.0-experimental", "3.2"] {
            assert_eq!(error(&json!({"ignition": {"version": found}}).to_string()), version(found));
        }
        assert_eq!(error("{}"), version("missing"));
        assert_eq!(error("{\"secret\""), "it can't be read: error at line 0 col 0: unexpected end of JSON input");
        let many = format!(
            r#"{{"ignition":{{"version":"3.2.0"}},"storage":{{"luks":[{{}}{}]}}}}"#,
            r#",{"":0}"#.repeat(40_000)
        );
        assert_eq!(
            error(&many),
            "it can't be read: error: more than 65536 values, or more than 4 GiB: this is not a config"
        );
        assert!(error("[]").starts_with("it can't be read: error at line 1 col"), "{}", error("[]"));
        let files = r#"{"ignition":{"version":"3.2.0"},"storage":{"files":"secret"}}"#;
        assert!(
            error(files)
                .ends_with("cannot unmarshal string into Go struct field Config.storage.files of type []types.File"),
            "{}",
            error(files)
        );
        let relative = r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"secret"}]}}"#;
        assert!(error(relative).ends_with("path not absolute"), "{}", error(relative));
    }
}
