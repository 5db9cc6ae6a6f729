//! The control plane's servers, on the machine that has the cluster's address.

use super::{API_PORT, CONFIG_PORT, Settings, address, https, machine_config};
use anyhow::{Context, Result};
use simulator::{Client, ClientError};
use std::{
    io,
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Takes the cluster's address and serves there: the API of the real server, and configs.
pub(super) fn start(settings: &Settings) -> Result<()> {
    let (kubernetes, configs) = (listen(API_PORT)?, listen(CONFIG_PORT)?);
    let api = settings.api;
    thread::spawn(move || {
        for client in kubernetes.incoming().flatten() {
            thread::spawn(move || {
                if let Err(error) = pass_on(client, api) {
                    eprintln!("no connection to the API server at {api}: {error}");
                }
            });
        }
    });
    let copy = settings.clone();
    https::serve(configs, https::server(settings)?, move |request| machine_config::answer(&copy, request));
    address::take(settings.address)
}

pub(super) fn listen(port: u16) -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).with_context(|| format!("listening on port {port}"))
}

/// Bytes both ways until one side ends. They are encrypted for the API server itself, which has a certificate of this address.
fn pass_on(client: TcpStream, api: SocketAddr) -> io::Result<()> {
    let server = TcpStream::connect_timeout(&api, CONNECT_TIMEOUT)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || copy(from_client, to_server));
    copy(server, client);
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    // Either side may hang up at any time.
    let _ = io::copy(&mut from, &mut to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Whether some machine has the cluster's address and serves there.
pub(super) fn is_served(settings: &Settings) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((settings.address, API_PORT)), CONNECT_TIMEOUT).is_ok()
}

/// Masters, the first to register first: names, and whether they are ready.
pub(super) fn masters(api: &Client) -> Result<Vec<(String, bool)>, ClientError> {
    let mut masters = api.list("/api/v1/nodes?labelSelector=node-role.kubernetes.io/master")?;
    let text =
        |node: &serde_json::Value, member: &str| node["metadata"][member].as_str().unwrap_or_default().to_owned();
    masters.sort_by_key(|node| (text(node, "creationTimestamp"), text(node, "name")));
    Ok(masters.iter().map(|node| (text(node, "name"), is_ready(node))).collect())
}

fn is_ready(node: &serde_json::Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
