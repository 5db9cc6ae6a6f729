//! Station 8: the encrypted connection, and whether the certificate can be trusted.

use super::{
    clock::{Offset, describe},
    handshake::{TlsFacts, TlsFailure},
    report::{Code, Finding, Station},
    target::Target,
};
use crate::codec::x509::Certificate;
use rustls::CertificateError;
use time::{OffsetDateTime, macros::format_description};

/// When a date of the certificate is rejected although the certificate is right: our clock is wrong.
pub(super) fn is_clocks_fault(facts: &TlsFacts, offset: Option<Offset>) -> bool {
    let dates = matches!(problem(facts), Some(Code::CertificateNotYetValid | Code::CertificateExpired));
    let true_time = offset.and_then(|offset| facts.now.checked_add(offset.to_true_time()));
    dates && leaf(facts).zip(true_time).is_some_and(|(leaf, now)| leaf.not_before <= now && now <= leaf.not_after)
}

fn leaf(facts: &TlsFacts) -> Option<Certificate> {
    facts.chain.first().and_then(|der| Certificate::parse(der))
}

fn problem(facts: &TlsFacts) -> Option<Code> {
    Some(match facts.distrust.as_ref()? {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Code::CertificateExpired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Code::CertificateNotYetValid,
        CertificateError::UnknownIssuer => Code::UnknownIssuer,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Code::WrongName,
        _ => Code::CertificateRefused,
    })
}

fn date(moment: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]Z");
    moment.format(&format).unwrap_or_else(|_| moment.to_string())
}

/// Is the connection secure? `insecure`: the operator accepts any certificate.
pub(super) fn judge(target: &Target, facts: &TlsFacts, offset: Option<Offset>, insecure: bool) -> Finding {
    let station = Station::Tls;
    let endpoint = &target.endpoint;
    if let Some(failure) = &facts.failure {
        return failed(target, failure);
    }
    let Some(leaf) = leaf(facts) else {
        let next = "reissue the service's certificate";
        return Finding::broken(station, Code::CertificateRefused, "the certificate can't be read", next);
    };
    let named = |name: &str| if name.is_empty() { "(no name)".to_owned() } else { name.to_owned() };
    let (subject, issuer) = (named(&leaf.subject), named(&leaf.issuer));
    let (from, until) = (date(leaf.not_before), date(leaf.not_after));
    let Some(code) = problem(facts) else {
        return Finding::ok(station, format!("certificate of {subject}, issued by {issuer}, valid until {until}"));
    };
    let now = date(facts.now);
    let (seen, next) = match code {
        Code::CertificateExpired | Code::CertificateNotYetValid => {
            let what = if code == Code::CertificateExpired { "has expired" } else { "is not yet valid" };
            let seen = format!(
                "the certificate of {subject}, issued by {issuer}, {what} by our clock: valid from {from} to {until}, now {now}"
            );
            let next = match offset.filter(|_| is_clocks_fault(facts, offset)) {
                Some(offset) => {
                    format!("set the clock: it is {}; at the right time the certificate is valid", describe(offset))
                }
                None if code == Code::CertificateExpired => {
                    "renew the service's certificate, or set this host's clock if that is wrong".to_owned()
                }
                None => "set this host's clock, or that of the machine that issued the certificate".to_owned(),
            };
            (seen, next)
        }
        Code::UnknownIssuer if leaf.is_self_issued => (
            format!("the certificate of {subject} is self-signed and not trusted"),
            "if this is the right server, pass its certificate as --ca-cert FILE".to_owned(),
        ),
        Code::UnknownIssuer => (
            format!("the certificate of {subject} is signed by {issuer}, which is not a trusted CA"),
            format!(
                "pass the CA certificate of {issuer} as --ca-cert FILE (PEM), or make the service send its full chain"
            ),
        ),
        Code::WrongName => {
            let names = if leaf.names.is_empty() { "no name at all".to_owned() } else { leaf.names.join(", ") };
            (
                format!("the certificate of {subject} is for {names}, not for {}", endpoint.host),
                format!(
                    "use a name from the certificate in the URL, or reissue the certificate with {}",
                    endpoint.host
                ),
            )
        }
        _ => {
            let reason = facts.distrust.clone().map(|error| rustls::Error::from(error).to_string()).unwrap_or_default();
            (
                format!("the certificate of {subject}, issued by {issuer}: {reason}"),
                "reissue the certificate".to_owned(),
            )
        }
    };
    if insecure {
        return Finding::warn(station, Code::NotVerified, format!("{seen}; ignored because of --insecure"), next);
    }
    Finding::broken(station, code, seen, next)
}

fn failed(target: &Target, failure: &TlsFailure) -> Finding {
    let endpoint = &target.endpoint;
    let (code, seen, next) = match failure {
        TlsFailure::PlainHttp => (
            Code::NotTls,
            format!("{endpoint} speaks plain HTTP, not TLS"),
            format!("use http://{endpoint} as the URL, or the port that speaks TLS"),
        ),
        TlsFailure::NotTls => {
            (Code::NotTls, format!("{endpoint} does not speak TLS"), "correct the port in the URL".to_owned())
        }
        TlsFailure::Closed | TlsFailure::TimedOut(_) => (
            Code::HandshakeFailed,
            format!("{endpoint} accepts the connection, but in the TLS handshake {failure}"),
            "check whether a firewall, load balancer or small MTU breaks the connection, and see the service's log"
                .to_owned(),
        ),
        TlsFailure::Other(reason) => (
            Code::HandshakeFailed,
            format!("no TLS with {endpoint}: {reason}"),
            "check the service's TLS setup: it must speak TLS 1.2 or 1.3".to_owned(),
        ),
    };
    Finding::broken(Station::Tls, code, seen, next)
}
