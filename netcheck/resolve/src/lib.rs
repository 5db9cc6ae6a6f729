//! From a name to a connection, without the C library: musl's resolver gives a name up when a server refuses the question
//! for its IPv6 addresses, even if it has the IPv4 ones.
//!
//! Names are looked up by the host's own settings (resolv.conf(5), hosts(5)), which are read again for every connection, since
//! a DHCP lease changes them. A and AAAA are asked at once, and either suffices. Addresses are tried in turn, each next one
//! while the last has not answered (RFC 8305). The decisions are pure; sockets and time are behind traits.

mod answer;
mod connect;
mod drive;
mod hosts;
mod lookup;
mod message;
mod names;
mod order;
mod question;
mod resolver;
mod settings;
#[cfg(test)]
mod simulation;
mod socket;
mod wire;

pub use answer::{Answer, Cause, Failure, Outcome, Source};
pub use connect::{AttemptFailure, ConnectError, connect};
pub use hosts::{Entry, Hosts};
pub use message::{Question, Record, Reply};
pub use names::{LookupError, Names};
pub use order::{order, source_towards};
pub use resolver::{ReadError, Resolver};
pub use settings::Settings;
