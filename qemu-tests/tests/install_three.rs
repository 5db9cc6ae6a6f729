//! Three machines: the mesh they see, what a cut cable does to it, and an installation that the service's death doesn't stop.

mod common;

use api::{Host, HostStage};
use common::{LIMIT, finish_installation, ok, rack, start_installation, turn};
use qemu_tests::{
    images::{Compression, SectorSize},
    rack::Rack,
    view::HostView,
    vm::Firmware,
};

#[test]
fn a_cut_shows_in_the_mesh_and_a_killed_service_forgets_nothing() {
    let _turn = turn();
    let mut rack = rack("three", 3, Firmware::Bios, SectorSize::B512, Compression::Zstd);
    ok(rack.discover(LIMIT));
    mesh(&mut rack, "everybody reaches everybody", [2, 2, 2]);

    let ports = rack.ports().to_vec();
    rack.switch().partition(&ports[..1], &ports[1..2]);
    mesh(&mut rack, "the cut between node-0 and node-1", [1, 1, 2]);
    rack.switch().heal();
    mesh(&mut rack, "the mesh whole again", [2, 2, 2]);

    start_installation(&mut rack);
    ok(rack.wait("somebody writes", LIMIT, |views| {
        views.iter().any(|view| view.stage == Some(HostStage::WritingImageToDisk))
    }));
    let before = ok(rack.hosts());
    ok(rack.service().kill());
    ok(rack.service().restart());
    let after = ok(rack.hosts());
    assert_eq!(before.len(), after.len());
    before.iter().zip(&after).for_each(|(before, after)| nothing_lost(before, after));

    finish_installation(&mut rack);
    println!("three: {:.0} s", rack.elapsed().as_secs_f64());
}

fn mesh(rack: &mut Rack, what: &str, reached: [usize; 3]) {
    let seen = |views: &[HostView]| views.iter().map(|view| view.reachable).collect::<Vec<_>>();
    ok(rack.wait(what, LIMIT, |views| seen(views) == reached));
}

/// What was recorded is still there; only a stage may have moved on, since the machines go on all the while.
fn nothing_lost(before: &Host, after: &Host) {
    let record = |host: &Host| {
        let host = host.clone();
        (host.id, host.cluster_id, host.inventory, host.requested_hostname, host.role, host.installation_disk_id)
    };
    assert_eq!(record(before), record(after));
    assert_eq!((before.created_at, before.registered_at), (after.created_at, after.registered_at));
    let stage = |host: &Host| {
        let current = host.progress.as_ref().and_then(|progress| progress.current_stage)?;
        host.progress_stages.as_ref()?.iter().position(|stage| *stage == current)
    };
    assert!(stage(after) >= stage(before), "{:?} became {:?}", before.progress, after.progress);
}
