//! A process that keeps a server for tests in other processes: to start one takes longer than most of them.

use crate::{ApiServer, lock};
use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::{
        net::{UnixListener, UnixStream},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};
use testkit::{turn, wait};

pub(crate) const STOP: &str = "stop";
pub(crate) const RESTART: &str = "restart";
const DONE: &str = "done";
/// Where a keeper is to write down its socket.
const NOTE: &str = "SIMULATOR_KEEPER_NOTE";
/// When nobody has used the server for so long, its keeper ends.
const UNUSED: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// A connection to the keeper: while it is there, the server stays.
pub(crate) struct Kept(Mutex<BufReader<UnixStream>>);

impl Kept {
    /// The keeper that runs, or else a new one, which is this program running its test `keeper`; the server's port and directory.
    pub(crate) fn find(keeper: &str) -> (Self, u16, PathBuf) {
        let directory = turn::directory();
        let note = directory.join("api-server-keeper");
        if let Some(found) = Self::connect(&note) {
            return found;
        }
        let _ = fs::remove_file(&note);
        let log = directory.join("api-server-keeper.log");
        let output = File::create(&log).unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", keeper, "--ignored", "--nocapture"]).env(NOTE, &note).stdin(Stdio::null());
        // It is not this test's any more: neither its end nor what it says.
        command.process_group(0).stdout(output.try_clone().unwrap()).stderr(output);
        let mut child = command.spawn().unwrap();
        let found = wait::found(|| {
            let ended = child.try_wait().unwrap();
            let said = || fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "the server's keeper ended ({ended:?}): {}", said());
            Self::connect(&note)
        });
        found.unwrap_or_else(|| panic!("no server is kept: {}", fs::read_to_string(&log).unwrap_or_default()))
    }

    /// None where nobody listens, or not any more.
    fn connect(note: &Path) -> Option<(Self, u16, PathBuf)> {
        let socket = fs::read_to_string(note).ok()?;
        let mut stream = BufReader::new(UnixStream::connect(socket).ok()?);
        let mut greeting = String::new();
        stream.read_line(&mut greeting).ok()?;
        let (port, directory) = greeting.strip_suffix('\n')?.split_once(' ')?;
        Some((Self(Mutex::new(stream)), port.parse().ok()?, directory.into()))
    }

    /// Has the keeper do this, and waits until it is done.
    pub(crate) fn tell(&self, what: &str) {
        let mut stream = lock(&self.0);
        writeln!(stream.get_mut(), "{what}").unwrap();
        let mut answer = String::new();
        stream.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim_end(), DONE, "the server's keeper has ended");
    }
}

/// Starts a server and keeps it for whoever connects, one after the other, until nobody does any more. Returns at once where no other test
/// has started this one.
pub fn keep() {
    let Some(note) = env::var_os(NOTE).map(PathBuf::from) else { return };
    let server = ApiServer::start().expect("its programs are there");
    // A socket's path must be short.
    let place = tempfile::Builder::new().prefix("simulator-").tempdir_in("/tmp").unwrap();
    let socket = place.path().join("keeper");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let draft = note.with_extension("draft");
    fs::write(&draft, socket.to_str().unwrap()).unwrap();
    fs::rename(&draft, &note).unwrap();
    let mut used = Instant::now();
    while used.elapsed() < UNUSED {
        match listener.accept() {
            Ok((stream, _)) => {
                serve(stream, &server);
                used = Instant::now();
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// Until the other side hangs up.
fn serve(stream: UnixStream, server: &ApiServer) {
    stream.set_nonblocking(false).unwrap();
    // A test that failed may have left it stopped.
    server.resume();
    let mut reader = BufReader::new(stream);
    let greeting = format!("{} {}\n", server.port(), server.directory().display());
    let mut answer = greeting;
    while reader.get_mut().write_all(answer.as_bytes()).is_ok() {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(1..) if line.trim_end() == STOP => server.stop(),
            Ok(1..) if line.trim_end() == RESTART => server.restart(),
            _ => return,
        }
        answer = format!("{DONE}\n");
    }
}
