//! `agent` and `next_step_runner`: `landfall agent`, the second without registering (docs/compatibility.md#agent-flags).

use super::{
    Name, Plan, Refusal, Work, dry_run,
    flags::{Flag, Values},
    logging::logging,
    passed_on, words,
};

const SERVICE: [&str; 4] = ["url", "infra-env-id", "agent-version", "cacert"];

pub(super) fn flags(dry: Vec<Flag>) -> Vec<Flag> {
    let own = [
        Flag::text("url", "", "Base URL of the service, with scheme; required"),
        Flag::text("infra-env-id", "", "Infra-env to register with; required"),
        Flag::text("agent-version", "", "Image reference of this agent"),
        Flag::int("interval", 60, "Seconds between attempts to register"),
        Flag::text("cacert", "", "PEM bundle trusted in addition to the system's roots"),
        Flag::bool("insecure", false, "Do not verify the service's certificate"),
        Flag::text("host-id", "", "Host to poll for; the agent finds its own id"),
        Flag::bool("help", false, "Show this"),
    ];
    own.into_iter().chain(super::common_flags(dry)).collect()
}

pub(super) fn plan(name: Name, values: &Values) -> Result<Plan, Refusal> {
    if values.is_on("help") {
        return Err(super::FlagError::Help.into());
    }
    for required in ["url", "infra-env-id"] {
        if values.text(required).is_empty() {
            return Err(Refusal::Missing(required));
        }
    }
    let mut command = words(["agent"]);
    command.extend(passed_on(values, &SERVICE));
    // Without a pause it would ask a service that is down all the time, as the real one does.
    command.push(format!("--interval={}", values.int("interval").max(1)));
    command.push(format!("--insecure={}", values.is_on("insecure")));
    command.extend(dry_run::ours(values));
    let file = match name {
        Name::NextStepRunner => {
            if values.text("host-id").is_empty() {
                return Err(Refusal::Missing("host-id"));
            }
            command.extend(passed_on(values, &["host-id"]));
            command.push("poll".into());
            "agent_next_step_runner"
        }
        _ => "agent_registration",
    };
    Ok(Plan { log: logging(values, file, true), work: Work::command(command), failed: 1 })
}
