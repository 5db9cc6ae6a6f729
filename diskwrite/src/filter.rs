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
        let labels = options.save_partlabels.iter().map(|glob| {
            let pattern = Pattern::new(glob);
            pattern.map(Filter::Label).map_err(|source| FilterError::Label { glob: glob.clone(), source })
        });
        labels.chain(options.save_partindexes.iter().map(|range| numbers(range))).collect::<Result<_, _>>().map(Self)
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

    fn parse(labels: &[&str], ranges: &[&str]) -> Result<Filters, FilterError> {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let options =
            InstallOptions { save_partlabels: own(labels), save_partindexes: own(ranges), ..Default::default() };
        Filters::parse(&options)
    }

    #[test]
    fn each_form_matches_what_it_says() {
        type Case = (&'static [&'static str], &'static [&'static str], u32, &'static str, bool);
        let table: [Case; 14] = [
            (&[], &[], 1, "", false),
            (&["data"], &[], 1, "data", true),
            (&["data"], &[], 1, "data2", false),
            (&["z*b?"], &[], 9, "zoobs", true),
            (&["*"], &[], 9, "", true),
            (&[""], &[], 9, "", true),
            (&[""], &[], 9, "x", false),
            (&["[ab]c", "d"], &[], 9, "d", true),
            (&[], &["7"], 7, "", true),
            (&[], &["7"], 8, "", false),
            (&[], &["2-4"], 4, "", true),
            (&[], &["2-4", "7-7"], 5, "", false),
            (&[], &["-3"], 3, "", true),
            (&["x"], &["4-"], 4_000_000_000, "", true),
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
        assert_eq!(parse(&["f", "***"], &[]).unwrap_err().to_string(), "couldn't parse label glob '***'");
        for (range, expected) in [
            ("", "both ends of partition index range '' cannot be open"),
            ("-", "both ends of partition index range '-' cannot be open"),
            ("--", "couldn't parse partition index range '--'"),
            ("-2-3", "couldn't parse partition index range '-2-3'"),
            ("0", "partition index cannot be zero"),
            ("1-0", "partition index cannot be zero"),
            ("23q", "couldn't parse partition index '23q'"),
            ("23-45.7", "couldn't parse partition index '45.7'"),
            ("0x7", "couldn't parse partition index '0x7'"),
            ("4294967296", "couldn't parse partition index '4294967296'"),
            ("9-7", "start of partition index range '9-7' cannot be greater than end"),
        ] {
            assert_eq!(parse(&["z*"], &["7-", range, "34"]).unwrap_err().to_string(), expected);
        }
    }
}
