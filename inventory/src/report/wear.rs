//! Warnings of disks: what they say of their own health.

use super::{
    Storage,
    storage::{AtaHealth, ScsiLog},
    warnings::{Findings, Lines, counted},
};

/// Percent of the endurance that its maker promises.
const WORN_OUT_PERCENT: u8 = 100;
/// SMART attributes of which all makers count sectors that can't be read: pending and offline uncorrectable ones.
const LOST_SECTORS: [u8; 2] = [197, 198];

/// States of a SCSI device that takes commands, or will in a moment.
const GOOD_STATES: [&str; 3] = ["running", "created", "quiesce"];

/// States of volumes and of drives behind RAID controllers that need no look.
const GOOD_VOLUMES: [&str; 1] = ["optimal"];
const GOOD_DRIVES: [&str; 4] = ["online", "hot spare", "unconfigured good", "not in a volume"];

/// States of an enclosure's parts that are a warning (SES-3 7.2.3).
const BAD_PARTS: [&str; 3] = ["critical", "noncritical", "unrecoverable"];

/// Faults of disks and their controllers.
pub(super) fn findings(storage: &Storage, found: &mut Findings) {
    let Findings { warnings, notes } = found;
    for disk in &storage.disks {
        let name = format!("disk {}", disk.name);
        if let Some(state) = disk.state.as_ref().filter(|state| !GOOD_STATES.contains(&state.as_str())) {
            warnings.say_of(&name, format!("the SCSI state is {state}, not running"));
        }
        if let Some(ata) = &disk.ata {
            if ata.is_locked {
                warnings.say_of(&name, "locked by a password");
            }
            if ata.has_smart && !ata.is_smart_enabled {
                notes.say_of(&name, "SMART is disabled");
            }
        }
        ata(&name, disk.smart.as_ref(), warnings);
        scsi(&name, disk.scsi_log.as_ref(), warnings, notes);
    }
    raid(storage, warnings, notes);
    topology(storage, warnings, notes);
    for controller in &storage.nvme_controllers {
        let name = &controller.name;
        if let Some(state) = controller.state.as_ref().filter(|state| *state != "live") {
            warnings.say_of(name, format!("the controller is {state}, not live"));
        }
        let Some(smart) = &controller.smart else { continue };
        let critical = controller.identity.as_ref().and_then(|identity| identity.critical_temperature_celsius);
        if let (Some(now), Some(critical)) = (smart.temperature_celsius, critical)
            && now >= critical
        {
            warnings.say_of(name, format!("{now} °C, critical is {critical} °C"));
        }
        if !smart.critical_warnings.is_empty() {
            warnings.say_of(name, format!("the drive warns: {}", smart.critical_warnings.join(", ")));
        }
        if smart.available_spare_percent < smart.spare_threshold_percent {
            let (left, wanted) = (smart.available_spare_percent, smart.spare_threshold_percent);
            warnings.say_of(name, format!("{left} % of its spare blocks are left, it warns below {wanted} %"));
        }
        if smart.used_percent >= WORN_OUT_PERCENT {
            warnings.say_of(name, format!("{} % of its endurance is used", smart.used_percent));
        }
        if let Some(errors @ 1..) = smart.media_errors {
            warnings.say_of(name, format!("{} that could not be corrected", counted(errors, "media error")));
        }
    }
}

fn ata(name: &str, smart: Option<&AtaHealth>, warnings: &mut Lines) {
    let Some(smart) = smart else { return };
    if smart.is_failing == Some(true) {
        warnings.say_of(name, "SMART predicts its failure");
    }
    for attribute in &smart.attributes {
        if attribute.raw > 0 && LOST_SECTORS.contains(&attribute.id) {
            let kind = attribute.name.as_deref().unwrap_or("bad sectors");
            warnings.say_of(name, format!("{} {kind}", attribute.raw));
        }
        if let Some(when) = &attribute.failed {
            let number = || format!("attribute {}", attribute.id);
            let kind = attribute.name.clone().unwrap_or_else(number);
            warnings.say_of(name, format!("SMART {kind} at its threshold: {when}"));
        }
    }
}

fn scsi(name: &str, log: Option<&ScsiLog>, warnings: &mut Lines, notes: &mut Lines) {
    let Some(log) = log else { return };
    if log.is_failing == Some(true) {
        warnings.say_of(name, "the disk predicts its failure");
    }
    let uncorrected = [
        ("read", log.read_uncorrected_errors),
        ("write", log.write_uncorrected_errors),
        ("verification", log.verify_uncorrected_errors),
    ];
    for (kind, count) in uncorrected {
        if let Some(count @ 1..) = count {
            warnings.say_of(name, format!("{} that could not be corrected", counted(count, kind)));
        }
    }
    if let (Some(now), Some(most)) = (log.temperature_celsius, log.reference_temperature_celsius)
        && now >= most
    {
        warnings.say_of(name, format!("{now} °C, critical is {most} °C"));
    }
    if log.last_self_test.as_deref() == Some("failed") {
        warnings.say_of(name, "the last self-test failed");
    }
    if let Some(used @ WORN_OUT_PERCENT..) = log.used_percent {
        warnings.say_of(name, format!("{used} % of its endurance is used"));
    }
    if let Some(count @ 1..) = log.grown_defects {
        notes.say_of(name, counted(count, "grown defect"));
    }
    for phy in &log.phys {
        let count = u64::from(phy.invalid_dwords) + u64::from(phy.sync_losses) + u64::from(phy.reset_problems);
        if count > 0 {
            notes.say_of(name, format!("{} on SAS phy {}", counted(count, "link error"), phy.id));
        }
    }
}

