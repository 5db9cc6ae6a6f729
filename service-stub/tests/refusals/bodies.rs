//! Bodies that are not as described, and the description they are held against.

use super::{Form, World, refused};
use crate::common::API;
use serde_json::{Value, json};

#[test]
fn fields_by_their_rules() {
    let world = World::new();
    let cluster = world.cluster(json!({}))["id"].as_str().unwrap().to_owned();
    let infra_env = world.infra_env(json!({}))["id"].as_str().unwrap().to_owned();
    let (new, update) = ("/v2/clusters".to_owned(), format!("/v2/clusters/{cluster}"));
    let env = format!("/v2/infra-envs/{infra_env}");
    let manifests = format!("/v2/clusters/{cluster}/manifests");
    let progress = format!("/v2/clusters/{cluster}/progress");
    for (method, path, body, message) in [
        ("POST", &new, json!({"openshift_version": "4.22"}), "name in body is required"),
        ("POST", &new, World::cluster_body(json!({"name": ""})), "name in body should be at least 1 chars long"),
        (
            "POST",
            &new,
            World::cluster_body(json!({"name": "a".repeat(55)})),
            "name in body should be at most 54 chars long",
        ),
        (
            "POST",
            &new,
            World::cluster_body(json!({"high_availability_mode": ""})),
            "high_availability_mode in body should be one of [Full None]",
        ),
        (
            "PATCH",
            &update,
            json!({"network_type": "moon"}),
            "network_type in body should be one of [OpenShiftSDN OVNKubernetes CiscoACI Cilium Calico None]",
        ),
        (
            "PATCH",
            &update,
            json!({"platform": {"type": "moon"}}),
            "platform.type in body should be one of [baremetal nutanix vsphere none external]",
        ),
        ("PATCH", &update, json!({"platform": {}}), "platform.type in body is required"),
        (
            "PATCH",
            &update,
            json!({"load_balancer": {"type": "none"}}),
            "load_balancer.type in body should be one of [cluster-managed user-managed]",
        ),
        (
            "PATCH",
            &update,
            json!({"api_vips": [{"ip": "x"}]}),
            r"api_vips.0.ip in body should match '^(?:(?:(?:[0-9]{1,3}\.){3}[0-9]{1,3})|(?:(?:[0-9a-fA-F]*:[0-9a-fA-F]*){2,}))?$'",
        ),
        (
            "PATCH",
            &update,
            json!({"cluster_networks": [{"cidr": "10.128.0.0/14", "host_prefix": 129}]}),
            "cluster_networks.0.host_prefix in body should be less than or equal to 128",
        ),
        (
            "PATCH",
            &update,
            json!({"api_vips": [{"vip": "x"}]}),
            r#"parsing clusterUpdateParams body from "" failed, because json: unknown field "vip""#,
        ),
        (
            "PATCH",
            &env,
            json!({"network_discovery_delay_seconds": -1}),
            "network_discovery_delay_seconds in body should be greater than or equal to 0",
        ),
        (
            "PATCH",
            &env,
            json!({"kernel_arguments": [{"operation": "append", "value": "a b"}]}),
            r#"kernel_arguments.0.value in body should match '^(?:(?:[^ \t\n\r"]+)|(?:"[^"]*"))+$'"#,
        ),
        (
            "PATCH",
            &env,
            json!({"static_network_config": [{"mac_interface_map": [{"mac_address": "x"}]}]}),
            "static_network_config.0.mac_interface_map.0.mac_address in body should match '^([0-9A-Fa-f]{2}[:]){5}([0-9A-Fa-f]{2})$'",
        ),
        (
            "POST",
            &manifests,
            json!({"file_name": "x.txt", "content": "e30="}),
            r"file_name in body should match '^[^\/]*\.(json|ya?ml(\.patch_?[a-zA-Z0-9_]*)?)$'",
        ),
        (
            "PUT",
            &progress,
            json!({"finalizing_stage": "Brewing"}),
            "finalizing_stage in body should be one of [Waiting for cluster operators Adding router ca Applying olm manifests Waiting for olm operators csv initialization Waiting for olm operators csv Waiting for OLM operator setup jobs Done]",
        ),
    ] {
        let answer = world.running.json(method, path, &body);
        refused(
            &format!("{method} {}", path.replace(&cluster, "ID").replace(&infra_env, "ID")),
            &answer,
            400,
            Form::Request,
            message,
        );
    }
    assert_eq!(world.running.get(&format!("{API}{update}")).document()["name"], "rack");
}

