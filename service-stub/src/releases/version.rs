//! Versions of releases, in the order the API goes by: `MAJOR.MINOR[.PATCH][-PRERELEASE]`.

use std::cmp::Ordering;

/// A version that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    numbers: Vec<u64>,
    prerelease: String,
}

impl Version {
    /// Reads `4.22`, `v4.22.9`, `4.23.0-rc.1`, `4.22.9-multi`; build metadata behind a `+` orders nothing.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(text, _)| text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (base, rest) = text.split_at(end);
        let mut numbers = base.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let prerelease = rest.strip_prefix('-').unwrap_or(rest);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '~' | '.');
        if !prerelease.chars().all(plain) || !rest.is_empty() && prerelease.split('.').any(str::is_empty) {
            return None;
        }
        while numbers.len() < 3 {
            numbers.push(0);
        }
        Some(Self { numbers, prerelease: prerelease.to_owned() })
    }

    /// The version without what stands behind its first hyphen.
    pub(crate) fn parse_base(text: &str) -> Option<Self> {
        Self::parse(base(text))
    }

    /// It comes before the final release.
    pub(crate) fn is_prerelease(&self) -> bool {
        !self.prerelease.is_empty()
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_prerelease = || match (self.prerelease.as_str(), other.prerelease.as_str()) {
            (own, others) if own == others => Ordering::Equal,
            ("", _) => Ordering::Greater,
            (_, "") => Ordering::Less,
            (own, others) => compare_prereleases(own, others),
        };
        self.numbers.cmp(&other.numbers).then_with(by_prerelease)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Part by part; numbers by value and before words.
fn compare_prereleases(own: &str, others: &str) -> Ordering {
    let (mut own, mut others) = (own.split('.'), others.split('.'));
    loop {
        let (own, others) = match (own.next(), others.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(own), Some(others)) => (own, others),
        };
        let ordering = match (own.parse::<u64>(), others.parse::<u64>()) {
            (Ok(own), Ok(others)) => own.cmp(&others),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => own.cmp(others),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
}

/// How much of a version was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `4`
    Major,
    /// `4.22`
    Minor,
    /// `4.22.9`
    Patch,
}

/// How a version is written; none for a text that is not a version.
pub(crate) fn form(text: &str) -> Option<Form> {
    Version::parse(text)?;
    match base(text).split('.').count() {
        1 => Some(Form::Major),
        2 => Some(Form::Minor),
        3 => Some(Form::Patch),
        _ => None,
    }
}

/// `4.22` of `4.22.9-multi`; none for a text without a dot.
pub(crate) fn minor(text: &str) -> Option<String> {
    let mut parts = base(text).split('.');
    Some(format!("{}.{}", parts.next()?, parts.next()?))
}

/// Whether `version` is at least `least`, by their numbers alone. None when it can't be read.
pub(crate) fn at_least(version: &str, least: &str) -> Option<bool> {
    Some(Version::parse_base(version)? >= Version::parse_base(least)?)
}

/// Whether `version` is older than `bound`, by their numbers alone. A version that can't be read is not.
pub(crate) fn older(version: &str, bound: &str) -> bool {
    at_least(version, bound) == Some(false)
}

fn base(text: &str) -> &str {
    text.split_once('-').map_or(text, |(base, _)| base)
}
