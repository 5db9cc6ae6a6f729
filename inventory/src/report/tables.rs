//! Which fields of the report's longer lists have a column on its page.

use serde_json::{Map, Value};

/// A list whose elements have a line each.
pub(super) struct Table {
    /// Name of the list.
    pub list: &'static str,
    /// Heads and texts of the columns; a text stays empty unless the element has all fields in it.
    pub columns: &'static [(&'static str, &'static str)],
    /// Elements that are only counted, and what they are called.
    pub but: Option<(Hides, &'static str)>,
}

/// Whether an element is hidden.
type Hides = fn(&Map<String, Value>) -> bool;

/// How the lists of these names are told.
pub(super) const TABLES: [Table; 4] = [
    Table {
        list: "packages",
        columns: &[
            ("package", "{id}"),
            ("model", "{model_name}"),
            ("cores", "{cores}"),
            ("threads", "{threads}"),
            ("family/model/step", "{family}/{model}/{stepping}"),
            ("microcode", "{microcode}"),
            ("cpus", "{cpus}"),
        ],
        but: None,
    },
    Table {
        list: "caches",
        columns: &[
            ("cache", "L{level}"),
            ("type", "{type}"),
            ("size", "{size_bytes}"),
            ("ways", "{ways}"),
            ("line", "{line_bytes}"),
            ("instances", "{instances}"),
        ],
        but: None,
    },
    Table {
        list: "numa_nodes",
        columns: &[("node", "{id}"), ("cpus", "{cpus}"), ("memory", "{memory_bytes}"), ("distances", "{distances}")],
        but: None,
    },
    Table {
        list: "pci",
        columns: &[
            ("address", "{address}"),
            ("class", "{class|class_id}"),
            ("vendor", "{vendor|vendor_id}"),
            ("device", "{device|device_id}"),
            ("driver", "{driver}"),
            ("link", "{link.speed_gts} x{link.width_lanes}"),
        ],
        but: Some((is_part_of_the_board, "bridges, parts of the processor and virtual functions")),
    },
];

/// Bridges (class 06), system peripherals (08) and signal processing (11), of which a processor has dozens, without a driver
/// or with the bus's own; and virtual functions.
fn is_part_of_the_board(function: &Map<String, Value>) -> bool {
    let text = |name: &str| function.get(name).and_then(Value::as_str);
    let is_plumbing =
        text("class_id").is_some_and(|class| ["06", "08", "11"].iter().any(|base| class.starts_with(base)));
    function.contains_key("physical_function") || is_plumbing && matches!(text("driver"), None | Some("pcieport"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::schema::{self, Shape};

    /// The shape of the elements of the list of that name, wherever it is.
    fn list<'a>(shape: &Shape<'a>, name: &str) -> Option<Shape<'a>> {
        let inner = shape.fields().into_iter().filter_map(|field| Some((field, shape.field(field)?)));
        inner.into_iter().find_map(|(field, shape)| match shape.element() {
            Some(element) if field == name => Some(element),
            Some(element) => list(&element, name),
            None => list(&shape, name),
        })
    }

    #[test]
    fn every_column_is_a_field() {
        let schema = schema::report();
        for table in &TABLES {
            let element = list(&Shape::of(&schema), table.list).unwrap_or_else(|| panic!("no list {}", table.list));
            for (head, text) in table.columns {
                for path in text.split('{').skip(1).flat_map(|rest| rest.split('}').next().unwrap().split('|')) {
                    let field = path.split('.').try_fold(element.clone(), |shape, name| shape.field(name));
                    assert!(field.is_some(), "{}: {head}: {path}", table.list);
                }
            }
        }
    }
}
