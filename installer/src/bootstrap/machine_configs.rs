//! Machine configs of the masters: they must have settled before this host boots into the one it is given.

use super::{BootstrapError, Context, nodes::MASTER};
use crate::kube::{Client, KubeError, Node};
use kernel::Cancel;
use std::{collections::BTreeSet, error::Error};

const CURRENT: &str = "machineconfiguration.openshift.io/currentConfig";
const DESIRED: &str = "machineconfiguration.openshift.io/desiredConfig";

/// Waits until every master names a current and a desired config that exist, and all want the same one.
pub(super) fn wait(kube: &Client, ctx: &Context<'_>, cancel: &Cancel) -> Result<(), BootstrapError> {
    let mut last = String::new();
    loop {
        match look(kube) {
            Ok(None) => return Ok(()),
            Ok(Some(reason)) => {
                if reason != last {
                    tracing::info!(reason, "waiting for machine configs");
                    last = reason;
                }
            }
            Err(KubeError::Cancelled) => {}
            Err(error) => tracing::warn!(error = &error as &dyn Error, "cannot get the machine configs, trying again"),
        }
        if cancel.sleep(ctx.pace.poll) {
            return Err(BootstrapError::Cancelled("waiting for machine configs"));
        }
    }
}

/// Why they have not settled; `None` when they have.
fn look(kube: &Client) -> Result<Option<String>, KubeError> {
    let nodes = kube.nodes(MASTER)?;
    let names = match names(&nodes) {
        Ok(names) => names,
        Err(reason) => return Ok(Some(reason)),
    };
    for name in names {
        match kube.machine_config(name) {
            Ok(_) => {}
            Err(error) if error.status() == Some(404) => {
                return Ok(Some(format!("MachineConfig {name} does not exist")));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Configs that the nodes name.
fn names(nodes: &[Node]) -> Result<BTreeSet<&str>, String> {
    let (mut names, mut wanted) = (BTreeSet::new(), BTreeSet::new());
    for node in nodes {
        let annotation = |key: &str| {
            let value = node.metadata.annotations.get(key).map(String::as_str).filter(|value| !value.is_empty());
            value.ok_or_else(|| format!("node {} has no annotation {key}", node.metadata.name))
        };
        names.insert(annotation(CURRENT)?);
        let desired = annotation(DESIRED)?;
        names.insert(desired);
        wanted.insert(desired);
    }
    match wanted.len() {
        0 => Err("there are no masters".to_owned()),
        1 => Ok(names),
        _ => Err(format!("masters want different configs: {}", wanted.into_iter().collect::<Vec<_>>().join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settled_is_one_wanted_config_and_all_annotations() {
        let node = |name: &str, annotations: serde_json::Value| {
            serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations}})).unwrap()
        };
        let both = |name, current: &str, desired: &str| node(name, json!({CURRENT: current, DESIRED: desired}));
        let settled = [both("a", "old", "new"), both("b", "new", "new")];
        assert_eq!(names(&settled), Ok(BTreeSet::from(["old", "new"])));
        assert!(names(&[both("a", "x", "x"), both("b", "y", "y")]).unwrap_err().contains("x, y"));
        assert!(names(&[both("a", "x", "x"), node("b", json!({CURRENT: "x"}))]).unwrap_err().contains("node b has no"));
        assert!(names(&[node("a", json!(null))]).is_err());
        assert!(names(&[both("a", "", "x")]).is_err());
        assert!(names(&[]).is_err());
    }
}
