//! Certificates go to the cluster's hosts. Other requests stay pending, and users learn of them.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use node_certificates::Approval;
use rig::{CLUSTER, NAMESPACE, Rig, State};
use serde_json::{Value, json};
use simulator::{CertificateRequest, NodeState};

const REASON: &str = "CertificateRequestRefused";
const ADDRESS: &str = "192.168.126.10";

/// A request, a text before its PEM, and a part of the reason for which it is refused.
type Forged = (CertificateRequest, &'static str, &'static str);

fn changed(mut request: CertificateRequest, change: impl FnOnce(&mut CertificateRequest)) -> CertificateRequest {
    change(&mut request);
    request
}

/// Requests with a bootstrap token, and of nodes that want to be others.
fn forged() -> Vec<Forged> {
    let (client, serving) = (CertificateRequest::client, CertificateRequest::serving);
    let masters = || vec!["system:masters".to_owned()];
    vec![
        (client("stranger"), "", "'stranger', which is not a host of the cluster"),
        (client("node0"), "", "node 'node0' exists and is ready"),
        (serving("node0", &["192.168.126.11"]), "", "the address 192.168.126.11, which is not one of node 'node0'"),
        (
            changed(serving("node0", &[ADDRESS]), |request| request.names.push("api.example.com".to_owned())),
            "",
            "the name 'api.example.com', which is not one of node 'node0'",
        ),
        (
            changed(serving("node0", &[ADDRESS]), |request| request.requester = "system:node:node1".to_owned()),
            "",
            "its requester is 'system:node:node1', expected 'system:node:node0'",
        ),
        (changed(client("node1"), |r| r.organizations = masters()), "", "its organization is 'system:masters'"),
        (changed(client("node1"), |r| r.groups.extend(masters())), "", "its requester's groups are"),
        (
            changed(client("node1"), |r| r.requester = "system:serviceaccount:default:default".to_owned()),
            "",
            "its requester is 'system:serviceaccount:default:default'",
        ),
        // The server's parser skips what is before the block.
        (client("node1"), "a text\n", "it does not begin with a PEM block"),
    ]
}

fn foreign() -> CertificateRequest {
    changed(CertificateRequest::client("node1"), |r| r.signer = "kubernetes.io/kube-apiserver-client".to_owned())
}

fn begin() -> Option<Rig> {
    let rig = Rig::new()?;
    rig.cluster.node_joins(&NodeState {
        name: "node0",
        internal_ips: &[ADDRESS],
        is_ready: true,
        ..NodeState::default()
    });
    Some(rig)
}

/// Events about a request in the cluster, and in the service.
fn events(rig: &Rig, request: &str) -> (Vec<Value>, Vec<Value>) {
    let all = rig.cluster.client().list(&format!("/api/v1/namespaces/{NAMESPACE}/events")).unwrap();
    let is_about = |event: &Value| event["reason"] == REASON && event["involvedObject"]["name"] == request;
    let sent = rig.sent("POST", "/events").into_iter();
    let names = |event: &Value| event["message"].as_str().unwrap().contains(&format!(" {request} "));
    (all.into_iter().filter(is_about).collect(), sent.filter(names).collect())
}

fn conditions(rig: &Rig, request: &str) -> Value {
    rig.cluster.read_certificate_request(request)["status"]["conditions"].clone()
}

