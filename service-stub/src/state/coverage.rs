//! Counts the service's rules, and which of them the tables and their tests have.

use kernel::order::Gather;
use std::collections::BTreeSet;

/// The rules of one trigger; see docs/compatibility.md#host-states for their numbers.
pub(crate) struct Section {
    name: &'static str,
    rows: usize,
}

impl Section {
    pub(crate) fn new(name: &'static str, rows: usize) -> Self {
        Self { name, rows }
    }

    /// Every row is in the tables and some test hits every part of it, but for those left out with a reason.
    pub(crate) fn check(&self, rows: &[&'static str], hit: &[&str], left_out: &[(&str, &str)]) {
        let all = self.rows;
        let named = |id: &&str| id.rsplit_once('.').is_some_and(|(section, _)| section == self.name);
        let parts: Vec<&str> = rows.iter().copied().filter(named).collect();
        let untested: Vec<_> = parts.iter().filter(|id| !hit.contains(*id)).collect();
        assert!(untested.is_empty(), "no test hits {untested:?}");
        let number = |id: &str| {
            id.rsplit_once('.').map_or("", |(_, row)| row).trim_end_matches(|c: char| !c.is_ascii_digit()).to_owned()
        };
        let covered: BTreeSet<String> = parts.iter().map(|id| number(id)).gather();
        println!("§{}: {} of {all} rows, in {} parts", self.name, covered.len(), parts.len());
        for (id, why) in left_out {
            println!("    without {id}: {why}");
        }
        let missing: Vec<String> = (1..=all)
            .map(|row| row.to_string())
            .filter(|row| !covered.contains(row) && !left_out.iter().any(|(id, _)| number(id) == *row))
            .collect();
        assert!(missing.is_empty(), "§{} lacks rows {missing:?}", self.name);
        assert_eq!(covered.len() + left_out.len(), all, "§{}", self.name);
    }
}
