//! Saves the records when the machine that holds them becomes a node: they go onto its disk.

use crate::http::Refusal;
use crate::model::Model;
use crate::service::Service;
use crate::store::EventQuery;
use crate::view;
use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Where they are on the node: gzip of a JSON object with `cluster`, `infra_env`, `events`.
pub const PATH: &str = "/var/lib/landfall/rendezvous.json.gz";
/// Maximum number of events saved, the latest.
const MAX_EVENTS: usize = 5000;

/// The config of a host with the records added as a file. Published documents only, without secrets.
pub(crate) fn with_records(service: &Service, model: &Model, config: &[u8]) -> Result<Vec<u8>, Refusal> {
    let packed = pack(&records(service, model)?).map_err(|error| Refusal::internal(&error))?;
    let file = json!({
        "path": PATH,
        "mode": 0o600,
        "overwrite": true,
        "contents": {"source": format!("data:;base64,{}", BASE64_STANDARD.encode(packed))},
    });
    let mut config: Value = serde_json::from_slice(config).map_err(|error| Refusal::internal(&error))?;
    let files = &mut config["storage"]["files"];
    match files.as_array_mut() {
        Some(files) => files.push(file),
        None => *files = json!([file]),
    }
    Ok(config.to_string().into_bytes())
}

fn records(service: &Service, model: &Model) -> Result<Value, Refusal> {
    let Some(rendezvous) = &service.settings.rendezvous else { return Ok(Value::Null) };
    let cluster = model.clusters.get(&rendezvous.cluster);
    let infra_env = model.infra_envs.get(&rendezvous.infra_env).map(|record| {
        let mut shown = record.infra_env.clone();
        // It may contain a token.
        shown.download_url.clear();
        shown
    });
    let query =
        EventQuery { cluster: Some(rendezvous.cluster), descending: true, limit: MAX_EVENTS, ..EventQuery::default() };
    let events = service.store.events(&query)?.events;
    Ok(json!({
        "cluster": cluster.map(|record| view::cluster_document(service, model, record, true)),
        "infra_env": infra_env,
        "events": events,
    }))
}

fn pack(records: &Value) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(records.to_string().as_bytes())?;
    packer.finish()
}
