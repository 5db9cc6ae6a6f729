//! A client of D-Bus: calls and their replies, over a system socket, as much as NetworkManager and systemd need (D-Bus
//! Specification, "Message Protocol" and "Marshaling").

use nix::unistd::geteuid;
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

/// A reply here is a few hundred bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Messages of others, signals above all, before the reply.
const MAX_OTHERS: usize = 1000;
const MAX_DEPTH: usize = 16;
const MAX_LINE_BYTES: usize = 512;
const PATIENCE: Duration = Duration::from_secs(25);

/// Where a message's header fields begin.
const FIELDS_AT: usize = 12;

const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BusError {
    #[error("cannot connect to the system bus at {}", path.display())]
    Connect { path: PathBuf, source: io::Error },
    #[error("the system bus does not accept this process: it answered '{0}'")]
    Refused(String),
    #[error("the system bus failed")]
    Io(#[from] io::Error),
    #[error("a message on the system bus is not understood")]
    Malformed,
    #[error("{member} failed: {text} ({name})")]
    Failed { member: &'static str, name: String, text: String },
}

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg<'a> {
    Text(&'a str),
    Path(&'a str),
    Number(u32),
    Texts(&'a [String]),
    Paths(&'a [String]),
}

impl Arg<'_> {
    fn signature(self) -> &'static str {
        match self {
            Self::Text(_) => "s",
            Self::Path(_) => "o",
            Self::Number(_) => "u",
            Self::Texts(_) => "as",
            Self::Paths(_) => "ao",
        }
    }
}

/// A value of a reply. Variants are what they hold; structures and entries of dictionaries are lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
    List(Vec<Value>),
}

/// Whose method is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) destination: &'a str,
    pub(crate) path: &'a str,
    pub(crate) interface: &'a str,
}

#[derive(Debug)]
pub(crate) struct Bus {
    stream: UnixStream,
    serial: u32,
}

impl Bus {
    pub(crate) fn connect(path: &Path) -> Result<Self, BusError> {
        let stream = UnixStream::connect(path).map_err(|source| BusError::Connect { path: path.to_owned(), source })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut bus = Self { stream, serial: 0 };
        let uid = kernel::hex::lower(geteuid().to_string().as_bytes());
        bus.stream.write_all(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes())?;
        let answer = bus.line()?;
        if !answer.starts_with("OK ") {
            return Err(BusError::Refused(answer));
        }
        bus.stream.write_all(b"BEGIN\r\n")?;
        let itself = "org.freedesktop.DBus";
        let target = Target { destination: itself, path: "/org/freedesktop/DBus", interface: itself };
        bus.call(target, "Hello", &[])?;
        Ok(bus)
    }

    /// A byte at a time: what follows the line is not the authentication's.
    fn line(&mut self) -> Result<String, BusError> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") && line.len() < MAX_LINE_BYTES {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            line.extend(byte);
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Calls a method, and waits for its reply.
    pub(crate) fn call(
        &mut self,
        target: Target<'_>,
        member: &'static str,
        args: &[Arg<'_>],
    ) -> Result<Vec<Value>, BusError> {
        self.serial += 1;
        self.stream.write_all(&message(self.serial, target, member, args))?;
        for _ in 0..MAX_OTHERS {
            let Some(reply) = receive(&mut self.stream)?.filter(|reply| reply.to == u64::from(self.serial)) else {
                continue;
            };
            if reply.kind == METHOD_RETURN {
                return Ok(reply.values);
            }
            let text = reply.values.into_iter().find_map(|value| match value {
                Value::Text(text) => Some(text),
                _ => None,
            });
            let text = text.unwrap_or_else(|| "no reason given".to_owned());
            return Err(BusError::Failed { member, name: reply.name, text });
        }
        Err(BusError::Malformed)
    }
}

/// The next message, if it is a reply.
fn receive(from: &mut impl Read) -> Result<Option<Reply>, BusError> {
    let mut start = [0; 16];
    from.read_exact(&mut start)?;
    let [order, kind, _, _, a, b, c, d, .., e, f, g, h] = start;
    // The bus passes on what others of this machine send, in its own order of bytes.
    if order != if cfg!(target_endian = "big") { b'B' } else { b'l' } {
        return Err(BusError::Malformed);
    }
    let length = |bytes| usize::try_from(u32::from_ne_bytes(bytes)).unwrap_or(usize::MAX);
    let (body, fields) = (length([a, b, c, d]), length([e, f, g, h]));
    let padded = fields.checked_next_multiple_of(8).ok_or(BusError::Malformed)?;
    let rest = padded.checked_add(body).filter(|rest| *rest <= MAX_MESSAGE_BYTES).ok_or(BusError::Malformed)?;
    let mut bytes = start.to_vec();
    bytes.resize(start.len() + rest, 0);
    from.read_exact(bytes.get_mut(start.len()..).unwrap_or_default())?;
    if !matches!(kind, METHOD_RETURN | ERROR) {
        return Ok(None);
    }
    let (head, body) = bytes.split_at(start.len() + padded);
    reply(kind, head, body).map(Some).ok_or(BusError::Malformed)
}

/// Reads messages until one is refused; how many are not.
pub(crate) fn fuzz(mut bytes: &[u8]) -> usize {
    std::iter::from_fn(|| receive(&mut bytes).ok()).count()
}

/// An answer to a call.
struct Reply {
    kind: u8,
    to: u64,
    /// Of an error.
    name: String,
    values: Vec<Value>,
}

fn reply(kind: u8, head: &[u8], body: &[u8]) -> Option<Reply> {
    let (fields, _) = Reader { bytes: head, at: FIELDS_AT }.value(b"a(yv)", 0)?;
    let mut reply = Reply { kind, to: 0, name: String::new(), values: Vec::new() };
    let mut signature = String::new();
    let Value::List(fields) = fields else { return None };
    for field in fields {
        let Value::List(field) = field else { return None };
        match <[Value; 2]>::try_from(field).ok()? {
            [Value::Number(5), Value::Number(serial)] => reply.to = serial,
            [Value::Number(4), Value::Text(text)] => reply.name = text,
            [Value::Number(8), Value::Text(text)] => signature = text,
            _ => {}
        }
    }
    let (mut reader, mut rest) = (Reader { bytes: body, at: 0 }, signature.as_bytes());
    while !rest.is_empty() {
        let (value, after) = reader.value(rest, 0)?;
        reply.values.push(value);
        rest = after;
    }
    Some(reply)
}

fn message(serial: u32, target: Target<'_>, member: &str, args: &[Arg<'_>]) -> Vec<u8> {
    let mut body = Writer::default();
    args.iter().for_each(|arg| body.arg(*arg));
    let signature: String = args.iter().map(|arg| arg.signature()).collect();
    let mut fields = Writer::default();
    let path = [(1, "o", target.path), (2, "s", target.interface), (3, "s", member), (6, "s", target.destination)];
    for (code, kind, text) in path {
        fields.field(code, kind);
        fields.text(text);
    }
    if !signature.is_empty() {
        fields.field(8, "g");
        fields.signature(&signature);
    }
    let mut message = Writer::default();
    let order = if cfg!(target_endian = "big") { b'B' } else { b'l' };
    message.0.extend([order, METHOD_CALL, 0, 1]);
    message.number(length(&body.0));
    message.number(serial);
    message.number(length(&fields.0));
    message.0.extend(fields.0);
    message.align(8);
    message.0.extend(body.0);
    message.0
}

fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_ne_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(length(text.as_bytes()));
        self.0.extend(text.bytes().chain([0]));
    }

    fn signature(&mut self, text: &str) {
        self.0.extend(u8::try_from(text.len()));
        self.0.extend(text.bytes().chain([0]));
    }

    fn field(&mut self, code: u8, kind: &str) {
        self.align(8);
        self.0.push(code);
        self.signature(kind);
    }

    fn arg(&mut self, arg: Arg<'_>) {
        match arg {
            Arg::Text(text) | Arg::Path(text) => self.text(text),
            Arg::Number(number) => self.number(number),
            Arg::Texts(texts) | Arg::Paths(texts) => {
                self.align(4);
                // Its items begin at a multiple of four too, so their length does not depend on where they are.
                let mut items = Self::default();
                texts.iter().for_each(|text| items.text(text));
                self.number(length(&items.0));
                self.0.extend(items.0);
            }
        }
    }
}