#[test]
fn forged_requests_stay_pending_and_are_reported_once() {
    let Some(rig) = begin() else { return };
    let controller = rig.start();
    let make = |(request, before, why): &Forged| {
        (rig.cluster.certificate_request_of(request, &format!("{before}{}", request.pem())), *why)
    };
    let refused: Vec<_> = forged().iter().map(make).collect();
    let foreign = rig.cluster.certificate_request(&foreign());
    let denied = rig.cluster.certificate_request(&CertificateRequest::client("node1"));
    rig.cluster.judge_certificate_request(&denied, "Denied");
    let good = [CertificateRequest::client("node2"), CertificateRequest::serving("node0", &[ADDRESS])]
        .map(|request| rig.cluster.certificate_request(&request));

    for request in &good {
        rig.cluster.await_approval(request);
        let conditions = conditions(&rig, request);
        assert_eq!(conditions.as_array().unwrap().len(), 1, "{conditions}");
        assert_eq!(conditions[0]["reason"], "NodeCSRApprove");
        assert_eq!(conditions[0]["message"], "This CSR was approved by the assisted-installer-controller");
    }
    rig.until("the events of refusals", |rig| refused.iter().all(|(name, _)| events(rig, name).1.len() == 1));
    rig.rounds(5);
    for (name, why) in &refused {
        let (in_cluster, in_service) = events(&rig, name);
        assert_eq!((in_cluster.len(), in_service.len()), (1, 1), "{why}: {in_cluster:?} {in_service:?}");
        let message = in_service[0]["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
        assert_eq!(in_service[0]["name"], "certificate_request_refused");
        assert_eq!(in_service[0]["severity"], "warning");
        assert_eq!(in_cluster[0]["type"], "Warning");
        assert_eq!(in_cluster[0]["message"], message);
        assert_eq!(conditions(&rig, name), Value::Null, "{why}");
    }
    // It is another controller's.
    assert_eq!((conditions(&rig, &foreign), events(&rig, &foreign)), (Value::Null, (vec![], vec![])));
    assert_eq!(conditions(&rig, &denied)[0]["type"], "Denied");

    // The service hears of a host after its node has asked.
    let mut late = State::hosts("installing", "Rebooting", 4).remove(3);
    late["requested_hostname"] = "Stranger".into();
    rig.state().cluster["hosts"].as_array_mut().unwrap().push(late);
    rig.cluster.await_approval(&refused[0].0);
    controller.end();
}

/// A node may be called as its host called itself before the user gave it a name.
#[test]
fn a_host_is_known_by_its_own_name_where_no_other_has_it() {
    let Some(rig) = begin() else { return };
    for (number, own) in ["one", "two", "two"].into_iter().enumerate() {
        let inventory = json!({"hostname": own, "interfaces": []}).to_string();
        rig.state().host(number)["inventory"] = inventory.into();
    }
    rig.state().cluster["hosts"][1]["inventory"] = json!({"hostname": "one.example.com"}).to_string().into();
    let controller = rig.start();
    let [two, one] =
        ["two", "one.example.com"].map(|name| rig.cluster.certificate_request(&CertificateRequest::client(name)));
    rig.cluster.await_approval(&two);
    rig.cluster.await_approval(&one);
    rig.state().host(1)["inventory"] = json!({"hostname": "two"}).to_string().into();
    rig.until("the service's hosts", |rig| {
        let request = rig.cluster.certificate_request(&CertificateRequest::client("two"));
        rig.rounds(3);
        conditions(rig, &request) == Value::Null
    });
    controller.end();
}

/// As the original does it: what the signers are for is approved unseen.
#[test]
fn any_request_is_approved_where_that_is_wanted() {
    let Some(rig) = begin() else { return };
    let controller = rig.start_with(controller::config::Config { approval: Approval::Any, ..rig.config() });
    let all: Vec<_> = forged()
        .iter()
        .map(|(request, before, _)| rig.cluster.certificate_request_of(request, &format!("{before}{}", request.pem())))
        .collect();
    let foreign = rig.cluster.certificate_request(&foreign());
    let denied = rig.cluster.certificate_request(&CertificateRequest::client("node1"));
    rig.cluster.judge_certificate_request(&denied, "Denied");
    for name in &all {
        rig.cluster.await_approval(name);
        assert_eq!(events(&rig, name), (vec![], vec![]));
    }
    rig.rounds(3);
    assert_eq!(conditions(&rig, &foreign), Value::Null);
    // The server would not take it: the original asks for it each half a minute.
    let approvals = rig.proxy.requests();
    assert!(!approvals.iter().any(|request| request.target.contains(&format!("/{denied}/approval"))));
    controller.end();
}

/// The agent-based installer's service ends with its host. A controller that starts afterwards has to let that host's node in, too.
#[test]
fn nodes_stand_for_hosts_where_the_service_is_gone() {
    let Some(rig) = begin() else { return };
    rig.cluster.invoker("agent-installer");
    rig.state().failures = vec![("GET", CLUSTER, u32::MAX, 503)];
    let controller = rig.start();
    let good = [CertificateRequest::client("node7"), CertificateRequest::serving("node0", &[ADDRESS])]
        .map(|request| rig.cluster.certificate_request(&request));
    let taken = rig.cluster.certificate_request(&CertificateRequest::client("node0"));
    good.iter().for_each(|request| rig.cluster.await_approval(request));
    rig.until("the event of a refusal", |rig| !events(rig, &taken).0.is_empty());
    assert_eq!((conditions(&rig, &taken), events(&rig, &taken).1), (Value::Null, vec![]));
    controller.end();
}
