//! What users set on hosts and clusters, what the checks make of it, and what is told when they turn.

use super::*;

fn path(world: &World, index: usize) -> String {
    format!("/v2/infra-envs/{}/hosts/{}", world.infra_env.id, world.machines[index].id)
}

fn set(world: &World, index: usize, params: &Value) -> (u16, Value) {
    let answer = world.running.json("PATCH", &path(world, index), params);
    (answer.status, answer.document())
}

fn events(world: &World, name: &str) -> Vec<Value> {
    let all = world.running.get(&format!("{API}/v2/events?cluster_id={}", world.cluster.id)).document();
    all.as_array().unwrap().iter().filter(|event| event["name"] == name).cloned().collect()
}

/// Of each event what it says, its severity, and its details.
fn event_texts(world: &World, name: &str) -> Vec<(String, String, Value)> {
    let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    let of = |event: &Value| {
        let props = serde_json::from_str(&text(event, "props")).unwrap();
        (text(event, "message"), text(event, "severity"), props)
    };
    events(world, name).iter().map(of).collect()
}

#[test]
fn every_setting_of_a_host_is_stored_and_shown() {
    let world = World::new(1, 1);
    world.discover_all();
    let all = json!({
        "disks_skip_formatting": [{"disk_id": "/dev/sr0", "skip_formatting": true}],
        "machine_config_pool_name": "gpu",
        "ignition_endpoint_token": "t0ken-of-the-endpoint",
        "ignition_endpoint_http_headers": [{"key": "X-Key", "value": "value-of-the-header"}],
        "node_labels": [{"key": "node-role.kubernetes.io/infra", "value": ""}, {"key": "gpu", "value": "a100"}],
    });
    let (status, host) = set(&world, 0, &all);
    assert_eq!(status, 201, "{host}");
    assert_eq!(host["skip_formatting_disks"], "/dev/sr0");
    assert_eq!(host["machine_config_pool_name"], "gpu");
    assert_eq!(host["ignition_endpoint_token_set"], true);
    let labels: Value = serde_json::from_str(host["node_labels"].as_str().unwrap()).unwrap();
    assert_eq!(labels, json!({"gpu": "a100", "node-role.kubernetes.io/infra": ""}));
    for secret in ["t0ken-of-the-endpoint", "value-of-the-header"] {
        assert!(!host.to_string().contains(secret), "{secret}");
    }
    let (_, host) = set(&world, 0, &json!({"host_name": "other"}));
    assert_eq!(
        (&host["machine_config_pool_name"], host["status"].as_str()),
        (&json!("gpu"), Some("known")),
        "it stays"
    );

    let none = json!({
        "disks_skip_formatting": [{"disk_id": "/dev/sr0", "skip_formatting": false}],
        "machine_config_pool_name": "", "ignition_endpoint_token": "", "ignition_endpoint_http_headers": [],
        "node_labels": [],
    });
    let (status, host) = set(&world, 0, &none);
    assert_eq!(status, 201);
    for gone in ["skip_formatting_disks", "machine_config_pool_name", "ignition_endpoint_token_set", "node_labels"] {
        assert!(host.get(gone).is_none(), "{gone}: {host}");
    }

    let (_, host) =
        set(&world, 0, &json!({"disks_skip_formatting": [{"disk_id": "/dev/vda", "skip_formatting": true}]}));
    assert_eq!(host["status"], "insufficient", "the disk that is installed to");
    assert!(host["status_info"].as_str().unwrap().contains("among those whose formatting is skipped"), "{host}");
    set(&world, 0, &json!({"disks_skip_formatting": [{"disk_id": "/dev/vda", "skip_formatting": false}]}));
    world.install();
    for late in [json!({"node_labels": []}), json!({"host_role": "worker"}), all] {
        assert_eq!(set(&world, 0, &late).0, 409, "{late}");
    }
}

