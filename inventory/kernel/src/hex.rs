//! Bytes as hexadecimal digits. Pure.

use std::fmt::Write;

/// `00ff7f`
pub fn lower(bytes: impl AsRef<[u8]>) -> String {
    joined(bytes.as_ref(), "")
}

/// `00:ff:7f`, as hardware addresses are written.
pub fn colons(bytes: impl AsRef<[u8]>) -> String {
    joined(bytes.as_ref(), ":")
}

fn joined(bytes: &[u8], between: &str) -> String {
    let mut text = String::with_capacity(bytes.len() * (2 + between.len()));
    for (index, byte) in bytes.iter().enumerate() {
        let _ = write!(text, "{}{byte:02x}", if index == 0 { "" } else { between });
    }
    text
}

/// Exactly `N` pairs of digits in either case; None for any other text.
pub fn parse<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (digits, rest) = text.as_bytes().as_chunks::<2>();
    if digits.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        assert_eq!((lower([0, 255, 0x7f]), colons([0, 255, 0x7f])), ("00ff7f".into(), "00:ff:7f".into()));
        assert_eq!((lower([]), colons([])), (String::new(), String::new()));
        assert_eq!(parse("00fF7f"), Some([0, 255, 0x7f]));
        for wrong in ["", "00ff7", "00ff7f0", "00ff7g", "+0ff7f", "00ff7f00"] {
            assert_eq!(parse::<3>(wrong), None, "{wrong}");
        }
    }
}
