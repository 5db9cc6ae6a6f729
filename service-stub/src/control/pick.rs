//! Finds a record by its name or the start of its identifier.

use crate::text;
use serde_json::Value;

/// Why nothing was picked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PickError {
    #[error("no {kind} has the name '{wanted}' or an id that starts with it: {}", have(known))]
    Unknown {
        /// What kind was searched.
        kind: &'static str,
        wanted: String,
        known: Vec<String>,
    },
    #[error("'{wanted}' matches {} {kind}s: {}; give more of the id", fits.len(), fits.join(", "))]
    Ambiguous {
        /// What kind was searched.
        kind: &'static str,
        wanted: String,
        fits: Vec<String>,
    },
}

/// Maximum number of names in an error.
const NAMED: usize = 8;

fn have(known: &[String]) -> String {
    match known {
        [] => "there are none".to_owned(),
        known if known.len() > NAMED => {
            format!(
                "known: {} and {} more",
                known.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", "),
                known.len() - NAMED
            )
        }
        known => format!("known: {}", known.join(", ")),
    }
}

/// The one document that `wanted` names by id, name, or start of the id, in that order. `name` gets a document's name.
pub(crate) fn pick<'a>(
    kind: &'static str,
    documents: &'a [Value],
    name: impl Fn(&Value) -> String,
    wanted: &str,
) -> Result<&'a Value, PickError> {
    let small = wanted.to_ascii_lowercase();
    let tests: [&dyn Fn(&Value) -> bool; 3] =
        [&|document| text::at(document, "/id") == small, &|document| name(document) == wanted, &|document| {
            !small.is_empty() && text::at(document, "/id").starts_with(&small)
        }];
    let label = |document: &Value| {
        format!("{} ({})", text::plain(&name(document)), text::cut(text::at(document, "/id"), 9).trim_end_matches('…'))
    };
    for test in tests {
        let fits: Vec<&Value> = documents.iter().filter(|document| test(document)).collect();
        match fits.as_slice() {
            [] => {}
            [one] => return Ok(one),
            several => {
                let fits = several.iter().map(|document| label(document)).collect();
                return Err(PickError::Ambiguous { kind, wanted: text::plain(wanted), fits });
            }
        }
    }
    Err(PickError::Unknown { kind, wanted: text::plain(wanted), known: documents.iter().map(label).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn by_id_by_name_and_by_the_start_of_an_id() {
        let documents = [
            json!({"id": "7e5ff6df-e038-4103-bbb2-90433ded3e50", "name": "rack"}),
            json!({"id": "7e000000-e038-4103-bbb2-90433ded3e50", "name": "edge"}),
            // A name that looks like the start of an id wins over ids.
            json!({"id": "11111111-e038-4103-bbb2-90433ded3e50", "name": "7e5f"}),
            json!({"id": "22222222-e038-4103-bbb2-90433ded3e50", "name": "twin"}),
            json!({"id": "33333333-e038-4103-bbb2-90433ded3e50", "name": "twin"}),
        ];
        let name = |document: &Value| text::at(document, "/name").to_owned();
        let picked = |wanted: &str| {
            pick("cluster", &documents, name, wanted)
                .map(|found| text::at(found, "/id")[..8].to_owned())
                .map_err(|e| e.to_string())
        };
        assert_eq!(picked("rack"), Ok("7e5ff6df".into()));
        assert_eq!(picked("7E5FF6DF-e038-4103-bbb2-90433ded3e50"), Ok("7e5ff6df".into()));
        assert_eq!(picked("7e5f"), Ok("11111111".into()));
        assert_eq!(picked("7e0"), Ok("7e000000".into()));
        assert_eq!(
            picked("twin").unwrap_err(),
            "'twin' matches 2 clusters: twin (22222222), twin (33333333); give more of the id"
        );
        assert!(picked("7e").unwrap_err().starts_with("'7e' matches 2 clusters"));
        assert!(picked("x").unwrap_err().starts_with("no cluster has the name 'x'"), "{:?}", picked("x"));
        assert!(picked("").is_err());
    }
}
