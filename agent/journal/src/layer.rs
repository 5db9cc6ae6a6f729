//! Our log as the real agent's in the journal: the same fields, and lines in the form its readers and tools know
//! (docs/compatibility.md#agent-logging).

use super::write::Sender;
use kernel::clock::local;
use std::{
    fmt::{Debug, Write},
    io,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// Of lines that a child has logged and sent to the journal itself: they go to our standard error only.
pub const RELAYED: &str = "agent::relayed";

/// Sends each event to journald.
#[derive(Debug)]
pub struct JournalLayer {
    sender: Sender,
    tag: &'static str,
    forced_id: String,
}

impl JournalLayer {
    /// Records with `TAG=tag`; `forced_id` is that of a host whose identity was made up, else empty. An error where no journald
    /// listens at `socket`.
    pub fn new(socket: &Path, tag: &'static str, forced_id: &str) -> io::Result<Self> {
        Ok(Self { sender: Sender::new(socket)?, tag, forced_id: forced_id.to_owned() })
    }
}

/// What a span says in each of its lines.
struct SpanFields(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JournalLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut line = Line::default();
        attributes.record(&mut line);
        // A span's own name makes a field of it: two `id`s in a line say nothing.
        span.extensions_mut().insert(SpanFields(line.fields.replace(" id=", &format!(" {}=", span.name()))));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        if metadata.target() == RELAYED {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(SpanFields(fields)) = span.extensions().get() {
                line.fields.push_str(fields);
            }
        }
        let (level, priority): (_, &[u8]) = match *metadata.level() {
            Level::ERROR => ("error", b"3"),
            Level::WARN => ("warning", b"4"),
            Level::INFO => ("info", b"6"),
            Level::DEBUG => ("debug", b"7"),
            Level::TRACE => ("trace", b"7"),
        };
        let file = metadata.file().and_then(|path| path.rsplit('/').next()).unwrap_or("unknown");
        let file = format!("{file}:{}", metadata.line().unwrap_or(0));
        let (time, message) = (quoted(&now()), quoted(&line.message));
        let text = format!("time={time} level={level} msg={message} file={}{}\n", quoted(&file), line.fields);
        // There is no one to report it to.
        let _ = self.sender.send(&[
            ("MESSAGE", text.as_bytes()),
            ("PRIORITY", priority),
            ("TAG", self.tag.as_bytes()),
            ("SYSLOG_IDENTIFIER", self.tag.as_bytes()),
            ("DRY_AGENT_ID", self.forced_id.as_bytes()),
        ]);
    }
}

/// `DD-MM-YYYY HH:MM:SS`, local time.
fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let t = i64::try_from(now.as_secs()).ok().and_then(local).unwrap_or_default();
    format!("{:02}-{:02}-{} {:02}:{:02}:{:02}", t.day, t.month0 + 1, t.year, t.hour, t.minute, t.second)
}

/// Message and fields of an event.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn add(&mut self, name: &str, value: &str) {
        if name == "message" {
            self.message = value.to_owned();
        } else {
            let _ = write!(self.fields, " {name}={}", quoted(value));
        }
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field.name(), &format!("{value:?}"));
    }
}

/// In quotes where it is more than a word, as logrus has it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/@^+".contains(c);
    if text.chars().all(plain) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_ascii_control() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(c));
            }
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
