//! Whether virtual addresses are free: `landfall netcheck vip` (docs/compatibility.md#verify-vips).

use super::kind::{Dry, Kind, answer};
use crate::privileges::PROBES;
use api::{VerifiedVip, VerifyVip, VipVerification, kinds::VerifyVips};

const WHAT: &str = "verify vips request";

pub(super) static KIND: Kind =
    Kind::check::<VerifyVips>("vip", WHAT, &[], PROBES).pretended(Dry::Answered(|step| answer(step, WHAT, vips)));

fn vips(vips: Vec<VerifyVip>) -> Vec<VerifiedVip> {
    let free = |VerifyVip { vip, vip_type }| VerifiedVip { verification: VipVerification::Succeeded, vip, vip_type };
    vips.into_iter().map(free).collect()
}
