//! A client of QEMU's machine protocol (QMP): one JSON object a line.

use serde_json::{Value, json};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// QEMU answers between two guest instructions; only a hung one takes longer.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);
const MAX_LINE_BYTES: u64 = 4 << 20;

/// What went wrong on the control socket.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// No socket, or no process behind it.
    #[error("cannot talk to QEMU at {}", path.display())]
    Connect { path: PathBuf, source: io::Error },
    #[error("QMP {command}: no answer")]
    Io { command: String, source: io::Error },
    /// QEMU refused.
    #[error("QMP {command}: {reason}")]
    Refused { command: String, reason: String },
}

/// A connection in command mode.
#[derive(Debug)]
pub struct Qmp {
    stream: BufReader<UnixStream>,
}

impl Qmp {
    /// Connects to a QEMU that may still be starting, for at most `limit`.
    pub fn connect(path: &Path, limit: Duration) -> Result<Self, QmpError> {
        let deadline = Instant::now() + limit;
        let stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(source) if Instant::now() >= deadline => {
                    return Err(QmpError::Connect { path: path.to_owned(), source });
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let connect = |source| QmpError::Connect { path: path.to_owned(), source };
        stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(connect)?;
        stream.set_write_timeout(Some(ANSWER_LIMIT)).map_err(connect)?;
        let mut qmp = Self { stream: BufReader::new(stream) };
        // The greeting; nothing in it matters here.
        qmp.read_message().map_err(connect)?;
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Runs a command. Events in between are ignored.
    pub fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        let broken = |source| QmpError::Io { command: command.to_owned(), source };
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).map_err(broken)?;
        loop {
            let mut message = self.read_message().map_err(broken)?;
            if let Some(error) = message.get("error") {
                let reason = error.get("desc").and_then(Value::as_str).unwrap_or("refused without a reason").to_owned();
                return Err(QmpError::Refused { command: command.to_owned(), reason });
            }
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
        }
    }

    fn read_message(&mut self) -> io::Result<Value> {
        let mut line = Vec::new();
        self.stream.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "QEMU closed the control socket"));
        }
        serde_json::from_slice(&line).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Answers each line read with the next of `answers`.
    fn fake(path: &Path, answers: &'static [&'static str]) -> std::thread::JoinHandle<Vec<String>> {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            stream.get_mut().write_all(b"{\"QMP\": {}}\r\n").unwrap();
            let mut asked = Vec::new();
            for answer in answers {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                asked.push(line.trim().to_owned());
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
            asked
        })
    }

    #[test]
    fn answers_are_distinguished_from_events_and_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qmp");
        let server = fake(
            &path,
            &[
                "{\"return\": {}}\n",
                "{\"event\": \"RESET\", \"data\": {}}\n{\"return\": {\"status\": \"running\"}}\n",
                "{\"error\": {\"class\": \"GenericError\", \"desc\": \"Device 'x' not found\"}}\n",
            ],
        );
        let mut qmp = Qmp::connect(&path, testkit::wait::LIMIT).unwrap();
        assert_eq!(qmp.execute("query-status", json!({})).unwrap()["status"], "running");
        let error = qmp.execute("set_link", json!({"name": "x", "up": false})).unwrap_err();
        assert_eq!(error.to_string(), "QMP set_link: Device 'x' not found");
        assert!(matches!(qmp.execute("quit", json!({})), Err(QmpError::Io { .. })));
        let asked: Value = serde_json::from_str(&server.join().unwrap()[2]).unwrap();
        assert_eq!(asked, json!({"execute": "set_link", "arguments": {"name": "x", "up": false}}));
    }
}