fn raid(storage: &Storage, warnings: &mut Lines, notes: &mut Lines) {
    let at = |address: &Option<String>| address.clone().unwrap_or_default();
    for controller in &storage.raid_controllers {
        let name = format!("RAID controller {}", at(&controller.address));
        if let Some(battery) = controller.battery.as_ref().filter(|battery| battery.is_healthy == Some(false)) {
            warnings.say_of(&name, format!("its battery cannot keep the cache: {}", battery.conditions.join(", ")));
        }
        let problems = &controller.cache_problems;
        match &controller.cache_state {
            Some(state) if state.starts_with("disabled") => {
                let lines = if problems[..] == ["disabled by a user"] { &mut *notes } else { &mut *warnings };
                let why = if problems.is_empty() { String::new() } else { format!(": {}", problems.join(", ")) };
                lines.say_of(&name, format!("its cache is {state}{why}"));
            }
            _ if problems.is_empty() => {}
            _ => warnings.say_of(&name, format!("its cache has a problem: {}", problems.join(", "))),
        }
        if let Some(errors @ 1..) = controller.memory_uncorrected_errors {
            warnings.say_of(&name, format!("{} of its memory that could not be corrected", counted(errors, "error")));
        }
    }
    for volume in &storage.raid_volumes {
        let name = format!("RAID volume {} {}", at(&volume.controller), volume.number);
        if let Some(state) = volume.state.as_ref().filter(|state| !GOOD_VOLUMES.contains(&state.as_str())) {
            warnings.say_of(name, format!("the volume is {state}, not optimal"));
        }
    }
    for drive in &storage.raid_drives {
        let bay = drive.bay.clone().unwrap_or_else(|| drive.number.to_string());
        let name = format!("RAID drive {} {bay}", at(&drive.controller));
        if let Some(state) = drive.state.as_ref().filter(|state| !GOOD_DRIVES.contains(&state.as_str())) {
            warnings.say_of(&name, format!("the drive is {state}"));
        }
        if let Some(used @ WORN_OUT_PERCENT..) = drive.used_percent {
            warnings.say_of(&name, format!("{used} % of its endurance is used"));
        }
        if let Some(1..) = drive.predicted_failures {
            warnings.say_of(&name, "the controller predicts its failure");
        }
        if let Some(errors @ 1..) = drive.media_errors {
            warnings.say_of(&name, counted(errors, "media error"));
        }
        ata(&name, drive.smart.as_ref(), warnings);
        scsi(&name, drive.scsi_log.as_ref(), warnings, notes);
    }
}

