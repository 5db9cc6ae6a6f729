//! Looks through long texts, many bytes at once. Configs have files in them, so their strings have megabytes. Apart from all the rest, which
//! is compiled for size: this is compiled for speed. Pure.

const BLOCK_BYTES: usize = 64;

fn has_any(bytes: &[u8], is_meant: impl Fn(u8) -> bool) -> bool {
    bytes.chunks(BLOCK_BYTES).any(|block| block.iter().fold(false, |found, byte| found | is_meant(*byte)))
}

/// Whether there is a control character of ASCII.
pub fn has_control(bytes: &[u8]) -> bool {
    has_any(bytes, |byte| byte < 0x20 || byte == 0x7F)
}

/// Whether there is a carriage return or a line feed.
pub fn has_line_end(bytes: &[u8]) -> bool {
    has_any(bytes, |byte| byte == b'\r' || byte == b'\n')
}

/// How many bytes at the beginning stand for themselves in a string of JSON: up to a quote, a backslash, a control character or the end.
pub fn plain_length(text: &[u8]) -> usize {
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let blocks = text.chunks_exact(BLOCK_BYTES).take_while(|block| !has_any(block, is_special)).count();
    let plain = blocks * BLOCK_BYTES;
    let rest = text.get(plain..).unwrap_or_default();
    plain + rest.iter().take_while(|byte| !is_special(**byte)).count()
}

/// The offsets of all line feeds.
pub fn line_feeds(text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    for (block, at) in text.chunks(BLOCK_BYTES).zip((0..).step_by(BLOCK_BYTES)) {
        if has_any(block, |byte| byte == b'\n') {
            found.extend(block.iter().zip(at..).filter(|(byte, _)| **byte == b'\n').map(|(_, at)| at));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_wherever_it_is() {
        for length in [0, 1, 63, 64, 65, 200] {
            let plain = vec![b'a'; length];
            assert!(!has_control(&plain) && !has_line_end(&plain), "{length}");
            assert_eq!((plain_length(&plain), line_feeds(&plain)), (length, vec![]));
            for at in 0..length {
                let with = |byte| [&plain[..at], &[byte], &plain[at + 1..]].concat();
                for byte in [0, 0x1F, b'\n', b'"', b'\\', 0x7F, 0x80, 0xFF] {
                    let text = with(byte);
                    assert_eq!(has_control(&text), byte < 0x20 || byte == 0x7F, "{byte} at {at} of {length}");
                    assert_eq!(has_line_end(&text), byte == b'\n');
                    let ends = byte < 0x20 || byte == b'"' || byte == b'\\';
                    assert_eq!(plain_length(&text), if ends { at } else { length }, "{byte} at {at} of {length}");
                    assert_eq!(line_feeds(&text), if byte == b'\n' { vec![at] } else { vec![] });
                }
                assert!(has_line_end(&with(b'\r')));
            }
        }
        assert_eq!(line_feeds(b"\n\na\n"), [0, 1, 3]);
    }
}
