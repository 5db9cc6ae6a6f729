//! Ports that nobody else gets meanwhile.

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, setsockopt, socket, sockopt::ReuseAddr,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    os::fd::{AsRawFd, OwnedFd},
};

/// A TCP port of the loopback at which nobody listens, so that connections are refused. The kernel gives it to nobody else as long as this
/// lives, but a program that is told its number can listen there: Rust's and Go's listeners, and those of most servers, have the
/// option SO_REUSEADDR, and the kernel looks whether another one listens.
#[derive(Debug)]
pub struct Held {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl Default for Held {
    fn default() -> Self {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&socket, ReuseAddr, &true).unwrap();
        bind(socket.as_raw_fd(), &SockaddrIn::from(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))).unwrap();
        let bound: SockaddrIn = getsockname(socket.as_raw_fd()).unwrap();
        Self { address: SocketAddr::from((bound.ip(), bound.port())), _socket: socket }
    }
}

impl Held {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::ErrorKind,
        net::{TcpListener, TcpStream},
    };

    #[test]
    fn a_held_port_refuses_until_somebody_listens_there_and_again_thereafter() {
        let held = Held::default();
        let refused = || TcpStream::connect(held.address()).unwrap_err().kind();
        assert_eq!(refused(), ErrorKind::ConnectionRefused);
        for _ in 0..2 {
            let listener = TcpListener::bind(held.address()).unwrap();
            let _client = TcpStream::connect(held.address()).unwrap();
            let _served = listener.accept().unwrap();
            assert_eq!(TcpListener::bind(held.address()).unwrap_err().kind(), ErrorKind::AddrInUse);
        }
        // A child that another thread forked meanwhile has the listener until it is replaced by its program.
        assert!(crate::wait::comes(|| TcpStream::connect(held.address()).is_err()));
    }

    #[test]
    fn a_held_port_is_given_to_nobody_else() {
        let held: Vec<_> = (0..300).map(|_| Held::default()).collect();
        let mut others = Vec::new();
        for _ in 0..1000 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            others.push(listener.local_addr().unwrap().port());
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            others.push(client.local_addr().unwrap().port());
        }
        assert!(held.iter().all(|held| !others.contains(&held.port())));
    }
}
