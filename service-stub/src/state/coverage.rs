//! Counts the contract's rows, and which of them the tables and their tests have.

use std::{collections::BTreeSet, path::Path};

/// A section with a table or a list of rules.
pub struct Section {
    name: &'static str,
    heading: &'static str,
    rows: usize,
    /// Rules that stand in a paragraph of their own.
    beside: usize,
    list: bool,
}

impl Section {
    pub fn table(name: &'static str, heading: &'static str, rows: usize) -> Self {
        Self { name, heading, rows, beside: 0, list: false }
    }

    pub fn list(name: &'static str, heading: &'static str, rows: usize, beside: usize) -> Self {
        Self { name, heading, rows, beside, list: true }
    }

    /// Every row is in the tables and some test hits every part of it, but for those left out with a reason.
    pub fn check(&self, rows: &[&'static str], hit: &[&str], left_out: &[(&str, &str)]) {
        if let Some(counted) = self.count() {
            assert_eq!(counted, self.rows, "rows of §{} in the contract", self.name);
        }
        let all = self.rows + self.beside;
        let named = |id: &&str| id.rsplit_once('.').is_some_and(|(section, _)| section == self.name);
        let parts: Vec<&str> = rows.iter().copied().filter(named).collect();
        let untested: Vec<_> = parts.iter().filter(|id| !hit.contains(*id)).collect();
        assert!(untested.is_empty(), "no test hits {untested:?}");
        let number = |id: &str| {
            id.rsplit_once('.').map_or("", |(_, row)| row).trim_end_matches(|c: char| !c.is_ascii_digit()).to_owned()
        };
        let covered: BTreeSet<String> = parts.iter().map(|id| number(id)).collect();
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

    /// Where the contract's text is at hand, its rows are counted anew.
    fn count(&self) -> Option<usize> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/contract/service.md");
        let Ok(text) = std::fs::read_to_string(&path) else {
            skip::because(format_args!("{} is not there", path.display()));
            return None;
        };
        let (_, section) = text.split_once(&format!("\n{}", self.heading))?;
        let lines = section.lines().skip(1).take_while(|line| !line.starts_with('#'));
        let rows = lines.filter(|line| match self.list {
            true => line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok()),
            false => line.starts_with("| ") && !line.starts_with("|---"),
        });
        // A table's first line is its head.
        Some(rows.count() - usize::from(!self.list))
    }
}
