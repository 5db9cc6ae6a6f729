//! Whatever the service may leave out, leave null or add is read: documents are made from the published description, and each
//! is read with every field absent and null by turns, at every depth, with enums of new texts and with fields of new names.
#![allow(clippy::unwrap_used)]

#[path = "absent_and_null/document.rs"]
mod document;
#[allow(dead_code)]
use api::*;
use document::{Change, Description, without_nulls};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::BTreeSet;

/// Reads a document as one of our types, and gives what was understood.
type Read = fn(&Value) -> Result<Value, String>;

fn read<T: Serialize + DeserializeOwned>(document: &Value) -> Result<Value, String> {
    let read: T = serde_json::from_slice(document.to_string().as_bytes()).map_err(|error| error.to_string())?;
    Ok(without_nulls(serde_json::to_value(read).unwrap()))
}

/// The service's answers. It was seen to send null even where its description requires a value.
const ANSWERS: &[(&str, Read)] = &[
    ("host_registration_response", read::<HostRegistration>),
    ("host", read::<Host>),
    ("host-list", read::<Vec<Host>>),
    ("cluster", read::<Cluster>),
    ("cluster-list", read::<Vec<Cluster>>),
    ("infra-env", read::<InfraEnv>),
    ("infra-env-list", read::<Vec<InfraEnv>>),
    ("steps", read::<Steps>),
    ("inventory", read::<Inventory>),
    ("connectivity-report", read::<ConnectivityReport>),
    ("error", read::<ApiError>),
    ("infra_error", read::<InfraError>),
];

/// Arguments of steps: what their description requires is required here too.
const ARGUMENTS: &[(&str, Read)] = &[
    ("next_step_cmd_request", read::<NextStepRequest>),
    ("install_cmd_request", read::<InstallRequest>),
    ("logs_gather_cmd_request", read::<LogsGatherRequest>),
    ("connectivity-check-params", read::<Vec<ConnectivityCheckHost>>),
    ("free_addresses_request", read::<Vec<String>>),
    ("verify_vips_request", read::<Vec<VerifyVip>>),
    ("ntp_synchronization_request", read::<NtpSynchronizationRequest>),
    ("domain_resolution_request", read::<DomainResolutionRequest>),
    ("disk_speed_check_request", read::<DiskSpeedCheckRequest>),
    ("container_image_availability_request", read::<ContainerImageAvailabilityRequest>),
    ("dhcp_allocation_request", read::<DhcpAllocationRequest>),
    ("api_vip_connectivity_request", read::<ApiVipConnectivityRequest>),
    ("tang_connectivity_request", read::<TangConnectivityRequest>),
    ("download_boot_artifacts_request", read::<BootArtifactsRequest>),
    ("reboot_for_reclaim_request", read::<RebootForReclaimRequest>),
];

/// Fields that must be there: of which definition, and why.
const ESSENTIAL: &[(&str, &str, &str)] = &[
    ("host", "id", "a host is its id"),
    ("host_registration_response", "id", "a host is its id"),
    ("cluster", "id", "a cluster is its id"),
    ("infra-env", "id", "an infra-env is its id"),
    ("error", "reason", "tells this form of a refusal from the other"),
    ("infra_error", "message", "tells this form of a refusal from the other"),
    ("verify_vip", "vip_type", "is echoed in the reply"),
];

/// Enums without room for a new text: of which definition, and why.
const CLOSED: &[(&str, &str, &str)] = &[
    ("install_cmd_request", "role", "what a host of another role does is not known here"),
    ("verify_vip", "vip_type", "is compared with what was asked for"),
];

fn is_listed(list: &[(&'static str, &'static str, &str)], place: (&str, &str)) -> Option<(&'static str, &'static str)> {
    list.iter().map(|(definition, name, _)| (*definition, *name)).find(|entry| *entry == place)
}

#[test]
fn every_absence_and_null_is_read() {
    let Some(description) = testkit::wire::document::<Value>() else { return };
    let description = Description::new(description);
    let (mut count, mut faults, mut used) = (0, Vec::new(), BTreeSet::new());
    let answers = ANSWERS.iter().map(|(name, read)| (name, read, false));
    let arguments = ARGUMENTS.iter().map(|(name, read)| (name, read, true));
    for (definition, read, is_argument) in answers.chain(arguments) {
        let full = description.example(definition);
        read(&full).unwrap_or_else(|error| panic!("{definition}: {error} in {full:#}"));
        let mut variants = 0;
        for variant in description.variants(definition, &full) {
            let place = (variant.definition.as_str(), variant.name.as_str());
            let result = read(&variant.document);
            variants += 1;
            let list = if variant.change == Change::NewText { CLOSED } else { ESSENTIAL };
            if variant.change != Change::NewName
                && let Some(entry) = is_listed(list, place)
            {
                // What is listed in vain would hide a fault.
                used.extend(result.is_err().then_some((variant.change == Change::NewText, entry)));
                continue;
            }
            if is_argument && variant.is_required && matches!(variant.change, Change::Absent | Change::Null) {
                continue;
            }
            if let Err(error) = &result {
                faults.push(format!("{definition}: {} {:?}: {error}", variant.at, variant.change));
            }
            // What null means is what absence means.
            if variant.change == Change::Null {
                let absent = read(&variant.absent);
                if result.is_ok() && result != absent {
                    faults.push(format!("{definition}: {} is read otherwise when it is null", variant.at));
                }
            }
        }
        for (what, document) in description.bare(definition, &full, is_argument, ESSENTIAL) {
            variants += 1;
            faults.extend(read(&document).err().map(|error| format!("{definition}: everything {what}: {error}")));
        }
        println!("{variants:5} variants of {definition}");
        count += variants;
    }
    println!("{count:5} variants");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    let listed = |list: &'static [(&str, &str, &str)], closed| list.iter().map(move |(d, n, _)| (closed, (*d, *n)));
    let listed: BTreeSet<_> = listed(ESSENTIAL, false).chain(listed(CLOSED, true)).collect();
    assert_eq!(used, listed, "an exception that is none");
    assert_eq!(count, COUNT, "the description or the list of types has changed");
}

/// Documents read.
const COUNT: usize = 2544;
