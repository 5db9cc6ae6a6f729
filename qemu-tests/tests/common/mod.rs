//! What the install suites share: one rack at a time, generous limits, what an installed machine must say.
// Each suite uses its part of it.
#![allow(clippy::unwrap_used, dead_code)]

pub(crate) mod console;

use qemu_tests::{
    images::{Compression, Drivers, LiveIso, SectorSize, live_iso},
    media,
    rack::{NodeFacts, Rack, RackConfig, RackError},
    stand_in::cluster_files::ControlPlane,
    table::Live,
    view::HostView,
    vm::{Bus, Firmware},
};
use rootfs_overlay::{
    area::Output,
    bake::{
        content::{Content, Ingredients},
        iso::IsoFile,
        program::Program,
        splice,
    },
};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::Display,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use testkit::turn::Turn;

/// Twelve to fifteen times what a step takes under TCG on two busy processors.
pub(crate) const LIMIT: Duration = Duration::from_secs(1800);

/// A place for a rack, which it has until its test ends: one at a time, or as many as the runner numbers.
pub(crate) fn turn() -> Turn {
    let place = std::env::var("NEXTEST_TEST_GROUP_SLOT").unwrap_or_else(|_| "0".to_owned());
    Turn::take(&format!("machines-{place}"))
}

/// Ends the test with the error as people read it.
pub(crate) fn ok<T, E: Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error:#}"))
}

/// A rack of the built images, whose machines are on.
pub(crate) fn rack(run: &str, hosts: u8, firmware: Firmware, sector: SectorSize, compression: Compression) -> Rack {
    rack_with_disks_on(Bus::Virtio, run, hosts, firmware, sector, compression)
}

/// The same, with disks of another kind.
pub(crate) fn rack_with_disks_on(
    bus: Bus,
    run: &str,
    hosts: u8,
    firmware: Firmware,
    sector: SectorSize,
    compression: Compression,
) -> Rack {
    // The smaller kernel knows no AHCI.
    let drivers = if bus == Bus::Sata { Drivers::Full } else { Drivers::Cloud };
    let (iso, image) = (ok(media::agent_iso(drivers)), ok(media::os_image(sector, compression, drivers)));
    let mut config = RackConfig::new(run, hosts, iso, image);
    config.bus = bus;
    config.firmware = firmware;
    config.sector_bytes = u32::try_from(sector.bytes()).unwrap();
    // A BIOS keeps its order; what an installation sets in UEFI must win.
    config.iso_first = firmware == Firmware::Uefi;
    let mut rack = ok(Rack::start(config, changes()));
    ok(rack.power_on());
    rack
}

/// A rack of the built images, with a control plane and so many masters.
pub(crate) fn rack_with_control_plane(
    run: &str,
    hosts: u8,
    masters: u8,
    bus: Bus,
    compression: Compression,
    control_plane: ControlPlane,
) -> Rack {
    let image = ok(media::os_image(SectorSize::B512, compression, Drivers::Cloud));
    let mut config = RackConfig::new(run, hosts, ok(media::agent_iso(Drivers::Cloud)), image);
    config.bus = bus;
    config.masters = masters;
    config.control_plane = Some(control_plane);
    let mut rack = ok(Rack::start(config, changes()));
    ok(rack.power_on());
    rack
}

/// The live system `spec` with `program` baked in, as an ISO in `directory`.
pub(crate) fn bake(spec: &LiveIso, program: &Path, directory: &Path) -> PathBuf {
    let content = ok(Content::new(Ingredients {
        program: ok(Program::read(Some(program))),
        agent: true,
        service: None,
        ca_pem: None,
        agent_toml: None,
        rendezvous: BTreeMap::new(),
        rendezvous_options: None,
    }));
    let base = ok(live_iso(spec));
    let out = directory.join("baked.iso");
    let iso = ok(IsoFile::open(&base));
    ok(splice::write(&Output::NewFile(out.clone()), &ok(iso.baked(&content, None))));
    println!("{} bytes became {}", iso.base_bytes(), fs::metadata(&out).unwrap().len());
    out
}

/// What UEFI started last must be `loader`, by a boot entry that names its partition.
pub(crate) fn check_efi_boot(console: &Path, loader: &str) {
    let log = String::from_utf8_lossy(&fs::read(console).unwrap()).into_owned();
    let started: Vec<&str> = log.lines().filter(|line| line.contains("BdsDxe: starting Boot")).collect();
    let last = started.last().copied().unwrap_or_default();
    assert!(last.contains("HD(2,GPT,") && last.contains(loader), "UEFI started {started:#?}");
}

/// Prints changes, so that the history precedes a failure.
pub(crate) fn changes() -> qemu_tests::rack::Observer {
    let (live, began) = (RefCell::new(Live::new(false, None)), Instant::now());
    Box::new(move |views: &[HostView]| {
        live.borrow_mut().show(&mut io::stdout(), "", began.elapsed(), views).map_err(RackError::Setup)
    })
}

/// From discovered machines to installing ones.
pub(crate) fn start_installation(rack: &mut Rack) {
    ok(rack.wait_ready(LIMIT));
    ok(rack.install());
}

/// Waits until all are installed; each must have the name, the user and the config it was given. Gives what they reported.
pub(crate) fn finish_installation(rack: &mut Rack) -> Vec<NodeFacts> {
    ok(rack.wait_installed(LIMIT));
    let facts = ok(rack.facts());
    for (index, facts) in facts.iter().enumerate() {
        check_node(index, facts);
    }
    facts
}

fn check_node(index: usize, facts: &NodeFacts) {
    facts.check(&format!("node-{index}")).unwrap();
    assert_eq!(facts.failed_units(), [""; 0]);
}
