//! What a cluster says of itself: asked of its Kubernetes API with an administrator's kubeconfig.

use api::{Proxy, Secret};
use base64::{Engine, prelude::BASE64_STANDARD};
use controller::cluster::{
    CallError, Cluster, LoginError,
    objects::{
        self, CLUSTER_VERSION, CONFIG_MAP, IMAGE_CONTENT_SOURCE_POLICY, IMAGE_DIGEST_MIRROR_SET, INFRASTRUCTURE,
        MACHINE_CONFIG, NODE, PROXY, SECRET, text,
    },
};
use ignition::data_url;
use serde_json::Value;
use service_stub::rendezvous::{ExistingCluster, Mirror, PlanError};
use std::path::Path;

const CONFIG: &str = "openshift-config";
const MACHINE_CONFIG_OPERATOR: &str = "openshift-machine-config-operator";
const MACHINE_API: &str = "openshift-machine-api";
const CONTROL_PLANE: &str = "node-role.kubernetes.io/master";
/// The pool of workers in the URL of their config: the service appends the pool itself.
const POOL: &str = "/worker";
/// The file that errors name; the reader goes by its ending.
const PLACE: &str = "cluster.json";

/// Why a cluster's facts are not known.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Call(#[from] CallError),
    /// An object lacks something, or it is of another form.
    #[error("{object} has no {what}")]
    Missing { object: &'static str, what: &'static str },
    #[error("what the cluster says of itself cannot be used")]
    Invalid(#[from] PlanError),
}

/// Reads a cluster's facts, and checks them.
pub async fn read(kubeconfig: &Path) -> Result<ExistingCluster, FactsError> {
    let cluster = Cluster::of_kubeconfig(kubeconfig).await?;
    let facts = gather(&cluster).await?;
    Ok(ExistingCluster::parse(PLACE, &facts.document().to_string())?)
}

async fn gather(cluster: &Cluster) -> Result<ExistingCluster, FactsError> {
    let mut facts = ExistingCluster::default();
    let version = cluster.read(CLUSTER_VERSION, None, "version").await?;
    let lacks = |object, what| move || FactsError::Missing { object, what };
    facts.id =
        text(&version, "/spec/clusterID").parse().map_err(|_| lacks("clusterversion version", "spec.clusterID")())?;
    facts.version = text(&version, "/status/desired/version").to_owned();
    facts.release_image = text(&version, "/status/desired/image").to_owned();

    let infrastructure = cluster.read(INFRASTRUCTURE, None, "cluster").await?;
    facts.platform = text(&infrastructure, "/status/platformStatus/type").to_owned();
    let api = host(text(&infrastructure, "/status/apiServerURL"));
    facts.api_name = api.ok_or_else(lacks("infrastructure cluster", "status.apiServerURL"))?.to_owned();

    let nodes = cluster.list(NODE, None, CONTROL_PLANE).await?;
    let architecture =
        nodes.iter().map(|node| text(node, "/status/nodeInfo/architecture")).find(|text| !text.is_empty());
    facts.architecture =
        match architecture.ok_or_else(lacks("every control-plane node", "status.nodeInfo.architecture"))? {
            "amd64" => "x86_64",
            "arm64" => "aarch64",
            other => other,
        }
        .to_owned();

    if let Some(proxy) = cluster.get(PROXY, None, "cluster").await? {
        let set = |pointer| Some(text(&proxy, pointer).to_owned()).filter(|text| !text.is_empty());
        facts.proxy = Proxy {
            http_proxy: set("/status/httpProxy"),
            https_proxy: set("/status/httpsProxy"),
            no_proxy: set("/status/noProxy"),
        };
    }
    let pull_secret = secret(cluster, CONFIG, "pull-secret", "/data/.dockerconfigjson").await?;
    facts.pull_secret = Secret::new(pull_secret.ok_or_else(lacks("secret pull-secret", ".dockerconfigjson"))?);
    if let Some(bundle) = cluster.get(CONFIG_MAP, Some(CONFIG), "user-ca-bundle").await? {
        facts.trust_bundle = objects::entry(&bundle, "ca-bundle.crt").unwrap_or_default();
    }

    let name = "worker-user-data-managed";
    let user_data = secret(cluster, MACHINE_API, name, "/data/userData").await?;
    let endpoint = user_data.and_then(|config| endpoint(&config));
    let no_endpoint = lacks("secret worker-user-data-managed", "URL of the workers' config");
    (facts.endpoint_url, facts.endpoint_ca) = endpoint.ok_or_else(no_endpoint)?;

    if let Some(config) = cluster.get(MACHINE_CONFIG, None, "99-worker-ssh").await? {
        facts.ssh_key = ssh_keys(&config.data);
    }
    if let Some(config) = cluster.get(MACHINE_CONFIG, None, "99-worker-fips").await? {
        facts.fips = config.data.pointer("/spec/fips") == Some(&Value::Bool(true));
    }
    if let Some(config) = cluster.get(MACHINE_CONFIG, None, "50-workers-chrony-configuration").await? {
        facts.time_sources = time_sources(&config.data);
    }
    for (kind, list) in [
        (IMAGE_DIGEST_MIRROR_SET, "/spec/imageDigestMirrors"),
        (IMAGE_CONTENT_SOURCE_POLICY, "/spec/repositoryDigestMirrors"),
    ] {
        // The cluster may not have the kind.
        let objects = match cluster.list(kind, None, "").await {
            Err(error) if error.is_not_found() => Vec::new(),
            answer => answer?,
        };
        for object in objects {
            facts.mirrors.extend(mirrors(&object.data, list));
        }
    }
    let images = cluster.get(CONFIG_MAP, Some(MACHINE_CONFIG_OPERATOR), "coreos-bootimages").await?;
    if let Some(stream) = images.and_then(|map| objects::entry(&map, "stream")) {
        facts.live_iso = live_iso(&stream, &facts.architecture);
    }
    Ok(facts)
}

