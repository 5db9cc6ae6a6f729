//! What the host's TPM proves of its boot.

use super::context::{Context, pending, success};
use crate::attest::{
    record::Policy,
    verdict::{Verdict, verdict},
};
use crate::check::{Status, Verdict as Found};

/// By the service's policy; nothing to say where hosts are not asked.
pub(super) fn boot(context: &Context) -> Option<Found> {
    let good = context.infra_env.map(|record| record.good_boots.as_slice()).unwrap_or_default();
    let is_noted = match context.attest {
        Policy::Off => return None,
        Policy::Note => true,
        Policy::Warn | Policy::Refuse => false,
    };
    match verdict(context.record, good) {
        Verdict::Good(message) => success(message),
        Verdict::Pending(message) | Verdict::Bad(message) if is_noted => success(format!("Noted only: {message}")),
        Verdict::Pending(message) => pending(message),
        Verdict::Bad(message) => Some((Status::Failure, message)),
    }
}
