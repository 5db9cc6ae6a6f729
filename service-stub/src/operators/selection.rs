//! The operators of a cluster: what its user chose, and what that needs.

use super::bundles::{UnknownBundle, bundle};
use super::table::{Operator, find};
use crate::course::{self, OperatorKind};
use crate::features::Architecture;
use crate::releases::version::{at_least, older};
use kernel::order;
use serde::{Deserialize, Serialize};

/// `operator-create-params`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperatorChoice {
    #[serde(default)]
    name: String,
    #[serde(default)]
    properties: String,
}

/// `bundle-create-params`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BundleChoice {
    id: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    optional_operators: Vec<String>,
}

/// Operators that can't be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectionError {
    #[error("operator {0} isn't supported")]
    Unknown(String),
    #[error(transparent)]
    UnknownBundle(#[from] UnknownBundle),
    #[error("operator '{operator}' is not a valid optional operator for bundle '{bundle}'")]
    NotOptional { operator: String, bundle: &'static str },
    #[error("{titles} is not available when {architecture} CPU architecture is selected")]
    Architecture { titles: String, architecture: String },
    #[error(
        "Currently, you can not install Logical Volume Manager operator at the same time as Virtualization operator."
    )]
    VolumesAndMachines,
    #[error(
        "Logical Volume Manager is only supported for highly available openshift with version {LVM_ON_MANY_NODES} or \
         above"
    )]
    VolumesOnManyNodes,
}

const LVM_ON_MANY_NODES: &str = "4.15.0";

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// Version, in full.
    pub(crate) version: &'a str,
    /// The architecture that was asked for.
    pub(crate) architecture: &'a str,
    pub(crate) single_node: bool,
}

/// The operators to monitor, by name: the chosen ones and those they need. A later choice replaces an earlier one whole.
pub(crate) fn select(
    target: Target,
    operators: &[OperatorChoice],
    bundles: &[BundleChoice],
) -> Result<Vec<course::Operator>, SelectionError> {
    let mut chosen: Vec<course::Operator> = Vec::new();
    for choice in bundles {
        // As the bundle is shown for several nodes: what a single node can't have is refused by name.
        let bundle = bundle(&choice.id, false)?;
        let optional = bundle.optional_operators.unwrap_or_default();
        if let Some(other) = choice.optional_operators.iter().find(|name| !optional.contains(&name.as_str())) {
            let operator = crate::http::call::shortened(other);
            return Err(SelectionError::NotOptional { operator, bundle: bundle.id });
        }
        for name in bundle.operators.into_iter().chain(choice.optional_operators.iter().map(String::as_str)) {
            add(&mut chosen, target, name)?.source_bundles.push(bundle.id.to_owned());
        }
    }
    for choice in operators.iter().filter(|choice| choice.name != "console") {
        // Its name of long ago.
        let name = if choice.name == "ocs" { "odf" } else { &choice.name };
        let operator = add(&mut chosen, target, name)?;
        operator.source_bundles.clear();
        operator.properties.clone_from(&choice.properties);
    }
    add_needed(&mut chosen, target)?;
    check(target, &chosen)?;
    order::sort_by(&mut chosen, |one, other| one.name.cmp(&other.name));
    Ok(chosen)
}

fn add<'a>(
    chosen: &'a mut Vec<course::Operator>,
    target: Target,
    name: &str,
) -> Result<&'a mut course::Operator, SelectionError> {
    let known = find(name).ok_or_else(|| SelectionError::Unknown(crate::http::call::shortened(name)))?;
    let at = chosen.iter().position(|operator| operator.name == name).unwrap_or_else(|| {
        chosen.push(monitored(known, target));
        chosen.len() - 1
    });
    chosen.get_mut(at).ok_or_else(|| SelectionError::Unknown(name.to_owned()))
}

fn monitored(operator: &Operator, target: Target) -> course::Operator {
    let old_lvm = operator.name == "lvm" && older(target.version, "4.12.0");
    course::Operator {
        namespace: operator.namespace.to_owned(),
        subscription_name: if old_lvm { "odf-lvm-operator" } else { operator.subscription }.to_owned(),
        timeout_seconds: operator.timeout_minutes * 60,
        ..course::Operator::new(operator.name, OperatorKind::Olm)
    }
}

fn add_needed(chosen: &mut Vec<course::Operator>, target: Target) -> Result<(), SelectionError> {
    let mut at = 0;
    while let Some(operator) = chosen.get(at).and_then(|operator| find(&operator.name)) {
        let on_single_node = operator.needs_on_single_node.iter().filter(|_| target.single_node);
        for name in operator.needs.iter().chain(on_single_node) {
            if chosen.iter().all(|operator| operator.name != *name) {
                add(chosen, target, name)?.dependency_only = true;
            }
        }
        at += 1;
    }
    Ok(())
}

fn check(target: Target, chosen: &[course::Operator]) -> Result<(), SelectionError> {
    let has = |name: &str| chosen.iter().any(|operator| operator.name == name);
    let version = target.version;
    if has("lvm") && has("cnv") && at_least(version, LVM_ON_MANY_NODES) != Some(true) {
        if at_least(version, "4.12.0") != Some(true) {
            return Err(SelectionError::VolumesAndMachines);
        }
        if !target.single_node {
            return Err(SelectionError::VolumesOnManyNodes);
        }
    }
    let Some(architecture) = Architecture::parse(target.architecture) else { return Ok(()) };
    let misfits = chosen.iter().filter_map(|operator| find(&operator.name));
    let misfits = misfits.filter(|operator| !operator.feature.row().fits(version, architecture));
    let titles: Vec<&str> = misfits.map(Operator::title).collect();
    if titles.is_empty() {
        return Ok(());
    }
    Err(SelectionError::Architecture { titles: titles.join(", "), architecture: target.architecture.to_owned() })
}

/// What of the chosen operators this service can't install.
pub(crate) fn not_carried(target: Target, chosen: &[course::Operator]) -> Option<&'static str> {
    // It had another name then.
    let storage = chosen.iter().any(|operator| operator.name == "odf") && older(target.version, "4.9.0");
    storage.then_some("the operator odf before OpenShift 4.9")
}

/// The bundles that a cluster's operators came in.
pub(crate) fn chosen_bundles<'a>(operators: impl Iterator<Item = &'a course::Operator>) -> Vec<BundleChoice> {
    let mut chosen: Vec<BundleChoice> = Vec::new();
    for operator in operators {
        for id in &operator.source_bundles {
            let Ok(bundle) = bundle(id, false) else { continue };
            let at = chosen.iter().position(|choice| choice.id == *id).unwrap_or_else(|| {
                chosen.push(BundleChoice { id: id.clone(), optional_operators: Vec::new() });
                chosen.len() - 1
            });
            let optional = bundle.optional_operators.unwrap_or_default().contains(&operator.name.as_str());
            if let Some(choice) = chosen.get_mut(at).filter(|_| optional) {
                choice.optional_operators.push(operator.name.clone());
            }
        }
    }
    chosen
}
