//! Configs as Ignition itself renders them, and as we do. It is Debian's 2.14, which knows versions up to 3.3.

use crate::resources::certificates::Certificates;
use crate::resources::{error_text, gzip, sha512};
use ignition::{
    data_url,
    fetch::{FetchOptions, Fetcher},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::http::{Server, ok, reply};

/// Ignition, if available: its state is below /run, where our own mount must cover the host's.
fn program() -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/vm/packages/ignition/usr/lib/dracut/modules.d/30ignition/ignition");
    let may_mount = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    let is_there = unpacked.is_file();
    if !(is_there && may_mount) {
        testkit::skip::because("Ignition is missing (make setup unpacks it), or mount namespaces are not available");
        return None;
    }
    Some(unpacked)
}

/// What its fetch stage makes of a config, or what it said before it gave up.
fn theirs(program: &Path, directory: &Path, config: &Value) -> Result<Value, String> {
    const SCRIPT: &str = "mount -t tmpfs tmpfs /run && \
        if test -d /usr/lib/ignition; then mount -t tmpfs tmpfs /usr/lib/ignition; fi && \
        \"$0\" --stage=fetch --root=\"$1\" --platform=file --log-to-stdout >&2 && cat /run/ignition.json";
    let (file, root) = (directory.join("config.ign"), directory.join("root"));
    fs::create_dir_all(&root).unwrap();
    fs::write(&file, config.to_string()).unwrap();
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", SCRIPT])
        .args([program, &root])
        .env("IGNITION_CONFIG_FILE", &file)
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(bare(serde_json::from_slice(&output.stdout).unwrap()))
}

fn ours(config: &Value) -> Result<Value, String> {
    let mut fetcher = Fetcher::new(FetchOptions { retries: 0, ..FetchOptions::default() });
    let rendered = ignition::render(config.to_string().as_bytes(), &mut fetcher).map_err(error_text)?;
    Ok(bare(serde_json::from_slice(&rendered).unwrap()))
}

/// Without what only one of the two writes: empty structs, references that were followed, a version of its own, a media type
/// where Ignition puts certificates into the config, for stages without a network.
fn bare(mut config: Value) -> Value {
    if let Some(ignition) = config["ignition"].as_object_mut() {
        ignition.remove("version");
        ignition.remove("config");
    }
    if let Some(authorities) = config.pointer_mut("/ignition/security/tls/certificateAuthorities") {
        *authorities = authorities.to_string().replace("data:text/plain;charset=utf-8;", "data:;").parse().unwrap();
    }
    without_empty(config)
}

fn without_empty(value: Value) -> Value {
    let is_full = |value: &Value| *value != json!({});
    match value {
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (key, without_empty(value)))
            .filter(|(_, value)| is_full(value))
            .collect(),
        Value::Array(list) => list.into_iter().map(without_empty).collect(),
        other => other,
    }
}

fn data(config: &Value) -> Value {
    json!({"source": data_url::percent(config.to_string().as_bytes())})
}

/// A config of this version with these sections, its children in order.
fn config(version: &str, sections: Value, merge: &[Value]) -> Value {
    let mut config = sections;
    config["ignition"]["version"] = version.into();
    if !merge.is_empty() {
        config["ignition"]["config"]["merge"] = merge.into();
    }
    config
}

