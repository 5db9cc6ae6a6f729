//! One archive about an installation: the cluster, its events and manifests, and the uploaded logs.

use crate::generated_manifests;
use crate::http::Refusal;
use crate::http::file::Offer;
use crate::http::joined::Joined;
use crate::http::range::Validators;
use crate::manifest_files;
use crate::model::{ClusterRecord, Model};
use crate::service::Service;
use crate::store::EventQuery;
use crate::view;
use sha2::{Digest, Sha256};
use std::{io, sync::Arc};

/// Maximum number of events in an archive, the first ones.
const MAX_EVENTS: usize = 5000;
const BLOCK: u64 = 512;

/// A name for any file system: hosts choose their names themselves.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}

/// The cluster, its events and its manifests, as files.
pub(crate) fn records(service: &Service, model: &Model, record: &ClusterRecord) -> Result<Vec<Offer>, Refusal> {
    let (id, state) = (record.cluster.id, service.store.directory());
    let failed = |error: io::Error| Refusal::internal(&error);
    let written = |name: String, bytes: Vec<u8>| {
        let modified = record.cluster.updated_at.unix_seconds();
        let etag = Sha256::digest(&bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let mut whole = Joined::default();
        whole.push_bytes(bytes);
        offer(whole, plain(&name), Validators { etag, modified })
    };
    let document = view::cluster_document(service, model, record, true);
    let events = service.store.events(&EventQuery {
        cluster: Some(id),
        categories: Some(vec!["user".to_owned()]),
        limit: MAX_EVENTS,
        ..EventQuery::default()
    })?;
    let events = serde_json::to_vec(&events.events).map_err(|error| Refusal::internal(&error))?;
    let mut files = vec![
        written("cluster_metadata.json".into(), document.to_string().into_bytes()),
        written("cluster_events.json".into(), events),
    ];
    for (name, content) in manifest_files::read_all(state, id).map_err(failed)? {
        files.push(written(format!("cluster_manifest_user_{}_{}", name.folder, name.file), content));
    }
    // Those of an installation: before one begins they are only what would be generated.
    if !record.state.is_before_installation() {
        for manifest in generated_manifests::of_cluster(service, model, record).map_err(failed)? {
            let label = format!("cluster_manifest_system_{}_{}", manifest.folder, manifest.file);
            files.push(written(label, manifest.content.into_bytes()));
        }
    }
    Ok(files)
}

fn offer(joined: Joined, name: String, validators: Validators) -> Offer {
    let len = joined.bytes();
    Offer { len, source: Arc::new(joined), validators, name, media_type: "application/octet-stream" }
}

/// Files as one archive, generated while it is sent.
pub(crate) fn tar(files: Vec<Offer>, name: String) -> io::Result<Offer> {
    let (mut joined, mut tags, mut modified) = (Joined::default(), Sha256::new(), 0);
    for (number, file) in files.into_iter().enumerate() {
        let mut header = tar::Header::new_ustar();
        // A name that does not fit is left out.
        if header.set_path(&file.name).is_err() {
            header.set_path(format!("{number}"))?;
        }
        header.set_size(file.len);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(file.validators.modified).unwrap_or_default());
        header.set_cksum();
        joined.push_bytes(header.as_bytes().to_vec());
        joined.push(file.source, file.len);
        let gap = file.len.next_multiple_of(BLOCK) - file.len;
        joined.push_bytes(vec![0; usize::try_from(gap).unwrap_or_default()]);
        tags.update(&file.validators.etag);
        tags.update(&file.name);
        modified = modified.max(file.validators.modified);
    }
    joined.push_bytes(vec![0; 1024]);
    let etag = tags.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(offer(joined, name, Validators { etag: format!("\"{etag}\""), modified }))
}
