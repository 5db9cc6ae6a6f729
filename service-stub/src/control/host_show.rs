//! A host in full.

use super::{Console, cluster_show, host_name, inventory, table};
use crate::text::{at, binary_bytes, decimal_bytes};
use api::Inventory;
use serde_json::Value;

/// `8 CPU, 16 GiB, 480 GB + 2 TB`: processors, memory, disks that may be installed to.
pub fn summary(inventory: &Inventory) -> String {
    let mut parts = Vec::new();
    parts.extend(inventory.cpu.as_ref().map(|cpu| format!("{} CPU", cpu.count)));
    parts.extend(inventory.memory.as_ref().map(|memory| binary_bytes(memory.physical_bytes)));
    let disks = inventory.disks.iter().filter(|disk| disk.installation_eligibility.eligible);
    let disks: Vec<String> = disks.map(|disk| decimal_bytes(disk.size_bytes)).collect();
    parts.push(if disks.is_empty() { "no disk to install to".to_owned() } else { disks.join(" + ") });
    parts.join(", ")
}

/// The address of the management controller, if there is one.
pub fn bmc(inventory: &Inventory) -> String {
    let own = [("0.0.0.0", &inventory.bmc_address), ("::/0", &inventory.bmc_v6address)];
    let all = own.into_iter().filter(|(none, address)| !address.is_empty() && *address != none);
    all.map(|(_, address)| address.as_str()).collect::<Vec<_>>().join(", ")
}

/// Who made it, and what it is.
pub fn machine(inventory: &Inventory) -> String {
    let Some(vendor) = &inventory.system_vendor else { return String::new() };
    let kind = if vendor.r#virtual { "(virtual)" } else { "" };
    let words = [vendor.manufacturer.as_str(), vendor.product_name.as_str(), kind];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Prints it.
pub fn show(console: &mut Console, host: &Value, all_validations: bool) -> anyhow::Result<()> {
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
        ("Stage", cluster_show::stage(host)),
        ("Progress", cluster_show::host_percent(host)),
        ("Installation disk", text("/installation_disk_path")),
        ("Last heard of", moment("/checked_in_at")),
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
            of(&|inventory| {
                inventory.memory.as_ref().map(|memory| binary_bytes(memory.physical_bytes)).unwrap_or_default()
            }),
        ),
        ("Management controller", of(&bmc)),
        ("Installer arguments", text("/installer_args")),
    ])?;
    if let Some(inventory) = &inventory {
        hardware(console, inventory)?;
    }
    cluster_show::findings(console, &host_name(host), at(host, "/validations_info"), all_validations)
}

fn hardware(console: &mut Console, inventory: &Inventory) -> anyhow::Result<()> {
    let mut disks = table::Table::new(&["DISK", "KIND", "SIZE", "MODEL", "SERIAL", "FIT"]);
    for disk in &inventory.disks {
        let fit = match disk.installation_eligibility.eligible {
            true => "yes".to_owned(),
            false => {
                let reasons = disk.installation_eligibility.not_eligible_reasons.as_deref().unwrap_or_default();
                format!("no: {}", reasons.join("; "))
            }
        };
        let size = decimal_bytes(disk.size_bytes);
        disks.row([disk.path.clone(), disk.drive_type.clone(), size, disk.model.clone(), disk.serial.clone(), fit]);
    }
    let mut interfaces = table::Table::new(&["INTERFACE", "MAC", "LINK", "SPEED", "ADDRESSES"]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_in_a_few_words() {
        let inventory: Inventory = serde_json::from_value(serde_json::json!({
            "bmc_address": "0.0.0.0", "bmc_v6address": "fd00::7",
            "cpu": {"count": 8}, "memory": {"physical_bytes": 17_179_869_184_u64},
            "system_vendor": {"manufacturer": "QEMU", "virtual": true},
            "disks": [
                {"size_bytes": 480_000_000_000_u64, "installation_eligibility": {"eligible": true}},
                {"size_bytes": 1_000_000_000_u64, "installation_eligibility": {}},
            ],
        }))
        .unwrap();
        assert_eq!(summary(&inventory), "8 CPU, 16 GiB, 480 GB");
        assert_eq!((bmc(&inventory).as_str(), machine(&inventory).as_str()), ("fd00::7", "QEMU (virtual)"));
        assert_eq!(summary(&Inventory::default()), "no disk to install to");
    }
}
