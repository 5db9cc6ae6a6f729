//! Concatenated sources of bytes, read as one.

use super::file::ReadAt;
use std::{io, sync::Arc};

/// Parts by start offset.
#[derive(Default)]
pub(crate) struct Joined {
    parts: Vec<(u64, Arc<dyn ReadAt>)>,
    len: u64,
}

impl Joined {
    /// Appends `len` bytes of a source.
    pub(crate) fn push(&mut self, source: Arc<dyn ReadAt>, len: u64) {
        self.parts.push((self.len, source));
        self.len = self.len.saturating_add(len);
    }

    pub(crate) fn push_bytes(&mut self, bytes: Vec<u8>) {
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.push(Arc::new(bytes), len);
    }

    /// Length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.len
    }
}

impl ReadAt for Joined {
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            if offset >= self.len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // The last part that starts there or before; empty ones before it hold nothing.
            let next = self.parts.partition_point(|(start, _)| *start <= offset);
            let (start, source) =
                next.checked_sub(1).and_then(|at| self.parts.get(at)).ok_or(io::ErrorKind::UnexpectedEof)?;
            let end = self.parts.get(next).map_or(self.len, |(start, _)| *start);
            let here = usize::try_from(end - offset).unwrap_or(usize::MAX).min(buffer.len());
            let (now, rest) = buffer.split_at_mut(here);
            source.read_exact_at(now, offset - start)?;
            offset = offset.saturating_add(u64::try_from(here).unwrap_or(u64::MAX));
            buffer = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_read_as_one() {
        let mut joined = Joined::default();
        for part in ["0123456789", "", "abcdef", "", "X"] {
            joined.push_bytes(part.into());
        }
        assert_eq!(joined.bytes(), 17);
        for start in 0..17 {
            for end in start..=17 {
                let mut buffer = vec![0; end - start];
                joined.read_exact_at(&mut buffer, u64::try_from(start).unwrap()).unwrap();
                assert_eq!(buffer, b"0123456789abcdefX"[start..end], "{start}..{end}");
            }
        }
        assert!(joined.read_exact_at(&mut [0; 3], 15).is_err());
        assert!(joined.read_exact_at(&mut [0; 1], u64::MAX).is_err());
    }
}
