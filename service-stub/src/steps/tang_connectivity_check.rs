//! `tang-connectivity-check`: whether the host reaches the servers that unlock its disk.

use super::kind::{Kind, Outcome, Replied, Situation, detail, document, json};
use super::outputs;
use crate::encryption;
use crate::http::Refusal;
use crate::state::HostState;
use api::{TangConnectivityRequest, TangConnectivityResponse, kinds};

pub(crate) fn kind() -> Kind {
    Kind { succeeded, failed, ..Kind::new::<kinds::TangConnectivityCheck>(asked_in, ask) }
}

fn asked_in(state: HostState, _: bool) -> bool {
    matches!(state, HostState::Insufficient | HostState::PendingForInput | HostState::Known)
}

fn ask(situation: &Situation) -> Option<Vec<String>> {
    let tang_servers = encryption::tang_servers(situation.cluster?, situation.record)?;
    json::<kinds::TangConnectivityCheck>(&TangConnectivityRequest { tang_servers })
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let answer: TangConnectivityResponse = outputs::object(&replied.reply.output, "TangConnectivityResponse")?;
    let text = document(&answer)?;
    Ok(Outcome::set(|record| record.texts.tang_connectivity = Some(text)))
}

fn failed(replied: &Replied) -> Result<Outcome, Refusal> {
    let text = detail(replied.reply);
    Ok(Outcome::set(|record| record.texts.tang_connectivity = Some(text)))
}
