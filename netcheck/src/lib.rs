//! What a host sees of its network: packet codecs, probes, and the checks made of them.
//!
//! Each check answers one step of the service (docs/compatibility.md#steps) and stands alone at `landfall netcheck`. It reads its
//! request, plans (pure), opens its sockets, gives up its capabilities, and only then sends and reads what comes back.

pub mod claim;
pub mod cli;
pub mod codec;
pub mod dhcp;
pub mod dns;
pub mod doctor;
pub mod endpoint;
mod event_loop;
mod files;
mod http;
pub mod image;
mod interfaces;
pub mod lldp;
pub mod mesh;
pub mod ntp;
mod pace;
mod privileges;
mod probe;
pub mod sweep;
mod sys;
pub mod tang;

pub use interfaces::{InterfacesError, Selection};
pub use privileges::PrivilegeError;
pub use probe::{SocketError, SocketName};