#[test]
fn two_hosts_that_power_each_other_off_need_no_arbiter() {
    let world = World::new(2, 2);
    world.discover_all();
    let credentials = json!({"address": "https://bmc", "username": "u", "password": "pass-of-the-bmc"});
    for index in [0, 1] {
        let (status, host) = set(&world, index, &json!({"fencing_credentials": credentials}));
        let shown: Value = serde_json::from_str(host["fencing_credentials"].as_str().unwrap()).unwrap();
        assert_eq!((status, &shown["address"], &shown["password"]), (201, &json!("https://bmc"), &json!("")));
    }
    let path = format!("/v2/clusters/{}", world.cluster.id);
    let cluster = world.running.get(&format!("{API}{path}")).document();
    assert!(!cluster.to_string().contains("pass-of-the-bmc"));
    let config = world.running.get(&format!("{API}{path}/install-config")).document();
    let config: Value = serde_json::from_str(config.as_str().unwrap()).unwrap();
    let fencing = &config["controlPlane"]["fencing"]["credentials"];
    assert_eq!((fencing.as_array().unwrap().len(), &fencing[0]["password"]), (2, &json!("pass-of-the-bmc")));
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let world = World::new(1, 1);
    world.discover_all();
    for (params, status, said) in [
        (
            json!({"host_role": "bootstrap"}),
            400,
            "host_role in body should be one of [auto-assign master arbiter worker]",
        ),
        (
            json!({"disks_skip_formatting": [{"disk_id": "/dev/gone", "skip_formatting": true}]}),
            400,
            "has no disk '/dev/gone'",
        ),
        (
            json!({"disks_skip_formatting": [{"disk_id": "/dev/vda"}]}),
            400,
            "disks_skip_formatting.0.skip_formatting in body is required",
        ),
        (
            json!({"disks_selected_config": [{"id": "a", "role": "install"}, {"id": "b", "role": "install"}]}),
            409,
            "more than one disk",
        ),
        (json!({"machine_config_pool_name": "../master"}), 400, "'../master' is not a pool name"),
        (json!({"ignition_endpoint_token": "a\nb"}), 400, "ignition_endpoint_token: the value"),
        (
            json!({"ignition_endpoint_http_headers": [{"key": "a b", "value": "c"}]}),
            400,
            "'a b' is not an HTTP header name",
        ),
        (json!({"node_labels": [{"key": "-a", "value": ""}]}), 400, "'-a' is not a label key"),
        (json!({"node_labels": [{"key": "a", "value": "a b"}]}), 400, "'a b' is not a label value"),
        (json!({"node_labels": [{"key": "a"}]}), 400, "node_labels.0.value in body is required"),
        (
            json!({"fencing_credentials": {"address": "a", "username": "b"}}),
            400,
            "fencing_credentials.password in body is required",
        ),
        (json!({"fancy": 1}), 400, "unknown field \"fancy\""),
    ] {
        let (found, answer) = set(&world, 0, &params);
        let text = answer["reason"].as_str().or(answer["message"].as_str()).unwrap();
        assert!(found == status && text.contains(said), "{params}: {found} {text}");
    }
}

#[test]
fn checks_that_change_are_reported() {
    let mut world = World::new(1, 1);
    world.discover_all();
    let id = world.machines[0].id;
    let fixed = |world: &World| event_texts(world, "host_validation_fixed");
    assert_eq!(event_texts(&world, "host_validation_failed"), []);
    let first: Vec<_> = fixed(&world).into_iter().map(|(_, _, props)| props["validation_id"].clone()).collect();
    assert_eq!(first, ["has-inventory", "hostname-valid"], "what it had to send first");
    world.machines[0].name = "localhost".into();
    world.poll(&world.machines[0]);
    let why = "that used to succeed is now failing";
    let props = json!({"cluster_id": world.cluster.id, "host_id": id, "infra_env_id": world.infra_env.id,
        "host_name": "localhost", "validation_id": "hostname-valid", "failure_message": why});
    let text = format!("Host localhost: validation 'hostname-valid' {why}");
    assert_eq!(event_texts(&world, "host_validation_failed"), [(text, "warning".to_owned(), props)]);
    world.poll(&world.machines[0]);
    assert_eq!(event_texts(&world, "host_validation_failed").len(), 1, "once");
    world.machines[0].name = "node-1".into();
    world.poll(&world.machines[0]);
    let [_, _, (text, severity, props)] = fixed(&world).try_into().unwrap();
    assert_eq!((text.as_str(), severity.as_str()), ("Host node-1: validation 'hostname-valid' is now fixed", "info"));
    assert_eq!((&props["validation_id"], props.get("failure_message")), (&json!("hostname-valid"), None));

    let domain = |domain: &str| {
        let path = format!("/v2/clusters/{}", world.cluster.id);
        assert_eq!(world.running.json("PATCH", &path, &json!({"base_dns_domain": domain})).status, 201);
    };
    let of = |name: &str| {
        let all = event_texts(&world, name).into_iter();
        all.filter(|(_, _, props)| props["validation_id"] == "dns-domain-defined").collect::<Vec<_>>()
    };
    domain("");
    let message = "The base domain is undefined and must be provided.";
    let props = json!({"cluster_id": world.cluster.id, "validation_id": "dns-domain-defined", "failure_message": why,
        "validation_msg": message});
    let text = format!("Cluster validation 'dns-domain-defined' {why}");
    assert_eq!(of("cluster_validation_failed"), [(text, "warning".to_owned(), props)]);
    domain("example.com");
    let [(text, severity, props)] = of("cluster_validation_fixed").try_into().unwrap();
    let expected = ("Cluster validation 'dns-domain-defined' is now fixed", "info");
    assert_eq!((text.as_str(), severity.as_str()), expected);
    assert_eq!(props.get("failure_message"), None);
    world.register(&world.machines[0]).unwrap();
    assert_eq!(event_texts(&world, "host_validation_failed").len(), 1, "a host that begins anew has nothing to lose");
}

