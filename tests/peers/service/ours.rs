//! `landfall serve` in a namespace, as users start it.

use super::{bootstrap_config, catalogue, host_config, requirements};
use crate::{
    site::{SERVER, SERVICE_PORT, Site, landfall},
    user::Api,
};
use serde_json::json;
use std::{
    fs::{self, File},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;

pub(crate) struct OurService {
    pub api: Api,
    process: Child,
    directory: TempDir,
}

impl OurService {
    /// `more` are options of it. With `--tls=self-signed` it is reached so.
    pub(crate) fn start(site: &Site, more: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("peers-ours-").tempdir_in("/tmp").unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("files")).unwrap();
        fs::write(at("files/bootstrap.ign"), bootstrap_config().to_string()).unwrap();
        for name in ["master.ign", "worker.ign", "arbiter.ign"] {
            fs::write(at("files").join(name), host_config().to_string()).unwrap();
        }
        for name in ["kubeconfig", "kubeconfig-noingress", "kubeadmin-password", "install-config.yaml"] {
            fs::write(at("files").join(name), name).unwrap();
        }
        let metadata = json!({"clusterID": "41940ee8-ec99-43de-8766-174381b4921d"});
        fs::write(at("files/metadata.json"), metadata.to_string()).unwrap();
        fs::write(at("requirements"), requirements().to_string()).unwrap();
        let (os_images, release_images) = catalogue();
        fs::write(at("os-images"), os_images.to_string()).unwrap();
        fs::write(at("release-images"), release_images.to_string()).unwrap();
        fs::write(
            at("must-gather"),
            json!({"4.22-x86_64": {"ocp": "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:3c7ecafe368dd4b6209005d8499821d8deec85d5a8e4539572151568c6c7fa94"}}).to_string(),
        )
        .unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &site.server.namespace.0]).arg(landfall()).arg("serve");
        let secure = more.contains(&"--tls=self-signed");
        let url = if secure { site.url().replace("http:", "https:") } else { site.url() };
        command.args(["--listen", &format!("0.0.0.0:{SERVICE_PORT}"), "--url", &url]);
        if !more.contains(&"--generate") {
            command.arg("--cluster-files").arg(at("files"));
        }
        for (option, name) in [
            ("--state-dir", "state"),
            ("--requirements", "requirements"),
            ("--os-images", "os-images"),
            ("--release-images", "release-images"),
            ("--must-gather-images", "must-gather"),
        ] {
            command.arg(option).arg(at(name));
        }
        // There is nothing at the addresses of the OS images.
        command.arg("--no-download");
        command.args(["--mco-image", "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:35855191065d777e85d53f903628d99ec5c829ee07c075d884a8b7d23c5790fd"]);
        command.args(more).env_remove("LANDFALL_LOG").stdin(Stdio::null());
        let log = File::create(at("log")).unwrap();
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let address = SocketAddr::new(SERVER.parse().unwrap(), SERVICE_PORT);
        let api = |authority: Option<&[u8]>| Api::new(&site.server.namespace, address, None, authority);
        let mut service = Self { api: api(None), process, directory };
        for _ in 0..600 {
            if secure && let Ok(authority) = fs::read(service.authority()) {
                service.api = api(Some(&authority));
            }
            if service.api.answers() {
                return service;
            }
            assert!(service.process.try_wait().unwrap().is_none(), "{}", service.log());
            thread::sleep(Duration::from_millis(100));
        }
        panic!("landfall serve does not get ready: {}", service.log());
    }

    /// The file of the authority that it makes for TLS.
    pub(crate) fn authority(&self) -> PathBuf {
        self.directory.path().join("state/tls-ca.pem")
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.directory.path().join("log")).unwrap()).into_owned()
    }

    /// Processor time that it has used so far, in ticks.
    pub(crate) fn ticks(&self) -> u64 {
        let worker = testkit::process::worker(self.process.id()).unwrap();
        let stat = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum()
    }
}

impl Drop for OurService {
    fn drop(&mut self) {
        crate::report::keep(&self.directory.path().join("log"), "service");
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
