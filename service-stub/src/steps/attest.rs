//! `attest`: what a host's TPM proves of its boot, for agents of Landfall that announce it (docs/service.md#attestation).

use super::kind::{Kind, MAX_LONG_OUTPUT_BYTES, Outcome, Replied, Situation, detail, json};
use super::outputs;
use crate::http::Refusal;
use crate::state::HostState;
use api::kinds;

pub(crate) fn kind() -> Kind {
    Kind {
        // Some TPMs take a minute for a key.
        limit_s: Some(300),
        max_output_bytes: MAX_LONG_OUTPUT_BYTES,
        succeeded,
        failed: |replied| Ok(Outcome::Attestation(Err(detail(replied.reply)))),
        ..Kind::new::<kinds::Attest>(asked_in, ask)
    }
}

fn asked_in(state: HostState, _: bool) -> bool {
    use HostState as S;
    matches!(
        state,
        S::Discovering
            | S::DiscoveringUnbound
            | S::Insufficient
            | S::InsufficientUnbound
            | S::PendingForInput
            | S::Known
            | S::KnownUnbound
    )
}

fn ask(situation: &Situation) -> Option<Vec<String>> {
    json::<kinds::Attest>(situation.attest.as_ref()?)
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let reply = outputs::object(&replied.reply.output, "AttestReply");
    // What can't be read proves nothing; the agent is not asked the same again.
    let reply = reply.map(Box::new).map_err(|_| "the reply of its agent is not that of an attestation".to_owned());
    Ok(Outcome::Attestation(reply))
}
