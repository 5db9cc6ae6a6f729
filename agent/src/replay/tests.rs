use super::*;
use api::{Step, StepType};
use serde_json::{Value, json};
use std::{fs, path::Path};

const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";

fn step(kind: StepType, request: &Value) -> Step {
    Step { args: vec![request.to_string(), "480.00".into()], step_id: "x-1".into(), step_type: kind }
}

#[test]
fn instructions_are_found_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let one = json!({"step_type": "inventory", "step_id": "i-1", "args": [HOST]});
    let poll = json!({"instructions": [one, {"step_type": "from-the-future", "step_id": "f-1", "args": []}]});
    let file = |name: &str, content: &str| fs::write(dir.path().join(name), content).unwrap();
    file("1.json", &json!({"request": {}, "response": {"status": 200, "body": poll}}).to_string());
    file("2.json", &json!({"request": {}, "response": {"status": 200, "body": poll.to_string()}}).to_string());
    file("3.json", &json!({"response": {"body": {"instructions": null, "next_instruction_seconds": 60}}}).to_string());
    file("4.json", &json!([one]).to_string());
    file("5.json", &json!({"id": HOST}).to_string());
    file("6.json", &one.to_string());
    file("notes.txt", "not JSON");
    let ids: Vec<_> = read(dir.path()).unwrap().into_iter().map(|step| step.step_id).collect();
    assert_eq!(ids, ["i-1", "f-1", "i-1", "f-1", "i-1", "i-1"]);
    assert!(matches!(read(&dir.path().join("3.json")), Err(RecordedError::Nothing { .. })));
    assert!(matches!(read(&dir.path().join("notes.txt")), Err(RecordedError::Json { .. })));
    assert!(matches!(read(Path::new("/nonexistent")), Err(RecordedError::Read { .. })));
}

#[test]
fn nothing_that_writes_keeps_its_own_target() {
    let install = json!({"boot_device": "/dev/disk/by-id/theirs", "disks_to_format": ["/dev/sdb"], "host_id": "x"});
    let speed = json!({"path": "/dev/sda"});
    let reclaim = json!({"host_fs_mount_dir": "/host"});
    let all = [
        (StepType::Install, &install),
        (StepType::InstallationDiskSpeedCheck, &speed),
        (StepType::DownloadBootArtifacts, &reclaim),
        (StepType::RebootForReclaim, &reclaim),
    ];
    for (kind, request) in &all {
        let refused = rewrite(step(kind.clone(), request), HOST, None).unwrap_err();
        assert!(matches!(refused, Withheld::Writes(..)), "{refused}");
    }
    let dir = tempfile::tempdir().unwrap();
    let (disk, node) = (Some(Path::new("/dev/loop77")), Some(dir.path()));
    let request = |kind: StepType, request: &Value, target| {
        let rewritten = rewrite(step(kind, request), HOST, target).unwrap();
        assert_eq!(rewritten.args[1], "480.00");
        serde_json::from_str::<Value>(&rewritten.args[0]).unwrap()
    };
    let expected = json!({"boot_device": "/dev/loop77", "disks_to_format": [], "host_id": HOST});
    assert_eq!(request(StepType::Install, &install, disk), expected);
    assert_eq!(request(StepType::InstallationDiskSpeedCheck, &speed, disk), json!({"path": "/dev/loop77"}));
    let expected = json!({"host_fs_mount_dir": dir.path()});
    assert_eq!(request(StepType::DownloadBootArtifacts, &reclaim, node), expected);
    // A directory is no disk, and a disk no directory; what is no object can't be pointed elsewhere.
    assert!(rewrite(step(StepType::Install, &install), HOST, node).is_err());
    assert!(rewrite(step(StepType::RebootForReclaim, &reclaim), HOST, disk).is_err());
    assert!(matches!(rewrite(step(StepType::Install, &json!([])), HOST, disk), Err(Withheld::Form(_))));
    let nothing = Step { args: Vec::new(), step_id: String::new(), step_type: StepType::InstallationDiskSpeedCheck };
    assert!(matches!(rewrite(nothing, HOST, disk), Err(Withheld::Form(_))));
    for kind in [StepType::StopInstallation, StepType::UpgradeAgent, StepType::LogsGather] {
        assert!(matches!(rewrite(step(kind, &json!({})), HOST, disk), Err(Withheld::ActsOnTheAgent(_))));
    }
    let inventory = step(StepType::Inventory, &json!({}));
    assert_eq!(rewrite(inventory.clone(), HOST, None).unwrap(), inventory);
}
