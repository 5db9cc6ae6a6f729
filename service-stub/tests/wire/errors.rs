//! What the real service refuses, and what it takes of a host in error.

use super::*;

const MEANT: &[Meant] =
    &[VARY, NOSNIFF, meant("10 *", ".reason", "another JSON parser, other words for the same place")];

#[test]
fn what_the_real_service_refuses_we_refuse_alike() {
    let Some(folder) = recorded("errors") else { return };
    let cluster_id = ClusterId(id("75cc4f33-a7f9-4045-ab80-d57a9996a0f6"));
    let key = HostKey {
        infra_env: InfraEnvId(id("d05d3200-9716-4f27-9e8f-21d86a11f9b9")),
        host: HostId(id("69396def-4192-dbc7-5c01-819e7f27b01b")),
    };
    let recorded = exchanges(&folder);
    let answer = |number: u32| &recorded.iter().find(|exchange| exchange.number == number).unwrap().answer;
    // The files that the recording service had made.
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(files.path().join(name), text).unwrap();
    write("bootstrap.ign", &answer(22).to_string());
    write("master.ign", answer(20)["config"].as_str().unwrap());
    write("worker.ign", answer(20)["config"].as_str().unwrap());
    write("kubeconfig-noingress", answer(23).as_str().unwrap());
    let running = Running::start_with(Files { cluster: Some(files.path().to_owned()), ..Files::default() }, |store| {
        let mut host = HostRecord::new(key, Some(cluster_id), api::Timestamp::now());
        host.state = HostState::Error;
        // Its logs have come, so only the stop is asked for.
        let logs_collected_at = api::Timestamp::now();
        host.host = Host { status_info: "Failed".into(), logs_collected_at, ..host.host };
        let mut cluster = cluster(cluster_id, ClusterState::Error);
        cluster.cluster.control_plane_count = 3;
        put(store, cluster, infra_env(key.infra_env, cluster_id), Some(host));
    });
    let mut found = Vec::new();
    for exchange in &recorded {
        found.extend(compare::answers(exchange, &replay(&running, exchange)));
    }
    compare::settle("errors", recorded.len(), &found, &[MEANT, &MANIFESTS[1..5]]);
    assert_eq!(recorded.len(), 24);
}

#[test]
fn an_unknown_infra_env_is_refused_alike() {
    let Some(folder) = recorded("unknown-infra-env") else { return };
    let running = Running::start(Files::default());
    let recorded = exchanges(&folder);
    let found: Vec<_> =
        recorded.iter().flat_map(|exchange| compare::answers(exchange, &replay(&running, exchange))).collect();
    compare::settle("unknown-infra-env", recorded.len(), &found, &[&[VARY, NOSNIFF]]);
}
