//! Keys, as the Linux console and other terminals send them.

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Escape,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-L: draw all of it again.
    Redraw,
    /// Ctrl-C, or Ctrl-D.
    Interrupt,
}

const ESCAPE: u8 = 0x1b;
/// No sequence is longer; what is, is noise.
const MAX_SEQUENCE: usize = 16;

/// Bytes of a sequence that has not ended.
#[derive(Debug, Default)]
pub(crate) struct Decoder(Vec<u8>);

impl Decoder {
    /// The keys of `bytes`; the start of a sequence waits for its end.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.0.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some((len, key)) = next(&self.0) {
            self.0.drain(..len);
            keys.extend(key);
        }
        keys
    }

    /// Nothing followed in time: an escape alone is the key of that name.
    pub(crate) fn pause(&mut self) -> Option<Key> {
        let alone = self.0 == [ESCAPE];
        self.0.clear();
        alone.then_some(Key::Escape)
    }
}

/// How many bytes are taken, and their key; `None` if more must come.
fn next(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let key = |key| Some((1, Some(key)));
    match bytes {
        [] | [ESCAPE] => None,
        [ESCAPE, b'[' | b'O', rest @ ..] => sequence(rest).map(|(len, key)| (len + 2, key)),
        [ESCAPE, ..] => key(Key::Escape),
        [b'\r' | b'\n', ..] => key(Key::Enter),
        [b'\t', ..] => key(Key::Tab),
        [0x7f | 0x08, ..] => key(Key::Backspace),
        [0x03 | 0x04, ..] => key(Key::Interrupt),
        [0x0c, ..] => key(Key::Redraw),
        [c @ b' '..=b'~', ..] => key(Key::Char(char::from(*c))),
        // No value here has other characters.
        _ => Some((1, None)),
    }
}

/// What follows `ESC [`, or `ESC O`: parameters and a last letter (ECMA-48, 5.4).
fn sequence(rest: &[u8]) -> Option<(usize, Option<Key>)> {
    // The Linux console's own form of F1 to F5.
    if let [b'[', after @ ..] = rest {
        return (!after.is_empty()).then_some((2, None));
    }
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return (rest.len() > MAX_SEQUENCE).then_some((rest.len(), None));
    };
    let (parameters, last) = rest.split_at(end);
    let key = match (parameters, last.first()) {
        (_, Some(b'A')) => Some(Key::Up),
        (_, Some(b'B')) => Some(Key::Down),
        (_, Some(b'C')) => Some(Key::Right),
        (_, Some(b'D')) => Some(Key::Left),
        (_, Some(b'H')) | (b"1" | b"7", Some(b'~')) => Some(Key::Home),
        (_, Some(b'F')) | (b"4" | b"8", Some(b'~')) => Some(Key::End),
        (_, Some(b'Z')) => Some(Key::BackTab),
        (b"5", Some(b'~')) => Some(Key::PageUp),
        (b"6", Some(b'~')) => Some(Key::PageDown),
        _ => None,
    };
    Some((end + 1, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_linux_console_are_understood_however_they_arrive() {
        let bytes = b"a\x1b[A\x1b[[A\x1b[5~\x1b[1~\x1bOB\x1b[Z\x7f\r\t\x03\xc3\xa4\x1b[15;2~q";
        let expected = [
            Key::Char('a'),
            Key::Up,
            Key::PageUp,
            Key::Home,
            Key::Down,
            Key::BackTab,
            Key::Backspace,
            Key::Enter,
            Key::Tab,
            Key::Interrupt,
            Key::Char('q'),
        ];
        assert_eq!(Decoder::default().feed(bytes), expected);
        let mut decoder = Decoder::default();
        let one_by_one: Vec<_> = bytes.iter().flat_map(|byte| decoder.feed(&[*byte])).collect();
        assert_eq!(one_by_one, expected);
    }

    #[test]
    fn an_escape_alone_is_a_key_and_noise_is_none() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b"), []);
        assert_eq!((decoder.pause(), decoder.pause()), (Some(Key::Escape), None));
        assert_eq!(decoder.feed(b"\x1b\x1b"), [Key::Escape]);
        assert_eq!(decoder.feed(b"[1"), []);
        assert_eq!(decoder.pause(), None);
        // A sequence without an end is given up, not waited for.
        assert_eq!(decoder.feed(&[b"\x1b[".as_slice(), &[b'1'; 20]].concat()), []);
        assert_eq!(decoder.feed(b"x"), [Key::Char('x')]);
    }
}
