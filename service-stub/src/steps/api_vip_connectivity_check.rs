//! `api-vip-connectivity-check`: whether an added host gets its config where its installed system will ask for it.

use super::kind::{Kind, Outcome, Replied, Situation, document, json};
use super::outputs;
use crate::http::Refusal;
use crate::ignition_endpoint::Endpoint;
use crate::state::HostState;
use api::{ApiVipConnectivityResponse, kinds};

pub(crate) fn kind() -> Kind {
    Kind { succeeded, ..Kind::new::<kinds::ApiVipConnectivityCheck>(asked_in, ask) }
}

fn asked_in(state: HostState, added: bool) -> bool {
    added && matches!(state, HostState::Insufficient | HostState::PendingForInput | HostState::Known)
}

/// Without a control plane the endpoint is this service, which the host reaches already.
fn ask(situation: &Situation) -> Option<Vec<String>> {
    let record = situation.cluster.filter(|record| record.day2())?;
    let endpoint = Endpoint::for_host(situation.settings.has_control_plane(), record, situation.record)?;
    json::<kinds::ApiVipConnectivityCheck>(&endpoint.request(situation.record))
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let answer: ApiVipConnectivityResponse = outputs::object(&replied.reply.output, "APIVipConnectivityResponse")?;
    let text = document(&answer)?;
    Ok(Outcome::set(|record| record.texts.api_vip_connectivity = Some(text)))
}
