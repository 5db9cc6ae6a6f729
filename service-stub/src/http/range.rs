//! Which part of a file a request asks for (RFC 9110, sections 13 and 14).

use api::Timestamp;
use axum::http::{HeaderMap, StatusCode, header};
use time::{OffsetDateTime, PrimitiveDateTime, format_description::BorrowedFormatItem, macros::format_description};

/// A file's validators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validators {
    /// Entity tag, quotes included; strong: same tag, same bytes.
    pub(crate) etag: String,
    /// Last change, Unix seconds.
    pub(crate) modified: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it: 200.
    Whole,
    /// Bytes `start` to `end`, the end not included: 206.
    Slice {
        /// First byte.
        start: u64,
        /// Byte after the last.
        end: u64,
    },
    /// Nothing: the client has it. 304.
    NotModified,
    /// Nothing: the client wants another version. 412.
    Failed,
    /// Nothing: the range does not exist. 416.
    Unsatisfiable,
}

impl Part {
    /// Its HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Whole => StatusCode::OK,
            Self::Slice { .. } => StatusCode::PARTIAL_CONTENT,
            Self::NotModified => StatusCode::NOT_MODIFIED,
            Self::Failed => StatusCode::PRECONDITION_FAILED,
            Self::Unsatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
        }
    }
}

/// Decides what to send of a file of `len` bytes.
///
/// Multiple ranges are ignored: sending the whole file is allowed, and no boot client asks for them.
pub(crate) fn choose(headers: &HeaderMap, validators: &Validators, len: u64) -> Part {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    if let Some(tags) = text(header::IF_MATCH) {
        if !names_tag(tags, &validators.etag, false) {
            return Part::Failed;
        }
    } else if text(header::IF_UNMODIFIED_SINCE).and_then(parse_date).is_some_and(|date| validators.modified > date) {
        return Part::Failed;
    }
    if let Some(tags) = text(header::IF_NONE_MATCH) {
        if names_tag(tags, &validators.etag, true) {
            return Part::NotModified;
        }
    } else if text(header::IF_MODIFIED_SINCE).and_then(parse_date).is_some_and(|date| validators.modified <= date) {
        return Part::NotModified;
    }
    let Some(range) = text(header::RANGE) else { return Part::Whole };
    // A tag or a date. A date on a Wednesday starts with W, as a weak tag does, which identifies no bytes.
    let unchanged = text(header::IF_RANGE).is_none_or(|condition| match parse_date(condition) {
        Some(date) => date == validators.modified,
        None => condition == validators.etag,
    });
    if unchanged { slice(range, len) } else { Part::Whole }
}

fn names_tag(list: &str, etag: &str, weak: bool) -> bool {
    let plain = |tag: &str| weak.then(|| tag.strip_prefix("W/").map(str::to_owned)).flatten().unwrap_or(tag.to_owned());
    list.trim() == "*" || list.split(',').map(str::trim).any(|tag| plain(tag) == etag)
}

fn slice(range: &str, len: u64) -> Part {
    // An invalid range must be ignored.
    let Some(spec) = range.trim().strip_prefix("bytes=").map(str::trim) else { return Part::Whole };
    let Some((first, last)) = spec.split_once('-').filter(|_| !spec.contains(',')) else { return Part::Whole };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(first) || !digits(last) {
        return Part::Whole;
    }
    // A number beyond 64 bits is beyond every file.
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let (start, end) = match (first, last) {
        ("", "") => return Part::Whole,
        ("", suffix) => (len.saturating_sub(number(suffix)), if number(suffix) == 0 { 0 } else { len }),
        (first, "") => (number(first), len),
        (first, last) if number(last) < number(first) => return Part::Whole,
        (first, last) => (number(first), number(last).saturating_add(1).min(len)),
    };
    if start < end { Part::Slice { start, end } } else { Part::Unsatisfiable }
}