fn families(served: &Server, secure: &Server, certificates: &Certificates) -> Vec<(&'static str, Value)> {
    let at = |path: &str| json!({"source": served.url(path)});
    let new = |sections: Value| config("3.3.0", sections, &[]);
    let file = |path: &str, contents: Value| json!({"storage": {"files": [{"path": path, "contents": contents}]}});
    let filesystem = |format: &str, more: Value| {
        let mut filesystem = json!({"device": "/dev/x", "format": format});
        filesystem.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"storage": {"filesystems": [filesystem]}})
    };
    let packed =
        |hash: String| json!({"source": served.url("/packed"), "compression": "gzip", "verification": {"hash": hash}});
    let headers = |list: Value| file("/h", json!({"source": "http://h/", "httpHeaders": list}));
    let authority = json!({"ignition": {"security": {"tls": {"certificateAuthorities":
        [{"source": data_url::base64(certificates.ca_pem.as_bytes())}]}}}});
    let secured = json!({"source": secure.url("/")});
    let mut replacing = new(file("/lost", json!({})));
    replacing["ignition"]["config"]["replace"] = data(&config("3.1.0", file("/kept", json!({})), &[at("/plain")]));
    vec![
        (
            "versions",
            config("3.0.0", json!({}), &[data(&new(json!({"kernelArguments": {"shouldExist": ["a", "b"]}})))]),
        ),
        (
            "order",
            config(
                "3.2.0",
                file("/root", json!({})),
                &[
                    data(&config("3.1.0", file("/a", json!({})), &[data(&new(file("/a1", json!({})))), at("/plain")])),
                    data(&new(file("/b", json!({})))),
                ],
            ),
        ),
        (
            "contents",
            config(
                "3.3.0",
                file("/a", json!({"source": "data:,x", "compression": "gzip"})),
                &[
                    data(&new(
                        json!({"storage": {"files": [{"path": "/a", "mode": 420, "append": [{"source": "data:,y"}]}]}}),
                    )),
                    data(&new(
                        json!({"storage": {"files": [{"path": "/a", "append": [{"source": "data:,z"}], "contents": {"source": "data:,w"}}]}}),
                    )),
                ],
            ),
        ),
        (
            "kinds",
            config(
                "3.3.0",
                json!({"storage": {"files": [{"path": "/a"}, {"path": "/b"}], "links": [{"path": "/c", "target": "/t"}]}}),
                &[data(&new(
                    json!({"storage": {"directories": [{"path": "/a"}, {"path": "/c"}], "links": [{"path": "/b", "target": "/x"}]}}),
                ))],
            ),
        ),
        (
            "headers",
            config(
                "3.3.0",
                headers(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])),
                &[data(&new(headers(
                    json!([{"name": "B", "value": "3"}, {"name": "A"}, {"name": "C", "value": "4"}]),
                )))],
            ),
        ),
        (
            "kernel arguments",
            config(
                "3.3.0",
                json!({"kernelArguments": {"shouldExist": ["a", "b"], "shouldNotExist": ["c"]}}),
                &[data(&new(json!({"kernelArguments": {"shouldExist": ["c", "d"], "shouldNotExist": ["a"]}})))],
            ),
        ),
        (
            "people",
            config(
                "3.3.0",
                json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a", "b"], "groups": ["x"]}], "groups": [{"name": "x", "gid": 5}]}}),
                &[data(&new(
                    json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["b", "c"], "uid": 7}, {"name": "n"}], "groups": [{"name": "x", "shouldExist": false}]}}),
                ))],
            ),
        ),
        (
            "units",
            config(
                "3.3.0",
                json!({"systemd": {"units": [{"name": "a.service", "enabled": true, "dropins": [{"name": "a.conf", "contents": "[Unit]"}]}]}}),
                &[data(&new(
                    json!({"systemd": {"units": [{"name": "a.service", "enabled": false, "dropins": [{"name": "b.conf"}, {"name": "a.conf", "contents": ""}]}]}}),
                ))],
            ),
        ),
        (
            "disks",
            config(
                "3.3.0",
                json!({"storage": {
            "disks": [{"device": "/dev/a", "partitions": [{"number": 1, "label": "x"}, {"label": "y"}]}],
            "raid": [{"name": "r", "level": "raid1", "devices": ["/dev/b"], "options": ["o"]}],
            "luks": [{"name": "l", "device": "/dev/c", "clevis": {"tpm2": true, "tang": [{"url": "http://t/", "thumbprint": "x"}]}}]}}),
                &[data(&new(json!({"storage": {
                "disks": [{"device": "/dev/a", "wipeTable": true, "partitions": [{"label": "y", "sizeMiB": 5}, {"number": 1, "label": "z"}]}],
                "raid": [{"name": "r", "level": "raid1", "devices": ["/dev/d", "/dev/b"], "options": ["o", "p"]}],
                "luks": [{"name": "l", "device": "/dev/e", "clevis": {"threshold": 2, "tang": [{"url": "http://t/", "thumbprint": "y"}]}}]}})))],
            ),
        ),
        (
            "filesystems",
            config(
                "3.3.0",
                filesystem("ext4", json!({"path": "/x", "options": ["a"], "mountOptions": ["m"]})),
                &[data(&new(filesystem("xfs", json!({"options": ["a", "b"], "label": "l"}))))],
            ),
        ),
        (
            "invalid at last",
            config("3.3.0", filesystem("ext4", json!({"path": "/x"})), &[data(&new(filesystem("", json!({}))))]),
        ),
        (
            "invalid on the way",
            config(
                "3.3.0",
                filesystem("ext4", json!({"path": "/x"})),
                &[data(&new(filesystem("", json!({})))), data(&new(filesystem("xfs", json!({}))))],
            ),
        ),
        (
            "invalid below",
            config(
                "3.3.0",
                filesystem("xfs", json!({})),
                &[data(&config(
                    "3.3.0",
                    filesystem("ext4", json!({"path": "/x"})),
                    &[data(&new(filesystem("", json!({}))))],
                ))],
            ),
        ),
        (
            "settings",
            config(
                "3.3.0",
                json!({"ignition": {"timeouts": {"httpTotal": 20}, "proxy": {"noProxy": ["a"]}}}),
                &[
                    data(&new(
                        json!({"ignition": {"timeouts": {"httpResponseHeaders": 5}, "proxy": {"noProxy": ["b"]}}}),
                    )),
                    at("/plain"),
                ],
            ),
        ),
        ("packed", config("3.3.0", json!({}), &[packed(sha512(b"{\"ignition\":{\"version\":\"3.1.0\"}}"))])),
        ("another hash", config("3.3.0", json!({}), &[packed(sha512(b"x"))])),
        ("missing", config("3.3.0", json!({}), &[at("/missing")])),
        ("moved", config("3.3.0", json!({}), &[at("/moved")])),
        ("of no use", config("3.3.0", json!({}), &[data(&new(file("relative", json!({}))))])),
        ("blank", config("3.3.0", json!({}), &[json!({"source": "data:,%20"})])),
        (
            "replaced",
            config("3.2.0", file("/root", json!({})), &[data(&replacing), data(&new(file("/last", json!({}))))]),
        ),
        ("trusted", config("3.3.0", json!({}), &[data(&new(authority.clone())), secured.clone()])),
        ("trusted by itself", config("3.3.0", authority.clone(), &[secured])),
        (
            "trusting nobody",
            config(
                "3.3.0",
                json!({}),
                &[data(&new(json!({"ignition": {"security": {"tls":
            {"certificateAuthorities": [{"source": "data:,x"}]}}}})))],
            ),
        ),
    ]
}

