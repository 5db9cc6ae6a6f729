//! Leases of virtual addresses: `landfall netcheck dhcp` (docs/compatibility.md#dhcp-lease-allocate).

use super::{
    IN_PROCESS, Kind, Refusal, Run, check,
    fields::Format::{Any, Mac},
};
use crate::{dry::Dry, settings::Settings};
use api::{HostId, Step, StepType, kinds};

pub(super) static KIND: Kind = Kind {
    step_type: StepType::DhcpLeaseAllocate,
    fields: &[("api_vip_mac", true, Mac), ("ingress_vip_mac", true, Mac), ("interface", true, Any)],
    act,
    dry: Dry::Earnest,
    failed: IN_PROCESS,
    prints_json: true,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    check::<kinds::DhcpLeaseAllocate>(step, settings, "dhcp", "dhcp allocation request")
}
