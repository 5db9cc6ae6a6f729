//! The installer's controller, as far as hosts are concerned: says that it is ready, and reports to the service which
//! hosts have fetched their configs, joined, and are done (docs/compatibility.md#controller).

use super::{
    api::Serving,
    machine_config,
    objects::{NODES, config_map_path, is_ready},
    say,
};
use ::api::{Client, ClientConfig, ClusterId, Host, HostProgress, HostStage, RetryPolicy};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{fs, thread::sleep, time::Duration};

const NAMESPACE: &str = "assisted-installer";
/// What the installer's manifest is called.
const SETTINGS: &str = "assisted-installer-controller-config";
const POD: &str = "assisted-installer-controller-stand-in";
/// The real one takes thirty seconds.
const INTERVAL: Duration = Duration::from_secs(2);

/// Runs forever.
pub(super) fn run(serving: &Serving) {
    loop {
        match watch(serving) {
            Ok(()) => {}
            Err(error) => eprintln!("controller: {error:#}"),
        }
        sleep(INTERVAL);
    }
}

fn watch(serving: &Serving) -> Result<()> {
    let map = serving.with(|objects| objects.get(&config_map_path(NAMESPACE, SETTINGS)).cloned());
    let map = map.with_context(|| format!("no ConfigMap {SETTINGS}: the installer writes it"))?;
    let setting = |name: &str| map["data"][name].as_str().with_context(|| format!("{SETTINGS} has no {name}"));
    let cluster: ClusterId = serde_json::from_value(json!(setting("cluster-id")?)).context("cluster-id")?;
    let config = ClientConfig { url: setting("inventory-url")?.to_owned(), ..ClientConfig::default() };
    let client = Client::new(&config, RetryPolicy::Never)?;
    client.cluster_without_hosts(cluster).context("the service")?;
    serving.with(|objects| {
        let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let pod = json!({"metadata": {"name": POD, "namespace": NAMESPACE}, "status": {"phase": "Running"}});
        objects.put(&format!("{pods}/{POD}"), pod);
        objects.put_text(&format!("{pods}/{POD}/log"), "the stand-in's controller runs\n".to_owned());
        let name = "AssistedControllerIsReady";
        let event = json!({"metadata": {"name": name, "namespace": NAMESPACE}});
        objects.put(&format!("/api/v1/namespaces/{NAMESPACE}/events/{name}"), event);
    });
    say("controller ready");
    loop {
        let hosts = client.session().cluster(cluster).map(|cluster| cluster.hosts);
        match hosts {
            Ok(hosts) => hosts.iter().for_each(|host| look(serving, &client, host)),
            Err(error) => eprintln!("controller: {error}"),
        }
        sleep(INTERVAL);
    }
}

fn look(serving: &Serving, client: &Client, host: &Host) {
    let Some(stage) = host.progress.as_ref().and_then(|progress| progress.current_stage) else { return };
    let node = serving.with(|objects| objects.get(&format!("{NODES}/{}", host.requested_hostname)).cloned());
    for reached in next(stage, node.as_ref(), fetched_config(host)) {
        let progress = HostProgress { current_stage: reached, progress_info: String::new() };
        match client.session().put_progress(host.infra_env_id, host.id, &progress) {
            Ok(()) => say(&format!("controller: {} is {reached}", host.requested_hostname)),
            Err(error) => eprintln!("controller: {} is not {reached}: {error}", host.requested_hostname),
        }
    }
}

/// What to report for a host at `stage`.
fn next(stage: HostStage, node: Option<&Value>, fetched: bool) -> Vec<HostStage> {
    use HostStage as S;
    let on_its_way = matches!(stage, S::Rebooting | S::WaitingForIgnition | S::Configuring);
    match node {
        Some(node) if is_ready(node) && on_its_way => vec![S::Joined, S::Done],
        Some(node) if is_ready(node) && stage == S::Joined => vec![S::Done],
        Some(_) if on_its_way => vec![S::Joined],
        None if fetched && matches!(stage, S::Rebooting | S::WaitingForIgnition) => vec![S::Configuring],
        _ => Vec::new(),
    }
}

/// By the log of this machine's own server.
fn fetched_config(host: &Host) -> bool {
    let inventory: ::api::Inventory = serde_json::from_str(&host.inventory).unwrap_or_default();
    let log = fs::read_to_string(machine_config::LOG).unwrap_or_default();
    let addresses = inventory.interfaces.iter().flat_map(|nic| &nic.ipv4_addresses);
    let texts = addresses.filter_map(|address| address.split('/').next());
    texts
        .map(|address| format!("address:\"{address}:"))
        .any(|wanted| log.lines().any(|line| line.contains(&wanted) && line.contains("User-Agent:\"Ignition")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_go_on_with_what_their_nodes_do() {
        use HostStage as S;
        let node = |ready: &str| json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        assert_eq!(next(S::Rebooting, None, false), []);
        assert_eq!(next(S::Rebooting, None, true), [S::Configuring]);
        assert_eq!(next(S::Configuring, None, true), []);
        assert_eq!(next(S::Rebooting, Some(&node("False")), true), [S::Joined]);
        assert_eq!(next(S::Configuring, Some(&node("True")), true), [S::Joined, S::Done]);
        assert_eq!(next(S::Joined, Some(&node("False")), true), []);
        assert_eq!(next(S::Joined, Some(&node("True")), true), [S::Done]);
        assert_eq!(next(S::Done, Some(&node("True")), true), []);
        assert_eq!(
            next(S::WritingImageToDisk, Some(&node("True")), true),
            [],
            "a node of that name from an earlier life"
        );
    }
}
