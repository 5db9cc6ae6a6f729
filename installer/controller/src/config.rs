//! The environment that the Job in the cluster gives.

use api::{ClusterId, Secret};
use node_certificates::Approval;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// Where the Secret is mounted.
pub const TOKEN_FILE: &str = "/etc/assisted-installer-controller/token";
/// On a single node: the kubeconfig of the control plane's own clients.
pub const BOOTSTRAP_KUBECONFIG: &str = "/tmp/bootstrap-secrets/kubeconfig";
const TOKEN_VARIABLE: &str = "PULL_SECRET_TOKEN";
/// In the images' setting: the release's own collector.
const RELEASE: &str = "ocp";

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{0} is not set: the Job takes it from the ConfigMap assisted-installer-controller-config")]
    Missing(&'static str),
    #[error("{name}='{seen}' is not {wanted}")]
    Bad { name: &'static str, seen: String, wanted: &'static str },
    #[error("cannot read the token file {}", path.display())]
    Token { path: PathBuf, source: io::Error },
}

/// Settings of a controller.
#[derive(Clone, Debug)]
pub struct Config {
    pub cluster_id: ClusterId,
    /// Base URL of the service.
    pub url: String,
    pub token: Secret,
    pub insecure: bool,
    /// PEM bundle trusted in addition to the system's.
    pub ca_cert: Option<PathBuf>,
    pub openshift_version: String,
    /// Of this controller.
    pub namespace: String,
    /// 1 is a single node.
    pub control_plane_count: u32,
    /// Report the ClusterVersion as well.
    pub check_cluster_version: bool,
    pub must_gather: MustGatherImages,
    /// Count each node's boots once it is done.
    pub notify_num_reboots: bool,
    /// Which certificate requests are approved.
    pub approval: Approval,
}

impl Config {
    /// From variables; the token from `token_file`, or from a variable where there is no such file.
    ///
    /// # Errors
    ///
    /// A variable that is required and missing, or set to what it can't be, even to nothing where a number or a truth is wanted.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
        token_file: &Path,
        approval: Approval,
    ) -> Result<Self, ConfigError> {
        let required =
            |name: &'static str| variable(name).filter(|value| !value.is_empty()).ok_or(ConfigError::Missing(name));
        let truth = |name: &'static str| match variable(name) {
            None => Ok(false),
            Some(seen) => truth(&seen).ok_or(ConfigError::Bad { name, seen, wanted: "true or false" }),
        };
        let cluster_id = required("CLUSTER_ID")?;
        let cluster_id = cluster_id.parse().map_err(|_| ConfigError::Bad {
            name: "CLUSTER_ID",
            seen: cluster_id,
            wanted: "a cluster's id (a UUID)",
        })?;
        let control_plane_count = match variable("CONTROL_PLANE_COUNT") {
            None => 3,
            Some(seen) => seen.parse().map_err(|_| ConfigError::Bad {
                name: "CONTROL_PLANE_COUNT",
                seen,
                wanted: "a number of control plane nodes",
            })?,
        };
        let text = |name| variable(name).unwrap_or_default();
        let optional = |name| variable(name).filter(|value| !value.is_empty());
        Ok(Self {
            cluster_id,
            url: required("INVENTORY_URL")?,
            token: token(token_file, variable(TOKEN_VARIABLE))?,
            insecure: truth("SKIP_CERT_VERIFICATION")?,
            ca_cert: optional("CA_CERT_PATH").map(PathBuf::from),
            openshift_version: required("OPENSHIFT_VERSION")?,
            namespace: optional("NAMESPACE").unwrap_or_else(|| "assisted-installer".to_owned()),
            control_plane_count,
            check_cluster_version: truth("CHECK_CLUSTER_VERSION")?,
            must_gather: MustGatherImages::parse(&text("MUST_GATHER_IMAGE")),
            notify_num_reboots: truth("NOTIFY_NUM_REBOOTS")?,
            approval,
        })
    }

    pub fn is_single_node(&self) -> bool {
        self.control_plane_count == 1
    }
}

/// As Go's `strconv.ParseBool` reads it: installers write these values with Go.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// An existing file counts, even an empty one.
fn token(file: &Path, variable: Option<String>) -> Result<Secret, ConfigError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Secret::new(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Secret::new(variable.unwrap_or_default())),
        Err(source) => Err(ConfigError::Token { path: file.to_owned(), source }),
    }
}

