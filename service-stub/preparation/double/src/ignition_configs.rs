//! The commands that make Ignition configs.

use crate::{
    Config,
    assets::{self, Asset},
    manifests::{self, STATE},
};
use anyhow::{Context, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use installer_double::Behaviour;
use serde_json::{Value, json};
use std::{env, fs, path::Path};
use uuid::Uuid;

const SINGLE_NODE: &str = "bootstrap-in-place-for-live-iso.ign";
const MOTD: &str = "This is the bootstrap node; it will be destroyed when the master is fully up.\n";
const CONNECTION: &str = "[connection]\nid=nmconnection\ntype=ethernet\n[ipv4]\nmethod=auto\n";

pub(crate) fn create(directory: &Path, behaviour: &Behaviour, single_node: bool) -> anyhow::Result<Vec<Asset>> {
    if directory.join("install-config.yaml").exists() {
        assets::write(directory, &manifests::create(directory)?)?;
    }
    let state =
        fs::read(directory.join(STATE)).context("there is no install-config.yaml and no state of a former command")?;
    let state: Value = serde_json::from_slice(&state)?;
    let config = Config::check(state["*installconfig.InstallConfig"]["config"].clone())?;
    if single_node && (config.masters != 1 || config.text["bootstrapInPlace"].is_null()) {
        bail!("a single node needs one replica of the control plane, and bootstrapInPlace");
    }
    let (cluster, openshift) = (assets::folder(directory, "manifests")?, assets::folder(directory, "openshift")?);
    let authority = fs::read(directory.join("tls/root-ca.crt")).ok();
    let made = Made {
        config: &config,
        behaviour,
        authority: authority.unwrap_or_else(|| b"the double's authority\n".to_vec()),
    };
    let kubeconfig = match made.replacement("kubeconfig")? {
        Some(content) => content,
        None => serde_norway::to_string(&made.kubeconfig())?.into_bytes(),
    };
    let bootstrap = made.bootstrap(&cluster, &openshift, &kubeconfig);
    let mut all = vec![
        made.config_file(if single_node { SINGLE_NODE } else { "bootstrap.ign" }, "bootstrap.ign", bootstrap)?,
        made.config_file("worker.ign", "worker.ign", made.pointer("worker"))?,
    ];
    if !single_node {
        all.push(made.config_file("master.ign", "master.ign", made.pointer("master"))?);
    }
    if config.arbiters > 0 {
        all.push(made.config_file("arbiter.ign", "arbiter.ign", made.pointer("arbiter"))?);
    }
    let overrides =
        cluster.iter().find(|(name, _)| name == "cvo-overrides.yaml").context("cvo-overrides.yaml is missing")?;
    let overrides: Value = serde_norway::from_slice(&overrides.1)?;
    let metadata = json!({"clusterName": config.name, "clusterID": overrides["spec"]["clusterID"],
        "infraID": format!("{}-x7xyz", config.name)});
    all.push(assets::json("metadata.json", &metadata));
    all.push(("auth/kubeadmin-password".to_owned(), b"aaaaa-bbbbb-ccccc-ddddd".to_vec()));
    all.push(("auth/kubeconfig".to_owned(), kubeconfig));
    for folder in ["manifests", "openshift"] {
        fs::remove_dir_all(directory.join(folder))?;
    }
    Ok(all)
}

/// `agent create unconfigured-ignition`.
pub(crate) fn unconfigured(directory: &Path) -> anyhow::Result<Vec<Asset>> {
    let text = fs::read(directory.join("agent-config.yaml")).unwrap_or_default();
    let config: Value = serde_norway::from_slice(&text).context("agent-config.yaml is not YAML")?;
    const ALLOWED: [&str; 4] = ["apiVersion", "kind", "metadata", "rendezvousIP"];
    if let Some((field, _)) =
        config.as_object().into_iter().flatten().find(|(field, _)| !ALLOWED.contains(&field.as_str()))
    {
        bail!("agent-config.yaml may only have rendezvousIP here, and has {field}");
    }
    let files = match config["rendezvousIP"].as_str() {
        Some(address) => {
            vec![file("/etc/assisted/rendezvous-host.env", format!("NODE_ZERO_IP={address}\n").as_bytes())]
        }
        None => Vec::new(),
    };
    Ok(vec![assets::json(
        "unconfigured-agent.ign",
        &json!({"ignition": {"version": "3.2.0"}, "storage": {"files": files}}),
    )])
}

struct Made<'a> {
    config: &'a Config,
    behaviour: &'a Behaviour,
    authority: Vec<u8>,
}

