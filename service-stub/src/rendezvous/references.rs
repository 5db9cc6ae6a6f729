//! Which document is meant: each is known by kind, namespace and name, and what refers to another names one that is there.

use super::{PlanError, read::Fields};
use std::collections::BTreeMap;

/// The name of a document, as Kubernetes has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    /// Empty where the document names none: it is in any.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn is_for(&self, other: &Self) -> bool {
        let any = self.namespace.is_empty() || other.namespace.is_empty();
        self.name == other.name && (any || self.namespace == other.namespace)
    }
}

/// A document of some kind.
#[derive(Clone, Debug)]
pub(crate) struct Named<T> {
    pub(crate) key: Key,
    pub(crate) file: String,
    pub(crate) value: T,
}

/// What one document says of another.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) kind: &'static str,
    pub(crate) key: Key,
    /// File and field.
    pub(crate) place: String,
}

impl Reference {
    /// The one of `all` that is meant.
    pub(crate) fn find<'a, T>(&self, all: &'a [Named<T>]) -> Result<&'a Named<T>, PlanError> {
        let mut found = all.iter().filter(|one| one.key.is_for(&self.key));
        let (first, second) = (found.next(), found.next());
        let refused = |reason: String| Err(PlanError::Reference { place: self.place.clone(), reason });
        match (first, second) {
            (Some(one), None) => Ok(one),
            (Some(one), Some(other)) => refused(format!(
                "'{}' may be the {kind} of {} or that of {}: give the namespace, or remove one of them",
                self.key.name,
                one.file,
                other.file,
                kind = self.kind
            )),
            (None, _) => refused(format!("'{}' names no {}{}", self.key.name, self.kind, others(self, all))),
        }
    }
}

/// What there is instead.
fn others<T>(wanted: &Reference, all: &[Named<T>]) -> String {
    let elsewhere = all.iter().find(|one| one.key.name == wanted.key.name);
    match (elsewhere, all) {
        (Some(one), _) => {
            format!(" of namespace '{}': that of {} is in '{}'", wanted.key.namespace, one.file, one.key.namespace)
        }
        (None, []) => ": the documents have none".to_owned(),
        (None, all) => {
            let names: Vec<&str> = all.iter().map(|one| one.key.name.as_str()).collect();
            format!(": there is {}", names.join(", "))
        }
    }
}

/// Adds a document; two of one name are refused.
pub(crate) fn declare<T>(
    all: &mut Vec<Named<T>>,
    kind: &'static str,
    key: Key,
    file: &str,
    value: T,
) -> Result<(), PlanError> {
    if let Some(twin) = all.iter().find(|one| one.key == key && !key.name.is_empty()) {
        let what = format!("the {kind} '{}'", key.name);
        return Err(PlanError::Contradiction { one: twin.file.clone(), other: file.to_owned(), what });
    }
    all.push(Named { key, file: file.to_owned(), value });
    Ok(())
}

/// A selector of labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: BTreeMap<String, String>,
    expressions: Vec<(String, Operator, Vec<String>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    pub(crate) fn take(mut fields: Fields) -> Result<Self, PlanError> {
        let mut selector = Self { labels: texts(fields.object("matchLabels")?)?, ..Self::default() };
        for mut expression in fields.objects("matchExpressions")? {
            let key = expression.text("key")?.ok_or_else(|| expression.error("key", "is missing"))?;
            let operator = match expression.text("operator")?.as_deref() {
                Some("In") => Operator::In,
                Some("NotIn") => Operator::NotIn,
                Some("Exists") => Operator::Exists,
                Some("DoesNotExist") => Operator::DoesNotExist,
                _ => return Err(expression.error("operator", "is none of In, NotIn, Exists, DoesNotExist")),
            };
            selector.expressions.push((key, operator, expression.texts("values")?));
        }
        Ok(selector)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.expressions.is_empty()
    }

    pub(crate) fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |(key, operator, values): &(String, Operator, Vec<String>)| {
            let value = labels.get(key);
            let listed = value.is_some_and(|value| values.contains(value));
            match operator {
                Operator::In => listed,
                Operator::NotIn => !listed,
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        };
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value)) && self.expressions.iter().all(has)
    }
}

/// An object of texts.
pub(crate) fn texts(mut fields: Fields) -> Result<BTreeMap<String, String>, PlanError> {
    let mut all = BTreeMap::new();
    for name in fields.names() {
        let text = fields.text(&name)?.unwrap_or_default();
        all.insert(name, text);
    }
    Ok(all)
}
