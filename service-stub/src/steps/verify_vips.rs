//! `verify-vips`: whether the cluster's virtual addresses are free.

use super::kind::{Kind, Outcome, Replied, Situation, json};
use super::outputs;
use crate::http::Refusal;
use crate::model::ClusterRecord;
use crate::state::HostState;
use api::{VerifiedVip, VerifyVip, VipType, kinds};
use serde_json::Value;

pub(crate) fn kind() -> Kind {
    Kind { succeeded, ..Kind::new::<kinds::VerifyVips>(asked_in, ask) }
}

fn asked_in(state: HostState, added: bool) -> bool {
    !added && matches!(state, HostState::Insufficient | HostState::PendingForInput | HostState::Known)
}

/// The virtual addresses that the hosts should hold; none if the user manages the network.
fn ask(situation: &Situation) -> Option<Vec<String>> {
    let has_vips = |record: &&ClusterRecord| !record.cluster.user_managed_networking && !record.single_node();
    let record = situation.cluster.filter(has_vips)?;
    let vips = |list: &[Value], vip_type: VipType| {
        let addresses = list.iter().filter_map(|vip| Some(vip.get("ip")?.as_str()?.to_owned()));
        addresses.map(|vip| VerifyVip { vip, vip_type }).collect::<Vec<_>>()
    };
    let (api, ingress) = (&record.cluster.api_vips, &record.cluster.ingress_vips);
    let all = [vips(api, VipType::Api), vips(ingress, VipType::Ingress)].concat();
    if all.is_empty() { None } else { json::<kinds::VerifyVips>(&all) }
}

/// Stores the findings with the cluster's addresses; those about other addresses are dropped.
fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let answer = parse(&replied.reply.output)?;
    Ok(Outcome::Cluster(Box::new(move |_, record| {
        for verified in answer {
            let list = match verified.vip_type {
                VipType::Api => &mut record.cluster.api_vips,
                VipType::Ingress => &mut record.cluster.ingress_vips,
            };
            let named = list.iter_mut().filter(|vip| vip["ip"].as_str() == Some(&verified.vip));
            for vip in named.filter_map(Value::as_object_mut) {
                vip.insert("verification".to_owned(), serde_json::json!(verified.verification));
            }
        }
        Ok(())
    })))
}

fn parse(text: &str) -> Result<Vec<VerifiedVip>, Refusal> {
    let entries = outputs::list(text, "VerifyVipsResponse")?;
    Ok(entries.into_iter().filter_map(|entry| api::json::from_value(entry).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_that_say_nothing_are_left_out() {
        let answer =
            json!([{"vip": "192.0.2.1", "vip_type": "api", "verification": "succeeded"}, {"vip": "192.0.2.2"}]);
        assert_eq!(parse(&answer.to_string()).unwrap().len(), 1);
    }
}
