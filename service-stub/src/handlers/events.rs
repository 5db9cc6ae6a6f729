//! Events: listed, and taken from the installed cluster's controller.

use crate::auth::Caller;
use crate::events::Kind;
use crate::find::find_host;
use crate::http::body::{BodyShape, any, one_of, shape, text, uuid};
use crate::http::{Answer, Call, Refusal};
use crate::model::{Event, HostKey, HostRecord};
use crate::service::Service;
use crate::store::{Change, EventQuery, HostFilter};
use api::{ClusterId, HostId, InfraEnvId};
use axum::http::{HeaderName, StatusCode};
use serde_json::Value;

const DEFAULT_LIMIT: i64 = 5000;
/// In the order of `Severity::NAMES`.
const SEVERITY_COUNTS: [&str; 4] =
    ["severity-count-info", "severity-count-warning", "severity-count-error", "severity-count-critical"];

/// GET /v2/events.
pub(crate) fn list(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let cluster = call.query_uuid("cluster_id")?;
    let infra_env = call.query_uuid("infra_env_id")?;
    let host_id = call.query_uuid("host_id")?;
    let mut hosts: Vec<uuid::Uuid> = host_id.into_iter().collect();
    for text in call.query("host_ids").iter().flat_map(|list| list.split(',')) {
        hosts.push(crate::http::call::uuid("host_ids", "query", text)?);
    }
    let list = |name: &str| call.query(name).map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
    let descending = match call.query("order") {
        None | Some("ascending") => false,
        Some("descending") => true,
        Some(_) => {
            return Err(Refusal::bad_request("order in query should be one of [ascending descending]"));
        }
    };
    let limit = call.query_number("limit")?.unwrap_or(DEFAULT_LIMIT);
    // What a token is for bounds what is listed, whatever is asked for; where both are named, both were checked.
    let (infra_env, cluster) = match call.caller {
        Caller::InfraEnv(own) if cluster.is_none() => (Some(own.0), None),
        Caller::Cluster(own) if infra_env.is_none() => (None, Some(own.0)),
        _ => (infra_env, cluster),
    };
    let these = hosts.into_iter().map(HostId).collect::<Vec<_>>();
    let (deleted, none) = (call.query_flag("deleted_hosts"), call.query_flag("cluster_level"));
    let other_than = deleted.then(|| service.store.model().hosts.keys().map(|key| key.host).collect());
    let all = these.is_empty() && !none && !deleted;
    let page = service.store.events(&EventQuery {
        cluster: cluster.map(ClusterId),
        infra_env: infra_env.map(InfraEnvId),
        hosts: if all { HostFilter::All } else { HostFilter::Any { these, none, other_than } },
        severities: list("severities"),
        categories: Some(list("categories").unwrap_or_else(|| vec!["user".to_owned()])),
        message: call.query("message").map(str::to_lowercase),
        descending,
        offset: usize::try_from(call.query_number("offset")?.unwrap_or(0)).unwrap_or(0),
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
    })?;
    let answer = Answer::json(StatusCode::OK, &page.events);
    let answer = answer.with(HeaderName::from_static("event-count"), &page.total.to_string());
    if cluster.is_none() {
        return Ok(answer);
    }
    let counts = SEVERITY_COUNTS.into_iter().zip(page.by_severity);
    Ok(counts.fold(answer, |answer, (name, count)| answer.with(HeaderName::from_static(name), &count.to_string())))
}

pub(crate) const BODY: BodyShape = shape(
    "triggerEventParams",
    "Event",
    &[
        one_of("category", &["user", "metrics"]).or_zero(),
        uuid("cluster_id").nullable(),
        any("event_time").required().described("time"),
        uuid("host_id").nullable(),
        uuid("infra_env_id").nullable(),
        text("message").required(),
        any("name").described("string"),
        any("props").described("string"),
        any("request_id").described("string"),
        one_of("severity", &crate::events::Severity::NAMES).required(),
    ],
);

/// POST /v2/events.
pub(crate) fn create(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let mut event: Event = call.json(&BODY)?;
    call.caller.check(&service.store.model(), event.infra_env_id, event.cluster_id)?;
    // An event of nothing is one of what the token is for; a host is known only together with where it is.
    match call.caller {
        Caller::InfraEnv(own) if event.cluster_id.is_none() => event.infra_env_id = Some(own),
        Caller::Cluster(own) if event.infra_env_id.is_none() => event.cluster_id = Some(own),
        _ => {}
    }
    service.change(call.request_id(), |change| {
        change.event(event);
        Ok(Answer::empty(StatusCode::CREATED))
    })
}

/// Records an event of a host, unless one of its kind was recorded too short a time ago.
pub(crate) fn record(service: &Service, call: &Call, key: HostKey, kind: Kind, details: &Value) -> Result<(), Refusal> {
    let due = |change: &Change, record: &HostRecord| {
        let last = record.hourly_events.get(kind.name);
        let limit = service.settings.event_limits.of(kind.name).unwrap_or(0);
        last.is_none_or(|then| change.now.seconds_since(*then) >= limit)
    };
    service.change(call.request_id(), |change| {
        let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
        if due(change, &record) {
            crate::events::host(change, &record, kind, details.clone());
            record.hourly_events.insert(kind.name.to_owned(), change.now);
            change.put_host(record);
        }
        Ok(())
    })
}
