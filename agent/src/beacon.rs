//! A freshly installed node reports to the service that it is up: `Joined`, then `Done`.

use crate::{
    pace::jittered,
    register::{RegisterError, identify},
    settings::Settings,
};
use api::{Client, HostProgress, HostStage, RetryPolicy};
use kernel::Cancel;
use std::error::Error;

/// Reports until `Done` is accepted, however long that takes: there is no user to press a key. Only unusable settings
/// are an error.
pub fn run(settings: &Settings, stop: &Cancel) -> Result<(), RegisterError> {
    // The installer's requests, which these continue, carry no agent version.
    let client = Client::new(&settings.client_config(""), RetryPolicy::Agent)?;
    let host = identify(settings)?;
    let put = |stage| {
        let progress = HostProgress { current_stage: stage, progress_info: String::new() };
        let result = client.session().put_progress(settings.infra_env_id, host, &progress);
        match &result {
            Ok(()) => tracing::info!(%host, %stage, "reported"),
            Err(error) => tracing::warn!(%host, %stage, error = error as &dyn Error, "report not accepted"),
        }
        result
    };
    let mut joined = false;
    loop {
        if !joined {
            // A conflict may mean that the host is past this stage, which `Done` will show.
            joined = put(HostStage::Joined).is_ok();
        }
        let pause = match put(HostStage::Done) {
            Ok(()) => return Ok(()),
            // Something must change at the service first: its cluster or its infra-env.
            Err(error) if error.status().is_some_and(|status| (400..500).contains(&status)) => settings.pace.refused,
            Err(_) => settings.pace.interval,
        };
        if stop.sleep(jittered(pause, 20)) {
            return Ok(());
        }
    }
}
