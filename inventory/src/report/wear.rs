//! Warnings of disks: what they say of their own health.

use super::Storage;

/// Percent of the endurance that its maker promises.
const WORN_OUT_PERCENT: u8 = 100;
/// SMART attributes of which all makers count sectors that can't be read: pending and offline uncorrectable ones.
const LOST_SECTORS: [u8; 2] = [197, 198];

/// One line for each fault of a disk or its controller.
pub(super) fn warnings(storage: &Storage, warnings: &mut Vec<String>) {
    for disk in &storage.disks {
        if let Some(ata) = &disk.ata {
            if ata.is_locked {
                warnings.push(format!("disk {}: it is locked by a password", disk.name));
            }
            if ata.has_smart && !ata.is_smart_enabled {
                warnings.push(format!("disk {}: SMART is switched off", disk.name));
            }
        }
        let Some(smart) = &disk.smart else { continue };
        if smart.is_failing == Some(true) {
            warnings.push(format!("disk {}: SMART foretells its failure", disk.name));
        }
        for attribute in &smart.attributes {
            if attribute.raw > 0 && LOST_SECTORS.contains(&attribute.id) {
                let name = attribute.name.as_deref().unwrap_or("bad sectors");
                warnings.push(format!("disk {}: {} {name}", disk.name, attribute.raw));
            }
            if let Some(when) = &attribute.failed {
                let name = attribute.name.as_deref().unwrap_or("attribute");
                warnings.push(format!("disk {}: SMART {} {name} at its threshold: {when}", disk.name, attribute.id));
            }
        }
    }
    for controller in &storage.nvme_controllers {
        let name = &controller.name;
        if let Some(state) = controller.state.as_ref().filter(|state| *state != "live") {
            warnings.push(format!("{name}: the controller is {state}, not live"));
        }
        let Some(smart) = &controller.smart else { continue };
        let critical = controller.identity.as_ref().and_then(|identity| identity.critical_temperature_celsius);
        if let (Some(now), Some(critical)) = (smart.temperature_celsius, critical)
            && now >= critical
        {
            warnings.push(format!("{name}: {now} °C, critical is {critical} °C"));
        }
        if !smart.critical_warnings.is_empty() {
            warnings.push(format!("{name}: the drive warns: {}", smart.critical_warnings.join(", ")));
        }
        if smart.available_spare_percent < smart.spare_threshold_percent {
            let (left, wanted) = (smart.available_spare_percent, smart.spare_threshold_percent);
            warnings.push(format!("{name}: {left} % of its spare blocks are left, it warns below {wanted} %"));
        }
        if smart.used_percent >= WORN_OUT_PERCENT {
            warnings.push(format!("{name}: {} % of its endurance are used", smart.used_percent));
        }
        if let Some(errors @ 1..) = smart.media_errors {
            warnings.push(format!("{name}: {errors} media errors that could not be corrected"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::storage::{AtaIdentity, NvmeIdentity};
    use serde_json::json;

    #[test]
    fn what_disks_say_of_themselves() {
        let attribute = |failed: Option<&str>| json!({"id": 5, "name": "reallocated", "value": 1, "worst": 1, "raw": 9, "is_prefailure": true, "failed": failed});
        let disk = |is_failing: bool, failed| json!({"is_failing": is_failing, "attributes": [attribute(failed)]});
        let nvme = |spare: u8, used: u8, errors: u64, told: &[&str]| {
            json!({
                "critical_warnings": told, "available_spare_percent": spare, "spare_threshold_percent": 10,
                "used_percent": used, "media_errors": errors, "warning_temperature_minutes": 0,
                "critical_temperature_minutes": 0,
            })
        };
        let mut storage = Storage::default();
        storage.disks.resize_with(2, Default::default);
        storage.disks[0].smart = Some(serde_json::from_value(disk(false, None)).unwrap());
        storage.disks[1].name = "sdb".to_owned();
        storage.nvme_controllers.resize_with(2, Default::default);
        storage.nvme_controllers[0].smart = Some(serde_json::from_value(nvme(10, 99, 0, &[])).unwrap());
        let mut found = Vec::new();
        warnings(&storage, &mut found);
        assert_eq!(found, [""; 0]);
        storage.disks[1].smart = Some(serde_json::from_value(disk(true, Some("now"))).unwrap());
        let sick = storage.disks[1].smart.get_or_insert_default();
        let lost =
            json!({"id": 197, "name": "pending sectors", "value": 1, "worst": 1, "raw": 8, "is_prefailure": false});
        sick.attributes.push(serde_json::from_value(lost).unwrap());
        storage.disks[1].ata = Some(AtaIdentity { is_locked: true, has_smart: true, ..AtaIdentity::default() });
        storage.nvme_controllers[0].state = Some("live".to_owned());
        storage.nvme_controllers[1].name = "nvme1".to_owned();
        storage.nvme_controllers[1].state = Some("dead".to_owned());
        let identity = NvmeIdentity { critical_temperature_celsius: Some(85), ..NvmeIdentity::default() };
        storage.nvme_controllers[1].identity = Some(identity);
        storage.nvme_controllers[1].smart = Some(serde_json::from_value(nvme(9, 100, 3, &["read only"])).unwrap());
        storage.nvme_controllers[1].smart.as_mut().unwrap().temperature_celsius = Some(85);
        warnings(&storage, &mut found);
        let lines = [
            "disk sdb: it is locked by a password",
            "disk sdb: SMART is switched off",
            "disk sdb: SMART foretells its failure",
            "disk sdb: SMART 5 reallocated at its threshold: now",
            "disk sdb: 8 pending sectors",
            "nvme1: the controller is dead, not live",
            "nvme1: 85 °C, critical is 85 °C",
            "nvme1: the drive warns: read only",
            "nvme1: 9 % of its spare blocks are left, it warns below 10 %",
            "nvme1: 100 % of its endurance are used",
            "nvme1: 3 media errors that could not be corrected",
        ];
        assert_eq!(found, lines);
    }
}
