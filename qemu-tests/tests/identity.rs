//! Machines that only an operator's id distinguishes.

#![allow(clippy::unwrap_used)]

use crate::facts;

use facts::Facts;
use qemu_tests::{
    images::Drivers,
    media,
    vm::{Vm, VmBuilder},
};
use std::time::Instant;

/// The same in all machines, and the MD5 of it.
const BOARD_SERIAL: &str = "123-456-789";
const ID_OF_SERIAL: &str = "856f4f9c-3c08-4d97-8ec7-ea0ad7d4cadf";
const BY_ARGUMENT: &str = "a0000000-0000-4000-8000-000000000001";
const BY_FW_CFG: &str = "a0000000-0000-4000-8000-000000000002";
const BY_OEM_STRING: &str = "a0000000-0000-4000-8000-000000000003";

fn machine(name: &str, uuid: &str, board_serial: &str) -> VmBuilder {
    Vm::builder("identity", name)
        .memory_mib(384)
        .kernel(media::shell_system(Drivers::Cloud).unwrap())
        .shell()
        .with("-uuid", uuid)
        .with("-smbios", format!("type=2,manufacturer=Acme,serial={board_serial}"))
}

fn named_by_firmware(machine: VmBuilder) -> VmBuilder {
    machine.with("-smbios", format!("type=11,value=something=else,value=landfall.host_id={BY_OEM_STRING}"))
}

fn named_by_qemu(machine: VmBuilder) -> VmBuilder {
    named_by_firmware(machine).with("-fw_cfg", format!("name=opt/landfall/host_id,string={BY_FW_CFG}"))
}

#[test]
fn equal_board_serials_make_equal_ids_until_an_operator_names_them() {
    let began = Instant::now();
    let same = |name, number| machine(name, &format!("11223344-5566-7788-99aa-bbccddeeff0{number}"), BOARD_SERIAL);
    let mut by_argument = media::shell_system(Drivers::Cloud).unwrap();
    by_argument.arguments += &format!(" landfall.host_id={}", BY_ARGUMENT.to_uppercase());
    // Each later one has the names of those before it too: the best source wins.
    let machines = [
        (same("first", 1), format!("{ID_OF_SERIAL} board-serial\n")),
        (same("second", 2), format!("{ID_OF_SERIAL} board-serial\n")),
        (named_by_firmware(same("oem-string", 3)), format!("{BY_OEM_STRING} oem-string\n")),
        (named_by_qemu(same("fw-cfg", 4)), format!("{BY_FW_CFG} fw-cfg\n")),
        (named_by_qemu(same("kernel-argument", 5)).kernel(by_argument), format!("{BY_ARGUMENT} kernel-argument\n")),
    ];
    let mut running: Vec<(Vm, String)> =
        machines.into_iter().map(|(machine, expected)| (machine.start().unwrap(), expected)).collect();
    for (vm, expected) in &mut running {
        assert_eq!(Facts::ask(vm).text("landfall inventory --host-id"), *expected, "{}", vm.name());
    }
    println!("identity, five machines: {:.1} s", began.elapsed().as_secs_f64());
}

#[test]
fn what_boards_share_is_no_identity() {
    const UUID: &str = "AABBCCDD-5566-7788-99AA-BBCCDDEEFF00";
    let mut placeholder = machine("placeholder", UUID, "Default string").start().unwrap();
    // Hosts are known by this one: it stays their id, with a warning.
    let mut shared = machine("shared", UUID, "To be filled by O.E.M.").start().unwrap();
    let by_uuid = format!("{} system-uuid\n", UUID.to_lowercase());
    assert_eq!(Facts::ask(&mut placeholder).text("landfall inventory --host-id 2>&1"), by_uuid);
    let said = Facts::ask(&mut shared).text("landfall inventory --host-id 2>&1");
    assert!(said.contains("landfall.host_id=") && said.ends_with(" board-serial\n"), "{said}");
}
