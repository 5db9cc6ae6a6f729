//! One machine from the live ISO to its own disk, over firmware, sector sizes, every kind of disk and every compression
//! of images. Virtio and SCSI disks, zstd and gzip are in `install_roles`.

#![allow(clippy::unwrap_used)]

use crate::common;

use api::Timestamp;
use common::{LIMIT, finish_installation, ok, rack_with_disks_on, start_installation, turn};
use qemu_tests::{
    images::{Compression, SectorSize},
    rack::Rack,
    vm::{Bus, Firmware},
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long it took from power-on until the service knew what it needs, and where the time went.
fn tell_discovery(run: &str, rack: &mut Rack) {
    let power_on = SystemTime::now() - rack.vms()[0].uptime();
    let since_power_on = |at: Timestamp| {
        let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(at.unix_milliseconds()).unwrap());
        at.duration_since(power_on).unwrap_or_default()
    };
    let host = ok(rack.hosts()).remove(0);
    let mut moments: Vec<_> = rack.vms()[0].markers().into_iter().map(|marker| (marker.text, marker.at)).collect();
    moments.push(("registered".into(), since_power_on(host.registered_at)));
    moments.push(("known".into(), since_power_on(host.status_updated_at)));
    moments.sort_by_key(|(_, at)| *at);
    let mut last = Duration::ZERO;
    for (what, at) in &moments {
        println!("{run}: {:7.2} s  +{:6.2} s  {what}", at.as_secs_f64(), at.saturating_sub(last).as_secs_f64());
        last = *at;
    }
    let at = |name: &str| moments.iter().find(|(what, _)| what == name).map(|(_, at)| *at).unwrap();
    let discovered = at("known").saturating_sub(at("live-online"));
    println!("{run}: known {:.2} s after the network was up", discovered.as_secs_f64());
}

fn cycle(run: &str, bus: Bus, firmware: Firmware, sector: SectorSize, compression: Compression) {
    let _turn = turn();
    let mut rack = rack_with_disks_on(bus, run, 1, firmware, sector, compression);
    ok(rack.discover(LIMIT));
    ok(rack.wait_ready(LIMIT));
    tell_discovery(run, &mut rack);
    start_installation(&mut rack);
    finish_installation(&mut rack);
    println!("{run}: {:.0} s", rack.elapsed().as_secs_f64());
}

#[test]
fn nvme_uefi_4kn_xz() {
    cycle("single-nvme-uefi-4kn-xz", Bus::Nvme, Firmware::Uefi, SectorSize::B4096, Compression::Xz);
}

#[test]
fn sata_bios_512_raw() {
    cycle("single-sata-bios-512-raw", Bus::Sata, Firmware::Bios, SectorSize::B512, Compression::Raw);
}
