//! Warnings of disks: what they say of their own health.

use super::Storage;

/// Percent of the endurance that its maker promises.
const WORN_OUT_PERCENT: u8 = 100;

/// One line for each fault of a disk or its controller.
pub(super) fn warnings(storage: &Storage, warnings: &mut Vec<String>) {
    for disk in &storage.disks {
        let Some(smart) = &disk.smart else { continue };
        if smart.is_failing == Some(true) {
            warnings.push(format!("disk {}: SMART foretells its failure", disk.name));
        }
        for attribute in &smart.attributes {
            if let Some(when) = &attribute.failed {
                let name = attribute.name.as_deref().unwrap_or("attribute");
                warnings.push(format!("disk {}: SMART {} {name} at its threshold: {when}", disk.name, attribute.id));
            }
        }
    }
    for controller in &storage.nvme_controllers {
        let Some(smart) = &controller.smart else { continue };
        let name = &controller.name;
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
        storage.nvme_controllers[1].name = "nvme1".to_owned();
        storage.nvme_controllers[1].smart = Some(serde_json::from_value(nvme(9, 100, 3, &["read only"])).unwrap());
        warnings(&storage, &mut found);
        let lines = [
            "disk sdb: SMART foretells its failure",
            "disk sdb: SMART 5 reallocated at its threshold: now",
            "nvme1: the drive warns: read only",
            "nvme1: 9 % of its spare blocks are left, it warns below 10 %",
            "nvme1: 100 % of its endurance are used",
            "nvme1: 3 media errors that could not be corrected",
        ];
        assert_eq!(found, lines);
    }
}
