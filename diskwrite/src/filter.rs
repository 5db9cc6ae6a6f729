//! Which partitions of a disk to keep, by GPT name or number, in coreos-installer's words.

use crate::options::InstallOptions;
use glob::Pattern;
use std::num::{NonZeroU32, ParseIntError};

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
    /// Both ends inclusive, at least one there.
    Numbers(Option<NonZeroU32>, Option<NonZeroU32>),
}

/// A partition is kept that any of these matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters(Vec<Filter>);

impl Filters {
    pub fn parse(options: &InstallOptions) -> Result<Self, FilterError> {
        let labels = options.changes.save_partlabels.iter().map(|glob| {
            let pattern = Pattern::new(glob);
            pattern.map(Filter::Label).map_err(|source| FilterError::Label { glob: glob.clone(), source })
        });
        labels
            .chain(options.changes.save_partindexes.iter().map(|range| numbers(range)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any is by number; an MBR's partitions have those too.
    pub fn by_number(&self) -> bool {
        self.0.iter().any(|filter| matches!(filter, Filter::Numbers(..)))
    }

    pub fn matches(&self, number: u32, name: &str) -> bool {
        self.0.iter().any(|filter| match filter {
            Filter::Label(pattern) => pattern.matches(name),
            Filter::Numbers(first, last) => {
                first.is_none_or(|first| first.get() <= number) && last.is_none_or(|last| number <= last.get())
            }
        })
    }
}

fn numbers(range: &str) -> Result<Filter, FilterError> {
    let own = || range.to_owned();
    let (first, last) = match range.split('-').collect::<Vec<_>>()[..] {
        [only] => (number(only)?, number(only)?),
        [first, last] => (number(first)?, number(last)?),
        _ => return Err(FilterError::Range { range: own() }),
    };
    match (first, last) {
        (None, None) => Err(FilterError::Open { range: own() }),
        (Some(first), Some(last)) if first > last => Err(FilterError::Backwards { range: own() }),
        _ => Ok(Filter::Numbers(first, last)),
    }
}

/// One end of a range; nothing is an open one.
fn number(index: &str) -> Result<Option<NonZeroU32>, FilterError> {
    if index.is_empty() {
        return Ok(None);
    }
    let number = index.parse().map_err(|source| FilterError::Index { index: index.to_owned(), source })?;
    NonZeroU32::new(number).map(Some).ok_or(FilterError::Zero)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Changes;

    fn parse(labels: &[&str], ranges: &[&str]) -> Result<Filters, FilterError> {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let options = InstallOptions {
            changes: Changes { save_partlabels: own(labels), save_partindexes: own(ranges), ..Default::default() },
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
