//! What users send that the service refuses: each request with its status, the form of its answer and its words.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

#[path = "refusals/bodies.rs"]
mod bodies;
#[path = "refusals/clusters.rs"]
mod clusters;
use crate::common;
#[path = "refusals/infra_envs.rs"]
mod infra_envs;

use common::{API, Answer, Files, Running, pull_secret};
use serde_json::{Value, json};
use std::sync::Arc;

/// Which of the two forms a refusal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `{"code": 400, "message": …}`: the request is not as described.
    Request,
    /// `{"code": "400", "href": "", "id": 400, "kind": "Error", "reason": …}`: it is, and can't be served.
    Application,
}

/// A service with a catalogue.
pub(crate) struct World {
    pub(crate) running: Running,
    _files: tempfile::TempDir,
}

const RELEASES: &str = r#"[
    {"openshift_version": "4.10", "cpu_architecture": "x86_64", "url": "r.io/release:4.10.67", "version": "4.10.67"},
    {"openshift_version": "4.22", "cpu_architecture": "x86_64", "url": "r.io/release:4.22.9", "version": "4.22.9", "default": true},
    {"openshift_version": "4.22", "cpu_architecture": "aarch64", "url": "r.io/release:4.22.9-arm", "version": "4.22.9"},
    {"openshift_version": "4.22-multi", "cpu_architecture": "multi", "cpu_architectures": ["x86_64", "arm64", "s390x"],
     "url": "r.io/release:4.22.9-multi", "version": "4.22.9-multi"},
    {"openshift_version": "4.23", "cpu_architecture": "x86_64", "url": "r.io/release:4.23.1", "version": "4.23.1"}
]"#;
const OS_IMAGES: &str = r#"[
    {"openshift_version": "4.10", "cpu_architecture": "x86_64", "url": "http://o/410", "version": "410"},
    {"openshift_version": "4.22", "cpu_architecture": "x86_64", "url": "http://o/422", "version": "422"},
    {"openshift_version": "4.22", "cpu_architecture": "arm64", "url": "http://o/422a", "version": "422"}
]"#;

impl World {
    pub(crate) fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = files.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (releases, images) = (write("releases", RELEASES), write("images", OS_IMAGES));
        let catalogue =
            service_stub::releases::Catalogue::read(Some(&releases.into()), Some(&images.into()), None).unwrap();
        let running = Running::start(Files { catalogue: catalogue.map(Arc::new), ..Files::default() });
        Self { running, _files: files }
    }

    /// A body with what every new cluster has, and more.
    pub(crate) fn cluster_body(more: Value) -> Value {
        with(json!({"name": "rack", "openshift_version": "4.22", "pull_secret": pull_secret()}), more)
    }

    pub(crate) fn infra_env_body(more: Value) -> Value {
        with(json!({"name": "rack", "pull_secret": pull_secret()}), more)
    }

    pub(crate) fn cluster(&self, more: Value) -> Value {
        made(&self.running.json("POST", "/v2/clusters", &Self::cluster_body(more)))
    }

    pub(crate) fn infra_env(&self, more: Value) -> Value {
        made(&self.running.json("POST", "/v2/infra-envs", &Self::infra_env_body(more)))
    }
}

/// One object with the members of another; what is null there is taken out.
pub(crate) fn with(mut body: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        match value.is_null() {
            true => drop(body.as_object_mut().unwrap().remove(name)),
            false => body[name] = value.clone(),
        }
    }
    body
}

fn made(answer: &Answer) -> Value {
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    answer.document()
}

/// Checks a refusal to the last character of its answer, and prints it as a row of the table.
pub(crate) fn refused(asked: &str, answer: &Answer, status: u16, form: Form, text: &str) {
    let document = answer.document();
    println!("| {asked} | {status} | {form:?} | {} |", text.replace('\n', "\\n"));
    let expected = match form {
        Form::Request => json!({"code": status, "message": text}),
        Form::Application => {
            json!({"code": status.to_string(), "href": "", "id": status, "kind": "Error", "reason": text})
        }
    };
    assert_eq!((answer.status, &document), (status, &expected), "{asked}");
}

#[test]
fn unknown_records_and_identifiers() {
    let world = World::new();
    const UNKNOWN: &str = "7e5ff6df-e038-4103-bbb2-90433ded3e50";
    let get = |path: &str| world.running.get(&format!("{API}{path}"));
    refused(
        "GET of a cluster `notauuid`",
        &get("/v2/clusters/notauuid"),
        400,
        Form::Request,
        "cluster_id in path must be of type uuid: \"notauuid\"",
    );
    refused(
        "openshift-versions without a version for features",
        &get("/v2/support-levels/features"),
        400,
        Form::Request,
        "openshift_version in query is required",
    );
    let import = json!({"name": "Not A Name", "api_vip_dnsname": "192.0.2.1", "openshift_cluster_id": UNKNOWN});
    refused(
        "import named `Not A Name`",
        &world.running.json("POST", "/v2/clusters/import", &import),
        400,
        Form::Application,
        "Cluster name format is not valid: 'Not A Name'. Name must start and end with either a letter or number and consist of lower-case letters, numbers, and hyphens. Subdomains in cluster names are only valid with none platform.",
    );
}

#[test]
fn what_a_clusters_state_and_this_service_do_not_allow() {
    let world = World::new();
    let id = world.cluster(json!({}))["id"].as_str().unwrap().to_owned();
    let path = |more: &str| format!("/v2/clusters/{id}/{more}");
    refused(
        "an unknown field of install-config",
        &world.running.json("PATCH", &path("install-config"), &json!(r#"{"zzz": 1}"#)),
        400,
        Form::Application,
        "json: unknown field \"zzz\"",
    );
    world.running.monitor();
    refused(
        "progress of a cluster that is not installing",
        &world.running.json("PUT", &path("progress"), &json!({"finalizing_stage": "Waiting for cluster operators"})),
        400,
        Form::Application,
        "cluster is pending-for-input, not in one of allowed statuses: [installing finalizing installing-pending-user-action]",
    );
    for file in ["credentials-presigned?file_name=kubeconfig", "files-presigned?file_name=bootstrap.ign"] {
        refused(
            "a presigned URL of a file that is on disk",
            &world.running.get(&format!("{API}{}", path(&format!("downloads/{file}")))),
            400,
            Form::Application,
            "Failed to generate presigned URL: invalid backend",
        );
    }
    let file = format!("{API}{}", path("downloads/files?file_name=bootstrap.ign"));
    refused(
        "a file as JSON",
        &world.running.request("GET", &file, &[("accept", "application/json")], b""),
        400,
        Form::Request,
        "unsupported media type requested, only [application/octet-stream] are available",
    );
}
