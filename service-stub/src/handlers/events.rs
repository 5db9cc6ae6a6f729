//! Events: listed, and taken from the installed cluster's controller.

use super::shapes;
use crate::http::{Answer, Call, Refusal};
use crate::model::Event;
use crate::service::Service;
use axum::http::{HeaderName, StatusCode};

const DEFAULT_LIMIT: i64 = 5000;

/// GET /v2/events.
pub fn list(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let cluster = call.query_uuid("cluster_id")?;
    let infra_env = call.query_uuid("infra_env_id")?;
    let host_id = call.query_uuid("host_id")?;
    let mut hosts: Vec<uuid::Uuid> = host_id.into_iter().collect();
    for text in call.query("host_ids").iter().flat_map(|list| list.split(',')) {
        hosts.push(crate::http::call::uuid("host_ids", "query", text)?);
    }
    let list = |name: &str| call.query(name).map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
    let severities = list("severities");
    let categories = list("categories").unwrap_or_else(|| vec!["user".to_owned()]);
    let message = call.query("message").map(str::to_lowercase);
    let descending = match call.query("order") {
        None | Some("ascending") => false,
        Some("descending") => true,
        Some(_) => {
            return Err(Refusal::bad_request("order in query should be one of [ascending descending]"));
        }
    };
    let limit = call.query_number("limit")?.unwrap_or(DEFAULT_LIMIT);
    let offset = usize::try_from(call.query_number("offset")?.unwrap_or(0)).unwrap_or(0);
    let mut events = service.store.events(|event: &Event| {
        cluster.is_none_or(|id| event.cluster_id.is_some_and(|own| own.0 == id))
            && infra_env.is_none_or(|id| event.infra_env_id.is_some_and(|own| own.0 == id))
            && (hosts.is_empty() || event.host_id.is_some_and(|own| hosts.contains(&own.0)))
            && severities.as_ref().is_none_or(|list| list.contains(&event.severity))
            && categories.contains(&event.category)
            && message.as_ref().is_none_or(|text| event.message.to_lowercase().contains(text))
    })?;
    let count = events.len();
    let mut severity_counts = Vec::new();
    if cluster.is_some() {
        for (severity, header) in [
            ("info", "severity-count-info"),
            ("warning", "severity-count-warning"),
            ("error", "severity-count-error"),
            ("critical", "severity-count-critical"),
        ] {
            let count = events.iter().filter(|event| event.severity == severity).count();
            severity_counts.push((HeaderName::from_static(header), count));
        }
    }
    if descending {
        events.reverse();
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page: Vec<Event> = events.into_iter().skip(offset).take(limit).collect();
    let answer = Answer::json(StatusCode::OK, &page).with(HeaderName::from_static("event-count"), &count.to_string());
    Ok(severity_counts.into_iter().fold(answer, |answer, (name, count)| answer.with(name, &count.to_string())))
}

/// POST /v2/events.
pub fn create(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let event: Event = call.json(&shapes::EVENT)?;
    service.change(call.request_id(), |change| {
        change.event(event);
        Ok(Answer::empty(StatusCode::CREATED))
    })
}
