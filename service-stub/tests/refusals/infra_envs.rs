//! Refusals of infra-envs, made and changed.

use super::{Form, World, refused};
use serde_json::{Value, json};

#[test]
fn of_new_infra_envs() {
    let world = World::new();
    let cluster = world.cluster(json!({}))["id"].clone();
    let unknown = "7e5ff6df-e038-4103-bbb2-90433ded3e50";
    for (asked, body, status, reason) in [
        ("ssh_authorized_key `garbage`", json!({"ssh_authorized_key": "garbage"}), 400, "SSH key is not valid"),
        (
            "a version without image",
            json!({"openshift_version": "10000.0.0"}),
            400,
            "No OS image for Openshift version 10000.0.0 and architecture x86_64: The requested OS image for version (10000.0.0) and CPU architecture (x86_64) isn't specified in OS images list",
        ),
        (
            "an architecture without image",
            json!({"cpu_architecture": "s390x"}),
            400,
            "Failed to get latest OS image for architecture s390x: No OS images are available",
        ),
        (
            "an architecture unlike its cluster's",
            json!({"cluster_id": cluster, "cpu_architecture": "aarch64"}),
            400,
            "Specified CPU architecture (arm64) doesn't match the cluster (x86_64)",
        ),
        (
            "an unknown cluster",
            json!({"cluster_id": unknown}),
            404,
            "Cluster ID 7e5ff6df-e038-4103-bbb2-90433ded3e50 does not exist",
        ),
        (
            "pull secret without auths",
            json!({"pull_secret": "{}"}),
            400,
            "pull secret for new infraEnv is invalid: pull secret must contain 'auths' JSON-object field",
        ),
        (
            "a rendezvous address",
            json!({"rendezvous_ip": "192.0.2.1"}),
            400,
            "RendezvousIP is only supported for disconnected ISO infra-envs",
        ),
    ] {
        let answer = world.running.json("POST", "/v2/infra-envs", &World::infra_env_body(body));
        refused(&format!("new infra-env: {asked}"), &answer, status, Form::Application, reason);
    }
    let listed = world.infra_env(json!({}));
    assert_eq!((&listed["openshift_version"], &listed["cpu_architecture"]), (&json!("4.22"), &json!("x86_64")));
    let arm = world.infra_env(json!({"cpu_architecture": "aarch64", "openshift_version": "4.22.9"}));
    assert_eq!((&arm["openshift_version"], &arm["cpu_architecture"]), (&json!("4.22"), &json!("arm64")));
}

#[test]
fn of_changed_infra_envs() {
    let world = World::new();
    let id = world.infra_env(json!({}))["id"].as_str().unwrap().to_owned();
    let patch = |body: &Value| world.running.json("PATCH", &format!("/v2/infra-envs/{id}"), body);
    for (asked, body, reason) in [
        (
            "ssh_authorized_key `garbage`",
            json!({"ssh_authorized_key": "garbage"}),
            "SSH key: garbage does not match any supported type: ssh-rsa, ssh-ed25519, ecdsa-[VARIANT]",
        ),
        ("NTP source `a b`", json!({"additional_ntp_sources": "a b"}), "Invalid NTP source: a b"),
        (
            "both kinds of NTP sources",
            json!({"additional_ntp_sources": "n1", "ntp_sources": "n2"}),
            "ntp_sources and additional_ntp_sources are mutually exclusive",
        ),
        ("a bundle of no certificates", json!({"additional_trust_bundle": "PEM"}), "invalid block"),
        (
            "a kernel argument to delete",
            json!({"kernel_arguments": [{"operation": "delete", "value": "a"}]}),
            "Only kernel argument operation append is supported.  Got delete",
        ),
        ("a no_proxy entry twice", json!({"proxy": {"no_proxy": "a,b,a"}}), "duplicate no_proxy entry defined: a"),
        (
            "a version without image",
            json!({"openshift_version": "4.9"}),
            "No OS image for Openshift version 4.9 and architecture x86_64: The requested OS image for version (4.9) and CPU architecture (x86_64) isn't specified in OS images list",
        ),
    ] {
        refused(&format!("update of an infra-env: {asked}"), &patch(&body), 400, Form::Application, reason);
    }
    let kept = patch(&json!({"ssh_authorized_key": "", "ignition_config_override": "", "openshift_version": ""}));
    assert_eq!((kept.status, &kept.document()["openshift_version"]), (201, &json!("4.22")), "empty is unchanged");
}
