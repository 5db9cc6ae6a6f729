//! Bundles: operators for one purpose.

use super::table::{Membership, OPERATORS, Operator, find};
use crate::features::{Feature, Query};
use serde::Serialize;

/// Name of the bundle that runs virtual machines.
pub(crate) const VIRTUALIZATION: &str = "virtualization";
/// Name of the bundle that trains and runs models.
pub(crate) const AI: &str = "openshift-ai";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Bundle {
    /// For people.
    pub(crate) description: &'static str,
    pub(crate) id: &'static str,
    /// Those that it always has.
    pub(crate) operators: Vec<&'static str>,
    /// Those that can be asked for; none at all is null.
    pub(crate) optional_operators: Option<Vec<&'static str>>,
    /// For people.
    pub(crate) title: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bundle '{0}' is not supported")]
pub(crate) struct UnknownBundle(pub String);

/// A bundle; a single node has other operators.
pub(crate) fn bundle(id: &str, single_node: bool) -> Result<Bundle, UnknownBundle> {
    let (id, title, description) = match id {
        VIRTUALIZATION => {
            (VIRTUALIZATION, "Virtualization", "Run virtual machines alongside containers on one platform.")
        }
        AI => (AI, "OpenShift AI", "Train, serve, monitor and manage AI/ML models and applications using GPUs."),
        _ => return Err(UnknownBundle(crate::http::call::shortened(id))),
    };
    let belongs = |operator: &&Operator| match operator.membership {
        Membership::Always(bundle) => bundle == id,
        Membership::ManyNodes(bundle) => bundle == id && !single_node,
        Membership::SingleNode(bundle) => bundle == id && single_node,
        Membership::Optional(_) | Membership::Nowhere => false,
    };
    let optional = |operator: &&Operator| operator.membership == Membership::Optional(id);
    let operators = OPERATORS.iter().filter(belongs).map(|operator| operator.name).collect();
    let optional: Vec<_> = OPERATORS.iter().filter(optional).map(|operator| operator.name).collect();
    let optional_operators = (!optional.is_empty()).then_some(optional);
    Ok(Bundle { description, id, operators, optional_operators, title })
}

/// All bundles; with a query those that can be installed, with the optional operators that can.
pub(crate) fn bundles(query: Option<&Query>, single_node: bool) -> Vec<Bundle> {
    let all = [VIRTUALIZATION, AI].into_iter().filter_map(|id| bundle(id, single_node).ok());
    let Some(query) = query else { return all.collect() };
    let usable = |name: &&str| {
        find(name).is_some_and(|operator| {
            let row = operator.feature.row();
            let excluded = single_node && row.excluded(query.version).any(|other| other == Feature::Sno);
            row.level(query).0.is_usable() && !excluded
        })
    };
    let usable_bundles = all.filter(|bundle| bundle.operators.iter().all(&usable));
    let with_usable_options = usable_bundles.map(|bundle| {
        let optional = bundle.optional_operators.unwrap_or_default().into_iter().filter(|name| usable(name)).collect();
        Bundle { optional_operators: Some(optional), ..bundle }
    });
    with_usable_options.collect()
}
