//! Infra-envs.

use super::{Client, error::ClientError};
use crate::endpoint::{DOWNLOAD_INFRA_ENV_FILES, REGISTER_INFRA_ENV};
use crate::{InfraEnv, InfraEnvCreateParams, InfraEnvId};

impl Client {
    pub fn create_infra_env(&self, params: &InfraEnvCreateParams) -> Result<InfraEnv, ClientError> {
        self.exchange(&REGISTER_INFRA_ENV.at(&[]), params)
    }

    /// The Ignition config of the hosts' live system.
    pub fn discovery_ignition(&self, infra_env: InfraEnvId) -> Result<Vec<u8>, ClientError> {
        let target = DOWNLOAD_INFRA_ENV_FILES.at(&[&infra_env]).with("file_name", "discovery.ign");
        self.call(&target, None::<&()>)
    }
}
