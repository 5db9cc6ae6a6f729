//! What fails, is stopped, or is interrupted.

use crate::preparing::rack::{Rack, Site, preparation, secret, slow};
use installer_double::{Behaviour, Fault};
use std::path::Path;
use testkit::wait;

/// Longer than any test waits.
const HOUR_MS: u64 = 3_600_000;

fn failing(command: &str, characters: usize) -> Behaviour {
    let fault =
        Fault { command: Some(command.into()), output_chars: characters, exit_code: Some(1), ..Fault::default() };
    Behaviour { faults: vec![fault], ..Behaviour::default() }
}

fn await_call(site: &Site, command: &str) -> u32 {
    let called = || Some(site.double.calls().unwrap().iter().rev().find(|call| call.arguments[1] == command)?.pid);
    wait::found(called).unwrap_or_else(|| panic!("{command} was not called"))
}

/// Whether a process runs that is the double.
fn runs(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    name.contains("openshift-install")
}

fn await_end(pid: u32) {
    assert!(wait::comes(|| !runs(pid)), "process {pid} still runs");
}

#[test]
fn a_failure_has_a_short_reason_and_can_be_repeated() {
    let site = Site::start(&failing("ignition-configs", 5000));
    let rack = Rack::ready(&site, 10, 3, 3);
    rack.install(&site);
    let cluster = site.until("failed", &rack, |cluster| preparation(cluster) == "failed");
    let reason = cluster["last-installation-preparation"]["reason"].as_str().unwrap().to_owned();
    let begin = format!(
        "failed generating install config for cluster {}: error running openshift-install ignition-configs,  ",
        rack.cluster
    );
    assert!(reason.starts_with(&begin) && reason.ends_with(" <TRUNCATED>: exit status 1"), "{reason}");
    assert_eq!(reason.len(), begin.len() + 500 + " <TRUNCATED>: exit status 1".len());
    let events = site.events(&rack);
    let event = events.iter().find(|(name, _)| name == "prepare_installation_failed").unwrap();
    assert!(event.1.contains(&reason), "{}", event.1);
    assert!(!events.iter().any(|(name, _)| name == "cluster_prepare_installation_started"));
    let cluster = site.until("ready again", &rack, |cluster| cluster["status"] == "ready");
    assert_eq!(cluster["last-installation-preparation"]["reason"], reason, "it stays");
    assert_eq!(site.file(&rack, "bootstrap.ign").unwrap_err(), 409);
    assert!(site.leftovers().is_empty() && !Path::new(&site.state().join("clusters")).exists());

    site.double.behave(&Behaviour::default()).unwrap();
    rack.install(&site);
    site.until("installing", &rack, |cluster| cluster["status"] == "installing");
    assert!(site.file(&rack, "bootstrap.ign").is_ok());
}

#[test]
fn a_cancelled_preparation_ends_its_program() {
    let site = Site::start(&slow("manifests", HOUR_MS));
    let rack = Rack::ready(&site, 11, 3, 3);
    rack.install(&site);
    let pid = await_call(&site, "manifests");
    let cancel = format!("{}/v2/clusters/{}/actions/cancel", site.client_url(), rack.cluster);
    ureq::post(cancel).send_empty().unwrap();
    await_end(pid);
    let cluster = site.until("ready", &rack, |cluster| cluster["status"] == "ready");
    assert_ne!(preparation(&cluster), "success");
    assert!(wait::comes(|| site.leftovers().is_empty()), "{:?}", site.leftovers());
    site.double.behave(&Behaviour::default()).unwrap();
    rack.install(&site);
    site.until("installing", &rack, |cluster| cluster["status"] == "installing");
}

/// Two clusters at once, of which one fails, in a service that is killed in each phase of a run.
#[test]
fn a_killed_service_prepares_both_clusters_again() {
    for (network, command) in [(20, "manifests"), (30, "ignition-configs")] {
        let mut site = Site::start(&slow(command, HOUR_MS));
        let racks = [network, network + 1].map(|network| Rack::ready(&site, network, 3, 3));
        racks.iter().for_each(|rack| rack.install(&site));
        let pid = await_call(&site, command);
        site.kill();
        await_end(pid);
        assert!(!site.leftovers().is_empty(), "the kill came in the middle");
        // One of them fails from now on: its manifest is not what its patch wants.
        let seen = site.double.calls().unwrap().len();
        site.double.behave(&Behaviour::default()).unwrap();
        site.resume();
        for rack in &racks {
            site.until("installing", rack, |cluster| cluster["status"] == "installing");
        }
        let calls = site.double.calls().unwrap();
        assert_eq!(calls.len() - seen, 4, "each cluster is prepared once more");
        assert!(site.leftovers().is_empty(), "{:?}", site.leftovers());
        let ids = racks.each_ref().map(|rack| site.json(rack, "metadata.json")["clusterID"].clone());
        assert_ne!(ids[0], ids[1]);
        // No run has seen what is the other cluster's.
        for call in calls.iter().filter(|call| call.arguments[1] == "manifests") {
            let name = call.install_config["metadata"]["name"].as_str().unwrap();
            let own: u8 = name.strip_prefix("rack-").unwrap().parse().unwrap();
            assert_eq!(call.install_config["pullSecret"], secret(own));
            let all = format!("{:?} {}", call.environment, call.install_config);
            let other = if own == network { own + 1 } else { network };
            assert!(!all.contains(&format!("registry-{other}.")) && !all.contains(&format!("rack-{other}\"")), "{all}");
        }
    }
}

#[test]
fn one_cluster_fails_and_the_other_does_not_notice() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let site = Site::start(&slow("manifests", 500));
    let (bad, good) = (Rack::ready(&site, 40, 3, 3), Rack::ready(&site, 41, 3, 3));
    let patch = STANDARD.encode("- op: remove\n  path: /nowhere\n");
    let body = serde_json::json!({"file_name": "nothing.yaml.patch_1", "content": patch});
    let url = format!("{}/v2/clusters/{}/manifests", site.client_url(), bad.cluster);
    ureq::post(url).header("content-type", "application/json").send(body.to_string()).unwrap();
    bad.install(&site);
    good.install(&site);
    let failed = site.until("failed", &bad, |cluster| preparation(cluster) == "failed");
    assert!(failed["last-installation-preparation"]["reason"].as_str().unwrap().contains("nothing.yaml"), "{failed}");
    site.until("installing", &good, |cluster| cluster["status"] == "installing");
    assert!(site.file(&good, "bootstrap.ign").is_ok());
    assert_eq!(site.file(&bad, "bootstrap.ign").unwrap_err(), 409);
}