#[test]
fn hosts_that_have_not_probed_each_other_fail_once_their_network_is_known() {
    let world = World::new(3, 3);
    let patch = |settings: Value| {
        let answer = world.running.json("PATCH", &format!("/v2/clusters/{}", world.cluster.id), &settings);
        assert_eq!(answer.status, 201, "{}", answer.document());
    };
    let of_group = |name: &str| -> Vec<String> {
        let all = event_texts(&world, name).into_iter();
        let of_group = all.filter(|(_, _, props)| props["validation_id"] == "belongs-to-majority-group");
        of_group.map(|(text, severity, _)| format!("{severity}: {text}")).collect()
    };
    patch(json!({"user_managed_networking": false}));
    world.machines.iter().for_each(|machine| drop(world.register(machine).unwrap()));
    world.machines.iter().for_each(|machine| assert_eq!(world.poll(machine), [StepType::Inventory]));
    assert_eq!(of_group("host_validation_failed"), Vec::<String>::new(), "no network, no group");
    patch(json!({"api_vips": [{"ip": "10.0.0.65"}], "ingress_vips": [{"ip": "10.0.0.67"}]}));
    let mut failed = of_group("host_validation_failed");
    failed.sort();
    let text = |n| format!("warning: Host node-{n}: validation 'belongs-to-majority-group' failed");
    assert_eq!(failed, [text(1), text(2), text(3)]);
    for _ in 0..2 {
        world.machines.iter().for_each(|machine| drop(world.poll(machine)));
    }
    assert_eq!(of_group("host_validation_fixed").len(), 3);
    assert_eq!(world.status(), "ready");
}

#[test]
fn a_computed_role_is_reported_and_a_set_one_is_not() {
    let world = World::new(2, 3);
    world.discover_all();
    let roles = event_texts(&world, "host_role_updated");
    let of = |role: &str| roles.iter().filter(|(_, _, props)| props["suggested_role"] == role).count();
    assert_eq!((roles.len(), of("master"), of("arbiter")), (3, 2, 1), "{roles:?}");
    for (text, severity, props) in &roles {
        let (host, role) = (props["host_name"].as_str().unwrap(), props["suggested_role"].as_str().unwrap());
        assert_eq!((text, severity.as_str()), (&format!("Host {host}: calculated role is {role}"), "info"));
    }
    assert_eq!(world.status(), "ready");
    for index in 0..3 {
        let (status, host) = set(&world, index, &json!({"host_role": "worker"}));
        assert_eq!((status, &host["role"], &host["suggested_role"]), (201, &json!("worker"), &json!("worker")));
    }
    assert_eq!(world.status(), "insufficient", "nobody is left for the control plane");
    let (_, host) = set(&world, 0, &json!({"host_role": "arbiter"}));
    assert_eq!((&host["role"], &host["progress_stages"][4]), (&json!("arbiter"), &json!("Rebooting")));
    let set_by_hand = ["worker", "arbiter"];
    let late = event_texts(&world, "host_role_updated").split_off(3);
    assert!(
        late.iter().all(|(_, _, props)| !set_by_hand.iter().any(|role| props["suggested_role"] == *role)),
        "{late:?}"
    );
}

#[test]
fn requirements_are_reported_beforehand() {
    let world = World::new(3, 1);
    let preflight = world.running.get(&format!("{API}/v2/clusters/{}/preflight-requirements", world.cluster.id));
    let of = |cpus: u64, ram: u64, latency: f64, loss: f64| {
        json!({"quantitative": {"cpu_cores": cpus, "ram_mib": ram, "disk_size_gb": 1,
            "installation_disk_speed_threshold_ms": 10, "network_latency_threshold_ms": latency,
            "packet_loss_percentage": loss}})
    };
    let expected = json!({"master": of(2, 1024, 100.0, 0.0), "worker": of(1, 512, 1000.0, 10.0)});
    assert_eq!((preflight.status, &preflight.document()["ocp"]), (200, &expected));
    let supported = world.running.get(&format!("{API}/v2/supported-operators")).document();
    let document = preflight.document();
    let operators = document["operators"].as_array().unwrap().iter().map(|one| one["operator_name"].clone());
    assert_eq!(operators.collect::<Value>(), supported);
    let unknown = world.running.get(&format!("{API}/v2/clusters/{}/preflight-requirements", world.infra_env.id));
    assert_eq!(unknown.status, 404);
}

