//! Makes the host known to the service, however long that takes.

use crate::{
    pace::jittered,
    settings::Settings,
    status::{ServiceState, Status},
};
use api::{
    Client, ClientError, Host, HostCreateParams, HostId, HostRegistration, InfraEnvId, NextStepRequest, RetryPolicy,
};
use inventory::{
    Root, RootError,
    identity::{Identity, host_id},
};
use kernel::Cancel;
use std::{error::Error, time::Duration};

/// Attempts are spread by this much, so that a room full of hosts that got power together doesn't ask together.
const JITTER_PERCENT: u32 = 10;

/// Status of a host that was started from something else than its installed disk (docs/compatibility.md#host-states).
const PENDING_USER_ACTION: &str = "installing-pending-user-action";

/// Under which names the host polls.
#[derive(Clone, Debug)]
pub struct Registered {
    pub infra_env_id: InfraEnvId,
    pub host_id: HostId,
    /// The agent image the service requires; reported in every poll, or it would ask for an upgrade instead of any step.
    pub agent_version: String,
}

/// What a failed registration means (docs/compatibility.md#registration).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// May pass by itself.
    Soon,
    /// Something must be changed first; the text says what.
    Refused(&'static str),
}

/// Judges a failure. The real agent stops for ever on a refusal; this one asks again, rarely.
pub fn verdict(error: &ClientError) -> Verdict {
    match error.status() {
        Some(401) => Verdict::Refused("the token (PULL_SECRET_TOKEN) is missing, wrong or expired"),
        Some(403) => Verdict::Refused("the token (PULL_SECRET_TOKEN) doesn't allow this infra-env"),
        Some(404) => Verdict::Refused("the service doesn't know this infra-env: was it deleted, or is the id wrong?"),
        Some(409) => Verdict::Refused("the cluster doesn't accept hosts in its present state"),
        _ => Verdict::Soon,
    }
}

/// Failures that waiting does not resolve.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Unusable URL or CA file.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The running system can't be read.
    #[error("cannot find out this host's identity")]
    Identity(#[from] RootError),
}

/// Registers until it works; `None` when stopped.
pub(crate) fn register(
    settings: &Settings,
    status: &Status,
    stop: &Cancel,
) -> Result<Option<Registered>, RegisterError> {
    loop {
        // All of it is done anew each time: the network card that gives the identity may appear late, the CA file too.
        let host_id = identify(settings)?;
        status.identified(host_id);
        let client = Client::new(&settings.client_config(&settings.agent_version), RetryPolicy::Agent)?.session();
        let params = HostCreateParams { discovery_agent_version: settings.agent_version.clone(), host_id };
        let infra_env_id = settings.infra_env_id;
        let error = match client.register_host(infra_env_id, &params) {
            Ok(registration) => {
                let registered = names(&registration, settings, host_id);
                tracing::info!(%host_id, %infra_env_id, request_id = client.request_id(), "registered");
                status.registered(registered.infra_env_id, registered.host_id, &registered.agent_version);
                let action = user_action(&registration.host);
                if let Some(action) = action {
                    tracing::warn!(%host_id, action, "the installation continues only after this action");
                }
                status.user_action(action);
                status.service_answered(&client);
                return Ok(Some(registered));
            }
            Err(error) => error,
        };
        let cause = &error as &dyn Error;
        let pause = match verdict(&error) {
            Verdict::Soon => {
                status.service_failed(ServiceState::Unreachable, &error, &client);
                let pause = jittered(settings.pace.interval, JITTER_PERCENT);
                tracing::warn!(error = cause, retry_in_s = seconds(pause), "cannot register this host");
                pause
            }
            Verdict::Refused(reason) => {
                status.service_failed(ServiceState::RefusesThisHost, &error, &client);
                let pause = jittered(settings.pace.refused, 2 * JITTER_PERCENT);
                tracing::error!(
                    error = cause,
                    %host_id,
                    %infra_env_id,
                    url = api::http::public_url(&settings.url),
                    retry_in_s = seconds(pause),
                    "the service refuses this host: {reason}"
                );
                pause
            }
        };
        status.next_poll(pause, 0);
        if status.wait(stop, pause) {
            return Ok(None);
        }
    }
}

/// What the user must do, in the service's words: this host was installed and started from the discovery medium again,
/// because that comes before its disk in the firmware's order.
fn user_action(host: &Host) -> Option<&str> {
    (host.status == PENDING_USER_ACTION).then_some(host.status_info.as_str())
}

