//! A bootstrap host against a fake machine, a fake service and a fake control plane.
#![allow(clippy::unwrap_used)]

use crate::machine;

mod configuring;
mod kube;
mod single_node;
mod start;
mod wait;

use api::{Client, InstallRequest, RetryPolicy, ServiceDocument};
use fake_service::{Answer, FakeService, Request};
use installer::bootstrap::{Context, Pace};
use kernel::Cancel;
use machine::FakeHost;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

const CLUSTER: &str = "11111111-2222-3333-4444-555555555555";
const OWN: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const INFRA_ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";

const PACE: Pace = Pace {
    poll: Duration::from_millis(2),
    file_retry: Duration::from_millis(2),
    file_patience: fake_service::PATIENCE,
    controller_logs: Duration::from_millis(6),
    workers_poll: Duration::from_millis(2),
    configuring_poll: Duration::from_millis(2),
};

/// Waits that nobody sits through.
const SLOW: Pace = Pace {
    poll: Duration::from_secs(3600),
    file_retry: Duration::from_secs(3600),
    file_patience: Duration::from_secs(36000),
    controller_logs: Duration::from_secs(3600),
    workers_poll: Duration::from_secs(3600),
    configuring_poll: Duration::from_secs(3600),
};

/// A request, and how to reach a service.
struct Setup {
    request: InstallRequest,
    service: ServiceDocument,
    client: Client,
    pace: Pace,
}

impl Setup {
    fn new(service: &FakeService, change: impl Fn(&mut Value)) -> Self {
        let mut request = json!({
            "boot_device": "/dev/landfall-test-disk", "check_cvo": true, "cluster_id": CLUSTER, "control_plane_count": 3,
            "controller_image": "r.io/controller:1", "disks_to_format": [], "host_id": OWN, "infra_env_id": INFRA_ENV,
            "installer_image": "r.io/i:1", "must_gather_image": "{\"ocp\":\"r.io/mg:1\"}", "openshift_version": "4.22.9",
            "role": "bootstrap", "service_ips": null
        });
        change(&mut request);
        let how = json!({"url": service.url, "token": "t0ken: '\"#", "ca_cert": null, "insecure": true});
        let how: ServiceDocument = serde_json::from_value(how).unwrap();
        let client = Client::new(&how.client_config(), RetryPolicy::Never).unwrap();
        Self { request: serde_json::from_value(request).unwrap(), service: how, client, pace: PACE }
    }

    /// What a service retries is tested with its client.
    fn context(&self) -> Context<'_> {
        let (patient, brief) = (&self.client, &self.client);
        Context { request: &self.request, service: &self.service, patient, brief, pace: self.pace }
    }
}

fn host() -> FakeHost<'static> {
    FakeHost::new(|_, _, _| panic!("nothing is written to disks here"))
}

fn path(host: &FakeHost<'_>, path: &str) -> PathBuf {
    host.root.path().join(path.trim_start_matches('/'))
}

fn put(host: &FakeHost<'_>, at: &str, text: &str) {
    fs::create_dir_all(path(host, at).parent().unwrap()).unwrap();
    fs::write(path(host, at), text).unwrap();
}

fn text(host: &FakeHost<'_>, at: &str) -> String {
    fs::read_to_string(path(host, at)).unwrap_or_else(|error| panic!("{at}: {error}"))
}

fn mode(host: &FakeHost<'_>, at: &str) -> u32 {
    fs::metadata(path(host, at)).unwrap().permissions().mode() & 0o7777
}

/// Runs `wait`, cancels it a while after it is `there`, and sees that it ends; by itself it would not for hours.
fn ends_when_cancelled(there: impl Fn() -> bool + Send + 'static, wait: impl FnOnce(&Cancel) -> bool) {
    let cancel = Cancel::default();
    let canceller = cancel.clone();
    let thread = thread::spawn(move || {
        let _ = testkit::wait::comes(there);
        thread::sleep(Duration::from_millis(60));
        canceller.cancel();
    });
    assert!(wait(&cancel));
    thread.join().unwrap();
}

/// Hosts of a cluster as the service tells of them.
fn member(number: u8, role: &str) -> Value {
    json!({
        "id": format!("aaaaaaaa-0000-0000-0000-00000000000{number}"), "infra_env_id": INFRA_ENV, "role": role,
        "status": "installing-in-progress", "requested_hostname": format!("node-{number}"),
        "progress": {"current_stage": "Rebooting"},
        "inventory": json!({"hostname": format!("node-{number}"), "interfaces": [
            {"ipv4_addresses": [format!("10.0.0.{number}/24")], "ipv6_addresses": [format!("fd00::{number}/64")]}]}).to_string(),
    })
}

/// What a test changes while servers answer by it.
#[derive(Clone, Default)]
struct Shared<T>(Arc<Mutex<T>>);

impl<T: Clone> Shared<T> {
    fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    fn get(&self) -> T {
        self.0.lock().unwrap().clone()
    }

    fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.0.lock().unwrap());
    }
}

fn not_found(_: &Request) -> Answer {
    Answer::Json(404, json!({"code": "404", "href": "", "id": 404, "kind": "Error", "reason": "not found"}))
}