#[test]
fn an_added_host_tries_the_endpoint_it_will_be_installed_from() {
    let world = World::start(1, 1, false);
    let params =
        json!({"name": "far", "api_vip_dnsname": "api.far.example.com", "openshift_cluster_id": world.infra_env.id});
    let far = world.running.json("POST", "/v2/clusters/import", &params).document();
    let cluster = format!("/v2/clusters/{}", far["id"].as_str().unwrap());
    let endpoint = json!({"ignition_endpoint": {"url": "https://cfg.example.com/config"}});
    let shown = world.running.json("PATCH", &cluster, &endpoint);
    assert_eq!((shown.status, &shown.document()["ignition_endpoint"]), (201, &endpoint["ignition_endpoint"]));
    let bad = json!({"ignition_endpoint": {"url": "cfg.example.com"}});
    assert_eq!(world.running.json("PATCH", &cluster, &bad).status, 400);
    world.register(&world.machines[0]).unwrap();
    world.known(0);
    let set_up = json!({"machine_config_pool_name": "gpu", "ignition_endpoint_token": "t0ken",
        "ignition_endpoint_http_headers": [{"key": "X-Key", "value": "v"}]});
    assert_eq!(world.act(0, "bind", &json!({"cluster_id": far["id"]})).status, 200);
    world.leaves_and_comes_back(0);
    assert_eq!(set(&world, 0, &set_up).0, 201);
    let client = world.running.client();
    let machine = &world.machines[0];
    let steps = || client.next_steps(world.infra_env.id, machine.id).unwrap().instructions.unwrap_or_default();
    let tell = |step: &api::Step, output: &Value| {
        let reply = StepReply {
            error: String::new(),
            exit_code: 0,
            output: output.to_string(),
            step_id: step.step_id.clone(),
            step_type: step.step_type.clone(),
        };
        client.post_reply(world.infra_env.id, machine.id, &reply).unwrap();
    };
    tell(&steps()[0], &inventory(&machine.name, &machine.address, &machine.mac));
    assert_eq!(world.state(0), "insufficient", "it has not tried yet");
    let all = steps();
    let asked = all.iter().find(|step| step.step_type == StepType::ApiVipConnectivityCheck).unwrap();
    let request: Value = serde_json::from_str(&asked.args[0]).unwrap();
    assert_eq!(request["url"], "https://cfg.example.com/config/gpu");
    let headers = json!([{"key": "Authorization", "value": "Bearer t0ken"}, {"key": "X-Key", "value": "v"}]);
    assert_eq!((&request["request_headers"], &request["ignition_endpoint_token"]), (&headers, &json!("t0ken")));
    tell(asked, &json!({"url": request["url"], "download_error": "ignition file download failed: refused"}));
    let info = world.host(machine).status_info;
    assert!(info.contains("can't download its ignition config from https://cfg.example.com/config/gpu"), "{info}");
    tell(asked, &json!({"is_success": true, "url": request["url"], "ignition": "{}"}));
    assert_eq!(world.state(0), "known", "{}", world.host(machine).status_info);
    assert_eq!(world.act(0, "install", &json!({})).status, 202);
    let config = client.host_ignition(world.infra_env.id, machine.id).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let merged = &config["ignition"]["config"]["merge"][0];
    assert_eq!(merged["source"], "https://cfg.example.com/config/gpu");
    let headers = json!([{"name": "Authorization", "value": "Bearer t0ken"}, {"name": "X-Key", "value": "v"}]);
    assert_eq!(merged["httpHeaders"], headers);
}

/// What a host has, with these disks: names, and why each is not eligible, if so.
fn tell_disks(world: &World, disks: &[(&str, Option<&str>)]) {
    let machine = &world.machines[0];
    let mut inventory = inventory(&machine.name, &machine.address, &machine.mac);
    let disk = |(name, fault): &(&str, Option<&str>)| {
        json!({"name": name, "path": format!("/dev/{name}"), "id": format!("/dev/disk/by-id/{name}"),
            "by_id": format!("/dev/disk/by-id/{name}"), "drive_type": "HDD", "size_bytes": 120_000_000_000_u64, "bootable": *name == "vda",
            "installation_eligibility": {"eligible": fault.is_none(), "not_eligible_reasons": fault.map(|fault| vec![fault])}})
    };
    inventory["disks"] = disks.iter().map(disk).collect();
    let path = format!("/v2/infra-envs/{}/hosts/{}/instructions", world.infra_env.id, machine.id);
    let reply =
        json!({"step_type": "inventory", "step_id": "inventory-1", "exit_code": 0, "output": inventory.to_string()});
    assert_eq!(world.running.json("POST", &path, &reply).status, 204);
    world.running.monitor();
}

