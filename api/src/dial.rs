//! Our own resolver and connector for the HTTP client: the C library's resolver gives up if a server answers only half of the
//! question, and ureq's connector tries addresses one after the other.

use crate::proxy::Endpoint;
use resolve::{LookupError, Names};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};
use ureq::{
    Error,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::{
            Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, ShutdownHandle, Transport,
        },
    },
};

/// Time limit for a lookup, and for a connection without another limit.
const LIMIT: Duration = Duration::from_secs(30);
/// Maximum number of addresses in ureq.
const MAX_ADDRESSES: usize = 16;

/// Why a name in a request could not be resolved, if `error` says so.
pub fn lookup_error(error: &Error) -> Option<&LookupError> {
    match error {
        Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// The remaining time for a step. `None`: unlimited.
fn remaining(timeout: NextTimeout) -> Result<Option<Duration>, Error> {
    match timeout.not_zero() {
        Some(_) if timeout.after.is_zero() => Err(Error::Timeout(timeout.reason)),
        left => Ok(left.map(|left| *left)),
    }
}

/// Looks names up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup(Names);

impl Resolver for Lookup {
    fn resolve(&self, uri: &Uri, _: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let Endpoint { host, port } = Endpoint::from_uri(uri).ok_or(Error::HostNotFound)?;
        let limit = remaining(timeout)?.map_or(LIMIT, |left| left.min(LIMIT));
        let started = Instant::now();
        let found = self.0.addresses(&host, port, limit).map_err(|error| match error {
            // The caller's time is up, which says more than the lookup's error.
            LookupError::Failed { .. } if limit < LIMIT && started.elapsed() >= limit => Error::Timeout(timeout.reason),
            error => Error::Io(io::Error::other(error)),
        })?;
        let mut addresses = self.empty();
        found.into_iter().take(MAX_ADDRESSES).for_each(|address| addresses.push(address));
        Ok(addresses)
    }
}

/// Connects to the first address that accepts a connection.
#[derive(Debug)]
pub(crate) struct Dialer;

impl<In: Transport> Connector<In> for Dialer {
    type Out = Either<In, Tcp>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        if let Some(there) = chained {
            return Ok(Some(Either::A(there)));
        }
        let limit = remaining(details.timeout)?.unwrap_or(LIMIT);
        let stream = resolve::connect(&details.addrs, limit).map_err(|error| match error.is_timeout() {
            true => Error::Timeout(details.timeout.reason),
            false => Error::Io(io::Error::new(error.kind(), error)),
        })?;
        let config = details.config;
        if config.no_delay() {
            stream.set_nodelay(true)?;
        }
        let stream = Arc::new(stream);
        let handle: Weak<TcpStream> = Arc::downgrade(&stream);
        (details.register_shutdown)(handle as Weak<dyn ShutdownHandle>)?;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Either::B(Tcp { stream, buffers })))
    }
}

#[derive(Debug)]
pub(crate) struct Tcp {
    /// Shared with a handle that ends it while another thread reads.
    stream: Arc<TcpStream>,
    buffers: LazyBuffers,
}

impl Transport for Tcp {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.stream.set_write_timeout(remaining(timeout)?)?;
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        (&*self.stream).write_all(output).map_err(|error| failed(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let limit = remaining(timeout)?;
        let deadline = limit.map(|limit| Instant::now() + limit);
        self.stream.set_read_timeout(limit)?;
        let count = loop {
            match ((&*self.stream).read(self.buffers.input_append_buf()), deadline) {
                // The kernel restarts the call after a signal, but not with a read timeout (signal(7)).
                (Err(error), Some(deadline)) if error.kind() == io::ErrorKind::Interrupted => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(Error::Timeout(timeout.reason));
                    }
                    self.stream.set_read_timeout(Some(left))?;
                }
                (read, _) => break read.map_err(|error| failed(error, timeout))?,
            }
        };
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        // Unexpected bytes, or the end, mean that it is not usable.
        let is_silent = |mut stream: &TcpStream| -> io::Result<bool> {
            stream.set_nonblocking(true)?;
            let read = stream.read(&mut [0]);
            stream.set_nonblocking(false)?;
            Ok(read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
        };
        is_silent(&self.stream).unwrap_or(false)
    }
}

fn failed(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}
