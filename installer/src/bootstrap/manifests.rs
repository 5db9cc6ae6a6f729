//! Manifests that the temporary control plane carries into the cluster: the controller, and the key to the masters.

use super::{BootstrapError, Context, files};
use crate::controller_manifests::{self, Controller};
use serde_json::{Value, json};
use std::path::Path;

const DIR: &str = "/opt/openshift/manifests";
const SSH_KEY: &str = "/opt/openshift/openshift/99_openshift-machineconfig_99-assisted-installer-master-ssh.yaml";

/// Gives the holder of the bootstrap host's key access to the masters.
pub(super) fn write_ssh_key(root: &Path, key: &str) -> Result<(), BootstrapError> {
    let name = "99-assisted-installer-master-ssh";
    let manifest = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "master"}},
        "spec": {"config": {
            "ignition": {"version": "3.1.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [key]}]},
        }},
    });
    files::write(&files::below(root, SSH_KEY), &yaml(&manifest), 0o644)
}

/// The controller (docs/compatibility.md#controller).
pub(super) fn write_controller(root: &Path, ctx: &Context<'_>) -> Result<(), BootstrapError> {
    let (request, service) = (ctx.request, ctx.service);
    let controller = Controller {
        cluster_id: request.cluster_id,
        url: &service.url,
        insecure: service.insecure,
        ca_cert: service.ca_cert.as_deref(),
        check_cluster_version: request.check_cvo,
        control_plane_count: request.control_plane_count,
        must_gather_image: request.must_gather_image.as_deref().unwrap_or_default(),
        image: &request.controller_image,
        openshift_version: request.openshift_version.as_deref().unwrap_or_default(),
        notify_num_reboots: request.notify_num_reboots,
        service_ips: request.service_ips.as_deref().unwrap_or_default(),
        token: &service.token,
        approve_any: false,
    };
    let dir = files::below(root, DIR);
    for (name, manifest, mode) in controller_manifests::manifests(&controller) {
        files::write(&dir.join(name), &yaml(&manifest), mode)?;
    }
    Ok(())
}

/// JSON is also YAML, with every text quoted: readers of older YAML take a bare `on` or `1_0` for something else.
fn yaml(manifest: &Value) -> Vec<u8> {
    format!("{manifest:#}\n").into_bytes()
}