/// The identity of this host: the given one, or what its hardware says.
pub fn identify(settings: &Settings) -> Result<HostId, RootError> {
    identity(settings.host_id)
}

/// As [`identify`], of a host that may have been given an id.
pub(crate) fn identity(given: Option<HostId>) -> Result<HostId, RootError> {
    if let Some(given) = given {
        return Ok(given);
    }
    let Identity { id, source } = host_id(&Root::open("/")?);
    tracing::info!(%id, %source, "identity of this host");
    Ok(id)
}

fn seconds(duration: Duration) -> u64 {
    duration.as_secs()
}

/// The names in the command the service answers with. Without a usable one the host is registered all the same, and
/// polls under the names it gave itself; the real agent sleeps an hour there.
fn names(registration: &HostRegistration, settings: &Settings, host_id: HostId) -> Registered {
    let args = registration.next_step_runner_command.as_ref().map(|command| command.args.as_slice());
    let request = match args {
        Some([arg]) => serde_json::from_slice::<NextStepRequest>(arg.as_bytes()).map_err(|error| error.to_string()),
        Some(args) => Err(format!("{} arguments instead of one", args.len())),
        None => Err("it is missing".to_owned()),
    };
    let valid = |version: &str| !version.is_empty() && version.bytes().all(|b| b.is_ascii_graphic());
    match request {
        Ok(NextStepRequest { agent_version, host_id, infra_env_id }) if valid(&agent_version) => {
            if !settings.agent_version.is_empty() && agent_version != settings.agent_version {
                tracing::info!(
                    wanted = agent_version,
                    ours = settings.agent_version,
                    "the service requires another agent"
                );
            }
            Registered { infra_env_id, host_id, agent_version }
        }
        other => {
            let reason = other.err().unwrap_or_else(|| "agent_version is not an image reference".to_owned());
            tracing::warn!(reason, "the service's reply has no usable next_step_runner_command");
            Registered { infra_env_id: settings.infra_env_id, host_id, agent_version: settings.agent_version.clone() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::tests::{HOST, settings};
    use serde_json::json;

    #[test]
    fn refusals_are_distinguished_from_trouble() {
        let error = |status| ClientError::Status {
            method: "POST".parse().unwrap(),
            path: String::new(),
            status,
            message: String::new(),
            retry_after: None,
        };
        for status in [401, 403, 404, 409] {
            assert!(matches!(verdict(&error(status)), Verdict::Refused(_)), "{status}");
        }
        for status in [400, 405, 410, 418, 500, 501, 502, 503] {
            assert_eq!(verdict(&error(status)), Verdict::Soon, "{status}");
        }
        let pace = crate::settings::Pace::default();
        assert_eq!((pace.interval.as_secs(), pace.refused.as_secs()), (60, 300), "the refused ask rarely");
    }

    #[test]
    fn the_names_to_poll_with_are_the_services_when_it_gives_any() {
        let settings = settings();
        let ours: HostId = HOST.parse().unwrap();
        let registered = |command: serde_json::Value| {
            let registration = json!({"id": HOST, "next_step_runner_command": command});
            names(&serde_json::from_value(registration).unwrap(), &settings, ours)
        };
        let theirs = registered(json!({"args": [json!({
            "agent_version": "r.io/agent:2", "host_id": "aaaaaaaa-0000-0000-0000-000000000009",
            "infra_env_id": "bbbbbbbb-0000-0000-0000-000000000009"
        }).to_string()]}));
        assert_eq!(theirs.agent_version, "r.io/agent:2");
        assert_eq!(theirs.host_id.to_string(), "aaaaaaaa-0000-0000-0000-000000000009");
        assert_eq!(theirs.infra_env_id.to_string(), "bbbbbbbb-0000-0000-0000-000000000009");
        let evil = json!({"agent_version": "x\r\nX-Evil: 1", "host_id": HOST, "infra_env_id": HOST}).to_string();
        for unusable in [json!(null), json!({}), json!({"args": []}), json!({"args": ["{}"]}), json!({"args": [evil]})]
        {
            let registered = registered(unusable);
            assert_eq!((registered.host_id, registered.infra_env_id), (ours, settings.infra_env_id));
            assert_eq!(registered.agent_version, "r.io/agent:1");
        }
    }
}
