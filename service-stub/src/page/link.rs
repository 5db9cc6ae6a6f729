//! Links between pages.

use super::html::line;
use crate::model::ClusterRecord;
use maud::{Markup, html};

/// A cluster's name, linked to its page.
pub(super) fn cluster(record: &ClusterRecord) -> Markup {
    html! { a href={ "/ui/clusters/" (record.cluster.id.to_string()) } { (line(&record.cluster.name)) } }
}
