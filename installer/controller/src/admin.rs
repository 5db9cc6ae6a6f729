//! What needs an administrator's rights: applying operators' manifests, collecting what shows a fault, counting boots. The kubeconfig for it
//! comes from the service, once, and stays in memory.

use crate::{
    cluster::{CallError, Cluster, LoginError, downloaded},
    service::{Service, ServiceError},
};
use api::proxy::ProxyVariables;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::Mutex;

#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    #[error("no kubeconfig from the service")]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Call(#[from] CallError),
}

/// An administrator's access to the cluster. Clones are the same.
#[derive(Clone)]
pub(crate) struct Admin(Arc<Inner>);

struct Inner {
    service: Service,
    proxies: ProxyVariables,
    /// On a single node of the agent-based installer, where there is no service.
    given: Option<PathBuf>,
    /// Of a call to the cluster.
    deadline: Duration,
    cluster: Mutex<Option<Cluster>>,
}

impl Admin {
    pub(crate) fn new(service: Service, proxies: ProxyVariables, given: Option<PathBuf>, deadline: Duration) -> Self {
        Self(Arc::new(Inner { service, proxies, given, deadline, cluster: Mutex::new(None) }))
    }

    /// The cluster. A failure is not remembered.
    pub(crate) async fn cluster(&self) -> Result<Cluster, AdminError> {
        let mut known = self.0.cluster.lock().await;
        if let Some(cluster) = &*known {
            return Ok(cluster.clone());
        }
        let config = match &self.0.given {
            Some(path) => crate::cluster::Login::Kubeconfig(path.clone()).config(&self.0.proxies).await?,
            None => downloaded(&self.0.service.kubeconfig().await?, &self.0.proxies).await?,
        };
        let cluster = Cluster::new(config, self.0.deadline)?;
        *known = Some(cluster.clone());
        Ok(cluster)
    }
}