#[test]
fn a_chosen_disk_stays_chosen_while_it_is_gone() {
    let world = World::new(1, 1);
    world.discover_all();
    let machine = &world.machines[0];
    let (both, alone) = ([("vda", None), ("vdb", None)], [("vda", None)]);
    tell_disks(&world, &both);
    assert_eq!(world.host(machine).installation_disk_path, "/dev/vda", "the service's choice");
    let choose = |role: &str| set(&world, 0, &json!({"disks_selected_config": [{"id": "/dev/vdb", "role": role}]}));
    assert_eq!(choose("install").0, 201);
    for (disks, fault) in [
        (&alone[..], "The disk chosen for installation, vdb (/dev/disk/by-id/vdb), is not there"),
        (
            &[("vda", None), ("vdb", Some("Disk is mounted"))],
            "The disk chosen for installation, vdb (/dev/disk/by-id/vdb), can't be installed to: Disk is mounted",
        ),
    ] {
        tell_disks(&world, disks);
        let host = world.host(machine);
        assert_eq!(host.installation_disk_path, "/dev/vdb");
        assert!(host.validations_info.contains(fault), "{}", host.validations_info);
        let ignored = json!({"host-validation-ids": "[\"all\"]"});
        world.running.json("PUT", &format!("/v2/clusters/{}/ignored-validations", world.cluster.id), &ignored);
        assert_eq!(world.status(), "insufficient", "it can't be ignored");
        assert!(world.running.client().install_cluster(world.cluster.id).is_err());
        let events = world.running.get(&format!("{}/v2/events?cluster_id={}", API, world.cluster.id));
        assert!(String::from_utf8(events.body).unwrap().contains(fault));
    }
    tell_disks(&world, &both);
    assert_eq!((world.host(machine).installation_disk_path.as_str(), world.status().as_str()), ("/dev/vdb", "ready"));
    assert_eq!(choose("none").0, 409, "another one takes its place");
    assert_eq!(world.host(machine).installation_disk_path, "/dev/vdb");
}

#[test]
fn a_plan_is_kept_and_carried_out_whenever_a_host_registers() {
    let world = World::new(1, 1);
    let machine = &world.machines[0];
    let path = format!("/landfall/infra-envs/{}/plan", world.infra_env.id);
    let put = |plan: &Value| world.running.request("PUT", &path, &[], plan.to_string().as_bytes()).status;
    let plan = json!({"hosts": [
        {"name": "edge-7", "macs": [machine.mac], "hints": {"deviceName": "/dev/vdb"}, "labels": {"rack": "7"},
            "installer_args": ["--append-karg", "quiet"]},
    ]});
    assert_eq!(put(&json!({"hosts": [{"name": "Edge_7", "macs": [machine.mac]}]})), 400);
    assert_eq!(put(&json!({"hosts": [{"macs": [machine.mac], "hints": {"deviceNam": "/dev/vdb"}}]})), 400);
    assert_eq!(put(&plan), 200);
    world.discover_all();
    tell_disks(&world, &[("vda", None)]);
    let host = world.host(machine);
    assert!(host.validations_info.contains("no disk matches the root device hints"), "{}", host.validations_info);
    assert_ne!(world.status(), "ready");
    tell_disks(&world, &[("vda", None), ("vdb", None)]);
    let host = world.host(machine);
    assert_eq!((host.requested_hostname.as_str(), host.installation_disk_path.as_str()), ("edge-7", "/dev/vdb"));
    assert!(host.installer_args.contains("quiet"), "{}", host.installer_args);
    world.running.monitor();
    assert_eq!(world.status(), "ready");
    // What the plan says stays, and the rest is the user's.
    let (status, answer) = set(&world, 0, &json!({"host_name": "edge-8", "host_role": "master"}));
    assert_eq!(status, 409, "{answer}");
    assert!(answer.to_string().contains("says otherwise (host_name)"), "{answer}");
    assert_eq!(set(&world, 0, &json!({"host_role": "master", "host_name": "edge-7"})).0, 201);
    let kept = world.running.get(&path).document();
    assert_eq!(kept["hosts"][0]["name"], "edge-7");
}
