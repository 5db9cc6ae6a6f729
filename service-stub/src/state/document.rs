//! The tables and pictures of all transitions, as `landfall serve states` prints them and `docs/service-states.md` keeps
//! them.

use super::{cluster, host, table};

/// Hosts and clusters as Markdown tables.
pub(crate) fn tables() -> String {
    format!("## Hosts\n\n{}\n## Clusters\n\n{}", table::markdown(host::ROWS), table::markdown(cluster::ROWS))
}

/// Hosts and clusters as Mermaid state diagrams.
pub(crate) fn pictures() -> String {
    let picture = |rows: String| format!("```mermaid\n{rows}```\n");
    let (hosts, clusters) = (table::picture(host::ROWS), table::picture(cluster::ROWS));
    format!("## Hosts\n\n{}\n## Clusters\n\n{}", picture(hosts), picture(clusters))
}

/// The whole of `docs/service-states.md`.
#[cfg(test)]
fn document() -> String {
    format!(
        "# States of hosts and clusters\n\n\
         What the service does with a host or a cluster is decided by these tables alone. A trigger (`on`) looks for the \
         first row whose states and conditions match, and goes where it leads. A row's name is its section and row in the \
         published behaviour; a plus marks what this service adds: a day-1 host that reports `Done` while it waits for a \
         person is installed, instead of staying in progress for ever.\n\n\
         `landfall serve states` and `landfall serve states picture` print what follows; a test compares this file with them.\n\n\
         # Tables\n\n{}\n# Pictures\n\nNumbers on the arrows are rows of the tables.\n\n{}",
        tables(),
        pictures()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_document_is_what_the_tables_print() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/service-states.md");
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        if committed == document() {
            return;
        }
        let fresh = std::env::temp_dir().join("service-states.md");
        std::fs::write(&fresh, document()).unwrap();
        panic!("{} is not what the tables print: copy {} over it", path.display(), fresh.display());
    }

    #[test]
    fn pictures_have_every_edge_once() {
        let picture = table::picture(host::ROWS);
        assert_eq!(picture.matches("known --> preparing_for_installation :").count(), 1);
        assert!(picture.contains("    [*] --> discovering : 2.3.1\n"));
        assert!(!picture.contains("error --> error"), "staying is no edge");
    }
}