/// Every field of every body of the description, given a value that its schema does not have.
#[test]
fn no_field_takes_what_its_description_refuses() {
    let Some(description) = crate::common::swagger::description() else { return };
    let world = World::new();
    let cluster = world.cluster(json!({}))["id"].as_str().unwrap().to_owned();
    let infra_env = world.infra_env(json!({}))["id"].as_str().unwrap().to_owned();
    let mut count = 0;
    for (method, path, name, start) in [
        ("POST", "/v2/clusters".to_owned(), "cluster-create-params", World::cluster_body(json!({}))),
        ("PATCH", format!("/v2/clusters/{cluster}"), "v2-cluster-update-params", json!({})),
        ("POST", "/v2/infra-envs".to_owned(), "infra-env-create-params", World::infra_env_body(json!({}))),
        ("PATCH", format!("/v2/infra-envs/{infra_env}"), "infra-env-update-params", json!({})),
        (
            "POST",
            "/v2/clusters/import".to_owned(),
            "import-cluster-params",
            json!({"name": "a",
            "api_vip_dnsname": "api.a.b", "openshift_cluster_id": "7e5ff6df-e038-4103-bbb2-90433ded3e50"}),
        ),
        (
            "POST",
            format!("/v2/clusters/{cluster}/manifests"),
            "create-manifest-params",
            json!({"file_name": "a.yaml", "content": "e30="}),
        ),
    ] {
        for (field, bad) in spoilt(description, &description["definitions"][name]) {
            let mut body = start.clone();
            body[&field] = bad.clone();
            let answer = world.running.json(method, &path, &body);
            let document = answer.document();
            let message = document["message"].as_str().unwrap_or_default();
            let told = message.contains(&format!("{field} in body"))
                || message.contains(&format!(".{field}"))
                || message.starts_with(&format!("{field}."));
            assert!(answer.status == 400 && document["code"] == 400 && told, "{name} {field} {bad}: {document}");
            count += 1;
        }
    }
    println!("{count} fields with a value that is not theirs");
    assert!(count > 120, "{count}");
}

/// For each property a value of another type, and one for each rule it has.
fn spoilt(description: &Value, model: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (name, schema) in model["properties"].as_object().unwrap() {
        for bad in spoilt_values(description, schema) {
            all.push((name.clone(), bad));
        }
    }
    all
}

fn spoilt_values(description: &Value, schema: &Value) -> Vec<Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return spoilt_values(description, &description["definitions"][name]);
    }
    let wrong_type = match schema["type"].as_str() {
        Some("string") => json!(7),
        Some("array") => json!({}),
        Some("object") => json!([]),
        Some("boolean") => json!("yes"),
        Some("integer") => json!("many"),
        _ => return Vec::new(),
    };
    let mut values = vec![wrong_type];
    if schema["enum"].is_array() || schema["format"] == "uuid" || schema["pattern"].is_string() {
        values.push(json!("\u{1}no such\n"));
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        values.push(json!("a".repeat(usize::try_from(most).unwrap() + 1)));
    }
    if let Some(least) = schema["minimum"].as_i64() {
        // (Nought is the same as none.)
        values.push(json!((least - 1).min(-1)));
    }
    if let Some(most) = schema["maximum"].as_i64() {
        values.push(json!(most + 1));
    }
    values
}