impl Made<'_> {
    /// A config as the double's settings want it: `name` is how they call it.
    fn config_file(&self, path: &str, name: &str, own: Value) -> anyhow::Result<Asset> {
        if let Some(content) = self.replacement(name)? {
            return Ok((path.to_owned(), content));
        }
        let Some(base) = self.behaviour.bases.get(name) else { return Ok(assets::json(path, &own)) };
        let base = fs::read(base).with_context(|| format!("the base of {name} can't be read"))?;
        let mut base: Value =
            serde_json::from_slice(&base).with_context(|| format!("the base of {name} is not JSON"))?;
        add(&mut base, own);
        Ok(assets::json(path, &base))
    }

    fn replacement(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.behaviour.replacements.get(name);
        path.map(fs::read).transpose().with_context(|| format!("the replacement of {name} can't be read"))
    }

    fn bootstrap(&self, cluster: &[Asset], openshift: &[Asset], kubeconfig: &[u8]) -> Value {
        let mut files: Vec<Value> = Vec::new();
        for (folder, all) in [("manifests", cluster), ("openshift", openshift)] {
            files.extend(all.iter().map(|(name, content)| file(&format!("/opt/openshift/{folder}/{name}"), content)));
        }
        files.push(file("/opt/openshift/auth/kubeconfig", kubeconfig));
        files.push(file("/opt/openshift/tls/root-ca.crt", &self.authority));
        let script = format!("#!/bin/sh\nRELEASE_IMAGE={}\n", manifests::release_image());
        files.push(file("/usr/local/bin/release-image.sh", script.as_bytes()));
        files.push(file("/etc/NetworkManager/system-connections/nmconnection", CONNECTION.as_bytes()));
        files.push(json!({"path": "/etc/motd", "overwrite": false, "user": {"name": "root"}, "mode": 420,
            "append": [{"source": url(MOTD.as_bytes())}]}));
        files.extend(self.registries().map(|text| file("/etc/containers/registries.conf", text.as_bytes())));
        let address = env::var("OPENSHIFT_INSTALL_BOOTSTRAP_NODE_IP");
        let address = address.map(|address| format!(" --node-ip={address}")).unwrap_or_default();
        let kubelet =
            format!("[Service]\nExecStart=/usr/local/bin/kubelet.sh{address}\n[Install]\nWantedBy=multi-user.target\n");
        let bootkube = "[Service]\nExecStart=/usr/local/bin/bootkube.sh\n";
        json!({
            "ignition": {"version": "3.2.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [self.config.text["sshKey"].as_str().unwrap_or_default()]}]},
            "storage": {"files": files},
            "systemd": {"units": [
                {"name": "bootkube.service", "enabled": false, "contents": bootkube},
                {"name": "kubelet.service", "enabled": true, "contents": kubelet},
            ]},
        })
    }

    /// The file of mirrors, if there are any.
    fn registries(&self) -> Option<String> {
        let text = &self.config.text;
        let sources = text["imageDigestSources"].as_array().or_else(|| text["imageContentSources"].as_array())?;
        let mut lines = String::new();
        for source in sources {
            lines.push_str("[[registry]]\n  prefix = \"\"\n");
            lines.push_str(&format!("  location = {}\n  mirror-by-digest-only = true\n", source["source"]));
            for mirror in source["mirrors"].as_array().into_iter().flatten() {
                lines.push_str(&format!("\n  [[registry.mirror]]\n    location = {mirror}\n"));
            }
        }
        Some(lines)
    }

    /// What a node fetches its config with.
    fn pointer(&self, role: &str) -> Value {
        let source = format!("https://api-int.{}:22623/config/{role}", self.config.full_domain());
        json!({"ignition": {
            "config": {"merge": [{"source": source}]},
            "security": {"tls": {"certificateAuthorities": [{"source": url(&self.authority)}]}},
            "version": "3.2.0",
        }})
    }

    fn kubeconfig(&self) -> Value {
        let (name, authority) = (&self.config.name, STANDARD.encode(&self.authority));
        let server = format!("https://api.{}:6443", self.config.full_domain());
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": authority}}],
            "contexts": [{"name": "admin", "context": {"cluster": name, "user": "admin"}}],
            "current-context": "admin",
            "users": [{"name": "admin", "user": {"token": Uuid::new_v4()}}],
        })
    }
}

fn url(content: &[u8]) -> String {
    format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(content))
}

fn file(path: &str, content: &[u8]) -> Value {
    json!({"path": path, "overwrite": true, "user": {"name": "root"}, "mode": 420, "contents": {"source": url(content)}})
}

/// Adds files, units and users to a config that has others, which stay.
fn add(base: &mut Value, own: Value) {
    for (part, list, key) in [("storage", "files", "path"), ("systemd", "units", "name"), ("passwd", "users", "name")] {
        let Some(added) = own[part][list].as_array() else { continue };
        let mut all = base[part][list].as_array().cloned().unwrap_or_default();
        let new: Vec<Value> =
            added.iter().filter(|added| all.iter().all(|known| known[key] != added[key])).cloned().collect();
        all.extend(new);
        base[part][list] = all.into();
    }
    for pointer in ["config", "security"] {
        if base["ignition"][pointer].is_null() && !own["ignition"][pointer].is_null() {
            base["ignition"][pointer] = own["ignition"][pointer].clone();
        }
    }
}
