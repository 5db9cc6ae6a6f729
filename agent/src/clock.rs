//! Words about this host's clock: certificates are judged by it, and a wrong one looks like a broken service.

use api::{CertificateTime, Timestamp};
use std::error::Error;

/// 2024-01-01T00:00:00Z: a clock before this has never been set.
const EARLIEST: i64 = 1_704_067_200;
/// A smaller difference may be the way an answer took.
pub(crate) const NOTEWORTHY_S: u64 = 30;

/// What is wrong with a clock that says `now`, as far as that shows without a reference.
pub(crate) fn implausible(now: Timestamp) -> Option<String> {
    (now.unix_seconds() < EARLIEST).then(|| {
        format!(
            "the clock says {now}, which is wrong: certificates will look not yet valid until it is set (chronyc makestep, or \
             the firmware's setup)"
        )
    })
}

/// "2 h 5 min behind the service", of a clock that needs `offset_s` seconds added; `None` when it is right enough.
pub(crate) fn difference(offset_s: i64) -> Option<String> {
    let size = offset_s.unsigned_abs();
    let (days, hours, minutes) = (size / 86_400, size / 3600, size / 60);
    let size = match size {
        ..NOTEWORTHY_S => return None,
        172_800.. => format!("{days} days"),
        7200.. => format!("{hours} h {} min", minutes % 60),
        120.. => format!("{minutes} min"),
        _ => format!("{size} s"),
    };
    let side = if offset_s > 0 { "behind" } else { "ahead of" };
    Some(format!("{size} {side} the service"))
}

/// Which clock is to be looked at, when `error` is about the time a certificate is valid.
pub(crate) fn certificate(error: &(dyn Error + 'static), now: Timestamp) -> Option<String> {
    // To the minute, or the text would be another each time.
    let now: String = now.to_string().chars().take("2026-01-01T00:00".len()).chain(['Z']).collect();
    Some(match CertificateTime::among(error)? {
        CertificateTime::NotBefore(start) => {
            format!(
                "this host's clock says {now}, and the service's certificate is valid from {start}: is the clock behind?"
            )
        }
        CertificateTime::NotAfter(end) => format!(
            "this host's clock says {now}, and the service's certificate was valid until {end}: is the clock ahead, or the certificate too old?"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_given_in_words() {
        for (seconds, text) in [
            (0, None),
            (29, None),
            (-29, None),
            (65, Some("65 s behind the service")),
            (-150, Some("2 min ahead of the service")),
            (9000, Some("2 h 30 min behind the service")),
            (63_158_400, Some("731 days behind the service")),
            (i64::MIN, Some("106751991167300 days ahead of the service")),
        ] {
            assert_eq!(difference(seconds).as_deref(), text);
        }
    }

    #[test]
    fn a_clock_that_was_never_set_is_noticed_alone() {
        assert!(implausible(Timestamp::from_unix_seconds(60)).unwrap().contains("1970-01-01T00:01:00.000Z"));
        assert_eq!(implausible(Timestamp::from_unix_seconds(EARLIEST)), None);
    }
}
