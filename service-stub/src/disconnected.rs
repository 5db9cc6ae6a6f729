//! Images of the type `disconnected-iso`: they bring a service and a release along, and their hosts do not report here
//! (docs/compatibility.md#disconnected-iso).

use crate::boot_media::iso_of_image;
use crate::documents;
use crate::http::Refusal;
use crate::media::LiveIso;
use crate::model::InfraEnvRecord;
use crate::service::Service;
use crate::text::chain;
use anyhow::Context;
use api::InfraEnv;
use ignition::{HostConfig, data_url, host};
use serde_json::{Value, json};
use std::{fs::File, io::Read, net::IpAddr, path::Path, sync::Arc};

/// A larger one does not fit into an ISO.
const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// Tells the system to ask for its rendezvous at the console.
const INTERACTIVE: &str = "/etc/assisted/interactive-ui";
const RENDEZVOUS: &str = "/etc/assisted/rendezvous-host.env";
const PULL_SECRET: &str = "/etc/assisted/manifests/pull-secret.yaml";

/// The ISO that an infra-env's config is written into.
pub(crate) fn iso<'a>(service: &'a Service, infra_env: &InfraEnv) -> Result<&'a LiveIso, Refusal> {
    let catalogue = service.settings.catalogue.as_deref();
    let (version, architecture) = (&infra_env.openshift_version, &infra_env.cpu_architecture);
    let image = catalogue.and_then(|catalogue| catalogue.offline_image(version, architecture));
    let iso = image.map(|image| iso_of_image(service, image)).transpose()?.flatten();
    iso.ok_or_else(|| {
        Refusal::not_implemented(&format!(
            "image_type disconnected-iso of version {version} and architecture {architecture}, for which --os-images lists no image that is here,"
        ))
    })
}

/// The config in it: the operator's, with the infra-env's settings merged in.
pub(crate) fn config(service: &Service, record: &InfraEnvRecord) -> Result<Vec<u8>, Refusal> {
    let infra_env = &record.infra_env;
    let unbound = || Refusal::not_found(format!("infra_env {} is not bound to a cluster", infra_env.id));
    infra_env.cluster_id.ok_or_else(unbound)?;
    let base = service.settings.disconnected_ignition.as_deref().ok_or_else(|| {
        Refusal::not_implemented("the config of image_type disconnected-iso without --disconnected-ignition FILE")
    })?;
    let merge = |base: &[u8], more: String| {
        let config = HostConfig { role_config: Some(base.to_vec()), ignition_override: more, ..HostConfig::default() };
        let built = host::build(&config).map(|config| config.to_json());
        built.map_err(|error| Refusal::invalid(chain(&error)))
    };
    let own = merge(base, additions(record)?.to_string())?;
    merge(&own, infra_env.ignition_config_override.clone())
}

fn additions(record: &InfraEnvRecord) -> Result<Value, Refusal> {
    let infra_env = &record.infra_env;
    let mut files = vec![file(INTERACTIVE, 0o644, b"")];
    if !record.pull_secret.is_empty() {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "pull-secret"},
            "stringData": {".dockerconfigjson": record.pull_secret.expose()},
        });
        let text = serde_norway::to_string(&secret).map_err(|error| Refusal::internal(&error))?;
        files.push(file(PULL_SECRET, 0o600, text.as_bytes()));
    }
    if let Some(address) = infra_env.rendezvous_ip.as_deref().and_then(|address| address.parse().ok()) {
        files.push(file(RENDEZVOUS, 0o644, rendezvous(address).as_bytes()));
    }
    let network = documents::static_network(infra_env)?;
    for own in network.iter().flat_map(|network| &network.files) {
        files.push(file(&own.path, own.mode, &own.bytes));
    }
    let mut config = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": files}});
    let keys: Vec<&str> = infra_env.ssh_authorized_key.lines().map(str::trim).filter(|key| !key.is_empty()).collect();
    if !keys.is_empty() {
        config["passwd"] = json!({"users": [{"name": "core", "sshAuthorizedKeys": keys}]});
    }
    Ok(config)
}

fn file(path: &str, mode: u32, bytes: &[u8]) -> Value {
    json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": data_url::base64(bytes)}})
}

/// Where the hosts find the service that one of them runs.
fn rendezvous(address: IpAddr) -> String {
    let host = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    format!(
        "NODE_ZERO_IP={address}\n\
         SERVICE_BASE_URL=http://{host}:8090/\n\
         IMAGE_SERVICE_BASE_URL=http://{host}:8888/\n\
         AIUI_URL=http://{host}:3001/\n\
         WORKFLOW_TYPE=install\n"
    )
}

/// An operator's config, checked.
pub(crate) fn read(path: &Path) -> anyhow::Result<Arc<[u8]>> {
    let mut base = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(MAX_CONFIG_BYTES).read_to_end(&mut base).with_context(|| format!("cannot read {}", path.display()))?;
    check(&base).with_context(|| format!("cannot use {}", path.display()))?;
    Ok(base.into())
}

fn check(base: &[u8]) -> Result<(), ignition::BuildError> {
    let config = HostConfig { role_config: Some(base.to_vec()), ..HostConfig::default() };
    host::build(&config).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_an_infra_env_are_in_its_config() {
        let mut record = InfraEnvRecord::default();
        record.infra_env.rendezvous_ip = Some("2001:db8::7".into());
        record.infra_env.ssh_authorized_key = "ssh-ed25519 A a\n\nssh-ed25519 B b\n".into();
        record.pull_secret = api::Secret::new("{\"auths\":{}}".to_owned());
        let config = additions(&record).unwrap();
        let paths: Vec<&str> =
            config["storage"]["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
        assert_eq!(paths, [INTERACTIVE, PULL_SECRET, RENDEZVOUS]);
        assert_eq!(config["passwd"]["users"][0]["sshAuthorizedKeys"].as_array().unwrap().len(), 2);
        assert!(rendezvous("2001:db8::7".parse().unwrap()).contains("=http://[2001:db8::7]:8090/\n"));
        assert!(rendezvous("192.0.2.7".parse().unwrap()).starts_with("NODE_ZERO_IP=192.0.2.7\n"));
        check(br#"{"ignition": {"version": "3.2.0"}}"#).unwrap();
        check(b"{").unwrap_err();
    }
}
