//! Plans are held against the real installer's order of stages and of what is done between them.

use super::*;

/// A request as a service sends it.
pub(crate) const REQUEST: &str = r#"{"boot_device":"/dev/disk/by-id/wwn-0x5000","check_cvo":false,
    "cluster_id":"11111111-2222-3333-4444-555555555555","control_plane_count":3,"controller_image":"r.io/c:1",
    "disks_to_format":["/dev/vdz"],"host_id":"aaaaaaaa-0000-0000-0000-000000000001",
    "infra_env_id":"bbbbbbbb-0000-0000-0000-000000000001",
    "installer_args":"[\"--append-karg\",\"ip=52-54-00-00-00-01:dhcp\",\"--image-url\",\"http://10.0.0.1/i.raw.gz\"]",
    "installer_image":"r.io/i:1","role":"master","service_ips":null}"#;

pub(crate) fn request() -> InstallRequest {
    serde_json::from_str(REQUEST).unwrap()
}

fn planned(request: &InstallRequest) -> Result<Plan, PlanError> {
    plan(request, false, Duration::from_secs(10))
}

#[test]
fn a_master_is_planned_in_the_real_installers_order() {
    let text = planned(&request()).unwrap().to_string();
    let expected = "\
1. zero the first sector of /dev/vdz
2. report 'Starting installation', master
3. take down the devices on /dev/disk/by-id/wwn-0x5000 and wipe its signatures
4. report 'Installing', master
5. get the Ignition config of host aaaaaaaa-0000-0000-0000-000000000001
6. report 'Writing image to disk'
7. DESTROY the contents of /dev/disk/by-id/wwn-0x5000: write http://10.0.0.1/i.raw.gz, add 'ip=52-54-00-00-00-01:dhcp'
8. make the firmware start from /dev/disk/by-id/wwn-0x5000
9. copy the registry's data to /dev/disk/by-id/wwn-0x5000, if the live medium has one
10. send this host's logs to the service
11. report 'Rebooting' and leave the machine running (reboot not requested)
";
    assert_eq!(text, expected);
}

