//! Pods: a controller with the files and variables that its Job gives it, in the namespace of the server.

use crate::net::Namespace;
use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
};
use tempfile::TempDir;

const POD: &str = include_str!("pod.sh");
/// What the service knows the controller by.
pub(crate) const TOKEN: &str = "dummy";

/// What a pod is made of.
pub(crate) struct Plan<'a> {
    /// Program and arguments.
    pub program: &'a [String],
    pub cluster: &'a str,
    /// URL of the service.
    pub service: &'a str,
    /// URL of the API server, the authority that its certificate is signed by, and the token of the pod's account.
    pub kubernetes: (&'a str, &'a str, &'a str),
}

pub(crate) struct Pod {
    child: Child,
    directory: TempDir,
    name: String,
}

impl Pod {
    /// `name` is that of its log among the traces.
    pub(crate) fn start(namespace: &Namespace, name: &str, plan: &Plan<'_>) -> Self {
        let directory = tempfile::Builder::new().prefix("peers-pod-").tempdir_in("/dev/shm").unwrap();
        let at = |name: &str| directory.path().join(name);
        let (url, ca, token) = plan.kubernetes;
        fs::create_dir(at("serviceaccount")).unwrap();
        for (file, text) in [("token", token), ("ca.crt", ca), ("namespace", "assisted-installer")] {
            fs::write(at("serviceaccount").join(file), text).unwrap();
        }
        fs::write(at("token"), TOKEN).unwrap();
        fs::create_dir(at("scratch")).unwrap();
        let (host, port) = url.trim_start_matches("https://").split_once(':').unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace.0]);
        command.args(["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--propagation", "private"]);
        command.args(["sh", "-c", POD, "pod"]).args(plan.program).env_clear();
        for (variable, value) in [
            ("CHECK_CLUSTER_VERSION", "true"),
            ("CLUSTER_ID", plan.cluster),
            ("CONTROL_PLANE_COUNT", "3"),
            ("HOME", "/"),
            ("INVENTORY_URL", plan.service),
            ("KUBERNETES_SERVICE_HOST", host),
            ("KUBERNETES_SERVICE_PORT", port),
            ("MUST_GATHER_IMAGE", ""),
            ("NOTIFY_NUM_REBOOTS", "false"),
            ("OPENSHIFT_VERSION", "4.22.9"),
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("SKIP_CERT_VERIFICATION", "false"),
        ] {
            command.env(variable, value);
        }
        command.env("POD", directory.path()).env("SCRATCH", at("scratch"));
        let log = fs::File::create(at("log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Self { child, directory, name: name.to_owned() }
    }

    /// None while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn log_end(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        crate::report::keep(&self.log(), &self.name);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