const DATE: &[BorrowedFormatItem<'static>] =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

fn parse_date(text: &str) -> Option<i64> {
    Some(PrimitiveDateTime::parse(text.trim(), DATE).ok()?.assume_utc().unix_timestamp())
}

/// Unix seconds as `Last-Modified` has it.
pub(crate) fn format_date(seconds: i64) -> String {
    let date = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    date.format(DATE).unwrap_or_default()
}

/// The same for a timestamp.
pub(crate) fn http_date(timestamp: Timestamp) -> String {
    format_date(timestamp.unix_seconds())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    fn ask(headers: &[(&str, &str)]) -> Part {
        let map: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap()))
            .collect();
        choose(&map, &Validators { etag: "\"abc\"".into(), modified: 1_800_000_000 }, 1000)
    }

    #[test]
    fn dates_read_as_written() {
        assert_eq!(format_date(1_795_230_946), "Sat, 21 Nov 2026 03:15:46 GMT");
        assert_eq!(parse_date("Sat, 21 Nov 2026 03:15:46 GMT"), Some(1_795_230_946));
        assert_eq!(parse_date("yesterday"), None);
    }

    #[test]
    fn ranges() {
        let slice = |start, end| Part::Slice { start, end };
        for (range, expected) in [
            ("bytes=0-99", slice(0, 100)),
            ("bytes=990-", slice(990, 1000)),
            ("bytes=-10", slice(990, 1000)),
            ("bytes=-5000", slice(0, 1000)),
            ("bytes=0-0", slice(0, 1)),
            ("bytes=999-5000", slice(999, 1000)),
            ("bytes=1000-", Part::Unsatisfiable),
            ("bytes=-0", Part::Unsatisfiable),
            ("bytes=99999999999999999999-", Part::Unsatisfiable),
            ("bytes=5-4", Part::Whole),
            ("bytes=0-1,5-6", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("lines=1-2", Part::Whole),
        ] {
            assert_eq!(ask(&[("range", range)]), expected, "{range}");
        }
    }

    #[test]
    fn conditions() {
        let (same, later, earlier) =
            (format_date(1_800_000_000), format_date(1_800_000_001), format_date(1_799_999_999));
        let part = Part::Slice { start: 0, end: 1 };
        for (name, value, expected) in [
            ("if-range", "\"abc\"", part.clone()),
            ("if-range", "\"old\"", Part::Whole),
            ("if-range", "W/\"abc\"", Part::Whole),
            ("if-range", same.as_str(), part.clone()),
            ("if-range", later.as_str(), Part::Whole),
            ("if-none-match", "\"x\", W/\"abc\"", Part::NotModified),
            ("if-none-match", "*", Part::NotModified),
            ("if-modified-since", same.as_str(), Part::NotModified),
            ("if-modified-since", earlier.as_str(), part.clone()),
            ("if-match", "\"abc\"", part.clone()),
            ("if-match", "\"x\"", Part::Failed),
            ("if-unmodified-since", earlier.as_str(), Part::Failed),
        ] {
            assert_eq!(ask(&[("range", "bytes=0-0"), (name, value)]), expected, "{name}: {value}");
        }
    }

    #[test]
    fn a_date_of_any_day_of_the_week_is_a_date() {
        for day in 0..7 {
            let validators = Validators { etag: "\"abc\"".into(), modified: 1_800_000_000 + day * 86_400 };
            let date = format_date(validators.modified);
            let value = HeaderValue::try_from(&date).unwrap();
            let headers = [(header::RANGE, HeaderValue::from_static("bytes=0-0")), (header::IF_RANGE, value)];
            let part = choose(&headers.into_iter().collect(), &validators, 1000);
            assert_eq!(part, Part::Slice { start: 0, end: 1 }, "{date}");
        }
    }

    proptest! {
        #[test]
        fn a_slice_is_never_empty_or_outside(range in "(bytes=)?[0-9]{0,21}-?[0-9]{0,21}", len in 0u64..5000) {
            if let Part::Slice { start, end } = slice(&range, len) {
                prop_assert!(start < end && end <= len);
            }
        }
    }
}
