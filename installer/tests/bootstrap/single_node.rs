//! The config of a single node's disk.

use super::*;
use installer::bootstrap::{BootstrapError, single_node_ignition, wait_for_bootkube};

const MASTER: &str = "/opt/openshift/master.ign";

fn service() -> FakeService {
    FakeService::start(|request| match request.path.as_str() {
        path if path.starts_with("/v2/infra-env/") && path.ends_with("/downloads/ignition") => Answer::Text(
            200,
            r#"{"ignition":{"version":"3.4.0","config":{"merge":[{"source":"https://api-int:22623/config/master"}]}},
               "storage":{"files":[{"path":"/etc/hostname","mode":420,"overwrite":true,"contents":{"source":"data:,node-1"}},
               {"path":"/etc/motd","append":[{"source":"data:,appended"}]}]}}"#,
        ),
        _ => not_found(request),
    })
}

#[test]
fn what_bootkube_made_and_what_the_host_is_come_together_once() {
    let service = service();
    let setup = Setup::new(&service, |request| request["control_plane_count"] = 1.into());
    let host = host();
    let made =
        r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,a"}}]}}"#;
    put(&host, MASTER, made);
    let first = single_node_ignition(&host, &setup.context(), &Cancel::default()).unwrap();
    assert_eq!((fs::read(path(&host, MASTER)).unwrap(), mode(&host, MASTER)), (first.clone(), 0o600));
    let config: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(config["ignition"], json!({"version": "3.4.0"}));
    let files = config["storage"]["files"].as_array().unwrap();
    let paths: Vec<_> = files.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/etc/a", "/etc/hostname", "/etc/motd"]);
    // Killed after it, and run again.
    let second = single_node_ignition(&host, &setup.context(), &Cancel::default()).unwrap();
    assert_eq!(String::from_utf8(first).unwrap(), String::from_utf8(second).unwrap());
}

#[test]
fn nothing_made_is_an_error_that_says_so() {
    let service = service();
    let error = single_node_ignition(&host(), &Setup::new(&service, |_| {}).context(), &Cancel::default()).unwrap_err();
    assert!(matches!(error, BootstrapError::NoMasterIgnition { .. }), "{error}");
    assert!(error.to_string().ends_with("/opt/openshift/master.ign"), "{error}");
    assert!(service.requests().is_empty());
}

#[test]
fn bootkube_is_waited_for() {
    let service = service();
    let host = Arc::new(host());
    let setup = Setup::new(&service, |_| {});
    let other = host.clone();
    let later = thread::spawn(move || {
        thread::sleep(Duration::from_millis(30));
        put(&other, "/opt/openshift/.bootkube.done", "");
    });
    wait_for_bootkube(&*host, &setup.context(), &Cancel::default()).unwrap();
    later.join().unwrap();
    let setup = Setup { pace: SLOW, ..setup };
    let host = super::host();
    ends_when_cancelled(
        || true,
        |cancel| matches!(wait_for_bootkube(&host, &setup.context(), cancel), Err(BootstrapError::Cancelled(_))),
    );
}
