//! What becomes of steps on a host that is only pretended.

use crate::{
    dry::DryRun,
    outcome::Outcome,
    steps::{Dry, Kind},
};
use api::Step;

/// What `step` comes to on a pretended host; `run` carries it out.
pub(crate) fn carry_out(dry: &DryRun, kind: &Kind, step: &Step, run: impl FnOnce() -> Outcome) -> Outcome {
    let answered = |result| match result {
        Ok(output) => Outcome { exit_code: 0, output, error: String::new() },
        Err(error) => Outcome::failed(error),
    };
    let edit = match kind.dry {
        Dry::Earnest => return run(),
        Dry::Answered(answer) => return answered(answer(step)),
        Dry::Refused => {
            return Outcome::failed(format!("this host is only pretended (--dry-run): not doing {}", step.step_type));
        }
        Dry::Edited(edit) => edit,
        Dry::AnsweredOrEdited(answer, edit) => match answer(step) {
            Some(result) => return answered(result),
            None => edit,
        },
    };
    let outcome = run();
    if outcome.exit_code != 0 {
        return outcome;
    }
    match edit(dry, &outcome.output) {
        Ok(output) => Outcome { output, ..outcome },
        Err(error) => Outcome::failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::kind;
    use api::StepType;
    use serde_json::{Value, json};

    /// `None` for what is carried out.
    fn answer(kind: StepType, args: &[&str]) -> Option<Outcome> {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let step = Step { args, step_id: "x-1".into(), step_type: kind };
        let mut runs = false;
        let outcome = carry_out(&DryRun::default(), self::kind(&step.step_type).unwrap(), &step, || {
            runs = true;
            Outcome { exit_code: 0, output: "{}".into(), error: String::new() }
        });
        (!runs).then_some(outcome)
    }

    fn output(kind: StepType, request: &Value) -> Value {
        let outcome = answer(kind, &[&request.to_string()]).unwrap();
        assert_eq!(outcome.exit_code, 0, "{outcome:?}");
        serde_json::from_str(&outcome.output).unwrap()
    }

    #[test]
    fn every_check_of_others_succeeds() {
        let id = "aaaaaaaa-0000-0000-0000-000000000002";
        let nics = json!([{"name": "e0", "mac": "52:54:00:00:00:02", "ip_addresses": ["10.0.0.2", "fd00::2"]}]);
        let report = output(StepType::ConnectivityCheck, &json!([{"host_id": id, "nics": nics}]));
        let remote = &report["remote_hosts"][0];
        assert_eq!((remote["host_id"].as_str(), &remote["mtu_report"]), (Some(id), &Value::Null));
        for (layer, addresses) in [("l2_connectivity", 2), ("l3_connectivity", 2)] {
            let links = remote[layer].as_array().unwrap();
            assert_eq!(links.len(), addresses);
            assert!(links.iter().all(|link| link["successful"] == true), "{remote}");
        }
        assert_eq!(remote["l2_connectivity"][1]["remote_ip_address"], "fd00::2");
        let images = output(StepType::ContainerImageAvailability, &json!({"images": ["r.io/a:1"], "timeout": 9}));
        assert_eq!(
            images["images"][0],
            json!({"download_rate": 100.0, "name": "r.io/a:1", "result": "success", "size_bytes": 400_000_000, "time": 10.0})
        );
        let vips = output(StepType::VerifyVips, &json!([{"vip": "10.0.0.9", "vip_type": "api"}]));
        assert_eq!(vips, json!([{"verification": "succeeded", "vip": "10.0.0.9", "vip_type": "api"}]));
        let speed = answer(StepType::InstallationDiskSpeedCheck, &[r#"{"path":"/dev/x"}"#, "480.00"]).unwrap();
        assert_eq!(speed.output, r#"{"io_sync_duration":1,"path":"/dev/x"}"#);
    }

    #[test]
    fn nothing_that_changes_a_machine_is_done() {
        for kind in
            [StepType::Install, StepType::RebootForReclaim, StepType::DownloadBootArtifacts, StepType::UpgradeAgent]
        {
            let outcome = answer(kind, &["{}"]).unwrap();
            assert!(outcome.exit_code == -1 && outcome.error.contains("only pretended"), "{outcome:?}");
        }
        assert!(answer(StepType::NtpSynchronizer, &["{}"]).is_none());
        assert!(answer(StepType::Inventory, &["x"]).is_none());
        assert_eq!(answer(StepType::VerifyVips, &["{"]).unwrap().exit_code, -1);
        assert_eq!(answer(StepType::VerifyVips, &[]).unwrap().exit_code, -1);
    }

    #[test]
    fn the_inventory_is_this_machines_with_the_pretended_hosts_addresses() {
        let dry = DryRun {
            mac: Some("52:54:00:00:00:07".into()),
            hostname: Some("host-7".into()),
            ipv4: Some("10.0.0.7/16".into()),
            ..DryRun::default()
        };
        let interface = |name: &str, ipv4: &[&str]| {
            json!({"name": name, "mac_address": "aa:aa:aa:aa:aa:aa", "flags": [], "mtu": 1500, "type": "physical",
                   "ipv4_addresses": ipv4, "ipv6_addresses": ["fd00::1/64"]})
        };
        let mut loopback = interface("lo", &["127.0.0.1/8"]);
        loopback["flags"] = json!(["up", "loopback"]);
        let addresses = ["192.168.0.1/24", "192.168.0.2/24"];
        let mut inventory = json!({"hostname": "real", "disks": [], "interfaces":
            [loopback, interface("e0", &[]), interface("e1", &addresses), interface("e2", &["1.2.3.4/8"])],
            "routes": [{"destination": "192.168.0.0", "family": 2, "interface": "e1"}, {"destination": "::", "interface": "e0"}]});
        let step = Step { args: vec![], step_id: "i-1".into(), step_type: StepType::Inventory };
        let outcome = Outcome { exit_code: 0, output: inventory.to_string(), error: String::new() };
        let kind = kind(&StepType::Inventory).unwrap();
        let edited = |outcome: Outcome| -> Value {
            serde_json::from_str(&carry_out(&dry, kind, &step, || outcome).output).unwrap()
        };
        let reply = edited(outcome.clone());
        assert_eq!((reply["hostname"].as_str(), reply["interfaces"].as_array().unwrap().len()), (Some("host-7"), 1));
        let interface = &reply["interfaces"][0];
        assert_eq!(
            (interface["name"].as_str(), interface["mac_address"].as_str()),
            (Some("e1"), Some("52:54:00:00:00:07"))
        );
        assert_eq!(interface["ipv4_addresses"], json!(["10.0.0.7/16"]));
        assert_eq!(interface["ipv6_addresses"], json!([]), "the others on this machine have them, too");
        assert_eq!(reply["routes"], json!([{"destination": "192.168.0.0", "family": 2, "interface": "e1"}]));
        inventory["routes"] = json!([{"destination": "0.0.0.0", "family": 2, "interface": "e2"}]);
        inventory["interfaces"][3]["type"] = json!("veth");
        let reply = edited(Outcome { output: inventory.to_string(), ..outcome });
        assert_eq!(reply["interfaces"][0]["name"], "e2", "the default route's interface");
        assert_eq!((&reply["interfaces"][0]["type"], &reply["routes"]), (&json!("physical"), &inventory["routes"]));
        let failed = Outcome { exit_code: 1, output: "x".into(), error: "y".into() };
        assert_eq!(carry_out(&dry, kind, &step, || failed.clone()), failed);
    }
}
