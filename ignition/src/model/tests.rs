//! Merging by the keys and append rules of Ignition (docs/compatibility.md#ignition-merge).

use super::*;
use serde_json::{Value as Json, json};

/// Merges what stands beside `ignition.version`.
fn merged(parent: &Json, child: &Json) -> Json {
    let text = |config: &Json| {
        let mut config = config.clone();
        config["ignition"]["version"] = json!("3.6.0");
        config.to_string()
    };
    let (parent, child) = (text(parent), text(child));
    let merged = crate::parse(parent.as_bytes()).unwrap().0.merge(crate::parse(child.as_bytes()).unwrap().0);
    let mut result: Json = serde_json::from_slice(&merged.to_json()).unwrap();
    result["ignition"].as_object_mut().unwrap().remove("version");
    if result["ignition"] == json!({}) {
        result.as_object_mut().unwrap().remove("ignition");
    }
    result
}

#[test]
fn scalars_objects_and_lists_merge_as_in_ignition() {
    let files = |files: Json| json!({"storage": {"files": files}});
    let unit = |units: Json| json!({"systemd": {"units": units}});
    let storage = |storage: Json| json!({"storage": storage});
    let table: Vec<(&str, Json, Json, Json)> = vec![
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
            storage(json!({"files": [{"path": "/b"}], "links": [{"path": "/a", "target": "/b"}]})),
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
            "keys of a user are identified by their text",
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
                json!({"disks": [{"device": "/dev/a", "wipeTable": true, "partitions": [{"number": 1, "label": "z"}, {"label": "y", "sizeMiB": 7}, {"label": "x"}]}]}),
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
            "configs to merge are identified by source",
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
    ];
    for (name, parent, child, expected) in table {
        assert_eq!(merged(&parent, &child), expected, "{name}");
    }
}

#[test]
fn the_version_is_the_childs() {
    let version = |version: &'static str| {
        let mut config = Document::default();
        config.ignition.version = version.into();
        config
    };
    assert_eq!(version("3.2.0").merge(version("3.1.0")).ignition.version, "3.1.0");
}
