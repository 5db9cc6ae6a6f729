//! How to reach the cluster, and as whom.

use api::proxy::{Choice, ProxyVariables};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A larger file is not a kubeconfig: with its certificates one has some ten KiB.
const MAX_KUBECONFIG_BYTES: u64 = 4 << 20;

/// Why the cluster can't be reached.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("cannot use the kubeconfig {}", path.display())]
    Kubeconfig { path: PathBuf, source: Box<kube::config::KubeconfigError> },
    #[error("cannot read the kubeconfig {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} has {len} bytes: it is not a kubeconfig", path.display())]
    TooLarge { path: PathBuf, len: u64 },
    /// The cause may quote it, and it has an administrator's key.
    #[error("the kubeconfig that the service gave cannot be used")]
    Downloaded,
    #[error("this is not a pod with a service account: give --kubeconfig outside of a cluster")]
    InCluster { source: Box<kube::config::InClusterError> },
    #[error("cannot set up the client of the Kubernetes API")]
    Client { source: Box<kube::Error> },
    #[error("{variable} names a proxy that cannot be used: {url}")]
    Proxy { variable: &'static str, url: String },
}

/// As whom.
#[derive(Clone, Debug)]
pub enum Login {
    /// The service account of this pod.
    InCluster,
    Kubeconfig(PathBuf),
}

impl Login {
    /// The kubeconfig where that exists, else the service account.
    pub fn choose(kubeconfig: &Path) -> Self {
        if kubeconfig.exists() { Self::Kubeconfig(kubeconfig.to_owned()) } else { Self::InCluster }
    }

    /// What a client is made of.
    pub async fn config(&self, proxies: &ProxyVariables) -> Result<Config, LoginError> {
        let config = match self {
            Self::InCluster => {
                Config::incluster().map_err(|source| LoginError::InCluster { source: Box::new(source) })?
            }
            Self::Kubeconfig(path) => {
                let failed = |source| LoginError::Kubeconfig { path: path.clone(), source: Box::new(source) };
                let read = |source| LoginError::Read { path: path.clone(), source };
                let len = std::fs::metadata(path).map_err(read)?.len();
                if len > MAX_KUBECONFIG_BYTES {
                    return Err(LoginError::TooLarge { path: path.clone(), len });
                }
                let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(failed)?
            }
        };
        bounded(config, proxies)
    }
}

/// What a client is made of, by the text of a kubeconfig.
pub async fn downloaded(text: &[u8], proxies: &ProxyVariables) -> Result<Config, LoginError> {
    let kubeconfig = Kubeconfig::from_yaml(&String::from_utf8_lossy(text)).map_err(|_| LoginError::Downloaded)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.map_err(|_| LoginError::Downloaded)?;
    bounded(config, proxies)
}

fn bounded(mut config: Config, proxies: &ProxyVariables) -> Result<Config, LoginError> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // The tasks have their own pauses.
    config.default_retry = false;
    config.proxy_url = match proxies.choose(&config.cluster_url) {
        Choice::Impossible { variable, url } => return Err(LoginError::Proxy { variable, url }),
        choice => choice.server().map(|server| server.url().clone()),
    };
    Ok(config)
}
