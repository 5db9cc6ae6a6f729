//! Merging by the keys and append rules of Ignition, and what hostile documents do to it.

use super::*;
use proptest::prelude::*;
use serde_json::json;

/// Merges what stands beside `ignition.version`.
fn merged(parent: &Value, child: &Value) -> Value {
    let with_version = |config: &Value| {
        let mut config = config.clone();
        config["ignition"]["version"] = json!("3.2.0");
        config
    };
    let mut result = merge(with_version(parent), with_version(child)).unwrap();
    result["ignition"].as_object_mut().unwrap().remove("version");
    if result["ignition"] == json!({}) {
        result.as_object_mut().unwrap().remove("ignition");
    }
    result
}

#[test]
fn scalars_objects_and_lists_merge_as_in_ignition() {
    let files = |files: Value| json!({"storage": {"files": files}});
    let unit = |units: Value| json!({"systemd": {"units": units}});
    let storage = |storage: Value| json!({"storage": storage});
    let table: Vec<(&str, Value, Value, Value)> = vec![
        ("nothing over something", files(json!([{"path": "/a"}])), json!({}), files(json!([{"path": "/a"}]))),
        ("something over nothing", json!({}), files(json!([{"path": "/a"}])), files(json!([{"path": "/a"}]))),
        (
            "a file merges by path, in the parent's place, and new ones follow",
            files(
                json!([{"path": "/a", "mode": 420, "contents": {"source": "data:,a", "compression": "gzip"}}, {"path": "/b"}]),
            ),
            files(json!([{"path": "/c"}, {"path": "/a", "contents": {"source": "data:,b"}, "overwrite": true}])),
            files(
                json!([{"path": "/a", "mode": 420, "contents": {"source": "data:,b", "compression": "gzip"}, "overwrite": true}, {"path": "/b"}, {"path": "/c"}]),
            ),
        ),
        (
            "null is absent",
            files(json!([{"path": "/a", "mode": 420}])),
            files(json!([{"path": "/a", "mode": null, "contents": null}])),
            files(json!([{"path": "/a", "mode": 420}])),
        ),
        (
            "fragments to append are put end to end",
            files(json!([{"path": "/a", "append": [{"source": "data:,1"}]}])),
            files(json!([{"path": "/a", "append": [{"source": "data:,1"}]}])),
            files(json!([{"path": "/a", "append": [{"source": "data:,1"}, {"source": "data:,1"}]}])),
        ),
        (
            "a file that became a link",
            storage(json!({"files": [{"path": "/a"}, {"path": "/b"}], "directories": [{"path": "/a"}]})),
            storage(json!({"links": [{"path": "/a", "target": "/b"}]})),
            storage(json!({"files": [{"path": "/b"}], "directories": [], "links": [{"path": "/a", "target": "/b"}]})),
        ),
        (
            "headers: replaced, removed, added",
            files(
                json!([{"path": "/a", "contents": {"httpHeaders": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}, {"name": "C", "value": "1"}]}}]),
            ),
            files(
                json!([{"path": "/a", "contents": {"source": "http://x/", "httpHeaders": [{"name": "B", "value": null}, {"name": "D", "value": "2"}, {"name": "A", "value": "2"}, {"name": "C"}]}}]),
            ),
            files(
                json!([{"path": "/a", "contents": {"source": "http://x/", "httpHeaders": [{"name": "A", "value": "2"}, {"name": "D", "value": "2"}]}}]),
            ),
        ),
        (
            "units and drop-ins by name",
            unit(
                json!([{"name": "a.service", "enabled": true, "contents": "x", "dropins": [{"name": "1.conf", "contents": "1"}]}]),
            ),
            unit(
                json!([{"name": "a.service", "enabled": false, "dropins": [{"name": "2.conf", "contents": "2"}, {"name": "1.conf", "contents": "one"}]}]),
            ),
            unit(
                json!([{"name": "a.service", "enabled": false, "contents": "x", "dropins": [{"name": "1.conf", "contents": "one"}, {"name": "2.conf", "contents": "2"}]}]),
            ),
        ),
        (
            "keys of a user are told apart by their text",
            json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a", "b"]}]}}),
            json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["c", "a"]}, {"name": "me"}]}}),
            json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a", "b", "c"]}, {"name": "me"}]}}),
        ),
        (
            "partitions by number, else by label",
            storage(
                json!({"disks": [{"device": "/dev/a", "partitions": [{"number": 1, "label": "x"}, {"label": "y", "number": 0, "sizeMiB": 5}]}]}),
            ),
            storage(
                json!({"disks": [{"device": "/dev/a", "wipeTable": true, "partitions": [{"label": "y", "sizeMiB": 7}, {"number": 1, "label": "z"}, {"label": "x"}]}]}),
            ),
            storage(
                json!({"disks": [{"device": "/dev/a", "wipeTable": true, "partitions": [{"number": 1, "label": "z"}, {"label": "y", "number": 0, "sizeMiB": 7}, {"label": "x"}]}]}),
            ),
        ),
        (
            "options are put end to end, even repeated; devices are not",
            storage(
                json!({"raid": [{"name": "r", "devices": ["a"], "options": ["o"]}], "filesystems": [{"device": "d", "mountOptions": ["m"]}]}),
            ),
            storage(
                json!({"raid": [{"name": "r", "devices": ["a", "b"], "options": ["o"]}], "filesystems": [{"device": "d", "mountOptions": ["m"]}]}),
            ),
            storage(
                json!({"raid": [{"name": "r", "devices": ["a", "b"], "options": ["o", "o"]}], "filesystems": [{"device": "d", "mountOptions": ["m", "m"]}]}),
            ),
        ),
        (
            "a kernel argument moves between its lists",
            json!({"kernelArguments": {"shouldExist": ["a", "b"], "shouldNotExist": ["c"]}}),
            json!({"kernelArguments": {"shouldExist": ["c"], "shouldNotExist": ["a"]}}),
            json!({"kernelArguments": {"shouldExist": ["b", "c"], "shouldNotExist": ["a"]}}),
        ),
        (
            "configs to merge are told apart by source",
            json!({"ignition": {"config": {"merge": [{"source": "http://a/"}], "replace": {"source": "http://r/", "compression": "gzip"}}}}),
            json!({"ignition": {"config": {"merge": [{"source": "http://b/"}, {"source": "http://a/", "compression": "gzip"}], "replace": {"source": "http://s/"}}}}),
            json!({"ignition": {"config": {"merge": [{"source": "http://a/", "compression": "gzip"}, {"source": "http://b/"}], "replace": {"source": "http://s/", "compression": "gzip"}}}}),
        ),
        (
            "keys may be written in any case",
            files(json!([{"path": "/a", "mode": 420}])),
            json!({"Storage": {"FILES": [{"Path": "/a", "MODE": 384}]}}),
            files(json!([{"path": "/a", "mode": 384}])),
        ),
        ("unknown keys are the child's", json!({"x": {"a": 1}}), json!({"x": {"b": null}}), json!({"x": {"b": null}})),
    ];
    for (name, parent, child, expected) in table {
        assert_eq!(merged(&parent, &child), expected, "{name}");
    }
}

