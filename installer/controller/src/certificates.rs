//! Certificates of nodes: requests of this cluster's hosts are approved, others are reported.

use crate::{
    Context, Mode,
    clock::{Look, until},
    cluster::{
        CallError, Watched,
        objects::{self, CERTIFICATE_REQUEST, EVENT, Node, NodeFacts, text},
    },
    hosts::Snapshot,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::core::{DynamicObject, ObjectMeta};
use node_certificates::{Host, Hosts, Request, Verdict};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// Until what failed is tried again, and what was refused is looked at once more: its host may be known by then.
const INTERVAL: Duration = Duration::from_secs(30);
/// Changes that come together are looked at together.
const TOGETHER: Duration = Duration::from_secs(1);
/// An event that was not accepted for so long is given up.
const REPORT_LIMIT: Duration = Duration::from_secs(600);
/// Anybody with a bootstrap token can make requests: events of refusals end with this many.
const MAX_EVENTS: usize = 100;
const CONTROLLER: &str = "assisted-installer-controller";

/// Looks at requests until `over`, or the end of the work.
pub(crate) async fn run(ctx: &Context, over: impl Future<Output = ()>) {
    let mut over = std::pin::pin!(over);
    let mut requests = ctx.cluster.watch(CERTIFICATE_REQUEST, None);
    let mut reported = Reported::default();
    if ctx.mode == Mode::AgentBased && ctx.follow.last().is_none() {
        tracing::warn!(
            "which hosts the cluster has is not known, since the service is gone: certificates are approved by the form of their requests and \
             by the nodes that are there"
        );
    }
    loop {
        tokio::select! {
            () = look(ctx, &requests, &mut reported) => {}
            () = &mut over => return,
            () = ctx.end.wait() => return,
        }
        tokio::select! {
            () = requests.changed() => ctx.clock.sleep(TOGETHER).await,
            () = ctx.clock.sleep(INTERVAL) => {}
            () = &mut over => return,
            () = ctx.end.wait() => return,
        }
    }
}

/// Refusals that were reported, once each.
#[derive(Default)]
struct Reported {
    /// By request, of those that exist.
    refusals: HashMap<String, HashSet<String>>,
    events: usize,
}

async fn look(ctx: &Context, requests: &Watched<DynamicObject>, reported: &mut Reported) {
    let (Some(requests), Some(nodes)) = (requests.all().await, ctx.nodes.all().await) else { return };
    let hosts = hosts(ctx);
    let nodes: Vec<node_certificates::Node> = nodes.iter().map(seen).collect();
    let exist: HashSet<&str> = requests.iter().map(|request| uid(request)).collect();
    reported.refusals.retain(|request, _| exist.contains(request.as_str()));
    for object in &requests {
        let request = request(object);
        match node_certificates::judge(&request, &hosts, &nodes, ctx.config.approval) {
            Verdict::Ignore => {}
            Verdict::Approve => approve(ctx, object).await,
            Verdict::Refuse(reason) => {
                let reason = reason.to_string();
                let reasons = reported.refusals.entry(uid(object).to_owned()).or_default();
                if reasons.insert(reason.clone()) {
                    reported.events += 1;
                    report(ctx, object, reasons.len(), &reason, reported.events <= MAX_EVENTS);
                }
            }
        }
    }
}

/// What the service last said of the cluster's hosts.
fn hosts(ctx: &Context) -> Hosts {
    match ctx.follow.last() {
        Some(snapshot) => known(&snapshot),
        // It ran on a host that has become a node, and does not come back.
        None => Hosts { unknown: ctx.mode == Mode::AgentBased, ..Hosts::default() },
    }
}

fn known(snapshot: &Snapshot) -> Hosts {
    let hosts: Vec<_> = snapshot.hosts.iter().filter(|host| !host.is("disabled")).collect();
    let mut claims = HashMap::<&str, u32>::new();
    for host in &hosts {
        *claims.entry(&host.name).or_default() += 1;
        if host.own_name != host.name {
            *claims.entry(&host.own_name).or_default() += 1;
        }
    }
    let names = |host: &crate::hosts::Host| {
        // A host says itself how it is called: a name that another has, too, is not its.
        let is_own = |own: &&String| !own.is_empty() && **own != host.name && claims.get(own.as_str()) == Some(&1);
        [&host.name].into_iter().chain(Some(&host.own_name).filter(is_own)).cloned().collect()
    };
    Hosts {
        list: hosts.iter().map(|host| Host { names: names(host), addresses: host.addresses.clone() }).collect(),
        extra_addresses: snapshot.vips.clone(),
        unknown: false,
    }
}

fn uid(object: &DynamicObject) -> &str {
    object.metadata.uid.as_deref().unwrap_or_default()
}

fn seen(node: &Arc<Node>) -> node_certificates::Node {
    let addresses = node.status.iter().flat_map(|status| &status.addresses);
    node_certificates::Node {
        name: objects::name(&node.metadata).to_owned(),
        addresses: addresses.map(|address| (address.kind.clone(), address.address.clone())).collect(),
        ready: node.is_ready(),
    }
}

fn request(object: &DynamicObject) -> Request {
    let list = |pointer: &str| {
        let list = object.data.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|item| Some(item.as_str()?.to_owned())).collect()
    };
    Request {
        name: objects::name(&object.metadata).to_owned(),
        signer_name: text(object, "/spec/signerName").to_owned(),
        username: text(object, "/spec/username").to_owned(),
        groups: list("/spec/groups"),
        usages: list("/spec/usages"),
        pem: BASE64_STANDARD.decode(text(object, "/spec/request")).unwrap_or_default(),
        conditions: objects::conditions(object).into_iter().map(|condition| condition.kind).collect(),
    }
}

