//! The service: its client blocks, and runs beside the tasks.

use crate::{clock::End, config::Config};
use api::{
    Client, ClientConfig, ClientError, ClusterId, HostId, HostProgress, HostStage, InfraEnvId, LogsState, RetryPolicy,
    endpoint::{
        COMPLETE_INSTALLATION, DOWNLOAD_CLUSTER_CREDENTIALS, GET_CLUSTER, LIST_MONITORED_OPERATORS,
        REPORT_MONITORED_OPERATOR, TRIGGER_EVENT, UPDATE_CLUSTER_PROGRESS, UPLOAD_CLUSTER_INGRESS_CERT,
    },
    http::HttpConfig,
    proxy::ProxyVariables,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// A list of operators is good for so long.
const OPERATORS_FRESH: Duration = Duration::from_secs(20);
/// Manifests made for operators, as the service names the file.
const CUSTOM_MANIFESTS: &str = "custom_manifests.json";

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the answer is not what the API describes: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("the call was lost: {0}")]
    Lost(String),
    #[error("no call is made any more: the work has ended")]
    Over,
}

impl ServiceError {
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Client(error) => error.status(),
            _ => None,
        }
    }
}

/// One cluster of the service. Clones share connections and what is known.
#[derive(Clone)]
pub(crate) struct Service {
    client: Client,
    cluster: ClusterId,
    operators: Arc<Mutex<Option<Known>>>,
    operators_fresh: Duration,
    end: End,
    is_there_to_the_end: bool,
}

/// An archive that attempts to upload it share.
#[derive(Clone)]
struct Archive(Arc<Vec<u8>>);

impl AsRef<[u8]> for Archive {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Operators, and when they were read.
type Known = (Instant, Vec<MonitoredOperator>);

/// What the service knows of an operator that it waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct MonitoredOperator {
    #[serde(default)]
    pub(crate) name: String,
    /// `builtin` or `olm`.
    #[serde(default)]
    pub(crate) operator_type: String,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    #[serde(default)]
    pub(crate) subscription_name: Option<String>,
    /// `available`, `progressing`, `failed` or empty.
    #[serde(default)]
    pub(crate) status: Option<String>,
    #[serde(default)]
    pub(crate) status_info: Option<String>,
    #[serde(default)]
    pub(crate) version: Option<String>,
}

impl MonitoredOperator {
    pub(crate) fn is(&self, status: &str) -> bool {
        self.status.as_deref() == Some(status)
    }

    /// It may still come up.
    pub(crate) fn is_pending(&self) -> bool {
        !self.is("available") && !self.is("failed")
    }
}

/// What is reported of an operator. Empty members are left out: the service keeps what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct OperatorReport {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) status_info: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
}

impl Service {
    /// Connects nothing yet. No call outlasts the work if the service does not, nor this process if that is asked to end.
    pub(crate) fn new(
        config: &Config,
        proxies: ProxyVariables,
        retry: RetryPolicy,
        speed: u32,
        end: End,
        is_there_to_the_end: bool,
    ) -> Result<Self, ServiceError> {
        let client = ClientConfig {
            url: config.url.clone(),
            token: config.token.clone(),
            http: HttpConfig { ca_cert: config.ca_cert.clone(), insecure: config.insecure, proxies: Some(proxies) },
            ..ClientConfig::default()
        };
        Ok(Self {
            client: Client::new(&client, retry)?,
            cluster: config.cluster_id,
            operators: Arc::default(),
            operators_fresh: OPERATORS_FRESH / speed.max(1),
            end,
            is_there_to_the_end,
        })
    }

    /// The cluster's document, with or without its hosts: megabytes with them.
    pub(crate) async fn cluster(&self, with_hosts: bool) -> Result<Vec<u8>, ServiceError> {
        let target = GET_CLUSTER.at(&[&self.cluster]).with("exclude-hosts", !with_hosts);
        self.call(move |client| client.file(&target)).await
    }

    pub(crate) async fn put_host_stage(
        &self,
        infra_env: InfraEnvId,
        host: HostId,
        stage: HostStage,
    ) -> Result<(), ServiceError> {
        let progress = HostProgress { current_stage: stage, progress_info: String::new() };
        self.call(move |client| client.put_progress(infra_env, host, &progress)).await
    }

