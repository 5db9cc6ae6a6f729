//! `upgrade-agent`: another agent takes over the host.

use super::kind::{Kind, Outcome, Replied, Situation, json};
use super::outputs;
use crate::events;
use crate::http::Refusal;
use crate::model::HostRecord;
use crate::settings::Settings;
use crate::state::HostState;
use api::{UpgradeAgentRequest, UpgradeAgentResponse, kinds};
use serde_json::json;

pub(crate) fn kind() -> Kind {
    Kind {
        // One image.
        limit_s: Some(600),
        succeeded,
        failed,
        // It is given in place of all others, see `upgrades`.
        ..Kind::new::<kinds::UpgradeAgent>(|_, _| false, ask)
    }
}

/// Whether a host must run another agent first, and be given nothing else.
pub(crate) fn upgrades(settings: &Settings, record: &HostRecord) -> bool {
    use HostState as S;
    settings.steps.upgrade_agents
        && record.host.discovery_agent_version != settings.agent_image
        && matches!(
            record.state,
            S::Binding
                | S::Discovering
                | S::Insufficient
                | S::Known
                | S::PendingForInput
                | S::DiscoveringUnbound
                | S::InsufficientUnbound
                | S::KnownUnbound
        )
}

fn ask(situation: &Situation) -> Option<Vec<String>> {
    json::<kinds::UpgradeAgent>(&UpgradeAgentRequest { agent_image: situation.settings.agent_image.clone() })
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let answer: UpgradeAgentResponse = outputs::object(&replied.reply.output, "UpgradeAgentResponse")?;
    Ok(match answer.result.as_str() {
        // It is still on its way.
        "" => Outcome::Nothing,
        "success" => Outcome::Event(events::kinds::UPGRADE_AGENT_FINISHED, json!({"agent_image": answer.agent_image})),
        _ => Outcome::Event(events::kinds::UPGRADE_AGENT_FAILED, json!({"agent_image": answer.agent_image})),
    })
}

fn failed(replied: &Replied) -> Result<Outcome, Refusal> {
    let details = json!({"agent_image": replied.settings.agent_image});
    Ok(Outcome::Event(events::kinds::UPGRADE_AGENT_FAILED, details))
}