async fn approve(ctx: &Context, object: &DynamicObject) {
    let mut object = object.clone();
    let condition = json!({
        "type": "Approved", "status": "True", "reason": "NodeCSRApprove",
        "message": "This CSR was approved by the assisted-installer-controller", "lastUpdateTime": api::Timestamp::now(),
    });
    let status = &mut object.data["status"];
    match status.get_mut("conditions").and_then(Value::as_array_mut) {
        Some(conditions) => conditions.push(condition),
        None => status["conditions"] = json!([condition]),
    }
    let name = objects::name(&object.metadata);
    match ctx.cluster.replace(CERTIFICATE_REQUEST, &object, "approval").await {
        Ok(_) => {
            tracing::info!(request = name, requester = text(&object, "/spec/username"), "certificate request approved")
        }
        Err(error) => tracing::warn!(request = name, error = &error as &dyn std::error::Error, "not approved"),
    }
}

/// Says why a request is refused, in the log and, if that is wanted, in two events. Approvals do not wait for them.
fn report(ctx: &Context, object: &DynamicObject, number: usize, reason: &str, as_event: bool) {
    let request = objects::name(&object.metadata);
    let message = format!("Certificate request {request} is not approved: {reason}");
    tracing::warn!("{message}");
    if !as_event {
        return;
    }
    let (ctx, request) = (ctx.clone(), request.to_owned());
    // The same with each run of this program.
    let name = format!("certificate-request-refused-{}-{number}", uid(object));
    tokio::spawn(async move {
        let in_cluster = until(&ctx.clock, &ctx.end, INTERVAL, Some(REPORT_LIMIT), || async {
            let sent = event(&ctx, &name, &request, &message).await;
            let sent = sent.inspect_err(|error| {
                tracing::warn!(error = error as &dyn std::error::Error, "no event of the refusal in the cluster");
            });
            Look::from(sent.is_ok())
        });
        let in_service = until(&ctx.clock, &ctx.end, INTERVAL, Some(REPORT_LIMIT), || async {
            let sent = ctx.service.event("certificate_request_refused", "warning", &message, json!({})).await;
            let sent = sent.inspect_err(|error| {
                tracing::warn!(error = error as &dyn std::error::Error, "no event of the refusal in the service");
            });
            Look::from(sent.is_ok())
        });
        let in_service = async {
            match ctx.mode.has_service() {
                true => in_service.await,
                false => Ok(()),
            }
        };
        let _ = tokio::join!(in_cluster, in_service);
    });
}

async fn event(ctx: &Context, name: &str, request: &str, message: &str) -> Result<(), CallError> {
    let now = api::Timestamp::now();
    let namespace = &ctx.config.namespace;
    let data = json!({
        "involvedObject": {
            "apiVersion": CERTIFICATE_REQUEST.api_version(), "kind": CERTIFICATE_REQUEST.name(), "name": request,
            // It has none, but the API server wants the event's.
            "namespace": namespace,
        },
        "reason": "CertificateRequestRefused", "message": message, "type": "Warning", "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "source": {"component": CONTROLLER},
    });
    let metadata =
        ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.clone()), ..ObjectMeta::default() };
    match ctx.cluster.create(EVENT, metadata, data).await {
        // It was written, and the reply lost.
        Err(error) if error.status() == Some(409) => Ok(()),
        result => result.map(drop),
    }
}
