//! What is retried, how often and after which pauses.

use std::time::Duration;

/// The caller decides how patient the client is (docs/compatibility.md#http-client).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    Never,
    /// The agent's: 503, 504 and transient transport errors, three times; the poll loop has its own back-off above it.
    Agent,
    /// The installer's: 404, 423, 425 ten times; 408, 429, 5xx and transient transport errors 360 times (about half an
    /// hour if it refuses at once, longer if it hangs), since no user can intervene while the service restarts.
    Installer,
    /// The controller's: 404, 423, 425 ten times; 408, 429, 5xx and transient transport errors 15 times; its tasks try again.
    Controller,
}

/// The kind of failure, which decides on a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transience {
    /// An HTTP status other than success.
    Status(u16),
    /// Connection refused, reset, timed out: may be transient.
    Transport,
    /// TLS, bad URL, invalid answer: permanent.
    Permanent,
}

impl RetryPolicy {
    /// How many further attempts to make after `failure`.
    pub fn retries(&self, failure: Transience) -> u32 {
        match (self, failure) {
            (Self::Never, _) | (_, Transience::Permanent) => 0,
            (Self::Agent, Transience::Status(503 | 504) | Transience::Transport) => 3,
            (Self::Agent, Transience::Status(_)) => 0,
            (Self::Installer | Self::Controller, Transience::Status(404 | 423 | 425)) => 10,
            (Self::Controller, Transience::Status(408 | 429 | 500..=599) | Transience::Transport) => 15,
            (Self::Installer, Transience::Status(408 | 429 | 500..=599) | Transience::Transport) => 360,
            (Self::Installer | Self::Controller, Transience::Status(_)) => 0,
        }
    }
}

/// Delay before retry `attempt` (from 0): uniformly random in `[0, min(10 s, 2 s · 2^attempt))`.
pub fn backoff(attempt: u32) -> Duration {
    let cap_ms = 2000u64.checked_shl(attempt.min(8)).unwrap_or(u64::MAX).min(10_000);
    Duration::from_millis(fastrand::u64(0..cap_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installer_matrix() {
        let retries = |status| RetryPolicy::Installer.retries(Transience::Status(status));
        assert_eq!([404, 423, 425].map(retries), [10; 3]);
        assert_eq!([408, 429, 500, 502, 503, 599].map(retries), [360; 6]);
        assert_eq!([400, 401, 403, 405, 409].map(retries), [0; 5]);
        assert_eq!(RetryPolicy::Agent.retries(Transience::Status(500)), 0);
        assert_eq!(RetryPolicy::Agent.retries(Transience::Transport), 3);
    }

    #[test]
    fn controller_matrix() {
        let retries = |status| RetryPolicy::Controller.retries(Transience::Status(status));
        assert_eq!([404, 423, 425].map(retries), [10; 3]);
        assert_eq!([408, 429, 500, 502, 503, 599].map(retries), [15; 6]);
        assert_eq!([400, 401, 403, 405, 409].map(retries), [0; 5]);
        assert_eq!(RetryPolicy::Controller.retries(Transience::Transport), 15);
        assert_eq!(RetryPolicy::Controller.retries(Transience::Permanent), 0);
    }

    #[test]
    fn delays_stay_below_the_cap() {
        for attempt in [0, 1, 2, 3, 31, u32::MAX] {
            assert!(backoff(attempt) < Duration::from_secs(10));
        }
        assert!(backoff(0) < Duration::from_secs(2));
    }
}
