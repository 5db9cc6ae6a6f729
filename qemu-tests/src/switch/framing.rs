//! QEMU's stream framing: each frame after its length, four bytes, big-endian.

/// Larger than any frame a guest can send (a 64 KiB segment and its headers); a greater length means a broken stream.
pub(super) const MAX_FRAME_BYTES: usize = 128 << 10;
const LENGTH_BYTES: usize = 4;

/// A length no frame has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {len} bytes was announced, the limit is {MAX_FRAME_BYTES}")]
pub(super) struct BadLength {
    len: u32,
}

/// Bytes received and not yet taken as frames.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    buffer: Vec<u8>,
    taken: usize,
}

impl Decoder {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, BadLength> {
        let rest = &self.buffer[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let announced = u32::from_be_bytes(*length);
        let len = usize::try_from(announced)
            .ok()
            .filter(|len| *len <= MAX_FRAME_BYTES)
            .ok_or(BadLength { len: announced })?;
        let Some(frame) = rest.get(..len) else { return Ok(None) };
        self.taken += LENGTH_BYTES + len;
        Ok(Some(frame))
    }
}

/// A frame with its length before it; `None` for one that can't be.
pub(super) fn encode(frame: &[u8]) -> Option<Vec<u8>> {
    let len = u32::try_from(frame.len()).ok().filter(|_| frame.len() <= MAX_FRAME_BYTES)?;
    Some([&len.to_be_bytes()[..], frame].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cut_of_the_stream() {
        let frames: Vec<Vec<u8>> = vec![vec![1; 60], vec![], vec![2; 1514], vec![3; 65_549]];
        let stream: Vec<u8> = frames.iter().flat_map(|frame| encode(frame).unwrap()).collect();
        for step in [1, 3, 64, 1000, stream.len()] {
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for piece in stream.chunks(step) {
                decoder.feed(piece);
                while let Some(frame) = decoder.next().unwrap() {
                    seen.push(frame.to_vec());
                }
            }
            assert_eq!(seen, frames, "in pieces of {step}");
        }
    }

    #[test]
    fn an_absurd_length_is_an_error() {
        let mut decoder = Decoder::default();
        decoder.feed(&[0xff; 4]);
        assert_eq!(decoder.next(), Err(BadLength { len: u32::MAX }));
        assert_eq!(encode(&vec![0; MAX_FRAME_BYTES + 1]), None);
    }
}
