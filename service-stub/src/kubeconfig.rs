//! Adds the CA of the cluster's ingress to the administrator's kubeconfig.

use base64::{Engine, engine::general_purpose::STANDARD};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
const FIELD: &str = "certificate-authority-data:";

/// Why they can't be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KubeconfigError {
    #[error("the ingress certificate is not PEM: it needs blocks from '{BEGIN}' to '{END}' with base64 between")]
    Pem,
    /// The kubeconfig is not usable.
    #[error("kubeconfig-noingress has no usable '{FIELD}' to add the ingress certificate to")]
    Field,
}

/// Whether a text is one or more PEM certificates.
pub(crate) fn check_pem(text: &str) -> Result<(), KubeconfigError> {
    let mut rest = text.trim();
    loop {
        let block = rest.strip_prefix(BEGIN).and_then(|rest| rest.split_once(END));
        let (body, after) = block.ok_or(KubeconfigError::Pem)?;
        let body: String = body.split_whitespace().collect();
        // Every certificate is an ASN.1 sequence.
        let der = STANDARD.decode(body).map_err(|_| KubeconfigError::Pem)?;
        if der.first() != Some(&0x30) {
            return Err(KubeconfigError::Pem);
        }
        rest = after.trim_start();
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// `kubeconfig-noingress` with the CA added to those it trusts.
pub(crate) fn with_ingress(kubeconfig: &str, ca: &str) -> Result<String, KubeconfigError> {
    let (before, rest) = kubeconfig.split_once(FIELD).ok_or(KubeconfigError::Field)?;
    let value = rest.lines().next().unwrap_or_default();
    let after = rest.strip_prefix(value).unwrap_or_default();
    let known = STANDARD.decode(value.trim()).map_err(|_| KubeconfigError::Field)?;
    let mut trusted = String::from_utf8(known).map_err(|_| KubeconfigError::Field)?;
    if !trusted.ends_with('\n') {
        trusted.push('\n');
    }
    trusted.push_str(ca);
    Ok(format!("{before}{FIELD} {}{after}", STANDARD.encode(trusted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(body: &str) -> String {
        format!("{BEGIN}\n{body}\n{END}\n")
    }

    #[test]
    fn an_authority_is_added_to_those_trusted() {
        let old = format!("clusters:\n- cluster:\n    {FIELD} {}\n    server: https://api\n", STANDARD.encode("old"));
        let new = with_ingress(&old, "new").unwrap();
        let value = new.lines().nth(2).unwrap().split(": ").nth(1).unwrap();
        assert_eq!(STANDARD.decode(value).unwrap(), b"old\nnew");
        assert!(new.ends_with("\n    server: https://api\n"));
        for bad in ["clusters: []", "certificate-authority-data: ???", "certificate-authority-data: /w=="] {
            assert_eq!(with_ingress(bad, "new"), Err(KubeconfigError::Field), "{bad}");
        }
    }

    #[test]
    fn only_certificates_pass() {
        assert_eq!(check_pem(&pem("MAA=")), Ok(()));
        assert_eq!(check_pem(&format!("{}{}", pem("MAA="), pem("MA\nA="))), Ok(()));
        for bad in [String::new(), "MAA=".into(), pem("!"), pem("AAA="), format!("{}x", pem("MAA=")), BEGIN.into()] {
            assert_eq!(check_pem(&bad), Err(KubeconfigError::Pem), "{bad}");
        }
    }
}
