//! A run as its result, for archives and clients.

use super::files::unix_seconds;
use super::record::{HostRun, Run, StepRun};
use certify::result::{HostResult, Run as Result, SCHEMA_VERSION, StepResult};

/// The result so far. Its hosts are in the order of their serial numbers.
pub(super) fn result(run: &Run) -> Result {
    let mut hosts: Vec<HostResult> = run.hosts.iter().map(host).collect();
    kernel::order::sort_by_key(&mut hosts, |host| host.serial.clone());
    let mut result = Result {
        schema_version: SCHEMA_VERSION,
        id: run.id.to_string(),
        plan: run.plan.clone(),
        plan_sha256: run.plan.sha256(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_seconds: unix_seconds(run.started_at).or(unix_seconds(run.created_at)).unwrap_or_default(),
        ended_unix_seconds: unix_seconds(run.ended_at),
        hosts,
        ..Result::default()
    };
    result.judge();
    result
}

pub(super) fn host(host: &HostRun) -> HostResult {
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    HostResult {
        serial: host.serial.clone(),
        manufacturer: text(&host.manufacturer),
        product: text(&host.product),
        host_id: host.host_id.to_string(),
        sku: host.sku.clone(),
        differences: host.differences.clone(),
        steps: (0..).zip(&host.steps).map(|(index, one)| step(index, one)).collect(),
        ..HostResult::default()
    }
}

fn step(index: u32, step: &StepRun) -> StepResult {
    StepResult {
        index,
        action: step.name.clone(),
        state: step.state,
        attempts: step.attempts,
        started_unix_seconds: unix_seconds(step.started_at),
        ended_unix_seconds: unix_seconds(step.ended_at),
        findings: step.findings.clone(),
        measurements: step.measurements.clone(),
        files: step.files.clone(),
    }
}
