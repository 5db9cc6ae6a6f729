//! One machine from the live ISO to its own disk, over firmware, sector sizes, every kind of disk and every compression images come
//! in.

mod common;

use common::{LIMIT, finish_installation, ok, rack_with_disks_on, start_installation, turn};
use qemu_tests::{
    images::{Compression, SectorSize},
    vm::{Bus, Firmware},
};

fn cycle(run: &str, bus: Bus, firmware: Firmware, sector: SectorSize, compression: Compression) {
    let _turn = turn();
    let mut rack = rack_with_disks_on(bus, run, 1, firmware, sector, compression);
    ok(rack.discover(LIMIT));
    start_installation(&mut rack);
    finish_installation(&mut rack);
    println!("{run}: {:.0} s", rack.elapsed().as_secs_f64());
}

#[test]
fn virtio_bios_512_zstd() {
    cycle("single-virtio-bios-512-zstd", Bus::Virtio, Firmware::Bios, SectorSize::B512, Compression::Zstd);
}

#[test]
fn nvme_uefi_4kn_xz() {
    cycle("single-nvme-uefi-4kn-xz", Bus::Nvme, Firmware::Uefi, SectorSize::B4096, Compression::Xz);
}

#[test]
fn scsi_uefi_512_gzip() {
    cycle("single-scsi-uefi-512-gzip", Bus::Scsi, Firmware::Uefi, SectorSize::B512, Compression::Gzip);
}

#[test]
fn sata_bios_512_raw() {
    cycle("single-sata-bios-512-raw", Bus::Sata, Firmware::Bios, SectorSize::B512, Compression::Raw);
}
