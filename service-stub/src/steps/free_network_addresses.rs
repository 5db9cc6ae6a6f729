//! `free-network-addresses`: addresses in the host's networks that nothing answers for.

use super::kind::{Kind, Outcome, Replied, Situation, json};
use super::outputs;
use crate::http::Refusal;
use crate::net::Cidr;
use crate::state::HostState;
use api::kinds;
use axum::http::StatusCode;
use kernel::order::Gather;
use serde_json::Value;
use std::collections::BTreeSet;

/// Larger networks are not searched.
const MAX_HOST_BITS: u8 = 10;

pub(crate) fn kind() -> Kind {
    Kind { succeeded, ..Kind::new::<kinds::FreeNetworkAddresses>(asked_in, ask) }
}

fn asked_in(state: HostState, added: bool) -> bool {
    !added && matches!(state, HostState::Insufficient | HostState::PendingForInput | HostState::Known)
}

/// The host's small IPv4 networks.
fn ask(situation: &Situation) -> Option<Vec<String>> {
    let inventory = situation.record.facts().inventory.as_ref()?;
    let texts = inventory.interfaces.iter().flat_map(|nic| &nic.ipv4_addresses);
    let cidrs = texts.filter_map(|text| text.parse::<Cidr>().ok()).filter(|cidr| !cidr.address.is_loopback());
    let small = cidrs.filter(|cidr| cidr.prefix >= 32 - MAX_HOST_BITS).map(|cidr| cidr.network().to_string());
    let networks: BTreeSet<String> = small.gather();
    if networks.is_empty() { None } else { json::<kinds::FreeNetworkAddresses>(&networks.into_iter().collect()) }
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let answer = outputs::list(&replied.reply.output, "FreeNetworksAddresses")?;
    if answer.is_empty() {
        let reason = format!("Free addresses for host {} is empty", replied.key.host);
        return Err(Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, reason));
    }
    let text = Value::Array(answer).to_string();
    Ok(Outcome::set(|record| record.texts.free_addresses = Some(text)))
}
