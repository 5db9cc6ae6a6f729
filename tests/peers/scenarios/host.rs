//! The hosts that the scenarios run on, without any program of the peers.

use super::*;
use crate::{
    host::{Host, Plan},
    net::Segment,
    site::landfall,
};

#[test]
fn a_host_has_a_disk_of_its_own_and_no_other() {
    let Some(segment) = Segment::new() else { return };
    let landfall = landfall();
    let script =
        "landfall inventory >\"$SHARED/inventory.new\"; mv \"$SHARED/inventory.new\" \"$SHARED/inventory\"; sleep 1000";
    let service = ["sh", "-c", script].map(str::to_owned).to_vec();
    let host = Host::start(
        &segment,
        Plan { number: 0, programs: &[("landfall", landfall)], scripts: &[], service, environment: &[] },
    );
    testkit::wait::until("there is an inventory", || host.shared.path().join("inventory").exists());
    let inventory: Value = serde_json::from_str(&host.file("inventory")).unwrap();
    assert_eq!(inventory["disks"].as_array().unwrap().len(), 1);
    assert_eq!(inventory["disks"][0]["serial"], "VDA-0");
    assert_eq!(inventory["disks"][0]["installation_eligibility"]["eligible"], true, "{}", inventory["disks"]);
}
