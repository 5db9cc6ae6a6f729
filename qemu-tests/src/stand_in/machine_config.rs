//! The machine-config server: a role's config for any client, and a line in its log.

use super::{
    LIBRARY, LIBRARY_PATH, PROGRAM, Role, SETTINGS_PATH, Settings,
    api::Serving,
    https::{Answer, Request},
    objects::{MACHINE_CONFIGS, Objects},
};
use serde_json::{Value, json};
use std::{fs, io::Write, path::Path};

/// Where the real one's log is on a host that runs it (docs/compatibility.md#configuring-hosts).
pub(super) const LOG: &str = "/var/log/containers/machine-config-server-stand-in.log";
/// A file of each role's config, for tests to see.
pub const ROLE_FILE: &str = "/etc/landfall-test/role";

/// The name of a role's whole config.
pub(super) fn rendered_name(role: Role) -> String {
    format!("rendered-{}-stand-in", role.as_str())
}

pub(super) fn answer(settings: &Settings, serving: &Serving, request: &Request) -> Answer {
    let role = match request.path.as_str() {
        "/config/master" => Role::Master,
        "/config/worker" => Role::Worker,
        _ => return (404, "text/plain", b"no such pool".to_vec()),
    };
    log(role, request);
    let config = serving.with(|objects| config(settings, objects, role));
    (200, "application/json", config.to_string().into_bytes())
}

/// In the real server's format.
fn log(role: Role, request: &Request) {
    let line = format!(
        "I1122 00:00:00.000000       1 api.go:123] Pool {} requested by address:\"{}\" User-Agent:\"{}\" Accept-Header: \"{}\"\n",
        role.as_str(),
        request.from,
        request.user_agent,
        request.accept
    );
    let path = Path::new(LOG);
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::File::options().create(true).append(true).open(path)?.write_all(line.as_bytes()));
    if let Err(error) = written {
        eprintln!("{LOG}: {error}");
    }
}

/// The config of a role: the units that run the stand-ins on its machines, and the users that machine configs add.
pub(super) fn config(settings: &Settings, objects: &Objects, role: Role) -> Value {
    let settings = Settings { objects: None, ..settings.with_role(role) };
    let config = machine(&settings, &json!({}));
    let of_role = |object: &&Value| {
        object.pointer("/metadata/labels/machineconfiguration.openshift.io~1role") == Some(&json!(role.as_str()))
    };
    let users: Vec<&Value> = objects
        .list(MACHINE_CONFIGS)
        .filter(of_role)
        .filter_map(|object| object.pointer("/spec/config/passwd/users")?.as_array())
        .flatten()
        .collect();
    with(config, json!({"passwd": {"users": users}}))
}

/// The config of an installed machine of `settings.role`, and `more`.
pub(super) fn machine(settings: &Settings, more: &Value) -> Value {
    let mut units = vec![unit("stand-in-kubelet.service", "kubelet")];
    if settings.role == Role::Master {
        units.push(unit("stand-in-control-plane.service", "control-plane"));
    }
    let mut files = programs(settings);
    files.push(file(ROLE_FILE, 0o644, settings.role.as_str()));
    let config = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": files}, "systemd": {"units": units}});
    with(config, more.clone())
}

/// The program, its library, its settings.
pub(super) fn programs(settings: &Settings) -> Vec<Value> {
    let fetched = |path: &str, mode: u32| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let contents = json!({"source": format!("{}/{name}.gz", settings.files_url), "compression": "gzip"});
        json!({"path": path, "mode": mode, "overwrite": true, "contents": contents})
    };
    let text = serde_json::to_string(settings).unwrap_or_default();
    vec![fetched(PROGRAM, 0o755), fetched(LIBRARY, 0o755), file(SETTINGS_PATH, 0o600, &text)]
}

pub(super) fn file(path: &str, mode: u32, text: &str) -> Value {
    json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": data_url(text)}})
}

/// As RFC 2397 has it.
pub(super) fn data_url(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let escaped =
        text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    format!("data:,{}", escaped.collect::<String>())
}

/// How a stand-in is started.
pub(super) fn service(command: &str) -> String {
    format!("Environment=LD_LIBRARY_PATH={LIBRARY_PATH}\nExecStart={PROGRAM} {command}\n")
}

fn unit(name: &str, command: &str) -> Value {
    let contents = format!(
        "[Unit]\nDescription=Stand-in for a control plane's {command}\nWants=network-online.target\nAfter=network-online.target\n\
         [Service]\n{}Restart=on-failure\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n",
        service(command)
    );
    json!({"name": name, "enabled": true, "contents": contents})
}

/// Objects merged, lists one after the other.
pub(super) fn with(mut config: Value, more: Value) -> Value {
    match (&mut config, more) {
        (Value::Object(own), Value::Object(more)) => {
            for (key, value) in more {
                let before = own.remove(&key);
                own.insert(key, before.map_or(value.clone(), |before| with(before, value)));
            }
        }
        (Value::Array(own), Value::Array(more)) => own.extend(more),
        (own, more) => *own = more,
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_urls() {
        assert_eq!(data_url("a b\"{1}\n"), "data:,a%20b%22%7B1%7D%0A");
    }

    #[test]
    fn configs_are_laid_over_each_other() {
        let merged = with(json!({"a": {"b": [1]}, "c": 1}), json!({"a": {"b": [2], "d": 3}}));
        assert_eq!(merged, json!({"a": {"b": [1, 2], "d": 3}, "c": 1}));
    }
}