#[test]
fn the_version_is_the_childs() {
    let version = |version: &str| json!({"ignition": {"version": version}});
    assert_eq!(merge(version("3.2.0"), version("3.1.0")).unwrap(), version("3.1.0"));
}

#[test]
fn an_override_that_cant_be_is_refused_with_its_place() {
    let refused = |text: &str| merge_override(Config::new("3.1.0"), text).unwrap_err().to_string();
    assert_eq!(refused("{"), "the config is not valid JSON");
    assert_eq!(refused("[]"), "$ in the config must be an object");
    assert_eq!(refused("{}"), "the config's ignition.version is missing; 3.1.0 and 3.2.0 can be merged");
    assert!(refused(r#"{"ignition":{"version":"2.2.0"}}"#).contains("is 2.2.0;"));
    let files = |file: &str| format!(r#"{{"ignition":{{"version":"3.2.0"}},"storage":{{"files":{file}}}}}"#);
    assert_eq!(
        refused(&files(r#"[{"path":"/a","mode":"0644"}]"#)),
        "$.storage.files.0.mode in the config must be a whole number"
    );
    assert_eq!(refused(&files(r#"{"path":"hunter2"}"#)), "$.storage.files in the config must be a list");
    assert_eq!(refused(&files("[null]")), "$.storage.files.0 in the config must be an object");
    assert!(refused(&files(r#"[{"path":"/a","mode":-1}]"#)).contains("out of its range"));
    assert_eq!(refused(&"[".repeat(100_000)), "the config is not valid JSON");
    assert_eq!(merge_override(Config::new("3.1.0"), " \n").unwrap().to_json(), r#"{"ignition":{"version":"3.1.0"}}"#);
}

/// JSON that looks like a config often enough to reach every rule.
fn configs() -> impl Strategy<Value = Value> {
    let names = [
        "ignition",
        "version",
        "storage",
        "files",
        "links",
        "path",
        "contents",
        "httpHeaders",
        "name",
        "value",
        "number",
        "label",
        "x",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        "[ab/]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(names.to_vec()), inner), 0..5).prop_map(|pairs| pairs
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn merging_anything_ends_without_panic(parent in configs(), child in configs()) {
        let _ = merge(parent, child);
    }

    #[test]
    fn merging_with_an_empty_config_changes_nothing(paths in proptest::collection::btree_set("/[a-c]{1,2}", 0..5)) {
        let files: Vec<Value> = paths.into_iter().map(|path| json!({"path": path})).collect();
        let config = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": files}});
        let empty = json!({"ignition": {"version": "3.2.0"}});
        prop_assert_eq!(merge(config.clone(), empty.clone()).unwrap(), config.clone());
        prop_assert_eq!(merge(empty, config.clone()).unwrap(), config.clone());
        prop_assert_eq!(merge(config.clone(), config.clone()).unwrap(), config);
    }
}
