//! Events of a cluster or a host, the newest first.

use super::html::{Tone, badge, cell, e, moment, table};
use crate::http::Refusal;
use crate::service::Service;
use crate::store::EventQuery;

/// So many are shown; the API has all.
const SHOWN: usize = 20;

/// Their table; `all` is where the API lists all of them.
pub fn events(service: &Service, query: EventQuery, all: &str) -> Result<String, Refusal> {
    let query = EventQuery { categories: Some(vec!["user".to_owned()]), descending: true, limit: SHOWN, ..query };
    let page = service.store.events(&query)?;
    let rows: Vec<String> = page
        .events
        .iter()
        .map(|event| {
            [
                cell("Time", moment(event.event_time)),
                cell("Severity", badge(Tone::of_severity(&event.severity), &event.severity)),
                cell("Event", e(&event.message)),
            ]
            .concat()
        })
        .collect();
    let more = match page.total > page.events.len() {
        true => {
            format!("<p>The newest {} of {}: <a href=\"{}\">all as JSON</a></p>", page.events.len(), page.total, e(all))
        }
        false => String::new(),
    };
    Ok(table("Events, the newest first", &["Time", "Severity", "Event"], &rows, "None yet.") + &more)
}