fn names(plan: &Plan) -> Vec<String> {
    let value = serde_json::to_value(plan).unwrap();
    let name = |action: &serde_json::Value| match action["action"].as_str().unwrap() {
        "report" => action["stage"].as_str().unwrap().to_owned(),
        name => name.to_owned(),
    };
    value["actions"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn a_plan_is_json_that_names_each_action() {
    let plan = plan(&request(), true, Duration::from_secs(3)).unwrap();
    let value = serde_json::to_value(&plan).unwrap();
    assert_eq!(
        names(&plan),
        [
            "clear-boot-sector",
            "Starting installation",
            "clean-disk",
            "Installing",
            "fetch-ignition",
            "Writing image to disk",
            "write-image",
            "set-boot-order",
            "copy-registry-data",
            "send-logs",
            "reboot",
        ]
    );
    assert_eq!(value["actions"][6]["image"]["url"], "http://10.0.0.1/i.raw.gz");
    assert_eq!(value["actions"][10], serde_json::json!({"action": "reboot", "delay_seconds": 3, "allowed": true}));
}

#[test]
fn a_bootstrap_host_starts_its_control_plane_first_and_leaves_it_last() {
    let plan = planned(&InstallRequest { role: HostRole::Bootstrap, ..request() }).unwrap();
    assert_eq!(
        names(&plan),
        [
            "clear-boot-sector",
            "Starting installation",
            "clean-disk",
            "start-bootstrap",
            "watch-configuring",
            "Installing",
            "fetch-ignition",
            "Writing image to disk",
            "write-image",
            "set-boot-order",
            "copy-registry-data",
            "Waiting for control plane",
            "wait-for-control-plane",
            "send-logs",
            "reboot",
        ]
    );
    let info = |action: &'_ Action| match action {
        Action::Report { info, .. } => Some(info.clone()),
        _ => None,
    };
    let infos: Vec<_> = plan.actions.iter().filter_map(info).collect();
    assert_eq!(infos, ["bootstrap", "master", "", "Waiting for bootstrap node preparation"]);
    let (logs, reboot) = (&plan.actions[13], &plan.actions[14]);
    assert_eq!(logs, &Action::SendLogs { bootstrap: true });
    assert_eq!(reboot, &Action::Reboot { delay_seconds: 60, allowed: false }, "others still need its etcd");
}

#[test]
fn a_single_node_writes_what_its_own_control_plane_made() {
    let single = InstallRequest { role: HostRole::Bootstrap, control_plane_count: 1, ..request() };
    let plan = planned(&single).unwrap();
    assert_eq!(
        names(&plan),
        [
            "clear-boot-sector",
            "Starting installation",
            "clean-disk",
            "Installing",
            "start-bootstrap",
            "Waiting for bootkube",
            "wait-for-bootkube",
            "merge-ignition",
            "Writing image to disk",
            "write-image",
            "set-boot-order",
            "copy-registry-data",
            "send-logs",
            "reboot",
        ]
    );
    assert_eq!(plan.actions[4], Action::StartBootstrap { cluster_id: request().cluster_id, single_node: true });
    assert_eq!(plan.actions[13], Action::Reboot { delay_seconds: 10, allowed: false });
}

#[test]
fn what_is_to_stay_on_the_disk_is_not_cleaned_away() {
    let cleans = |change: &dyn Fn(&mut InstallRequest)| {
        let mut request = request();
        change(&mut request);
        names(&planned(&request).unwrap()).contains(&"clean-disk".to_owned())
    };
    assert!(cleans(&|_| ()));
    assert!(!cleans(&|request| request.skip_installation_disk_cleanup = true));
    for args in [r#"["--save-partlabel","data*"]"#, r#"["--save-partindex","5"]"#] {
        assert!(!cleans(&|request| request.installer_args = Some(args.into())), "{args}");
    }
}

#[test]
fn the_running_root_is_deployed_to_and_no_disk_touched() {
    let args = r#"["--append-karg","a=1","--delete-karg","b","-n"]"#;
    let into_root = InstallRequest {
        coreos_image: Some("r.io/os:1".into()),
        installer_args: Some(args.into()),
        enable_skip_mco_reboot: true,
        ..request()
    };
    let plan = planned(&into_root).unwrap();
    assert_eq!(
        names(&plan),
        [
            "Starting installation",
            "Installing",
            "fetch-ignition",
            "Writing image to disk",
            "deploy-to-root",
            "send-logs",
            "reboot"
        ]
    );
    let text = plan.to_string();
    assert!(
        text.contains("deploy r.io/os:1 to the running system's root, add 'a=1', remove 'b', copy /etc/NetworkManager"),
        "{text}"
    );
}

#[test]
fn the_clusters_own_system_comes_before_the_boot_order() {
    let skip = InstallRequest { enable_skip_mco_reboot: true, ..request() };
    let names = names(&planned(&skip).unwrap());
    let at = |name: &str| names.iter().position(|n| n == name).unwrap();
    assert_eq!(at("skip-mco-reboot") + 1, at("set-boot-order"));
    assert_eq!(at("write-image") + 1, at("skip-mco-reboot"));
}

#[test]
fn a_shown_plan_lists_the_partitions_to_keep() {
    let args = r#"["--save-partlabel","data*,var","--save-partindex","5-","--image-file","/i"]"#;
    let plan = planned(&InstallRequest { installer_args: Some(args.into()), ..request() }).unwrap().to_string();
    let expected = "6. DESTROY the contents of /dev/disk/by-id/wwn-0x5000 except partitions named 'data*' or named 'var' \
                    or number 5-: write /i\n";
    assert!(plan.contains(expected), "{plan}");
}

#[test]
fn a_shown_plan_holds_no_password_of_an_url() {
    let args = r#"["--image-url","https://user:pa55@h/i.raw"]"#;
    let plan = planned(&InstallRequest { installer_args: Some(args.into()), ..request() }).unwrap();
    assert!(
        plan.actions
            .iter()
            .any(|a| matches!(a, Action::WriteImage(w) if w.image == Image::Url("https://user:pa55@h/i.raw".into())))
    );
    assert!(!plan.to_string().contains("pa55"));
    assert!(!serde_json::to_string(&plan).unwrap().contains("pa55"));
}

#[test]
fn a_worker_waits_between_writing_and_rebooting() {
    let worker = InstallRequest { role: HostRole::Worker, control_plane_count: 1, ..request() };
    let actions = planned(&worker).unwrap().actions;
    let wait = actions.iter().position(|a| matches!(a, Action::WaitForMasters { ready: 2, .. })).unwrap();
    assert_eq!(actions[wait - 1], Action::Report { stage: HostStage::WaitingForControlPlane, info: String::new() });
    assert!(matches!(actions[wait - 2], Action::WriteImage(_)));
    assert!(matches!(actions[wait + 1], Action::SetBootOrder { .. }));
    assert!(!actions.iter().any(|action| matches!(action, Action::CopyRegistryData { .. })));
}

#[test]
fn reports_follow_the_stages_the_service_expects_of_the_role() {
    let roles = [
        (HostRole::Master, 3),
        (HostRole::Arbiter, 3),
        (HostRole::Worker, 3),
        (HostRole::Bootstrap, 3),
        (HostRole::Bootstrap, 1),
    ];
    for (role, control_plane_count) in roles {
        let stages = api::StageList::for_role(role, control_plane_count == 1, control_plane_count == 1).stages();
        let plan = planned(&InstallRequest { role, control_plane_count, ..request() }).unwrap();
        let reported = plan.actions.iter().filter_map(|action| match action {
            Action::Report { stage, .. } => Some(stages.iter().position(|s| s == stage).expect("in the role's list")),
            _ => None,
        });
        assert!(reported.is_sorted_by(|a, b| a < b), "{role}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_happens() {
    let refused = |change: &dyn Fn(&mut InstallRequest)| {
        let mut request = request();
        change(&mut request);
        planned(&request).unwrap_err()
    };
    assert!(matches!(refused(&|r| r.role = HostRole::AutoAssign), PlanError::Role(_)));
    assert!(matches!(refused(&|r| r.installer_args = Some("[\"-x\"]".into())), PlanError::Args(_)));
    for device in ["vdb", "/sys/x", "/dev/../etc/passwd", "/devx"] {
        assert!(matches!(refused(&|r| r.boot_device = device.into()), PlanError::Device { field: "boot_device", .. }));
        assert!(matches!(refused(&|r| r.disks_to_format = vec![device.into()]), PlanError::Device { .. }));
    }
}

#[test]
fn a_request_tells_whether_its_plan_changes_the_live_system() {
    let roles = [HostRole::Bootstrap, HostRole::Master, HostRole::Arbiter, HostRole::Worker];
    let images = [None, Some(String::new()), Some("quay.io/os:1".to_owned())];
    for (role, image) in roles.into_iter().flat_map(|role| images.clone().map(|image| (role, image))) {
        for control_plane_count in [1, 3] {
            let request = InstallRequest { role, control_plane_count, coreos_image: image.clone(), ..request() };
            let changes = |action: &Action| matches!(action, Action::StartBootstrap { .. } | Action::DeployToRoot(_));
            let expected = planned(&request).unwrap().actions.iter().any(changes);
            assert_eq!(request.changes_live_system(), expected, "{role:?} {control_plane_count} {image:?}");
        }
    }
}
