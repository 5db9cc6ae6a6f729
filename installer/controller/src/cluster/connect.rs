//! A client whose names are looked up by the program's own resolver: musl's gives up where a server refuses half of the question.

use api::proxy::ProxyVariables;
use http::Uri;
use hyper_util::{
    client::legacy::{
        Client as Http,
        connect::{HttpConnector, dns::Name, proxy::Tunnel},
    },
    rt::TokioExecutor,
};
use kube::{Client, Config, client::ConfigExt};
use resolve::Names;
use std::{io, time::Duration};
use tower::{BoxError, ServiceBuilder};

/// Of a lookup.
const LIMIT: Duration = Duration::from_secs(10);

/// The stack that kube itself builds, over such a connector.
macro_rules! client_over {
    ($config:expr, $connector:expr) => {{
        let https = $config.rustls_https_connector_with_connector($connector)?;
        let service = ServiceBuilder::new()
            .layer($config.base_uri_layer())
            .option_layer($config.auth_layer()?)
            .map_err(BoxError::from)
            .service(Http::builder(TokioExecutor::new()).build(https));
        Ok(Client::new(service, $config.default_namespace))
    }};
}

/// Connects nothing yet.
pub(super) fn client(config: Config) -> Result<Client, kube::Error> {
    let names = Names::default();
    let lookup = tower::service_fn(move |name: Name| {
        let names = names.clone();
        async move {
            let found = tokio::task::spawn_blocking(move || names.addresses(name.as_str(), 0, LIMIT)).await;
            Ok::<_, io::Error>(found.map_err(io::Error::other)?.map_err(io::Error::other)?.into_iter())
        }
    });
    let mut connector = HttpConnector::new_with_resolver(lookup);
    connector.enforce_http(false);
    connector.set_connect_timeout(config.connect_timeout);
    match config.proxy_url.clone() {
        Some(proxy) => client_over!(config, through(&proxy, &config.cluster_url, connector)),
        None => client_over!(config, connector),
    }
}

/// A tunnel through a proxy, with the user and password of its URL.
fn through<C>(proxy: &Uri, target: &Uri, connector: C) -> Tunnel<C> {
    let url = proxy.to_string();
    let chosen = ProxyVariables::from_pairs(&[("HTTP_PROXY", &url), ("HTTPS_PROXY", &url)]).choose(target);
    let authorization = chosen.server().and_then(|server| server.authorization.as_ref());
    let tunnel = Tunnel::new(proxy.clone(), connector);
    match authorization.and_then(|text| http::HeaderValue::from_str(text.expose()).ok()) {
        Some(header) => tunnel.with_auth(header),
        None => tunnel,
    }
}
