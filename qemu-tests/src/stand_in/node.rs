//! The kubelet: a node that gets its certificates, registers, and is ready a little later.

use super::{Role, Settings, address, machine_config, say};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use simulator::{CertificateRequest, Client, ClientError, certificates};
use std::{thread::sleep, time::Duration};

/// Between two tries of anything.
const RETRY: Duration = Duration::from_secs(1);
/// Between registering and being ready: a real one starts its network, and tests must see that the machine is being
/// configured.
const BECOMES_READY: Duration = Duration::from_secs(5);
/// A real machine boots once more before its kubelet starts, and takes minutes for it. The controller must see that it is being configured,
/// and reads the machine-config server's log every half a minute.
const BOOTS_ONCE_MORE: Duration = Duration::from_secs(60);
/// The sign that the controller runs.
const CONTROLLER_IS_READY: &str = "/api/v1/namespaces/assisted-installer/events/AssistedControllerIsReady";

pub(super) fn name() -> Result<String> {
    let name = nix::unistd::gethostname().context("asking for the host name")?;
    name.into_string().map_err(|name| anyhow::anyhow!("the host name {name:?} is not text"))
}

/// Registers and becomes ready; retries forever, as the API may come up at any time.
pub(super) fn run(settings: &Settings) -> Result<()> {
    let name = name()?;
    let address = until_done("find its address", address::local_address);
    let node = node(settings, &name, &address.to_string())?;
    let api = settings.client();
    if until_done("look for the controller", || api.find(CONTROLLER_IS_READY)).is_some() {
        sleep(BOOTS_ONCE_MORE);
    }
    await_approval(&api, &request(&api, &CertificateRequest::client(&name)));
    say(&format!("kubelet of {name} may log in"));
    until_done("register", || match api.create("/api/v1/nodes", &node) {
        Err(error) if error.status() == Some(409) => Ok(()),
        made => made.map(drop),
    });
    say(&format!("kubelet of {name} registered"));
    let serving = request(&api, &CertificateRequest::serving(&name, &[&address.to_string()]));
    sleep(BECOMES_READY);
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    until_done("become ready", || api.patch_status(&format!("/api/v1/nodes/{name}"), &ready));
    say(&format!("kubelet of {name} ready"));
    await_approval(&api, &serving);
    say(&format!("kubelet of {name} may serve"));
    Ok(())
}

fn request(api: &Client, request: &CertificateRequest) -> String {
    let pem = request.pem();
    until_done("request a certificate", || request.make(api, &pem))
}

/// Nobody issues certificates here.
fn await_approval(api: &Client, request: &str) {
    let path = format!("{}/{request}", certificates::REQUESTS);
    while !certificates::is_approved(&until_done("look at its request", || api.get(&path))) {
        sleep(RETRY);
    }
}

/// What somebody must do as long as no controller runs.
pub(super) fn approve_certificates(api: &Client) -> Result<(), ClientError> {
    for request in api.list(certificates::REQUESTS)? {
        if request["status"]["conditions"].is_null() {
            certificates::judge(api, request, "Approved")?;
        }
    }
    Ok(())
}

fn node(settings: &Settings, name: &str, address: &str) -> Result<Value> {
    let rendered = machine_config::rendered_name(settings.role);
    let label = match settings.role {
        Role::Master => "node-role.kubernetes.io/master",
        Role::Worker => "node-role.kubernetes.io/worker",
        Role::Bootstrap => bail!("a bootstrap host is not a node"),
    };
    let annotation = |what: &str| format!("machineconfiguration.openshift.io/{what}Config");
    Ok(json!({
        "metadata": {
            "name": name,
            "labels": {label: "", "kubernetes.io/hostname": name},
            "annotations": {annotation("current"): rendered, annotation("desired"): rendered},
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
                // There the API server finds the kubelet.
                {"type": "ExternalIP", "address": "127.0.0.1"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": settings.kubelet_port}},
            "conditions": [{"type": "Ready", "status": "False"}],
        },
    }))
}

fn until_done<T, E: std::fmt::Display>(what: &str, work: impl Fn() -> Result<T, E>) -> T {
    loop {
        match work() {
            Ok(done) => return done,
            Err(error) => eprintln!("cannot {what}, trying again: {error:#}"),
        }
        sleep(RETRY);
    }
}
