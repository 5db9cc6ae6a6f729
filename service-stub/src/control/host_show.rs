//! A host in detail.

use super::{
    Console, cluster_show,
    culprit::{of_host, stage},
    host_name, inventory,
    table::{Column, Table},
};
use crate::text::{self, at, bmc, machine};
use api::Inventory;
use kernel::units::binary;
use serde_json::Value;

/// What stands in its way comes first.
pub(crate) fn show(console: &mut Console, host: &Value, all: bool) -> anyhow::Result<()> {
    cluster_show::culprits_first(console, &host_name(host), host, &of_host(host))?;
    let text = |pointer| at(host, pointer).to_owned();
    let moment = |pointer| Some(text(pointer)).filter(|text| !text.starts_with("0001-")).unwrap_or_default();
    let inventory = inventory(host);
    let of = |tell: &dyn Fn(&Inventory) -> String| inventory.as_ref().map(tell).unwrap_or_default();
    console.list(&[
        ("Name", host_name(host)),
        ("Id", text("/id")),
        ("Infra-env", text("/infra_env_id")),
        ("Cluster", text("/cluster_id")),
        ("Role", cluster_show::role(host)),
        ("Status", text("/status")),
        ("Info", text("/status_info")),
        ("Stage", stage(host)),
        ("Progress", cluster_show::host_percent(host)),
        ("Installation disk", text("/installation_disk_path")),
        ("Last contact", moment("/checked_in_at")),
        ("Machine", of(&machine)),
        (
            "Serial number",
            of(&|inventory| inventory.system_vendor.as_ref().map(|v| v.serial_number.clone()).unwrap_or_default()),
        ),
        (
            "Processors",
            of(&|inventory| {
                inventory.cpu.as_ref().map(|cpu| format!("{} {}", cpu.count, cpu.model_name)).unwrap_or_default()
            }),
        ),
        (
            "Memory",
            of(&|inventory| inventory.memory.as_ref().map(|memory| binary(memory.physical_bytes)).unwrap_or_default()),
        ),
        ("Management controller", of(&bmc)),
        ("Boot", text::boot(at(host, "/validations_info")).unwrap_or_default()),
        ("Installer arguments", text("/installer_args")),
    ])?;
    if let Some(inventory) = &inventory {
        hardware(console, inventory)?;
    }
    if all {
        cluster_show::validations(console, &host_name(host), host)?;
    }
    Ok(())
}

fn hardware(console: &mut Console, inventory: &Inventory) -> anyhow::Result<()> {
    let mut disks = Table::new(&[
        ("DISK", Column::Name),
        ("KIND", Column::Detail(2)),
        ("SIZE", Column::Detail(1)),
        ("MODEL", Column::Detail(3)),
        ("SERIAL", Column::Detail(3)),
        ("FIT", Column::Reason),
    ]);
    for disk in &inventory.disks {
        let fit = match disk.installation_eligibility.eligible {
            true => "yes".to_owned(),
            false => {
                let reasons = disk.installation_eligibility.not_eligible_reasons.as_deref().unwrap_or_default();
                format!("no: {}", reasons.join("; "))
            }
        };
        let size = binary(disk.size_bytes);
        disks.row([disk.path.clone(), disk.drive_type.clone(), size, disk.model.clone(), disk.serial.clone(), fit]);
    }
    let mut interfaces = Table::new(&[
        ("INTERFACE", Column::Name),
        ("MAC", Column::Detail(1)),
        ("LINK", Column::State),
        ("SPEED", Column::Detail(2)),
        ("ADDRESSES", Column::Reason),
    ]);
    for nic in inventory.interfaces.iter().filter(|nic| nic.name != "lo") {
        let addresses: Vec<&str> = nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses).map(String::as_str).collect();
        let speed = if nic.speed_mbps > 0 { format!("{} Mb/s", nic.speed_mbps) } else { String::new() };
        let link = if nic.has_carrier { "up" } else { "down" };
        interfaces.row([nic.name.clone(), nic.mac_address.clone(), link.to_owned(), speed, addresses.join(", ")]);
    }
    console.say("")?;
    console.table(&disks)?;
    console.say("")?;
    console.table(&interfaces)
}
