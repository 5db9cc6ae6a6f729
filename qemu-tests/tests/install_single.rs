//! One machine from the live ISO to its own disk, over firmware, sector sizes and every compression images come in.

mod common;

use common::{LIMIT, finish_installation, ok, rack, start_installation, turn};
use qemu_tests::{
    images::{Compression, SectorSize},
    vm::Firmware,
};

fn cycle(run: &str, firmware: Firmware, sector: SectorSize, compression: Compression) {
    let _turn = turn();
    let mut rack = rack(run, 1, firmware, sector, compression);
    ok(rack.discover(LIMIT));
    start_installation(&mut rack);
    finish_installation(&mut rack);
    println!("{run}: {:.0} s", rack.elapsed().as_secs_f64());
}

#[test]
fn bios_512_zstd() {
    cycle("single-bios-512-zstd", Firmware::Bios, SectorSize::B512, Compression::Zstd);
}

#[test]
fn uefi_4kn_xz() {
    cycle("single-uefi-4kn-xz", Firmware::Uefi, SectorSize::B4096, Compression::Xz);
}

#[test]
fn uefi_512_gzip() {
    cycle("single-uefi-512-gzip", Firmware::Uefi, SectorSize::B512, Compression::Gzip);
}