/// A text of a Secret, without its base64; none if one of them is missing.
async fn secret(cluster: &Cluster, namespace: &str, name: &str, pointer: &str) -> Result<Option<String>, CallError> {
    let secret = cluster.get(SECRET, Some(namespace), name).await?;
    let text = secret.as_ref().map(|secret| text(secret, pointer)).and_then(|text| BASE64_STANDARD.decode(text).ok());
    Ok(text.and_then(|text| String::from_utf8(text).ok()).filter(|text| !text.is_empty()))
}

/// The host of a URL, without its port.
fn host(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("https://")?.split('/').next()?;
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => authority.split(':').next()?,
    };
    Some(host).filter(|host| !host.is_empty())
}

/// Where a worker's first config says that the rest is, without the pool, and the authority of that server as PEM.
fn endpoint(config: &str) -> Option<(String, String)> {
    let config: Value = serde_json::from_str(config).ok()?;
    let source = config.pointer("/ignition/config/merge/0/source")?.as_str()?;
    let authority = config.pointer("/ignition/security/tls/certificateAuthorities/0/source").and_then(Value::as_str);
    let authority = match authority {
        Some(source) => String::from_utf8(data_url::decode(source).ok()?.data.into_owned()).ok()?,
        None => String::new(),
    };
    Some((source.strip_suffix(POOL).unwrap_or(source).to_owned(), authority))
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The keys of user `core`, one a line.
fn ssh_keys(machine_config: &Value) -> String {
    let users = machine_config.pointer("/spec/config/passwd/users").and_then(Value::as_array);
    let core = users.into_iter().flatten().find(|user| user.get("name").and_then(Value::as_str) == Some("core"));
    let keys = texts(core.and_then(|user| user.get("sshAuthorizedKeys")));
    keys.map(str::trim).filter(|key| !key.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The servers and pools in a `chrony.conf`.
fn time_sources(machine_config: &Value) -> Vec<String> {
    let files = machine_config.pointer("/spec/config/storage/files").and_then(Value::as_array);
    let file =
        files.into_iter().flatten().find(|file| file.get("path").and_then(Value::as_str) == Some("/etc/chrony.conf"));
    let source = file.and_then(|file| file.pointer("/contents/source")?.as_str());
    let Some(Ok(data)) = source.map(data_url::decode) else { return Vec::new() };
    let text = String::from_utf8_lossy(&data.data).into_owned();
    let named = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| matches!(*word, "server" | "pool" | "peer")).and_then(|_| words.next())
    });
    named.map(str::to_owned).collect()
}

