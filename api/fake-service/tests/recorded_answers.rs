//! Every answer of the real service that was recorded, whoever asked, is read by the types of our client.
#![allow(clippy::unwrap_used)]

use api::{
    ApiError, ApiVipConnectivityRequest, BootArtifactsRequest, Cluster, ConnectivityCheckHost,
    ContainerImageAvailabilityRequest, DhcpAllocationRequest, DiskSpeedCheckRequest, DomainResolutionRequest, Host,
    HostRegistration, InfraEnv, InfraError, InstallRequest, LogsGatherRequest, NextStepRequest,
    NtpSynchronizationRequest, RebootForReclaimRequest, Step, StepType, Steps, TangConnectivityRequest, VerifyVip,
    endpoint::Produces, refusal_text,
};
use fake_service::recorded::{Exchange, exchanges, wire};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

fn read<T: DeserializeOwned>(document: &Value) -> Result<T, String> {
    serde_json::from_value(document.clone()).map_err(|error| format!("{error}: {document}"))
}

/// The argument of a step as the agent reads it.
fn argument(step: &Step) -> Result<(), String> {
    fn text<T: DeserializeOwned>(step: &Step) -> Result<(), String> {
        let argument = step.args.first().ok_or("no argument")?;
        serde_json::from_str::<T>(argument).map(drop).map_err(|error| format!("{error}: {argument}"))
    }
    match &step.step_type {
        StepType::ConnectivityCheck => text::<Vec<ConnectivityCheckHost>>(step),
        StepType::Install => text::<InstallRequest>(step),
        StepType::FreeNetworkAddresses => text::<Vec<String>>(step),
        StepType::DhcpLeaseAllocate => text::<DhcpAllocationRequest>(step),
        StepType::ApiVipConnectivityCheck => text::<ApiVipConnectivityRequest>(step),
        StepType::TangConnectivityCheck => text::<TangConnectivityRequest>(step),
        StepType::NtpSynchronizer => text::<NtpSynchronizationRequest>(step),
        StepType::InstallationDiskSpeedCheck => text::<DiskSpeedCheckRequest>(step),
        StepType::ContainerImageAvailability => text::<ContainerImageAvailabilityRequest>(step),
        StepType::DomainResolution => text::<DomainResolutionRequest>(step),
        StepType::LogsGather => text::<LogsGatherRequest>(step),
        StepType::DownloadBootArtifacts => text::<BootArtifactsRequest>(step),
        StepType::RebootForReclaim => text::<RebootForReclaimRequest>(step),
        StepType::VerifyVips => text::<Vec<VerifyVip>>(step),
        StepType::Inventory | StepType::StopInstallation => Ok(()),
        other => Err(format!("a step of type {other}")),
    }
}

fn answer(exchange: &Exchange) -> Result<&'static str, String> {
    let (status, body) = (exchange.status(), exchange.answered());
    if status >= 400 {
        let text = refusal_text(body.to_string().as_bytes());
        let is_form = read::<ApiError>(body).is_ok() || read::<InfraError>(body).is_ok();
        return if is_form && !text.starts_with('{') { Ok("refusal") } else { Err(format!("a refusal: {body}")) };
    }
    let Some(endpoint) = exchange.endpoint() else { return Ok("of an endpoint that our client has no use for") };
    if status != endpoint.success {
        return Err(format!("status {status}, and {} is declared", endpoint.success));
    }
    match (endpoint.produces, endpoint.operation) {
        (Produces::Nothing, _) if body.is_null() => Ok("nothing"),
        (Produces::Nothing, _) => Err(format!("something: {body}")),
        (Produces::File, _) => Ok("file"),
        (Produces::Json, "v2RegisterHost") => {
            let registration: HostRegistration = read(body)?;
            let command = registration.next_step_runner_command.ok_or("no command")?;
            let request = command.args.first().ok_or("no argument")?;
            serde_json::from_str::<NextStepRequest>(request).map_err(|error| format!("{error}: {request}"))?;
            Ok("registration")
        }
        (Produces::Json, "v2GetNextSteps") => {
            let steps: Steps = read(body)?;
            steps.instructions.iter().flatten().try_for_each(argument)?;
            Ok("steps")
        }
        (Produces::Json, "v2GetCluster" | "v2RegisterCluster" | "v2InstallCluster") => {
            read::<Cluster>(body).map(|_| "cluster")
        }
        (Produces::Json, "v2ListHosts" | "ListClusterHosts") => read::<Vec<Host>>(body).map(|_| "hosts"),
        (Produces::Json, "RegisterInfraEnv" | "GetInfraEnv") => read::<InfraEnv>(body).map(|_| "infra-env"),
        (Produces::Json, other) => Err(format!("no type for the answer of {other}")),
    }
}

/// Directories with exchanges in them.
fn directories(wire: &Path) -> Vec<PathBuf> {
    let inside = |name: &str| std::fs::read_dir(wire.join(name)).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = ["sno-install", "errors", "unknown-infra-env"].map(|name| wire.join(name)).into();
    all.extend(inside("ours-at-the-real-service").chain(inside("the-real-ones-at-ours")));
    all.sort();
    all
}

#[test]
fn every_recorded_answer_is_read() {
    let Some(wire) = wire() else { return };
    let (mut counts, mut faults, mut nulls) = (BTreeMap::<&str, usize>::new(), Vec::new(), 0);
    for directory in directories(&wire) {
        for exchange in exchanges(&directory) {
            match answer(&exchange) {
                Ok(what) => *counts.entry(what).or_default() += 1,
                Err(fault) => faults.push(format!("{}/{}: {fault}", directory.display(), exchange.name)),
            }
            let registered = exchange.is("POST", "/hosts") && exchange.answered().get("status") == Some(&Value::Null);
            nulls += usize::from(registered);
        }
    }
    for (what, count) in &counts {
        println!("{count:4} {what}");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    println!("{nulls:4} registrations without a status");
    assert!(nulls > 0 && counts["registration"] > nulls && counts["steps"] > 100, "{counts:?}");
}

#[test]
fn recorded_documents_of_clusters_and_hosts_are_read() {
    let Some(wire) = wire() else { return };
    let document = |name: &str| fake_service::recorded::recorded(wire.join("api").join(name));
    for name in ["sno-cluster-ready.json", "sno-cluster-resp.json"] {
        read::<Cluster>(&document(name)).unwrap();
    }
    read::<Host>(&document("sno-host-known.json")).unwrap();
    read::<InfraEnv>(&document("sno-infraenv-resp.json")).unwrap();
}
