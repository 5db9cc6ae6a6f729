//! A connection that is kept, and one request at a time on it.

use serde_json::Value;
use std::io::{Error, ErrorKind};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

const LIMIT: std::time::Duration = testkit::wait::LIMIT;

pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
}

pub(crate) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn document(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Self {
        Self::try_open(address).await.unwrap()
    }

    pub(crate) async fn try_open(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), host: address.to_owned() })
    }

    pub(crate) async fn json(&mut self, method: &str, path: &str, body: &Value) -> std::io::Result<Answer> {
        self.send(method, path, body.to_string().as_bytes()).await
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<Answer> {
        tokio::time::timeout(LIMIT, self.exchange(method, path, body))
            .await
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::TimedOut, "no answer in time")))
    }

    async fn exchange(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<Answer> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        let message = [head.as_bytes(), body].concat();
        self.stream.write_all(&message).await?;
        let status = self.line().await?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(ErrorKind::InvalidData)?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let length = usize::from_str_radix(&self.line().await?, 16).map_err(|_| ErrorKind::InvalidData)?;
                let mut chunk = vec![0; length + 2];
                self.stream.read_exact(&mut chunk).await?;
                answer.body.extend_from_slice(&chunk[..length]);
                if length == 0 {
                    break;
                }
            }
        } else if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().map_err(|_| ErrorKind::InvalidData)?];
            self.stream.read_exact(&mut answer.body).await?;
        }
        Ok(answer)
    }

    async fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
