//! Whether virtual addresses are free: `landfall netcheck vip` (docs/compatibility.md#verify-vips).

use super::{IN_PROCESS, Kind, Refusal, Run, check};
use crate::{
    dry::{self, Dry},
    settings::Settings,
};
use api::{HostId, Step, StepType, VerifiedVip, VerifyVip, VipVerification, kinds};

const WHAT: &str = "verify vips request";

pub(super) static KIND: Kind = Kind {
    step_type: StepType::VerifyVips,
    fields: &[],
    act,
    dry: Dry::Answered(|step| dry::answer(step, WHAT, vips)),
    failed: IN_PROCESS,
    prints_json: true,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    check::<kinds::VerifyVips>(step, settings, "vip", WHAT)
}

fn vips(vips: Vec<VerifyVip>) -> Vec<VerifiedVip> {
    let free = |VerifyVip { vip, vip_type }| VerifiedVip { verification: VipVerification::Succeeded, vip, vip_type };
    vips.into_iter().map(free).collect()
}
