//! Errors of the service's clients for people: what failed, why, and what to do.

use crate::text::cut;
use api::{ClientError, DownloadError};
use std::{error::Error, io};

/// A longer reason is cut: it may be a whole document.
const MAX_REASON_CHARS: usize = 1000;

/// What of a failed request helps. Other errors stay as they are.
pub(crate) fn explain(error: anyhow::Error) -> anyhow::Error {
    let inside = error.downcast_ref::<DownloadError>().and_then(|error| match error {
        DownloadError::Client(client) => Some(client),
        _ => None,
    });
    let Some(client) = error.downcast_ref::<ClientError>().or(inside) else { return error };
    let text = match client {
        ClientError::Status { status: 401, message, .. } => format!(
            "the service requires a token: give --token-file FILE or LANDFALL_TOKEN (`landfall serve token` prints one): {message}"
        ),
        ClientError::Status { status: 403, message, .. } => {
            format!("the token does not allow this (`landfall serve token` prints others): {message}")
        }
        ClientError::Status { status, message, method, path, .. } => {
            // The service adds every check as JSON to some of its reasons.
            let reason = cut(message.split(" validation_info=").next().unwrap_or(message), MAX_REASON_CHARS);
            format!("the service refuses: {reason} ({status} to {method} {path})")
        }
        ClientError::Transport { url, source, .. } => unreached(url, &**source),
        ClientError::Url { url } => format!(
            "'{url}' is not the URL of a service: --url and LANDFALL_URL take one such as http://{}",
            if url.contains("://") || url.is_empty() { "192.0.2.1:8090" } else { url }
        ),
        _ => return error,
    };
    anyhow::Error::msg(text)
}

fn unreached(url: &str, source: &(dyn Error + 'static)) -> String {
    if causes(source).any(is_unknown_issuer) {
        return format!(
            "{url} has a certificate of an unknown authority: --cacert FILE names the authority, which `landfall serve --tls \
             self-signed` stores as tls-ca.pem in its state directory"
        );
    }
    if causes(source).any(is_refused) {
        return format!(
            "no service listens at {url}: is `landfall serve` running there? --url and LANDFALL_URL name another address"
        );
    }
    format!("no reply from {url}: {}", crate::text::chain(source))
}

fn causes<'a>(source: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(source), |cause: &&'a (dyn Error + 'static)| (*cause).source())
}

fn is_refused(cause: &(dyn Error + 'static)) -> bool {
    io_error(cause).is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn is_unknown_issuer(cause: &(dyn Error + 'static)) -> bool {
    let found = |error: &rustls::Error| {
        matches!(error, rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer))
    };
    let inner = io_error(cause).and_then(io::Error::get_ref).and_then(|inner| inner.downcast_ref());
    cause.downcast_ref().or(inner).is_some_and(found)
}

fn io_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    match cause.downcast_ref::<ureq::Error>() {
        Some(ureq::Error::Io(error)) => Some(error),
        _ => cause.downcast_ref(),
    }
}