/// Images that collect what is needed to find a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MustGatherImages {
    /// The release's own, which the cluster knows.
    Release,
    One(String),
    /// By operator, as the service names it; `ocp` for the release.
    ByOperator(BTreeMap<String, String>),
}

impl MustGatherImages {
    fn parse(text: &str) -> Self {
        #[derive(Deserialize)]
        struct Images(BTreeMap<String, String>);
        match serde_json::from_str(text) {
            _ if text.is_empty() => Self::Release,
            Ok(Images(images)) => Self::ByOperator(images),
            Err(_) => Self::One(text.to_owned()),
        }
    }

    /// Those to run: of the release where the installation failed, and of each operator that failed and has one. An empty name, also where
    /// there is none for the release, stands for the release's own, which the cluster knows.
    pub fn choose(&self, has_failed: bool, operators: &[String]) -> Vec<String> {
        let images = match self {
            Self::Release => return vec![String::new()],
            Self::One(image) => return vec![image.clone()],
            Self::ByOperator(images) => images,
        };
        let release = has_failed.then(|| images.get(RELEASE).cloned().unwrap_or_default());
        let of_operators = operators.iter().filter_map(|name| images.get(name)).filter(|image| !image.is_empty());
        release.into_iter().chain(of_operators.cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;

    const ID: &str = "1d0f3b5e-8f0c-4d35-9a3e-0a6a1f0e9d11";

    fn config(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let base = [("CLUSTER_ID", ID), ("INVENTORY_URL", "http://192.0.2.1:8090"), ("OPENSHIFT_VERSION", "4.20.1")];
        let find = |name: &str| {
            let own = pairs.iter().rev().find(|(key, _)| *key == name);
            own.or_else(|| base.iter().find(|(key, _)| *key == name)).map(|(_, value)| (*value).to_owned())
        };
        Config::from_variables(find, Path::new("/nonexistent/token"), Approval::default())
    }

    #[test]
    fn defaults_are_those_of_the_job() {
        let config = config(&[]).unwrap();
        assert_eq!((config.control_plane_count, config.namespace.as_str()), (3, "assisted-installer"));
        assert!(!config.insecure && !config.check_cluster_version && !config.notify_num_reboots);
        assert_eq!(config.must_gather, MustGatherImages::Release);
        assert!(config.token.is_empty());
    }

    #[test]
    fn a_value_that_cannot_be_read_is_refused_by_name() {
        for (name, value) in [
            ("SKIP_CERT_VERIFICATION", ""),
            ("CHECK_CLUSTER_VERSION", "yes"),
            ("CONTROL_PLANE_COUNT", ""),
            ("CONTROL_PLANE_COUNT", "-1"),
            ("CLUSTER_ID", "x"),
            ("INVENTORY_URL", ""),
        ] {
            let error = config(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        assert!(config(&[("CHECK_CLUSTER_VERSION", "True")]).unwrap().check_cluster_version);
    }

    #[test]
    fn the_token_is_that_of_the_file_if_there_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let read = |variable: Option<&str>| token(&file, variable.map(str::to_owned)).unwrap().expose().to_owned();
        assert_eq!((read(Some("env")).as_str(), read(None).as_str()), ("env", ""));
        for (text, wanted) in [("my-secret-token", "my-secret-token"), ("  padded\n", "padded"), ("", ""), (" \n", "")]
        {
            fs::write(&file, text).unwrap();
            assert_eq!((read(Some("env")).as_str(), read(None).as_str()), (wanted, wanted));
        }
        assert!(token(directory.path(), Some("env".into())).is_err(), "what can't be read is not skipped");
    }

    #[test]
    fn images_are_one_or_by_operator() {
        let map = MustGatherImages::parse(r#"{"ocp":"o","cnv":"c","lso":"l"}"#);
        assert_eq!(map.choose(true, &["cnv".into(), "odf".into()]), ["o", "c"]);
        assert_eq!(map.choose(false, &["lso".into()]), ["l"]);
        assert_eq!(MustGatherImages::parse("quay.io/x:1").choose(false, &[]), ["quay.io/x:1"]);
        assert_eq!(MustGatherImages::parse("").choose(true, &[]), [""]);
        assert_eq!(
            MustGatherImages::parse(r#"{"cnv":"c"}"#).choose(true, &[]),
            [""],
            "no image is not an image without a name"
        );
    }
}
