//! The thread that opens and reads the source, and starts what the image needs to be unpacked.

use super::chunk::{Chunk, Feed};
use super::taps::Taps;
use super::{BLOCK_BYTES, CHUNK_BYTES, Flow, Message, Output, Packing, gone, xz};
use crate::buffer::{Block, Buffer};
use crate::decode::{DecodeError, Decoder, Format, classify, detect};
use crate::ends::HEAD_BYTES;
use crate::source::{OnRetry, Opened, SourceError};
use crate::verify::Tap;
use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{SyncSender, channel},
    },
    thread,
};

/// Does all; returns the size of the image once it is complete and the taps have agreed.
pub(super) fn read(
    open: impl FnOnce(OnRetry) -> Result<Opened, SourceError>,
    taps: Vec<Box<dyn Tap>>,
    packing: Packing,
    flow: &Arc<Flow>,
    send: &SyncSender<Message>,
) -> Result<u64, DecodeError> {
    let retries = send.clone();
    // Once no thread waits for the image, requests for it must stop.
    let on_retry = Box::new(move |retry| retries.send(Message::Retrying(retry)).is_ok());
    let Opened { mut reader, total } = flow.watch.during(|| open(on_retry))?;
    // Raw images have no errors, so anything here is the source's.
    let first = Chunk::read(flow, &mut reader).ok_or_else(gone)?.map_err(|error| classify(error, Format::Raw, 0))?;
    let format = if packing == Packing::Unpacked { detect(&first) } else { Format::Raw };
    let output = Output { flow: flow.clone(), send: send.clone(), format, total };
    let taps = Taps::start(taps, send)?;
    let image_bytes = match format {
        Format::Raw => raw(Arc::new(first), &mut reader, &output, &taps)?,
        _ => packed(Arc::new(first), &mut reader, output, &taps)?,
    };
    taps.finish()?;
    Ok(image_bytes)
}

/// Reads a raw image into blocks.
fn raw(first: Arc<Chunk>, reader: &mut dyn Read, output: &Output, taps: &Taps) -> Result<u64, DecodeError> {
    output.flow.raw.store(true, Ordering::Relaxed);
    let mut head = Buffer::new(HEAD_BYTES);
    head.whole().get_mut(..first.len()).unwrap_or_default().copy_from_slice(&first);
    head.set_len(first.len());
    taps.chunk(&first)?;
    let mut offset = bytes(first.len());
    let mut ended = first.len() < HEAD_BYTES;
    drop(first);
    output.flow.add_used(offset);
    output.opened(head)?;
    while !ended {
        let mut data = output.buffer()?;
        let len = output.flow.watch.fill(reader, data.whole());
        let len = len.map_err(|error| classify(error, Format::Raw, offset))?;
        data.set_len(len);
        ended = len < BLOCK_BYTES;
        if len > 0 {
            output.flow.add_used(bytes(len));
            taps.block(Block { offset, data })?;
            offset = offset.saturating_add(bytes(len));
        }
    }
    Ok(offset)
}

/// Reads a packed image for the taps and a decoder on its own thread.
fn packed(first: Arc<Chunk>, reader: &mut dyn Read, output: Output, taps: &Taps) -> Result<u64, DecodeError> {
    let (send, chunks) = channel();
    let flow = output.flow.clone();
    let feed = Feed::new(chunks, flow.clone());
    let run = move || match unpack(feed, &output) {
        Ok(image_bytes) => Some(image_bytes),
        Err(error) => {
            // At once: the source may be slow to give what would wake its thread.
            output.failed(error);
            None
        }
    };
    let decoder = thread::Builder::new().name("decode".into()).spawn(run);
    let decoder = decoder.map_err(|_| DecodeError::Thread("can't be started"))?;
    let mut next = Some(Ok(first));
    while let Some(chunk) = next {
        let last = chunk.as_ref().map_or(true, |chunk| chunk.len() < CHUNK_BYTES);
        if let Ok(chunk) = &chunk {
            taps.chunk(chunk)?;
        }
        if send.send(chunk).is_err() || last {
            break;
        }
        next = Chunk::read(&flow, reader).map(|chunk| chunk.map(Arc::new).map_err(source_error));
    }
    let unfinished = flow.is_closed();
    drop(send);
    let image_bytes = decoder.join().map_err(|_| DecodeError::Thread("died"))?;
    image_bytes.filter(|_| !unfinished).ok_or_else(gone)
}

/// Every source fails with its own error within the error of a reader.
fn source_error(error: io::Error) -> SourceError {
    error.downcast::<SourceError>().unwrap_or_else(|source| SourceError::Read {
        name: "the image".into(),
        offset: 0,
        source,
    })
}

fn unpack(mut feed: Feed, output: &Output) -> Result<u64, DecodeError> {
    if output.format == Format::Xz {
        return xz::unpack(&mut feed, output);
    }
    let mut decoder = Decoder::new(feed, output.format)?;
    let mut head = Buffer::new(HEAD_BYTES);
    let head_len = decoder.fill(head.whole())?;
    head.set_len(head_len);
    output.opened(head)?;
    let mut offset = bytes(head_len);
    let mut ended = head_len < HEAD_BYTES;
    while !ended {
        let mut data = output.buffer()?;
        let len = decoder.fill(data.whole())?;
        data.set_len(len);
        ended = len < BLOCK_BYTES;
        if len > 0 {
            output.send(Message::Block(Block { offset, data }))?;
            offset = offset.saturating_add(bytes(len));
        }
    }
    Ok(offset)
}

fn bytes(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
