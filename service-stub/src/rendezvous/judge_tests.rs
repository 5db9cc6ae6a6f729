use crate::rendezvous::{parse, plan};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOrTJmXJ9xZXKXcYd5Envv+DstKms3P9abPvn2i9x6S3 a@b";

/// A plan of three masters and a worker with static addresses, with texts replaced.
fn judged(changes: &[(&str, &str)]) -> Result<(), String> {
    let mut agent = "rendezvousIP: 192.0.2.11\nhosts:\n".to_owned();
    for (number, role) in ["master", "master", "master", "worker"].into_iter().enumerate() {
        agent += &format!(
            "- hostname: n{number}\n  role: {role}\n  interfaces: [{{name: eth0, macAddress: '52:54:00:00:00:0{number}'}}]\n  networkConfig:\n    \
             interfaces: [{{name: eth0, type: ethernet, state: up, ipv4: {{enabled: true, dhcp: false, address: [{{ip: 192.0.2.1{}, prefix-length: 24}}]}}}}]\n",
            number + 1
        );
    }
    let install = format!(
        "apiVersion: v1\nbaseDomain: example.com\nmetadata: {{name: lab}}\ncontrolPlane: {{name: master, replicas: 3}}\n\
         compute: [{{name: worker, replicas: 1}}]\nnetworking: {{machineNetwork: [{{cidr: 192.0.2.0/24}}]}}\n\
         platform: {{baremetal: {{apiVIPs: [192.0.2.2], ingressVIPs: [192.0.2.3]}}}}\n\
         pullSecret: '{{\"auths\":{{\"quay.io\":{{\"auth\":\"dXNlcjpwYXNz\"}}}}}}'\nsshKey: {KEY}\n"
    );
    let mut texts = [agent, install];
    for (from, to) in changes {
        assert!(texts.iter().any(|text| text.contains(from)), "{from}");
        texts = texts.map(|text| text.replacen(from, to, 1));
    }
    let [agent, install] = texts;
    let mut documents = parse("agent-config.yaml", &agent).unwrap();
    documents.extend(parse("install-config.yaml", &install).unwrap());
    let rack = plan(&documents, Some("4.20.3")).map_err(|error| error.to_string())?;
    rack.judge().map_err(|error| error.to_string())
}

#[test]
fn a_plan_that_contradicts_itself_is_refused() {
    assert_eq!(judged(&[]), Ok(()));
    for (from, to, expected) in [
        (
            "rendezvousIP: 192.0.2.11",
            "rendezvousIP: 192.0.2.99",
            "no host of the plan has the rendezvousIP 192.0.2.99: their networks give 192.0.2.11, 192.0.2.12, 192.0.2.13, 192.0.2.14",
        ),
        (
            "rendezvousIP: 192.0.2.11",
            "rendezvousIP: 192.0.2.14",
            "the rendezvousIP 192.0.2.14 is that of a worker, at agent-config.yaml: hosts[3].interfaces: give a master's",
        ),
        ("rendezvousIP: 192.0.2.11", "rendezvousIP: 192.0.2.2", "the rendezvousIP 192.0.2.2 is the API address too"),
        (
            "rendezvousIP: 192.0.2.11",
            "rendezvousIP: 198.51.100.7",
            "the rendezvousIP 198.51.100.7 is outside the machine network, 192.0.2.0/24",
        ),
        (
            "apiVIPs: [192.0.2.2]",
            "apiVIPs: [192.0.2.12]",
            "the API address 192.0.2.12 is that of a host too, at agent-config.yaml: hosts[1].interfaces",
        ),
        (
            "ip: 192.0.2.13",
            "ip: 192.0.2.12",
            "agent-config.yaml: hosts[1].interfaces and agent-config.yaml: hosts[2].interfaces both have the address 192.0.2.12",
        ),
        (
            "macAddress: '52:54:00:00:00:01'",
            "macAddress: '52:54:00:00:00:00'",
            "agent-config.yaml: hosts[0].interfaces and agent-config.yaml: hosts[1].interfaces both have the MAC address 52:54:00:00:00:00: leave it out",
        ),
    ] {
        let error = judged(&[(from, to)]).unwrap_err();
        assert!(error.contains(expected), "{error}\n  not: {expected}");
    }
    let none = ("platform: {baremetal: {apiVIPs: [192.0.2.2], ingressVIPs: [192.0.2.3]}}", "platform: {none: {}}");
    let error = judged(&[none, ("cidr: 192.0.2.0/24}", "cidr: 203.0.113.0/24}")]).unwrap_err();
    assert!(error.contains("the rendezvousIP 192.0.2.11 is outside the machine network, 203.0.113.0/24"), "{error}");
    let error = judged(&[none, ("cidr: 192.0.2.0/24}", "cidr: 203.0.113.0/24}"), ("rendezvousIP: 192.0.2.11\n", "")])
        .unwrap_err();
    assert!(error.contains("no host of the plan has an address in the machine network 203.0.113.0/24"), "{error}");
    // Somebody else may give the address.
    assert_eq!(
        judged(&[("rendezvousIP: 192.0.2.11", "rendezvousIP: 192.0.2.99"), ("dhcp: false", "dhcp: true")]),
        Ok(())
    );
}

#[test]
fn a_plan_is_held_against_the_services_rules() {
    for (from, to, expected) in [
        (KEY, "ssh-ed25519 AAAA", "SSH key"),
        ("baseDomain: example.com", "baseDomain: exa_mple..com", "exa_mple"),
        ("name: lab", "name: Lab_1", "Lab_1"),
        ("dXNlcjpwYXNz", "dXNlcg==", "pull secret"),
        ("pullSecret:", "proxy: {httpProxy: 'ftp://x'}\npullSecret:", "ftp"),
        ("pullSecret:", "additionalTrustBundle: garbage\npullSecret:", "invalid block"),
        ("ingressVIPs: [192.0.2.3]", "ingressVIPs: [192.0.2.2]", "192.0.2.2"),
        ("hostname: n1", "hostname: N_1", "agent-config.yaml: hosts[1].interfaces: 'N_1' is not a host name"),
        ("pullSecret:", "capabilities: {baselineCapabilitySet: 7}\npullSecret:", "capabilit"),
    ] {
        let error = judged(&[(from, to)]).expect_err(to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}
