//! Which partitions of a disk to keep, by GPT name or number, in coreos-installer's words.

use crate::options::InstallOptions;
use glob::Pattern;
use std::{num::ParseIntError, ops::RangeInclusive};

/// Why a filter means nothing.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    #[error("couldn't parse label glob '{glob}'")]
    Label { glob: String, source: glob::PatternError },
    #[error("couldn't parse partition index '{index}'")]
    Index { index: String, source: ParseIntError },
    /// Numbers start at 1.
    #[error("partition index cannot be zero")]
    Zero,
    #[error("couldn't parse partition index range '{range}'")]
    Range { range: String },
    #[error("both ends of partition index range '{range}' cannot be open")]
    Open { range: String },
    #[error("start of partition index range '{range}' cannot be greater than end")]
    Backwards { range: String },
}

/// Whether the partitions to keep are named as they should be.
pub fn check_filters(options: &InstallOptions) -> Result<(), FilterError> {
    Filters::parse(options).map(|_| ())
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    Label(Pattern),
    Numbers(RangeInclusive<u32>),
}

/// A partition that any of these matches is retained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters(Vec<Filter>);

impl Filters {
    pub(crate) fn parse(options: &InstallOptions) -> Result<Self, FilterError> {
        let labels = options.changes.save_partlabels.iter().map(|glob| {
            let pattern = Pattern::new(glob);
            pattern.map(Filter::Label).map_err(|source| FilterError::Label { glob: glob.clone(), source })
        });
        labels
            .chain(options.changes.save_partindexes.iter().map(|range| numbers(range)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any is by number; an MBR's partitions have those too.
    pub(crate) fn by_number(&self) -> bool {
        self.0.iter().any(|filter| matches!(filter, Filter::Numbers(..)))
    }

    pub(crate) fn matches(&self, number: u32, name: &str) -> bool {
        self.0.iter().any(|filter| match filter {
            Filter::Label(pattern) => pattern.matches(name),
            Filter::Numbers(numbers) => numbers.contains(&number),
        })
    }
}

fn numbers(text: &str) -> Result<Filter, FilterError> {
    let range = text.to_owned();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    if last.contains('-') {
        return Err(FilterError::Range { range });
    }
    if first.is_empty() && last.is_empty() {
        return Err(FilterError::Open { range });
    }
    let numbers = number(first, 1)?..=number(last, u32::MAX)?;
    if numbers.is_empty() { Err(FilterError::Backwards { range }) } else { Ok(Filter::Numbers(numbers)) }
}

/// One end of a range; where it is open, `all`.
fn number(index: &str, all: u32) -> Result<u32, FilterError> {
    match index {
        "" => Ok(all),
        _ => match index.parse() {
            Ok(0) => Err(FilterError::Zero),
            number => number.map_err(|source| FilterError::Index { index: index.to_owned(), source }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Changes;

    fn parse(labels: &[&str], ranges: &[&str]) -> Result<Filters, FilterError> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let options = InstallOptions {
            changes: Changes { save_partlabels: owned(labels), save_partindexes: owned(ranges), ..Default::default() },
            ..Default::default()
        };
        Filters::parse(&options)
    }

    #[test]
    fn each_form_matches_what_it_says() {
        type Case = (&'static [&'static str], &'static [&'static str], u32, &'static str, bool);
        let table: [Case; 24] = [
            (&[], &[], 5, "swap", false),
            (&["home"], &[], 2, "home", true),
            (&["home"], &[], 2, "Home", false),
            (&["home"], &[], 2, "homes", false),
            (&["ceph-?-*"], &[], 6, "ceph-1-wal", true),
            (&["ceph-?-*"], &[], 6, "ceph-12-wal", false),
            (&["*"], &[], 11, "", true),
            (&[""], &[], 11, "", true),
            (&[""], &[], 11, "var", false),
            (&["log[0-3]", "opt"], &[], 8, "log2", true),
            (&["log[0-3]", "opt"], &[], 8, "log4", false),
            (&["log[0-3]", "opt"], &[], 8, "opt", true),
            (&[], &["6"], 6, "", true),
            (&[], &["6"], 60, "", false),
            (&[], &["08"], 8, "", true),
            (&[], &["10-12"], 9, "", false),
            (&[], &["10-12"], 10, "", true),
            (&[], &["10-12"], 12, "", true),
            (&[], &["10-12", "14-14"], 13, "", false),
            (&[], &["10-12", "14-14"], 14, "", true),
            (&[], &["-5"], 1, "", true),
            (&[], &["-5"], 6, "", false),
            (&["opt"], &["128-"], u32::MAX, "", true),
            (&["opt"], &["128-"], 127, "opt", true),
        ];
        for (labels, ranges, number, name, expected) in table {
            let filters = parse(labels, ranges).unwrap();
            assert_eq!(filters.matches(number, name), expected, "{labels:?} {ranges:?} {number} {name}");
            assert_eq!(filters.by_number(), !ranges.is_empty());
            assert_eq!(filters.is_empty(), labels.is_empty() && ranges.is_empty());
        }
    }

    #[test]
    fn messages_are_those_of_coreos_installer() {
        for glob in ["a***", "[z-"] {
            assert_eq!(
                parse(&["home", glob], &[]).unwrap_err().to_string(),
                format!("couldn't parse label glob '{glob}'")
            );
        }
        for (range, expected) in [
            ("", "both ends of partition index range '' cannot be open"),
            ("1-2-3", "couldn't parse partition index range '1-2-3'"),
            ("5--", "couldn't parse partition index range '5--'"),
            ("00", "partition index cannot be zero"),
            ("-0", "partition index cannot be zero"),
            ("0-4", "partition index cannot be zero"),
            (" 3", "couldn't parse partition index ' 3'"),
            ("3-four", "couldn't parse partition index 'four'"),
            ("1e1-", "couldn't parse partition index '1e1'"),
            ("4294967296", "couldn't parse partition index '4294967296'"),
            ("-", "both ends of partition index range '-' cannot be open"),
            ("12-11", "start of partition index range '12-11' cannot be greater than end"),
        ] {
            // What is right before and behind it does not help.
            assert_eq!(parse(&["opt"], &["1-6", range, "99"]).unwrap_err().to_string(), expected);
        }
    }
}
