//! Strongly connected components.

use std::collections::{BTreeMap, BTreeSet};

/// What each node leads to.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// The sets of more than one node that all lead to one another, the largest first.
pub(crate) fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let mut backwards = Graph::new();
    for (from, targets) in graph {
        for to in targets {
            backwards.entry(to.clone()).or_default().insert(from.clone());
        }
    }
    let mut left: BTreeSet<&String> = graph.keys().collect();
    let mut circles = Vec::new();
    while let Some(node) = left.pop_first() {
        let ahead = reachable(graph, node);
        let circle: BTreeSet<String> = reachable(&backwards, node).intersection(&ahead).cloned().collect();
        left.retain(|other| !circle.contains(*other));
        if circle.len() > 1 {
            circles.push(circle.into_iter().collect::<Vec<_>>());
        }
    }
    circles.sort_by_key(|circle| (usize::MAX - circle.len(), circle.first().cloned()));
    circles
}

/// A node and all it leads to.
fn reachable(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::from([from.to_owned()]);
    let mut open = vec![from.to_owned()];
    while let Some(node) = open.pop() {
        for next in graph.get(&node).into_iter().flatten() {
            if found.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_and_a_diamond_is_not_one() {
        let graph = |edges: &[(&str, &str)]| {
            let mut graph = Graph::new();
            for (from, to) in edges {
                graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
                graph.entry((*to).to_owned()).or_default();
            }
            graph
        };
        assert_eq!(circles(&graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])), Vec::<Vec<String>>::new());
        let two = graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d")]);
        assert_eq!(circles(&two), [vec!["a", "b", "c"], vec!["d", "e"]]);
    }
}