fn mirrors(object: &Value, list: &str) -> Vec<Mirror> {
    let entries = object.pointer(list).and_then(Value::as_array);
    let mirror = |entry: &Value| Mirror {
        source: entry.get("source").and_then(Value::as_str).unwrap_or_default().to_owned(),
        mirrors: texts(entry.get("mirrors")).map(str::to_owned).collect(),
    };
    entries.into_iter().flatten().map(mirror).collect()
}

/// The address of the live ISO in the metadata of a release's boot images.
fn live_iso(stream: &str, architecture: &str) -> String {
    let stream: Value = serde_json::from_str(stream).unwrap_or_default();
    let pointer = format!("/architectures/{architecture}/artifacts/metal/formats/iso/disk/location");
    stream.pointer(&pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere

    use super::*;
    use serde_json::json;

    #[test]
    fn the_api_is_named_by_its_url() {
        for (url, expected) in [
            ("https://api.edge.example.com:6443", Some("api.edge.example.com")),
            ("https://[2001:db8::1]:6443/", Some("2001:db8::1")),
            ("https://192.0.2.1", Some("192.0.2.1")),
            ("http://api.edge.example.com", None),
            ("https://:6443", None),
            ("", None),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }

    #[test]
    fn the_endpoint_is_what_a_workers_first_config_refers_to() {
        let config = |source: &str, authority: Value| {
            json!({"ignition": {"config": {"merge": [{"source": source}]}, "security": {"tls": {"certificateAuthorities": authority}},
                "version": "3.2.0"}})
            .to_string()
        };
        let ca = json!([{"source": "data:text/plain;charset=utf-8;base64,UEVN"}]);
        let url = "https://api-int.edge.example.com:22623/config";
        assert_eq!(endpoint(&config(&format!("{url}/worker"), ca)), Some((url.into(), "PEM".into())));
        assert_eq!(endpoint(&config(&format!("{url}/gpu"), json!([]))), Some((format!("{url}/gpu"), String::new())));
        assert_eq!(endpoint(&config(url, json!([{"source": "https://x"}]))), None, "it is not in the config");
        for bad in ["", "[]", "{}"] {
            assert_eq!(endpoint(bad), None, "{bad}");
        }
    }

    #[test]
    fn machine_configs_have_keys_and_time_sources() {
        let users = json!([{"name": "other", "sshAuthorizedKeys": ["x"]}, {"name": "core", "sshAuthorizedKeys": ["a ", "", "b"]}]);
        assert_eq!(ssh_keys(&json!({"spec": {"config": {"passwd": {"users": users}}}})), "a\nb");
        assert_eq!(ssh_keys(&json!({})), "");
        let chrony =
            "data:,server%201.example.com%20iburst%0A%23server%20x%0Apool%202.example.com%0Adriftfile%20%2Fx%0A";
        let files = json!([{"path": "/etc/chrony.conf", "contents": {"source": chrony}}]);
        assert_eq!(
            time_sources(&json!({"spec": {"config": {"storage": {"files": files}}}})),
            ["1.example.com", "2.example.com"]
        );
        assert_eq!(time_sources(&json!({"spec": null})), Vec::<String>::new());
    }

    #[test]
    fn mirrors_and_the_live_iso() {
        let list = json!({"spec": {"x": [{"source": "quay.io/a", "mirrors": ["m.example.com/a"]}, {"mirrors": null}]}});
        let expected =
            [Mirror { source: "quay.io/a".into(), mirrors: vec!["m.example.com/a".into()] }, Mirror::default()];
        assert_eq!(mirrors(&list, "/spec/x"), expected);
        let disk = json!({"location": "https://mirror.example.com/live.iso"});
        let stream =
            json!({"architectures": {"x86_64": {"artifacts": {"metal": {"formats": {"iso": {"disk": disk}}}}}}});
        assert_eq!(live_iso(&stream.to_string(), "x86_64"), "https://mirror.example.com/live.iso");
        assert_eq!(live_iso(&stream.to_string(), "s390x"), "");
        assert_eq!(live_iso("-", "x86_64"), "");
    }
}
