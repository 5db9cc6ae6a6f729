//! What the real service found of a recorded single node and its cluster, held against what ours finds of the same.

use super::*;
use api::Timestamp;
use service_stub::model::Presence;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Status and message by name.
fn findings(text: &str) -> BTreeMap<String, (String, String)> {
    let by_category: BTreeMap<String, Vec<Value>> = serde_json::from_str(text).unwrap();
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    let all = by_category.iter().flat_map(|(category, list)| list.iter().map(move |finding| (category, finding)));
    all.map(|(category, finding)| {
        let name = format!("{category}/{}", text(finding, "id"));
        (name, (text(finding, "status"), text(finding, "message")))
    })
    .collect()
}

/// Names whose entries are not the same, or not on both sides.
fn apart(theirs: &Value, ours: &Value) -> Vec<String> {
    let of = |document: &Value| findings(document["validations_info"].as_str().unwrap());
    let (theirs, ours) = (of(theirs), of(ours));
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    names.into_iter().filter(|name| theirs.get(*name) != ours.get(*name)).cloned().collect()
}

#[test]
fn a_recorded_node_is_judged_as_the_real_service_judged_it() {
    let Some(folder) = recorded("api") else { return };
    let load = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap() };
    let (their_host, their_cluster) = (load("sno-host-known.json"), load("sno-cluster-ready.json"));
    let text = |name: &str| their_host[name].as_str().unwrap().to_owned();
    let mut recorded_cluster = their_cluster.clone();
    recorded_cluster["hosts"] = json!([]);
    let own: Cluster = serde_json::from_value(recorded_cluster).unwrap();
    let (cluster_id, key) =
        (own.id, HostKey { infra_env: InfraEnvId(id(&text("infra_env_id"))), host: HostId(id(&text("id"))) });
    let mut record = HostRecord::new(key, Some(cluster_id), Timestamp::now());
    record.host.role = api::HostRole::Master;
    record.host.suggested_role = api::HostRole::Master;
    record.host.requested_hostname = text("requested_hostname");
    record.host.installation_disk_id = text("installation_disk_id");
    record.set_inventory(text("inventory"));
    record.texts.ntp_sources = Some(text("ntp_sources"));
    record.set_domain_name_resolutions(text("domain_name_resolutions"));
    let running = Running::start_with(Files::default(), |store| {
        put(
            store,
            ClusterRecord::new(ClusterState::Insufficient, own, Secret::new("{}")),
            infra_env(key.infra_env, cluster_id),
            Some(record),
        );
    });
    let now = Timestamp::now();
    running.service.store.presences().note(key, Presence { checked_in_at: now, clock: now.unix_seconds() });
    running.monitor();
    let ours = running.get(&format!("{}/v2/clusters/{cluster_id}", common::API)).document();
    // None differs: the recording service had its needs lowered as the tests here have.
    assert_eq!(apart(&their_host, &ours["hosts"][0]), Vec::<String>::new());
    assert_eq!(apart(&their_cluster, &ours), Vec::<String>::new());
    assert_eq!(ours["hosts"][0]["status"], their_host["status"]);
}
