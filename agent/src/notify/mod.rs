//! Reports the agent's state to systemd (sd_notify(3), `Type=notify`), without its library.

use nix::sys::signal::Signal;
use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

/// The longest status for systemd, which shows one line.
const MAX_STATUS_CHARS: usize = 200;

/// The notification socket, if there is one, and how often systemd wants a sign of life.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// The socket in the environment; if missing or unusable, nothing is reported.
    pub(crate) fn from_env() -> Self {
        let address = env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty());
        let Some(address) = address else { return Self::default() };
        let text = |name| env::var(name).unwrap_or_default();
        match Self::new(&address, &text("WATCHDOG_USEC"), &text("WATCHDOG_PID")) {
            Ok(notifier) => notifier,
            Err(error) => {
                tracing::warn!(address = %address.display(), %error, "cannot reach systemd's notification socket");
                Self::default()
            }
        }
    }

    /// `address` is a path, or a name in the abstract namespace after `@`; the watchdog is that of process `watchdog_pid`.
    fn new(address: &OsStr, watchdog_usec: &str, watchdog_pid: &str) -> io::Result<Self> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(address)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // A receiver that doesn't read must not block us.
        socket.set_nonblocking(true)?;
        let ours = watchdog_pid.is_empty() || watchdog_pid.parse() == Ok(std::process::id());
        let usec = watchdog_usec.parse().ok().filter(|&usec: &u64| ours && usec > 0);
        Ok(Self { socket: Some(socket), watchdog: usec.map(Duration::from_micros) })
    }

    /// How long the agent may be silent: half of what systemd waits for.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.watchdog.map(|watchdog| watchdog / 2)
    }

    /// The agent has started.
    pub(crate) fn ready(&self) {
        self.send("READY=1");
        if let Some(socket) = &self.socket {
            for signal in [Signal::SIGTERM, Signal::SIGINT] {
                if let Err(error) = kernel::notify::announce_stop(signal, socket) {
                    tracing::debug!(%signal, %error, "cannot announce the end to systemd");
                }
            }
        }
    }

    /// A sign of life.
    pub(crate) fn alive(&self) {
        if self.watchdog.is_some() {
            self.send("WATCHDOG=1");
        }
    }

    /// What `systemctl status` shows.
    pub(crate) fn status(&self, line: &str) {
        if self.socket.is_some() {
            let line: String = line.chars().filter(|c| !c.is_control()).take(MAX_STATUS_CHARS).collect();
            self.send(&format!("STATUS={line}"));
        }
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(message.as_bytes()) {
            tracing::debug!(%error, message, "cannot send a message to systemd");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 512];
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    #[test]
    fn systemd_is_notified_by_path_and_by_abstract_name() {
        let name = format!("landfall-notify-{}", std::process::id());
        let path = env::temp_dir().join(&name);
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes()).unwrap()).unwrap();
        let sockets = [(by_path, path.clone().into_os_string()), (by_name, format!("@{name}").into())];
        for (socket, address) in sockets {
            let notifier = Notifier::new(&address, "3000000", "").unwrap();
            assert_eq!(notifier.interval(), Some(Duration::from_millis(1500)));
            notifier.alive();
            assert_eq!(received(&socket), "WATCHDOG=1");
            notifier.status("registered\nREADY=0\u{7}");
            assert_eq!(received(&socket), "STATUS=registeredREADY=0", "no second assignment slips in");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_watchdog_of_another_process_is_not_ours() {
        let name = format!("landfall-notify-other-{}", std::process::id());
        let _socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes()).unwrap()).unwrap();
        let address = format!("@{name}");
        let interval = |usec, pid| Notifier::new(address.as_ref(), usec, pid).unwrap().interval();
        assert_eq!(interval("1000000", "1"), None);
        assert_eq!(interval("0", ""), None);
        assert_eq!(interval("soon", ""), None);
        assert_eq!(interval("1000000", &std::process::id().to_string()), Some(Duration::from_millis(500)));
        assert!(Notifier::new("/nonexistent/socket".as_ref(), "", "").is_err());
        // Without a receiver it is fine.
        Notifier::default().alive();
    }
}
