//! Timestamps as the service writes them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::datetime};

/// RFC 3339 with milliseconds and `Z`; the zero value is `0001-01-01T00:00:00.000Z` and means "never".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(OffsetDateTime);

impl Timestamp {
    /// "Never", the zero of Go's `time.Time`.
    pub const ZERO: Self = Self(datetime!(0001-01-01 0:00 UTC));

    /// The system's time, truncated to milliseconds so that it survives a round trip.
    pub fn now() -> Self {
        let now = OffsetDateTime::now_utc();
        Self(now.replace_millisecond(now.millisecond()).unwrap_or(now))
    }

    /// Whether this is [`Timestamp::ZERO`].
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// Seconds since 1970, negative before.
    pub fn unix_seconds(&self) -> i64 {
        self.0.unix_timestamp()
    }

    /// Milliseconds since 1970, negative before.
    pub fn unix_milliseconds(&self) -> i64 {
        self.unix_seconds().saturating_mul(1000).saturating_add(self.0.millisecond().into())
    }

    /// The point `seconds` since 1970; out of range gives [`Timestamp::ZERO`].
    pub fn from_unix_seconds(seconds: i64) -> Self {
        OffsetDateTime::from_unix_timestamp(seconds).map_or(Self::ZERO, Self)
    }

    /// Whole seconds since `earlier`; negative if it is in the future.
    pub fn seconds_since(&self, earlier: Self) -> i64 {
        (self.0 - earlier.0).whole_seconds()
    }
}

impl Default for Timestamp {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = self.0;
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            t.year(),
            u8::from(t.month()),
            t.day(),
            t.hour(),
            t.minute(),
            t.second(),
            t.millisecond()
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(Self::ZERO) };
        let parsed = OffsetDateTime::parse(&text, &Rfc3339).map_err(D::Error::custom)?;
        let utc = parsed.checked_to_offset(time::UtcOffset::UTC).filter(|utc| (0..=9999).contains(&utc.year()));
        utc.map(Self).ok_or_else(|| D::Error::custom("a time before the year 0 or after 9999"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_now_survive_json() {
        assert_eq!(serde_json::to_string(&Timestamp::ZERO).unwrap(), "\"0001-01-01T00:00:00.000Z\"");
        let now = Timestamp::now();
        let text = serde_json::to_string(&now).unwrap();
        assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), now);
        assert!(serde_json::from_str::<Timestamp>("null").unwrap().is_zero());
        assert!(serde_json::from_str::<Timestamp>("\"0001-01-01T00:00:00Z\"").unwrap().is_zero());
        for beyond in ["0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-23:59"] {
            assert!(serde_json::from_value::<Timestamp>(beyond.into()).is_err(), "{beyond}");
        }
        let text = "\"1970-01-01T00:00:01.250Z\"";
        assert_eq!(serde_json::from_str::<Timestamp>(text).unwrap().unix_milliseconds(), 1250);
        assert_eq!(Timestamp::from_unix_seconds(60).seconds_since(Timestamp::from_unix_seconds(0)), 60);
    }
}
