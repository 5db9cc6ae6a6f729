//! Lists of hosts, and of clusters with theirs. What hosts found and said may be a gigabyte in one answer: a long one is made host
//! by host while it is sent.

use crate::http::{Answer, pieces::Pieces};
use crate::model::{ClusterRecord, HostRecord, Model};
use crate::service::Service;
use crate::view;
use axum::http::StatusCode;
use serde_json::Value;
use std::{iter, sync::Arc};

/// Answers with more text of hosts are made while they are sent.
const LONG_BYTES: usize = 4 << 20;

/// Who makes a long answer; none where it is short.
fn maker<'a>(service: &Service, hosts: impl Iterator<Item = &'a Arc<HostRecord>>) -> Option<Arc<Service>> {
    let bytes: usize = hosts.map(|host| host.texts_bytes()).sum();
    if bytes > LONG_BYTES { service.shared() } else { None }
}

fn text(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

fn host(service: &Service, record: &HostRecord, hidden: &[&str]) -> Value {
    let mut document = view::host_document(service, record);
    if let Value::Object(fields) = &mut document {
        hidden.iter().for_each(|name| drop(fields.remove(*name)));
    }
    document
}

/// Hosts, without some of their fields.
pub(super) fn hosts(service: &Service, records: Vec<Arc<HostRecord>>, hidden: Vec<&'static str>) -> Answer {
    match maker(service, records.iter()) {
        None => {
            let documents: Vec<Value> = records.iter().map(|record| host(service, record, &hidden)).collect();
            Answer::json(StatusCode::OK, &documents)
        }
        Some(service) => {
            let each = move |record: Arc<HostRecord>| iter::once(text(&host(&service, &record, &hidden)));
            Answer::in_pieces(Pieces::new(Pieces::list(records.into_iter().map(each))))
        }
    }
}

/// A cluster, with its hosts or null for them.
pub(super) fn cluster(service: &Service, model: &Arc<Model>, record: &Arc<ClusterRecord>, with_hosts: bool) -> Answer {
    let hosts = if with_hosts { model.hosts_of_cluster(record.cluster.id) } else { Vec::new() };
    match maker(service, hosts.iter()) {
        None => {
            let mut document = view::cluster_document(service, model, record, with_hosts);
            if !with_hosts {
                document["hosts"] = Value::Null;
            }
            Answer::json(StatusCode::OK, &document)
        }
        Some(service) => Answer::in_pieces(Pieces::new(with_theirs(service, model.clone(), record.clone()))),
    }
}

/// Clusters, with or without their hosts, and `more` documents of clusters behind them.
pub(super) fn clusters(
    service: &Service,
    model: &Arc<Model>,
    records: Vec<Arc<ClusterRecord>>,
    with_hosts: bool,
    more: Vec<Value>,
) -> Answer {
    let hosts = records.iter().filter(|_| with_hosts).flat_map(|record| model.hosts_of_cluster(record.cluster.id));
    match maker(service, hosts.collect::<Vec<_>>().iter()) {
        None => {
            let each = |record: &Arc<ClusterRecord>| view::cluster_document(service, model, record, with_hosts);
            Answer::json(StatusCode::OK, &records.iter().map(each).chain(more).collect::<Vec<Value>>())
        }
        Some(service) => {
            let model = model.clone();
            let each = move |record| -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
                Box::new(with_theirs(service.clone(), model.clone(), record))
            };
            let more = more
                .into_iter()
                .map(|document| -> Box<dyn Iterator<Item = Vec<u8>> + Send> { Box::new(iter::once(text(&document))) });
            Answer::in_pieces(Pieces::new(Pieces::list(records.into_iter().map(each).chain(more))))
        }
    }
}

/// A cluster with its hosts, which come last in it.
fn with_theirs(
    service: Arc<Service>,
    model: Arc<Model>,
    record: Arc<ClusterRecord>,
) -> impl Iterator<Item = Vec<u8>> + Send + 'static {
    let hosts = model.hosts_of_cluster(record.cluster.id);
    let (start, each) = (service.clone(), service);
    let start = iter::once_with(move || {
        let mut document = view::cluster_document(&start, &model, &record, false);
        if let Value::Object(fields) = &mut document {
            fields.remove("hosts");
        }
        let mut text = text(&document);
        // It has other fields, and ends with a brace.
        text.pop();
        text.extend_from_slice(b",\"hosts\":");
        text
    });
    let hosts = Pieces::list(hosts.into_iter().map(move |record| iter::once(text(&host(&each, &record, &[])))));
    start.chain(hosts).chain(iter::once(b"}".to_vec()))
}
