//! `certify`: a step of a certification, for agents of Landfall that announce it (docs/certify.md).

use super::kind::{Kind, MAX_LONG_OUTPUT_BYTES, Outcome, Replied, Situation, detail, json};
use super::outputs;
use crate::http::Refusal;
use crate::state::HostState;
use api::{certify::CertifyReply, kinds};

pub(crate) fn kind() -> Kind {
    // How long it may take depends on its plan: the run decides when it is asked for again.
    Kind { max_output_bytes: MAX_LONG_OUTPUT_BYTES, succeeded, failed, ..Kind::new::<kinds::Certify>(asked_in, ask) }
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
    json::<kinds::Certify>(situation.certify.as_ref()?)
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let reply: CertifyReply = outputs::object(&replied.reply.output, "CertifyReply")?;
    Ok(Outcome::Certification(Ok(Box::new(reply))))
}

/// The command's exit code is in its document; without one, the agent did not come so far.
fn failed(replied: &Replied) -> Result<Outcome, Refusal> {
    match succeeded(replied) {
        Ok(outcome) => Ok(outcome),
        Err(_) => Ok(Outcome::Certification(Err(detail(replied.reply)))),
    }
}
