//! A shell inside a machine that runs [`crate::images::shell_system`], controlled over a virtio port: scripts go in,
//! their output and exit status come out, byte for byte.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// Most that one script may write.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;
/// A script's end on the wire.
const END: &str = ".";

/// What went wrong in the shell or on the way to it.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The connection failed, or the script took too long.
    #[error("no answer to `{script}` within {} s", limit.as_secs())]
    Silent {
        script: String,
        /// How long was waited.
        limit: Duration,
        source: io::Error,
    },
    /// It ended with a status other than 0.
    #[error("`{script}` ended with {}: {}", answer.code, String::from_utf8_lossy(&answer.errors).trim_end())]
    Failed { script: String, answer: Answer },
}

/// What a script did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub code: u8,
    /// Standard output.
    pub output: Vec<u8>,
    /// Standard error.
    pub errors: Vec<u8>,
}

/// The shell; one script at a time.
#[derive(Debug)]
pub struct Shell {
    stream: BufReader<UnixStream>,
}

impl Shell {
    /// Connects to the port's socket.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self { stream: BufReader::new(UnixStream::connect(path)?) })
    }

    /// Runs `script`; its standard output when it succeeds within `limit`.
    pub fn run(&mut self, script: &str, limit: Duration) -> Result<Vec<u8>, ShellError> {
        let answer = self.ask(script, limit)?;
        if answer.code == 0 { Ok(answer.output) } else { Err(ShellError::Failed { script: script.to_owned(), answer }) }
    }

    /// Runs `script`, however it ends. After a missing answer the shell can't be used any more.
    pub fn ask(&mut self, script: &str, limit: Duration) -> Result<Answer, ShellError> {
        self.exchange(script, limit).map_err(|source| ShellError::Silent { script: script.to_owned(), limit, source })
    }

    fn exchange(&mut self, script: &str, limit: Duration) -> io::Result<Answer> {
        if script.lines().any(|line| line == END) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a line of the script is a lone dot"));
        }
        let stream = self.stream.get_mut();
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(format!("{script}\n{END}\n").as_bytes())?;
        let mut head = String::new();
        self.stream.by_ref().take(64).read_line(&mut head)?;
        let (code, output_len, errors_len) = parse_head(&head)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("not an answer's head: {head:?}")))?;
        let mut part = |len: u64| {
            let mut bytes = Vec::new();
            self.stream.by_ref().take(len).read_to_end(&mut bytes)?;
            if u64::try_from(bytes.len()).is_ok_and(|have| have == len) {
                Ok(bytes)
            } else {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{} of {len} bytes came", bytes.len())))
            }
        };
        Ok(Answer { code, output: part(output_len)?, errors: part(errors_len)? })
    }
}

/// Exit status and the two sizes.
fn parse_head(line: &str) -> Option<(u8, u64, u64)> {
    let mut words = line.strip_suffix('\n')?.split(' ');
    let head = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (words.next().is_none() && head.1 <= MAX_OUTPUT_BYTES && head.2 <= MAX_OUTPUT_BYTES).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    const LIMIT: Duration = testkit::wait::LIMIT;
    /// Of one that never says the rest.
    const SILENCE: Duration = Duration::from_secs(1);

    /// The answers to scripts of two lines (one and the end's), given whatever is asked.
    fn answering(answers: &'static [&'static str]) -> (tempfile::TempDir, Shell) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shell");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            for answer in answers {
                let mut lines = String::new();
                while !lines.ends_with("\n.\n") {
                    stream.read_line(&mut lines).unwrap();
                }
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        });
        let shell = Shell::connect(&path).unwrap();
        (dir, shell)
    }

    #[test]
    fn what_a_script_wrote_comes_back_in_its_two_parts() {
        let (_dir, mut shell) = answering(&["0 4 1\nab\n.!", "3 0 5\nno ip", "0 9 0\nshort", "hello\n"]);
        assert_eq!(shell.run("a", LIMIT).unwrap(), b"ab\n.");
        assert_eq!(shell.run("ip", LIMIT).unwrap_err().to_string(), "`ip` ended with 3: no ip");
        let errors = [shell.ask("b", SILENCE).unwrap_err(), shell.ask("c", SILENCE).unwrap_err()];
        assert!(errors.iter().all(|error| matches!(error, ShellError::Silent { .. })), "{errors:?}");
        assert!(matches!(shell.ask("x\n.\ny", SILENCE), Err(ShellError::Silent { .. })));
    }

    #[test]
    fn heads_that_are_none() {
        assert_eq!(parse_head("0 1 2\n"), Some((0, 1, 2)));
        for line in ["", "0 1 2", "0 1\n", "0 1 2 3\n", "256 1 2\n", "0 -1 2\n", "0 99999999999 2\n"] {
            assert_eq!(parse_head(line), None, "{line:?}");
        }
    }
}
