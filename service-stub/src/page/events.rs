//! Events of a cluster or a host, the newest first.

use super::html::{Tone, badge, line, moment, table};
use crate::http::Refusal;
use crate::model::Event;
use crate::service::Service;
use crate::store::EventQuery;
use maud::{Markup, html};

/// Maximum number on the page; the API has all.
const LIMIT: usize = 20;

/// Their table; `all` is where the API lists all of them.
pub(super) fn events(service: &Service, query: EventQuery, all: &str) -> Result<Markup, Refusal> {
    let query = EventQuery { categories: Some(vec!["user".to_owned()]), descending: true, limit: LIMIT, ..query };
    let page = service.store.events(&query)?;
    let row = |event: &Event| {
        [moment(event.event_time), badge(Tone::of_severity(&event.severity), &event.severity), line(&event.message)]
    };
    let rows: Vec<_> = page.events.iter().map(row).collect();
    Ok(html! {
        (table("Events, newest first", ["Time", "Severity", "Event"], &rows, "None yet."))
        @if page.total > rows.len() {
            p { "The newest " (rows.len()) " of " (page.total) ": " a href=(all) { "all as JSON" } }
        }
    })
}