/// A message's bytes; alignment counts from their start.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(len)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number(&mut self, width: usize) -> Option<u64> {
        self.at = self.at.checked_next_multiple_of(width)?;
        let taken = self.take(width)?;
        let mut bytes = [0; 8];
        if cfg!(target_endian = "big") {
            bytes.get_mut(8 - width..)?.copy_from_slice(taken);
        } else {
            bytes.get_mut(..width)?.copy_from_slice(taken);
        }
        Some(u64::from_ne_bytes(bytes))
    }

    /// A text of this many bytes, and the zero after it.
    fn text(&mut self, len: u64) -> Option<String> {
        let text = self.take(usize::try_from(len).ok()?)?;
        let text = String::from_utf8_lossy(text).into_owned();
        self.take(1)?;
        Some(text)
    }

    /// The value of the signature's first type, and the types after it.
    fn value<'s>(&mut self, signature: &'s [u8], depth: usize) -> Option<(Value, &'s [u8])> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (kind, rest) = signature.split_first()?;
        let value = match kind {
            b'y' => Value::Number(self.number(1)?),
            b'n' | b'q' => Value::Number(self.number(2)?),
            b'b' | b'i' | b'u' | b'h' => Value::Number(self.number(4)?),
            b'x' | b't' | b'd' => Value::Number(self.number(8)?),
            b's' | b'o' => {
                let len = self.number(4)?;
                Value::Text(self.text(len)?)
            }
            b'g' => {
                let len = self.number(1)?;
                Value::Text(self.text(len)?)
            }
            b'v' => {
                let len = self.number(1)?;
                let inner = self.text(len)?;
                let (value, after) = self.value(inner.as_bytes(), depth + 1)?;
                return after.is_empty().then_some((value, rest));
            }
            b'a' => {
                let len = usize::try_from(self.number(4)?).ok()?;
                if matches!(rest.first(), Some(b'x' | b't' | b'd' | b'(' | b'{')) {
                    self.at = self.at.checked_next_multiple_of(8)?;
                }
                let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len())?;
                let mut items = Vec::new();
                while self.at < end {
                    items.push(self.value(rest, depth + 1)?.0);
                }
                let after = after_one(rest, depth)?;
                return (self.at == end).then_some((Value::List(items), after));
            }
            b'(' | b'{' => {
                self.at = self.at.checked_next_multiple_of(8)?;
                let (mut items, mut rest) = (Vec::new(), rest);
                while !matches!(rest.first(), Some(b')' | b'}')) {
                    let (item, after) = self.value(rest, depth + 1)?;
                    items.push(item);
                    rest = after;
                }
                // An empty one takes no bytes, and an array of them would never end.
                return (!items.is_empty()).then_some((Value::List(items), rest.get(1..)?));
            }
            _ => return None,
        };
        Some((value, rest))
    }
}

/// What follows the signature's first type.
fn after_one(signature: &[u8], depth: usize) -> Option<&[u8]> {
    if depth > MAX_DEPTH {
        return None;
    }
    let (kind, mut rest) = signature.split_first()?;
    match kind {
        b'a' => after_one(rest, depth + 1),
        b'(' | b'{' => {
            while !matches!(rest.first()?, b')' | b'}') {
                rest = after_one(rest, depth + 1)?;
            }
            rest.get(1..)
        }
        _ => Some(rest),
    }
}

#[cfg(test)]
pub(crate) mod tests;