/// SAS links with errors, enclosures and their parts.
fn topology(storage: &Storage, warnings: &mut Lines, notes: &mut Lines) {
    for phy in &storage.sas_phys {
        let name = format!("SAS link {}", phy.name);
        let counts = [phy.invalid_dwords, phy.sync_losses, phy.reset_problems];
        let errors = counts.into_iter().flatten().fold(0, u64::saturating_add);
        if errors > 0 {
            notes.say_of(&name, counted(errors, "link error"));
        }
    }
    let is_bad = |state: &&String| BAD_PARTS.contains(&state.as_str());
    for bay in &storage.enclosure_bays {
        let name = format!("bay {} {}", bay.enclosure, bay.number);
        if let Some(state) = bay.state.as_ref().filter(is_bad) {
            warnings.say_of(&name, format!("the state is {state}"));
        }
        if bay.is_faulty {
            warnings.say_of(&name, "the enclosure shows a fault");
        }
    }
    for part in &storage.enclosure_parts {
        let name = format!("enclosure {} {} {}", part.enclosure, part.kind, part.number);
        if let Some(state) = part.state.as_ref().filter(is_bad) {
            let why = if part.problems.is_empty() { String::new() } else { format!(": {}", part.problems.join(", ")) };
            warnings.say_of(&name, format!("the state is {state}{why}"));
        }
        if part.is_failing {
            warnings.say_of(&name, "its failure is predicted");
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
        let nvme = |spare: u8, used: u8, errors: u64, critical_warnings: &[&str]| {
            json!({
                "critical_warnings": critical_warnings, "available_spare_percent": spare, "spare_threshold_percent": 10,
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
        let lines = |storage: &Storage| {
            let mut found = Findings::default();
            findings(storage, &mut found);
            (found.warnings.lines(), found.notes.lines())
        };
        assert_eq!(lines(&storage), (vec![], vec![]));
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
        let expected = [
            "disk sdb: locked by a password",
            "disk sdb: SMART predicts its failure",
            "disk sdb: SMART reallocated at its threshold: now",
            "disk sdb: 8 pending sectors",
            "nvme1: the controller is dead, not live",
            "nvme1: 85 °C, critical is 85 °C",
            "nvme1: the drive warns: read only",
            "nvme1: 9 % of its spare blocks are left, it warns below 10 %",
            "nvme1: 100 % of its endurance is used",
            "nvme1: 3 media errors that could not be corrected",
        ];
        let notes = vec!["disk sdb: SMART is disabled".to_owned()];
        assert_eq!(lines(&storage), (expected.map(str::to_owned).into(), notes));
    }

    #[test]
    fn what_is_behind_controllers_and_in_enclosures() {
        let storage: Storage = serde_json::from_value(json!({
            "raid_controllers": [
                {"address": "0000:03:00.0", "memory_uncorrected_errors": 1,
                 "battery": {"is_healthy": false, "conditions": ["missing"]}},
                {"address": "0000:04:00.0", "memory_uncorrected_errors": 0, "battery": {"is_healthy": true},
                 "cache_state": "disabled for now", "cache_problems": ["capacitor charge low"]},
                {"address": "0000:05:00.0", "cache_state": "disabled for now", "cache_problems": ["disabled by a user"]},
                {"address": "0000:06:00.0", "cache_state": "enabled", "cache_problems": ["too many memory errors"]},
            ],
            "raid_volumes": [
                {"controller": "0000:03:00.0", "number": 0, "state": "optimal"},
                {"controller": "0000:03:00.0", "number": 1, "state": "degraded"},
            ],
            "raid_drives": [
                {"controller": "0000:03:00.0", "bay": "32:0", "number": 8, "state": "online", "media_errors": 0,
                 "used_percent": 100},
                {"controller": "0000:03:00.0", "bay": "32:1", "number": 9, "state": "failed", "media_errors": 2,
                 "predicted_failures": 1, "scsi_log": {"is_failing": true, "grown_defects": 5, "read_uncorrected_errors": 1}},
            ],
            "disks": [{"name": "sda", "scsi_log": {
                "temperature_celsius": 66, "reference_temperature_celsius": 65, "last_self_test": "failed", "used_percent": 100,
                "phys": [{"port": 1, "id": 0, "invalid_dwords": 2, "disparity_errors": 2, "sync_losses": 1, "reset_problems": 0}],
            }}],
            "sas_phys": [{"name": "phy-0:0", "invalid_dwords": 0}, {"name": "phy-0:1", "reset_problems": 1}],
            "enclosure_bays": [
                {"enclosure": "1:0:8:0", "number": 0, "state": "ok", "is_faulty": false},
                {"enclosure": "1:0:8:0", "number": 1, "state": "not installed", "is_faulty": true},
            ],
            "enclosure_parts": [
                {"enclosure": "1:0:8:0", "type": "fan", "number": 0, "state": "critical", "is_failing": true,
                 "problems": ["failed"]},
            ],
        }))
        .unwrap();
        let mut found = Findings::default();
        findings(&storage, &mut found);
        let expected = [
            "disk sda: 66 °C, critical is 65 °C",
            "disk sda: the last self-test failed",
            "disk sda, RAID drive 0000:03:00.0 32:0: 100 % of its endurance is used",
            "RAID controller 0000:03:00.0: its battery cannot keep the cache: missing",
            "RAID controller 0000:03:00.0: 1 error of its memory that could not be corrected",
            "RAID controller 0000:04:00.0: its cache is disabled for now: capacitor charge low",
            "RAID controller 0000:06:00.0: its cache has a problem: too many memory errors",
            "RAID volume 0000:03:00.0 1: the volume is degraded, not optimal",
            "RAID drive 0000:03:00.0 32:1: the drive is failed",
            "RAID drive 0000:03:00.0 32:1: the controller predicts its failure",
            "RAID drive 0000:03:00.0 32:1: 2 media errors",
            "RAID drive 0000:03:00.0 32:1: the disk predicts its failure",
            "RAID drive 0000:03:00.0 32:1: 1 read that could not be corrected",
            "bay 1:0:8:0 1: the enclosure shows a fault",
            "enclosure 1:0:8:0 fan 0: the state is critical: failed",
            "enclosure 1:0:8:0 fan 0: its failure is predicted",
        ];
        assert_eq!(found.warnings.lines(), expected);
        let notes = [
            "disk sda: 3 link errors on SAS phy 0",
            "RAID controller 0000:05:00.0: its cache is disabled for now: disabled by a user",
            "RAID drive 0000:03:00.0 32:1: 5 grown defects",
            "SAS link phy-0:1: 1 link error",
        ];
        assert_eq!(found.notes.lines(), notes);
    }
}