#[test]
fn configs_are_rendered_as_ignition_renders_them() {
    let Some(program) = program() else { return };
    let certificates = Certificates::new();
    let served = Server::start(|request| match request.path() {
        "/plain" => ok(r#"{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/plain"}]}}"#),
        "/packed" => ok(gzip(b"{\"ignition\":{\"version\":\"3.1.0\"}}")),
        "/empty" => reply("204 No Content", "", ""),
        "/moved" => reply("308 Permanent Redirect", "Location: ./down/../plain?x\r\n", ""),
        _ => reply("404 Not Found", "", ""),
    });
    let secure = Server::with_tls(certificates.server.clone(), |_| {
        ok(r#"{"ignition":{"version":"3.3.0"},"systemd":{"units":[{"name":"s.service"}]}}"#)
    });
    let directory = tempfile::tempdir().unwrap();
    let (mut rendered, mut refused) = (0, 0);
    for (name, config) in families(&served, &secure, &certificates) {
        match (ours(&config), theirs(&program, directory.path(), &config)) {
            (Ok(ours), Ok(theirs)) => {
                assert_eq!(ours, theirs, "{name}");
                rendered += 1;
            }
            (Err(_), Err(_)) => refused += 1,
            (ours, theirs) => panic!("{name}: we say {ours:#?}, Ignition {theirs:#?}"),
        }
    }
    // This is the one that we refuse and Ignition does not: it continues, but without any config at all.
    let forgetful =
        config("3.3.0", json!({"storage": {"files": [{"path": "/lost"}]}}), &[json!({"source": served.url("/empty")})]);
    assert!(ours(&forgetful).unwrap_err().contains("not a config (empty)"));
    assert_eq!(theirs(&program, directory.path(), &forgetful), Ok(json!({})));
    println!("{rendered} rendered alike, {refused} refused by both");
    assert!(rendered > 12 && refused > 5);
}
