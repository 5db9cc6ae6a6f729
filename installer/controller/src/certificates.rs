//! Certificates of nodes: requests of this cluster's hosts are approved, others are told of.

use crate::{
    Context,
    cluster::{
        Watched,
        objects::{self, CERTIFICATE_REQUEST, EVENT, Node, NodeFacts, text},
    },
};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::core::{DynamicObject, ObjectMeta};
use node_certificates::{Host, Hosts, Request, Verdict};
use serde_json::{Value, json};
use std::{collections::HashSet, sync::Arc, time::Duration};

/// Until what failed is tried again, and what was refused is looked at once more: its host may be known by then.
const INTERVAL: Duration = Duration::from_secs(30);
/// Changes that come together are looked at together.
const TOGETHER: Duration = Duration::from_secs(1);
/// Anybody with a bootstrap token can make requests: events of refusals end with this many.
const MAX_EVENTS: usize = 100;
const CONTROLLER: &str = "assisted-installer-controller";

/// Looks at requests until `over`, or the end of the work.
pub(crate) async fn run(ctx: &Context, over: impl Future<Output = ()>) {
    let mut over = std::pin::pin!(over);
    let mut requests = ctx.cluster.watch(CERTIFICATE_REQUEST, None);
    let mut told = HashSet::new();
    loop {
        tokio::select! {
            () = look(ctx, &requests, &mut told) => {}
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

async fn look(ctx: &Context, requests: &Watched<DynamicObject>, told: &mut HashSet<String>) {
    let (Some(requests), Some(nodes)) = (requests.all().await, ctx.nodes.all().await) else { return };
    let hosts = hosts(ctx);
    let nodes: Vec<node_certificates::Node> = nodes.iter().map(|node| seen(node)).collect();
    for object in requests {
        let request = request(&object);
        match node_certificates::judge(&request, &hosts, &nodes, ctx.config.approval) {
            Verdict::Ignore => {}
            Verdict::Approve => approve(ctx, &object).await,
            Verdict::Refuse(reason) => {
                let is_new = told.insert(format!("{} {reason}", object.metadata.uid.as_deref().unwrap_or_default()));
                if is_new {
                    tell_refusal(ctx, &request, &reason.to_string(), told.len() <= MAX_EVENTS).await;
                }
            }
        }
    }
}

/// What the service last said of the cluster's hosts.
fn hosts(ctx: &Context) -> Hosts {
    let Some(snapshot) = ctx.follow.last() else { return Hosts::default() };
    let known = |host: &crate::hosts::Host| Host { names: vec![host.name.clone()], addresses: host.addresses.clone() };
    Hosts {
        list: snapshot.hosts.iter().filter(|host| !host.is("disabled")).map(known).collect(),
        extra_addresses: snapshot.vips.clone(),
    }
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
        // The server takes no object with both.
        Some(conditions) => {
            conditions.retain(|condition| condition["type"] != "Denied");
            conditions.push(condition);
        }
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

async fn tell_refusal(ctx: &Context, request: &Request, reason: &str, as_event: bool) {
    let message = format!("Certificate request {} is not approved: {reason}", request.name);
    tracing::warn!("{message}");
    if !as_event {
        return;
    }
    let now = api::Timestamp::now();
    let namespace = ctx.config.namespace.clone();
    let data = json!({
        "involvedObject": {
            "apiVersion": CERTIFICATE_REQUEST.api_version(), "kind": CERTIFICATE_REQUEST.name(), "name": request.name,
            // It has none, but the API server wants the event's.
            "namespace": namespace,
        },
        "reason": "CertificateRequestRefused", "message": message, "type": "Warning", "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "source": {"component": CONTROLLER},
    });
    let metadata = ObjectMeta {
        generate_name: Some("certificate-request-refused-".to_owned()),
        namespace: Some(namespace),
        ..ObjectMeta::default()
    };
    if let Err(error) = ctx.cluster.create(EVENT, metadata, data).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "no event of the refusal in the cluster");
    }
    if ctx.mode.has_service()
        && let Err(error) = ctx.service.event("certificate_request_refused", "warning", &message, json!({})).await
    {
        tracing::warn!(error = &error as &dyn std::error::Error, "no event of the refusal in the service");
    }
}
