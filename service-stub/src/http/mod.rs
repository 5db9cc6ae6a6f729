//! HTTP: requests in, answers out; nothing here knows what a host is.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod connections;
pub(crate) mod cors;
pub(crate) mod file;
pub(crate) mod gzip;
pub mod hosts;
pub(crate) mod joined;
pub mod limits;
pub(crate) mod multipart;
pub mod negotiate;
pub(crate) mod pieces;
pub(crate) mod range;
pub(crate) mod rate;
pub(crate) mod stall;
pub mod tls;
pub(crate) mod unread;
pub(crate) mod work;

pub(crate) use answer::{Answer, Refusal};
pub(crate) use call::Call;
