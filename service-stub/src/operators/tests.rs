use super::bundles::Bundle;
use super::table::Membership;
use super::*;
use crate::course;
use crate::features::{Architecture, Feature, Query};
use serde_json::json;

const TARGET: Target = Target { version: "4.22.9", architecture: "x86_64", single_node: false };

fn choose(target: Target, operators: &[&str]) -> Result<Vec<course::Operator>, String> {
    let operators: Vec<OperatorChoice> =
        operators.iter().map(|name| serde_json::from_value(json!({"name": name})).unwrap()).collect();
    select(target, &operators, &[]).map_err(|error| error.to_string())
}

fn names(operators: &[course::Operator]) -> Vec<&str> {
    operators.iter().map(|operator| operator.name.as_str()).collect()
}

#[test]
fn names_are_in_order_and_everything_needed_is_there() {
    assert!(OPERATORS.is_sorted_by(|one, other| one.name < other.name));
    for operator in OPERATORS {
        let needed = operator.needs.len() + operator.needs_on_single_node.len();
        assert_eq!(operator.needed_features().count(), needed, "{}", operator.name);
        assert_eq!(installs(operator.feature).map(|found| found.name), Some(operator.name));
    }
    let operators = Feature::ALL.iter().filter(|feature| installs(**feature).is_some()).count();
    assert_eq!((operators, OPERATORS.len()), (28, 28));
}

#[test]
fn a_choice_brings_what_it_needs() {
    let chosen = choose(TARGET, &["odf", "amd-gpu"]).unwrap();
    assert_eq!(names(&chosen), ["amd-gpu", "kmm", "lso", "node-feature-discovery", "odf"]);
    let needed: Vec<bool> = chosen.iter().map(|operator| operator.dependency_only).collect();
    assert_eq!(needed, [false, true, true, true, false]);
    assert_eq!(names(&choose(TARGET, &["cluster-observability"]).unwrap()).len(), 3);
    assert_eq!(names(&choose(TARGET, &["ocs", "lso", "lso", "console"]).unwrap()), ["lso", "odf"]);
    assert!(choose(TARGET, &["odf", "lso"]).unwrap().iter().all(|operator| !operator.dependency_only));
    assert_eq!(names(&choose(TARGET, &["openshift-ai"]).unwrap()), ["openshift-ai"]);
    let single = Target { single_node: true, ..TARGET };
    assert_eq!(names(&choose(single, &["openshift-ai"]).unwrap()), ["lvm", "openshift-ai"]);
}

#[test]
fn a_subscription_changes_its_name_with_the_version() {
    let subscription = |version| choose(Target { version, ..TARGET }, &["lvm"]).unwrap()[0].subscription_name.clone();
    assert_eq!((subscription("4.11.9"), subscription("4.12.0")), ("odf-lvm-operator".into(), "lvms-operator".into()));
}

#[test]
fn what_cannot_be_added_is_named() {
    for (target, operators, text) in [
        (TARGET, &["zzz"][..], "operator zzz isn't supported"),
        (TARGET, &[""], "operator  isn't supported"),
        (
            Target { architecture: "arm64", ..TARGET },
            &["mtv"],
            "OpenShift Migration Toolkit for Virtualization is not available when arm64 CPU architecture is selected",
        ),
        (
            Target { version: "4.14.1", ..TARGET },
            &["lvm", "cnv"],
            "Logical Volume Manager is only supported for highly available openshift with version 4.15.0 or above",
        ),
        (
            Target { version: "4.11.1", single_node: true, ..TARGET },
            &["lvm", "cnv"],
            "Currently, you can not install Logical Volume Manager operator at the same time as Virtualization operator.",
        ),
    ] {
        assert_eq!(choose(target, operators).unwrap_err(), text);
    }
    assert!(choose(Target { version: "4.14.1", single_node: true, ..TARGET }, &["lvm", "cnv"]).is_ok());
}

#[test]
fn bundles_are_expanded_and_shown_again() {
    let choice = |value| serde_json::from_value::<BundleChoice>(value).unwrap();
    let ai = choice(json!({"id": "openshift-ai", "optional_operators": ["nvidia-gpu"]}));
    let operators: Vec<OperatorChoice> = vec![serde_json::from_value(json!({"name": "odf"})).unwrap()];
    let chosen = select(TARGET, &operators, std::slice::from_ref(&ai)).unwrap();
    let sources =
        |name: &str| chosen.iter().find(|operator| operator.name == name).map(|operator| operator.source_bundles.len());
    // What was chosen by name as well does not belong to the bundle any more.
    assert_eq!((sources("odf"), sources("authorino"), sources("nvidia-gpu")), (Some(0), Some(1), Some(1)));
    assert_eq!((sources("node-feature-discovery"), sources("amd-gpu")), (Some(0), None));
    assert_eq!(chosen_bundles(chosen.iter()), [ai]);
    let refused = |value| select(TARGET, &[], &[choice(value)]).unwrap_err().to_string();
    assert_eq!(refused(json!({"id": "zzz"})), "bundle 'zzz' is not supported");
    assert_eq!(
        refused(json!({"id": "openshift-ai", "optional_operators": ["lso"]})),
        "operator 'lso' is not a valid optional operator for bundle 'openshift-ai'"
    );
}

#[test]
fn bundles_are_shown_where_all_their_operators_work() {
    let query = |version, architecture| Query { version, architecture, platform: None, external_name: None };
    let ids = |bundles: Vec<Bundle>| bundles.iter().map(|bundle| bundle.id).collect::<Vec<_>>();
    assert_eq!(ids(bundles(None, false)), ["virtualization", "openshift-ai"]);
    let latest = query("4.22", Architecture::X86_64);
    assert_eq!(ids(bundles(Some(&latest), false)).len(), 2);
    assert_eq!(ids(bundles(Some(&latest), true)), ["openshift-ai"]);
    assert_eq!(bundles(Some(&latest), true)[0].operators, ["lvm", "openshift-ai"]);
    assert!(bundles(Some(&query("4.22", Architecture::Arm64)), false).is_empty());
    let large = bundle("openshift-ai", false).unwrap();
    assert_eq!(large.operators, ["authorino", "odf", "openshift-ai", "pipelines", "serverless", "servicemesh"]);
    assert_eq!(large.optional_operators, Some(vec!["amd-gpu", "nvidia-gpu"]));
    let members = OPERATORS.iter().filter(|operator| operator.membership == Membership::Always("virtualization"));
    assert_eq!(bundle("virtualization", false).unwrap().operators.len(), members.count());
}