    pub(crate) async fn put_finalizing_stage(&self, stage: &'static str) -> Result<(), ServiceError> {
        let target = UPDATE_CLUSTER_PROGRESS.at(&[&self.cluster]);
        let body = json!({ "finalizing_stage": stage });
        self.call(move |client| client.send(&target, Some(&body)).map(drop)).await
    }

    /// Operators as they were known at most 20 s ago.
    pub(crate) async fn operators(&self) -> Result<Vec<MonitoredOperator>, ServiceError> {
        let mut known = self.operators.lock().await;
        if let Some((at, operators)) = &*known
            && at.elapsed() < self.operators_fresh
        {
            return Ok(operators.clone());
        }
        let operators = self.operators_now().await?;
        *known = Some((Instant::now(), operators.clone()));
        Ok(operators)
    }

    /// Operators as they are known now.
    pub(crate) async fn operators_now(&self) -> Result<Vec<MonitoredOperator>, ServiceError> {
        let target = LIST_MONITORED_OPERATORS.at(&[&self.cluster]);
        let list = self.call(move |client| client.document(&target)).await?;
        // The service writes an empty list as null, too.
        Ok(Option::<Vec<MonitoredOperator>>::deserialize(list)?.unwrap_or_default())
    }

    pub(crate) async fn report_operator(&self, report: &OperatorReport) -> Result<(), ServiceError> {
        let target = REPORT_MONITORED_OPERATOR.at(&[&self.cluster]);
        let body = serde_json::to_value(report)?;
        self.call(move |client| client.send(&target, Some(&body)).map(drop)).await
    }

    pub(crate) async fn upload_ingress_ca(&self, pem: &str) -> Result<(), ServiceError> {
        let target = UPLOAD_CLUSTER_INGRESS_CERT.at(&[&self.cluster]);
        let body = Value::from(pem);
        self.call(move |client| client.send(&target, Some(&body)).map(drop)).await
    }

    pub(crate) async fn complete(&self, body: &Value) -> Result<(), ServiceError> {
        let target = COMPLETE_INSTALLATION.at(&[&self.cluster]);
        let body = body.clone();
        self.call(move |client| client.send(&target, Some(&body)).map(drop)).await
    }

    /// An event of the cluster. `members` are added to it: host, severity, …
    pub(crate) async fn event(
        &self,
        name: &str,
        severity: &str,
        message: &str,
        members: Value,
    ) -> Result<(), ServiceError> {
        let target = TRIGGER_EVENT.at(&[]);
        let mut body = json!({
            "name": name, "category": "user", "severity": severity, "message": message,
            "cluster_id": self.cluster, "event_time": api::Timestamp::now(),
        });
        if let (Some(body), Value::Object(members)) = (body.as_object_mut(), members) {
            body.extend(members);
        }
        self.call(move |client| client.send(&target, Some(&body)).map(drop)).await
    }

    /// The manifests made for operators: a JSON list.
    pub(crate) async fn custom_manifests(&self) -> Result<Vec<u8>, ServiceError> {
        let cluster = self.cluster;
        self.call(move |client| client.cluster_file(cluster, CUSTOM_MANIFESTS)).await
    }

    /// An administrator's kubeconfig.
    pub(crate) async fn kubeconfig(&self) -> Result<Vec<u8>, ServiceError> {
        let target = DOWNLOAD_CLUSTER_CREDENTIALS.at(&[&self.cluster]).with("file_name", "kubeconfig-noingress");
        self.call(move |client| client.file(&target)).await
    }

    pub(crate) async fn put_logs_state(&self, state: LogsState) -> Result<(), ServiceError> {
        let cluster = self.cluster;
        self.call(move |client| client.put_cluster_logs_progress(cluster, state)).await
    }

    pub(crate) async fn upload_logs(&self, archive: Vec<u8>) -> Result<(), ServiceError> {
        let (cluster, archive) = (self.cluster, Archive(Arc::new(archive)));
        self.call(move |client| client.upload_controller_logs(cluster, archive)).await
    }

    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Client) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let client = self.client.session();
        let answer = async { tokio::task::spawn_blocking(move || call(&client)).await };
        tokio::select! {
            biased;
            () = self.over() => Err(ServiceError::Over),
            result = answer => Ok(result.map_err(|error| ServiceError::Lost(error.to_string()))??),
        }
    }

    /// Returns when calls make no sense any more. One under way is left alone: its thread ends with the process.
    async fn over(&self) {
        match self.is_there_to_the_end {
            true => self.end.stopped().await,
            false => self.end.wait().await,
        }
    }
}
