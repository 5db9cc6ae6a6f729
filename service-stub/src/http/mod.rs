//! HTTP: requests in, answers out; nothing here knows what a host is.

pub mod answer;
pub mod body;
pub mod call;
pub mod connections;
pub mod file;
pub mod gzip;
pub mod hosts;
pub mod joined;
pub mod limits;
pub mod multipart;
pub mod negotiate;
pub mod pieces;
pub mod range;
pub mod rate;
pub mod stall;
pub mod tls;
pub mod unread;
pub mod work;

pub use answer::{Answer, Refusal};
pub use call::Call;
