//! `ntp-synchronizer`: the host's time sources.

use super::kind::{Kind, Outcome, Replied, Situation, json};
use super::outputs;
use crate::http::Refusal;
use crate::state::HostState;
use api::{NtpSynchronizationRequest, kinds};
use serde::Deserialize;
use serde_json::Value;

pub(crate) fn kind() -> Kind {
    Kind { succeeded, ..Kind::new::<kinds::NtpSynchronizer>(asked_in, ask) }
}

fn asked_in(state: HostState, added: bool) -> bool {
    use HostState as S;
    match state {
        S::DiscoveringUnbound | S::InsufficientUnbound | S::KnownUnbound | S::Insufficient | S::Known => true,
        S::PendingForInput => !added,
        S::Discovering => added,
        _ => false,
    }
}

/// The time sources named for the cluster, else for the infra-env; without any, the host reports the ones it uses.
fn ask(situation: &Situation) -> Option<Vec<String>> {
    let setting = |name| situation.cluster?.settings.get(name)?.as_str();
    let infra_env = situation.infra_env.map(|record| &record.infra_env);
    let named = [
        setting("additional_ntp_source"),
        setting("ntp_sources"),
        infra_env.map(|infra_env| infra_env.additional_ntp_sources.as_str()),
        infra_env.map(|infra_env| infra_env.ntp_sources.as_str()),
    ];
    let named = named.into_iter().flatten().find(|text| !text.is_empty());
    json::<kinds::NtpSynchronizer>(&NtpSynchronizationRequest { ntp_source: named.unwrap_or_default().to_owned() })
}

#[derive(Deserialize)]
struct Sources {
    ntp_sources: Option<Value>,
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let answer: Sources = outputs::object(&replied.reply.output, "NtpSynchronizationResponse")?;
    let text = answer.ntp_sources.unwrap_or(Value::Array(Vec::new())).to_string();
    Ok(Outcome::set(|record| record.texts.ntp_sources = Some(text)))
}
