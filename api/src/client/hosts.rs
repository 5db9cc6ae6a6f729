//! Requests of agent and installer about their host, and users' settings of hosts.

use super::{Client, error::ClientError};
use crate::endpoint::{
    DOWNLOAD_HOST_IGNITION, GET_NEXT_STEPS, LIST_HOSTS, POST_STEP_REPLY, REGISTER_HOST, UPDATE_HOST,
    UPDATE_HOST_IGNITION, UPDATE_HOST_LOGS_PROGRESS, UPDATE_HOST_PROGRESS,
};
use crate::{
    Host, HostCreateParams, HostId, HostProgress, HostRegistration, HostUpdateParams, InfraEnvId, LogsState, StepReply,
    Steps, Timestamp,
};

impl Client {
    /// Registers a host, or registers it again.
    pub fn register_host(
        &self,
        infra_env: InfraEnvId,
        params: &HostCreateParams,
    ) -> Result<HostRegistration, ClientError> {
        self.exchange(&REGISTER_HOST.at(&[&infra_env]), params)
    }

    /// Polls for instructions, with our clock for the service's skew check.
    pub fn next_steps(&self, infra_env: InfraEnvId, host: HostId) -> Result<Steps, ClientError> {
        self.get(&GET_NEXT_STEPS.at(&[&infra_env, &host]).with("timestamp", Timestamp::now().unix_seconds()))
    }

    /// Sends a step's reply.
    pub fn post_reply(&self, infra_env: InfraEnvId, host: HostId, reply: &StepReply) -> Result<(), ClientError> {
        self.put(&POST_STEP_REPLY.at(&[&infra_env, &host]), reply)
    }

    /// Reports the progress of an installation.
    pub fn put_progress(
        &self,
        infra_env: InfraEnvId,
        host: HostId,
        progress: &HostProgress,
    ) -> Result<(), ClientError> {
        self.put(&UPDATE_HOST_PROGRESS.at(&[&infra_env, &host]), progress)
    }

    /// Reports the progress of the host's logs.
    pub fn put_logs_progress(&self, infra_env: InfraEnvId, host: HostId, state: LogsState) -> Result<(), ClientError> {
        let body = serde_json::json!({ "logs_state": state });
        self.put(&UPDATE_HOST_LOGS_PROGRESS.at(&[&infra_env, &host]), &body)
    }

    /// The Ignition config of the installed host.
    pub fn host_ignition(&self, infra_env: InfraEnvId, host: HostId) -> Result<Vec<u8>, ClientError> {
        self.call(&DOWNLOAD_HOST_IGNITION.at(&[&infra_env, &host]), None::<&()>)
    }

    /// All hosts of an infra-env.
    pub fn hosts(&self, infra_env: InfraEnvId) -> Result<Vec<Host>, ClientError> {
        self.get(&LIST_HOSTS.at(&[&infra_env]))
    }

    /// Changes settings of a host.
    pub fn update_host(
        &self,
        infra_env: InfraEnvId,
        host: HostId,
        params: &HostUpdateParams,
    ) -> Result<Host, ClientError> {
        self.exchange(&UPDATE_HOST.at(&[&infra_env, &host]), params)
    }

    /// Sets the Ignition that is merged over the host's own, JSON text; empty text removes it.
    pub fn update_host_ignition(&self, infra_env: InfraEnvId, host: HostId, config: &str) -> Result<(), ClientError> {
        let params = serde_json::json!({ "config": config });
        self.put(&UPDATE_HOST_IGNITION.at(&[&infra_env, &host]), &params)
    }
}
