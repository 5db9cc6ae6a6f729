//! What each resource says of itself.

use super::{
    PlanError, listed,
    read::Fields,
    references::{Key, texts},
};
use kernel::spelling;
use std::collections::BTreeMap;

/// Who a document is, and what was written on it.
pub(crate) struct Metadata {
    pub(crate) key: Key,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// Of a resource. What an API server adds to all of them is listed as idle.
    pub(crate) fn take(fields: &mut Fields) -> Result<Self, PlanError> {
        fields.idle(listed::of(listed::IDLE, "*"));
        let mut metadata = fields.object("metadata")?;
        metadata.idle(listed::of(listed::IDLE, "*.metadata"));
        let [name, namespace] = [metadata.text("name")?, metadata.text("namespace")?].map(Option::unwrap_or_default);
        let labels = texts(metadata.object("labels")?)?;
        let annotations = texts(metadata.object("annotations")?)?;
        Ok(Self { key: Key { namespace, name }, labels, annotations })
    }

    /// Takes an annotation; an empty one is none.
    pub(crate) fn annotation(&mut self, name: &str) -> Option<String> {
        self.annotations.remove(name).filter(|text| !text.trim().is_empty())
    }

    /// What is left of the annotations: those of ours are misspelt or not supported, others are another program's.
    pub(crate) fn finish(self, fields: &Fields, known: &[&str]) -> Result<(), PlanError> {
        for name in self.annotations.into_keys() {
            let field = format!("metadata.annotations.{}", name.escape_default());
            if name.contains("agent-install.openshift.io") {
                let meant = spelling::nearest(&name, known.iter().copied());
                let hint = meant.map_or_else(String::new, |name| format!(": did you mean '{name}'?"));
                return Err(fields.error(&field, format!("is not read here{hint}")));
            }
            fields.note(format!("{field}: does nothing here: it is another program's"));
        }
        Ok(())
    }
}
