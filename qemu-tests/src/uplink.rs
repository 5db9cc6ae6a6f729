//! The segment's gateway: DHCP, DNS and a way to services on the host's loopback, without privileges.
//!
//! A QEMU without a machine joins its user-mode network (slirp) to a switch port. It must be running (no `-S`): a stopped
//! QEMU delivers no packets (`qemu_can_send_packet` in its net/net.c).

use crate::{
    arch::Arch,
    process::Process,
    switch::{PortId, Switch},
    vm::with_path,
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddrV4},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// The host's loopback, and the gateway, as machines on the segment see it.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// The segment; machines get .15, .16, … in order of their first request.
pub const SUBNET: &str = "10.0.2.0/24";
const START_LIMIT: Duration = Duration::from_secs(300);

/// Why there is no uplink.
#[derive(Debug, thiserror::Error)]
pub enum UplinkError {
    /// QEMU didn't start.
    #[error("cannot start {} for the uplink; is {} installed?", Arch::X86_64.qemu, Arch::X86_64.qemu_package)]
    Spawn { source: io::Error },
    #[error("no switch port for the uplink")]
    Port { source: io::Error },
    /// It is missing, or ended.
    #[error("the uplink {what}; QEMU needs user-mode networking and -netdev stream (7.2 or later); its log is {}", log.display())]
    Gone { what: &'static str, log: PathBuf },
}

#[derive(Debug)]
pub struct Uplink {
    process: Process,
    port: PortId,
    log: PathBuf,
}

impl Uplink {
    /// Starts one on a new port; messages go to `uplink.log` in `logs`.
    pub fn start(switch: &Switch, logs: &Path) -> Result<Self, UplinkError> {
        Self::start_with(switch, logs, "")
    }

    /// Likewise; leases name `script` as the boot file, which machines get by TFTP, like all else in its directory.
    pub fn start_offering(switch: &Switch, logs: &Path, script: Option<&Path>) -> Result<Self, UplinkError> {
        let mut options = OsString::new();
        if let Some((directory, name)) = script.and_then(|script| Some((script.parent()?, script.file_name()?))) {
            options.push(with_path(",tftp=", directory, ""));
            options.push(with_path(",bootfile=", Path::new(name), ""));
        }
        Self::start_with(switch, logs, options)
    }

    /// Likewise; `port` of the host's loopback leads to a machine's server.
    pub fn start_leading(switch: &Switch, logs: &Path, port: u16, server: SocketAddrV4) -> Result<Self, UplinkError> {
        let (address, server_port) = (server.ip(), server.port());
        Self::start_with(switch, logs, format!(",hostfwd=tcp:127.0.0.1:{port}-{address}:{server_port}"))
    }

    fn start_with(switch: &Switch, logs: &Path, options: impl AsRef<OsStr>) -> Result<Self, UplinkError> {
        let port = switch.add_port("uplink").map_err(|source| UplinkError::Port { source })?;
        let log = logs.join("uplink.log");
        let file = File::create(&log).map_err(|source| UplinkError::Spawn { source })?;
        let mut stream = OsString::from("stream,id=segment,server=off,addr.type=unix,addr.path=");
        stream.push(switch.port_path(port));
        let mut command = Command::new(Arch::X86_64.qemu);
        command.args(["-name", "uplink", "-machine", "none", "-nodefaults", "-display", "none"]);
        let mut gateway = OsString::from(format!("user,id=host,net={SUBNET},ipv6=off"));
        gateway.push(options);
        command.arg("-netdev").arg(gateway).args(["-netdev", "hubport,id=h0,hubid=0,netdev=host"]);
        command.arg("-netdev").arg(stream).args(["-netdev", "hubport,id=h1,hubid=0,netdev=segment"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let process = Process::spawn(command).map_err(|source| UplinkError::Spawn { source })?;
        let mut uplink = Self { process, port, log };
        if !switch.wait_connected(port, START_LIMIT) {
            uplink.check()?;
            return Err(UplinkError::Gone { what: "did not connect to the switch", log: uplink.log });
        }
        Ok(uplink)
    }

    /// Its port, for disconnecting it.
    pub fn port(&self) -> PortId {
        self.port
    }

    /// Fails when it ended.
    pub fn check(&mut self) -> Result<(), UplinkError> {
        match self.process.ended() {
            Ok(None) => Ok(()),
            _ => Err(UplinkError::Gone { what: "ended", log: self.log.clone() }),
        }
    }
}
