//! Numbers and texts in hostile bytes. Pure; beyond the end there is None.

/// `N` bytes from `at` on.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

macro_rules! numbers {
    ($($name:ident $type:ident $from:ident $doc:literal)*) => {$(
        #[doc = $doc]
        pub fn $name(bytes: &[u8], at: usize) -> Option<$type> {
            array(bytes, at).map($type::$from)
        }
    )*};
}

numbers! {
    le16 u16 from_le_bytes "Little endian, 16 bits."
    le32 u32 from_le_bytes "Little endian, 32 bits."
    le64 u64 from_le_bytes "Little endian, 64 bits."
    le128 u128 from_le_bytes "Little endian, 128 bits."
    be16 u16 from_be_bytes "Big endian, 16 bits."
    be32 u32 from_be_bytes "Big endian, 32 bits."
    be64 u64 from_be_bytes "Big endian, 64 bits."
    ne16 u16 from_ne_bytes "The machine's own order, 16 bits."
    ne32 u32 from_ne_bytes "The machine's own order, 32 bits."
    ne64 u64 from_ne_bytes "The machine's own order, 64 bits."
}

/// The text before the first zero, or all of it. Bytes that are not UTF-8 become U+FFFD.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// Reads from front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beyond_the_end_is_none() {
        let bytes = [1, 2, 3, 4, 5];
        assert_eq!((le16(&bytes, 3), be16(&bytes, 3), le16(&bytes, 4)), (Some(0x0504), Some(0x0405), None));
        assert_eq!((le32(&bytes, 1), be32(&bytes, usize::MAX)), (Some(0x0504_0302), None));
        assert_eq!((array::<0>(&bytes, 5), array::<0>(&bytes, 6)), (Some([]), None));
        let mut reader = Reader(&bytes);
        assert_eq!((reader.array(), reader.bytes(4), reader.bytes(3)), (Some([1, 2]), None, Some(&[3, 4, 5][..])));
        assert_eq!((reader.array::<1>(), reader.bytes(0)), (None, Some(&[][..])));
    }

    #[test]
    fn texts_end_at_their_first_zero() {
        assert_eq!((text(b"eth0\0x"), text(b"all"), text(b"")), ("eth0".into(), "all".into(), String::new()));
    }
}
