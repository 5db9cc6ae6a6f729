//! Public keys as `authorized_keys` holds them.

use base64::{Engine, engine::general_purpose::STANDARD};

/// Algorithms, each with the beginning of its key's base64.
const KINDS: [(&str, &str); 6] = [
    ("ssh-rsa", "AAAAB3NzaC1yc2"),
    ("ecdsa-sha2-nistp256", "AAAAE2VjZHNhLXNoYTItbmlzdHAyNT"),
    ("ecdsa-sha2-nistp384", "AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzOD"),
    ("ecdsa-sha2-nistp521", "AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlzdHA1Mj"),
    ("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5"),
    ("ssh-dss", "AAAAB3NzaC1kc3"),
];

/// One key a line.
pub(crate) fn check(keys: &str) -> Result<(), String> {
    keys.split('\n').map(str::trim).try_for_each(check_one)
}

fn check_one(key: &str) -> Result<(), String> {
    let unknown = || format!("SSH key: {key} does not match any supported type: ssh-rsa, ssh-ed25519, ecdsa-[VARIANT]");
    let mut parts = key.splitn(3, ' ');
    let (kind, data) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let begins = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, begins)| *begins).ok_or_else(unknown)?;
    let body = data.trim_end_matches('=');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    if !data.starts_with(begins)
        || body.len() <= begins.len()
        || data.len() - body.len() > 3
        || !body.bytes().all(plain)
    {
        return Err(unknown());
    }
    match STANDARD.decode(data).ok().and_then(|bytes| fields(&bytes)) {
        Some(fields) if fields.first().map(Vec::as_slice) == Some(kind.as_bytes()) && is_key(kind, &fields) => Ok(()),
        _ => Err(format!("Malformed SSH key: {key}: ssh: no key found")),
    }
}

fn is_key(kind: &str, fields: &[Vec<u8>]) -> bool {
    let filled = fields.iter().all(|field| !field.is_empty());
    filled
        && match kind {
            "ssh-ed25519" => fields.len() == 2 && fields[1].len() == 32,
            "ssh-dss" => fields.len() == 5,
            _ => fields.len() == 3,
        }
}

/// Fields with their lengths before them (RFC 4251, section 5).
fn fields(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (field, rest) = rest.split_at_checked(length)?;
        all.push(field.to_vec());
        bytes = rest;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: &str, fields: &[&[u8]]) -> String {
        let mut bytes = Vec::new();
        for field in [kind.as_bytes()].iter().chain(fields) {
            bytes.extend(u32::try_from(field.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(field);
        }
        format!("{kind} {}", STANDARD.encode(bytes))
    }

    #[test]
    fn keys_of_each_kind_are_taken() {
        let rsa = key("ssh-rsa", &[&[1, 0, 1], &[7; 257]]);
        let ed25519 = key("ssh-ed25519", &[&[9; 32]]);
        let ecdsa = key("ecdsa-sha2-nistp256", &[b"nistp256", &[4; 65]]);
        for good in [&rsa, &ed25519, &ecdsa, &format!("{rsa} core@example"), &format!("{rsa}\n {ed25519} a b ")] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_is_no_key_is_quoted() {
        for bad in ["garbage", "ssh-rsa AAAA", "ssh-rsa", "", "rsa AAAAB3NzaC1yc2EAAAA", "ssh-rsa AAAAB3NzaC1yc2EAAAA|"]
        {
            let expected =
                format!("SSH key: {bad} does not match any supported type: ssh-rsa, ssh-ed25519, ecdsa-[VARIANT]");
            assert_eq!(check(bad), Err(expected));
        }
        let short = key("ssh-ed25519", &[&[9; 31]]);
        assert_eq!(check(&short), Err(format!("Malformed SSH key: {short}: ssh: no key found")));
    }
}
