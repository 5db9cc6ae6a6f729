//! Where a detached signature is, and its bytes.

use super::VerifyError;
use crate::options::{InstallOptions, Retries, Source};
use crate::source::is_https_only;
use crate::trust::SignatureAt;
use api::{
    backoff,
    http::{agent, public_url},
    read_body,
};
use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    time::{Duration, Instant},
};

/// An armored signature of a 16384-bit key with notations has less than a tenth of it.
pub(super) const SIGNATURE_BYTES: u64 = 64 << 10;
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The place named, or the image's own with `suffix`; None where that can't be.
pub(super) fn place(options: &InstallOptions, suffix: &str) -> Option<SignatureAt> {
    if let Some(named) = &options.trust.signature {
        return Some(named.clone());
    }
    match &options.source {
        Source::File(path) => {
            let mut path = path.clone().into_os_string();
            path.push(suffix);
            Some(SignatureAt::File(PathBuf::from(path)))
        }
        Source::Url(url) => {
            let url = url.split('#').next().unwrap_or_default();
            let (path, query) = url.find('?').map_or((url, ""), |at| url.split_at(at));
            Some(SignatureAt::Url(format!("{path}{suffix}{query}")))
        }
        Source::Stdin | Source::Osmet(_) => None,
    }
}

/// The signature; None if there is none, or its server does not give it. A file that was named must exist.
pub(super) fn read(options: &InstallOptions, at: &SignatureAt) -> Result<Option<Vec<u8>>, VerifyError> {
    match at {
        SignatureAt::File(path) => {
            let error = |source| VerifyError::ReadSignature { path: path.clone(), source };
            let file = match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && options.trust.signature.is_none() => {
                    return Ok(None);
                }
                opened => opened.map_err(error)?,
            };
            let mut bytes = Vec::new();
            file.take(SIGNATURE_BYTES + 1).read_to_end(&mut bytes).map_err(error)?;
            if bytes.len() > usize::try_from(SIGNATURE_BYTES).unwrap_or(usize::MAX) {
                return Err(VerifyError::TooLong { at: at.to_string(), limit_bytes: SIGNATURE_BYTES });
            }
            Ok(Some(bytes))
        }
        SignatureAt::Url(url) => Ok(fetch(options, url)
            .inspect_err(|error| tracing::warn!("cannot fetch the signature {}: {error}", public_url(url)))
            .ok()),
    }
}

/// What the server sends, or why it sends nothing; callers decide what that means.
pub(super) fn fetch(options: &InstallOptions, url: &str) -> Result<Vec<u8>, String> {
    let public_url = public_url(url);
    let agent = agent(&options.http).map_err(|error| error.to_string())?;
    let started = Instant::now();
    let mut failures = 0;
    loop {
        let (error, passes) = match ask(&agent, url, is_https_only(url, options)) {
            Ok(bytes) => return Ok(bytes),
            Err(failure) => failure,
        };
        let again = match options.retries {
            Retries::Count(count) => failures < count,
            Retries::UntilStalled => started.elapsed() < options.stall_timeout,
            Retries::Forever => true,
        };
        if !passes || !again || options.cancelled() {
            return Err(error);
        }
        let wait = backoff(failures);
        failures = failures.saturating_add(1);
        tracing::warn!("cannot fetch the signature {public_url}: {error}; trying again in {:.1} s", wait.as_secs_f32());
        options.cancel.sleep(wait);
    }
}

/// One request; with a failure goes whether it may pass.
fn ask(agent: &ureq::Agent, url: &str, https_only: bool) -> Result<Vec<u8>, (String, bool)> {
    let request = agent.get(url).config().https_only(https_only).timeout_global(Some(ANSWER_TIME)).build();
    let mut response = request.call().map_err(|error| {
        let passes = matches!(error, ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed);
        (error.to_string(), passes || matches!(error, ureq::Error::HostNotFound))
    })?;
    match response.status().as_u16() {
        200 => read_body(&mut response, SIGNATURE_BYTES).map_err(|error| {
            let cause = error.cause;
            (format!("{cause:?}"), false)
        }),
        status => Err((format!("the server answered {status}"), matches!(status, 408 | 425 | 429 | 500..=599))),
    }
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
