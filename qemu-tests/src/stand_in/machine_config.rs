//! The machine-config server: a role's config for any client, and a line in its log.

use super::{
    CONTROLLER, LIBRARY, LIBRARY_PATH, PROGRAM, Role, SETTINGS_PATH, Settings,
    https::{Answer, Request},
    pods,
};
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use simulator::{Client, ClientError};
use std::{fs, io::Write, path::Path};

/// Where the real one's pods are.
pub const NAMESPACE: &str = "openshift-machine-config-operator";
/// The one on a master. Its log is where the real one's is on a host that runs it (docs/compatibility.md#configuring-hosts).
const POD: &str = "machine-config-server-stand-in";
/// Where a single node's control plane has a kubeconfig.
const BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap-secrets/kubeconfig";
/// A file of each role's config, for tests to see.
pub const ROLE_FILE: &str = "/etc/landfall-test/role";

/// The name of a role's whole config.
pub fn rendered_name(role: Role) -> String {
    format!("rendered-{}-stand-in", role.as_str())
}

/// The pod of the server on this master.
pub(super) fn run(administrator: &Client, node: &str) -> Result<()> {
    let pod = json!({
        "metadata": {"name": POD, "labels": {"k8s-app": "machine-config-server"}},
        "spec": {"nodeName": node, "containers": [{"name": "machine-config-server", "image": "stand-in"}]},
    });
    pods::run(administrator, NAMESPACE, &pod)
}

/// Whether the server is that of a master.
pub(super) fn is_on_master(administrator: &Client) -> Result<bool, ClientError> {
    administrator.find(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{POD}")).map(|pod| pod.is_some())
}

pub(super) fn answer(settings: &Settings, request: &Request) -> Answer {
    let role = match request.path.as_str() {
        "/config/master" => Role::Master,
        "/config/worker" => Role::Worker,
        _ => return (404, "text/plain", b"no such pool".to_vec()),
    };
    log(role, request);
    match config(settings, role) {
        Ok(config) => (200, "application/json", config.to_string().into_bytes()),
        Err(error) => (500, "text/plain", format!("{error:#}").into_bytes()),
    }
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
    let log = pods::log(POD);
    let path = Path::new(&log);
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::File::options().create(true).append(true).open(path)?.write_all(line.as_bytes()));
    if let Err(error) = written {
        eprintln!("{log}: {error}");
    }
}

/// The config of a role: the units that run the stand-ins on its machines, and all machine configs of the role, as the real operator
/// renders them.
pub(super) fn config(settings: &Settings, role: Role) -> Result<Value> {
    let selector = format!("labelSelector=machineconfiguration.openshift.io/role={}", role.as_str());
    let path = format!("/apis/machineconfiguration.openshift.io/v1/machineconfigs?{selector}");
    // The API server sorts them by name.
    let objects = settings.administrator().list(&path)?;
    let configs = objects.iter().filter_map(|object| object.pointer("/spec/config"));
    merged(std::iter::once(&machine(&settings.with_role(role))).chain(configs))
}

/// By Ignition's rules: several may add keys to the same user.
fn merged<'a>(configs: impl Iterator<Item = &'a Value>) -> Result<Value> {
    let texts: Vec<Vec<u8>> = configs.map(|config| config.to_string().into_bytes()).collect();
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let merged = ignition::merge_all(&texts).map_err(|(index, error)| anyhow!("machine config {index:?}: {error}"))?;
    Ok(serde_json::from_slice(&merged)?)
}

/// The config of an installed machine of `settings.role`, without machine configs.
fn machine(settings: &Settings) -> Value {
    let mut units = vec![unit("stand-in-kubelet.service", "kubelet")];
    if settings.role == Role::Master {
        units.push(unit("stand-in-control-plane.service", "control-plane"));
    }
    let mut files = programs(settings);
    files.push(file(ROLE_FILE, 0o644, settings.role.as_str()));
    if settings.is_single_node() {
        files.push(file(BOOTSTRAP_KUBECONFIG, 0o644, &settings.kubeconfig()));
    }
    json!({"ignition": {"version": "3.2.0"}, "storage": {"files": files}, "systemd": {"units": units}})
}

/// The program, its library, its settings; on masters the controller.
pub(super) fn programs(settings: &Settings) -> Vec<Value> {
    let fetched = |path: &str, mode: u32| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let contents = json!({"source": format!("{}/{name}.gz", settings.files_url), "compression": "gzip"});
        json!({"path": path, "mode": mode, "overwrite": true, "contents": contents})
    };
    let text = serde_json::to_string(settings).unwrap_or_default();
    let mut files = vec![fetched(PROGRAM, 0o755), fetched(LIBRARY, 0o755), file(SETTINGS_PATH, 0o600, &text)];
    if settings.role == Role::Master {
        files.push(fetched(CONTROLLER, 0o755));
    }
    files
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_urls() {
        assert_eq!(data_url("a b\"{1}\n"), "data:,a%20b%22%7B1%7D%0A");
    }

    #[test]
    fn machine_configs_add_keys_to_the_same_user() {
        let with = |keys: Value| json!({"ignition": {"version": "3.1.0"}, "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": keys}]}});
        let configs = [json!({"ignition": {"version": "3.2.0"}}), with(json!(["a"])), with(json!(["b"]))];
        let merged = merged(configs.iter()).unwrap();
        assert_eq!(merged["passwd"]["users"], with(json!(["a", "b"]))["passwd"]["users"]);
        assert_eq!(merged["ignition"]["version"], "3.2.0");
    }
}
