//! The cluster's name server must have the tenth address of the service network. Where another service came first, it goes.

use crate::{
    Context,
    cluster::objects::{self, POD, SERVICE, text},
    taint::install_config,
};
use kube::core::DynamicObject;
use serde_json::Value;
use std::{net::IpAddr, time::Duration};

const ROUNDS: u32 = 45;
const INTERVAL: Duration = Duration::from_secs(20);
const TRIES: u32 = 5;
const DELETION_INTERVAL: Duration = Duration::from_secs(10);
const OWNER: (&str, &str) = ("openshift-dns", "dns-default");
/// Its pods make the service again.
const OPERATOR_NAMESPACE: &str = "openshift-dns-operator";

/// The address that the name server has: the network's with its last byte 10.
fn address(network: &str) -> Option<IpAddr> {
    match network.split('/').next()?.parse().ok()? {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            Some(IpAddr::from([a, b, c, 10]))
        }
        IpAddr::V6(address) => {
            let mut bytes = address.octets();
            *bytes.last_mut()? = 10;
            Some(IpAddr::from(bytes))
        }
    }
}

/// Ends once the name server has its address, or after fifteen minutes, or with the work.
pub(crate) async fn run(ctx: &Context) {
    let config = install_config(&ctx.cluster).await.unwrap_or_default();
    let network = config.pointer("/networking/serviceNetwork/0").and_then(Value::as_str).unwrap_or_default();
    let Some(address) = address(network) else {
        tracing::warn!(network, "no address of the cluster's name server follows from the service network");
        return;
    };
    for _ in 0..ROUNDS {
        if ctx.end.is_set() {
            return;
        }
        match owner(ctx, address).await {
            Some(owner) if (owner.0.as_str(), owner.1.as_str()) == OWNER => return,
            // Its successor may be there at once.
            Some(owner) => take_from(ctx, &owner).await,
            None => {
                tokio::select! {
                    () = ctx.clock.sleep(INTERVAL) => {}
                    () = ctx.end.wait() => return,
                }
            }
        }
    }
    tracing::warn!(%address, "the cluster's name server has not got its address");
}

/// Namespace and name of the service with this address.
async fn owner(ctx: &Context, address: IpAddr) -> Option<(String, String)> {
    let services = ctx.cluster.list(SERVICE, None, "").await;
    let services =
        services.inspect_err(|error| tracing::warn!(error = error as &dyn std::error::Error, "no services")).ok()?;
    let owner = services.iter().find(|service| has_address(service, address))?;
    Some((objects::namespace(&owner.metadata).to_owned(), objects::name(&owner.metadata).to_owned()))
}

/// However the address is written.
fn has_address(service: &DynamicObject, address: IpAddr) -> bool {
    text(service, "/spec/clusterIP").parse() == Ok(address)
}

async fn take_from(ctx: &Context, (namespace, name): &(String, String)) {
    tracing::warn!(namespace, name, "this service has the address of the cluster's name server: deleting it");
    let delete = || ctx.cluster.delete(SERVICE, Some(namespace), name);
    if tried(ctx, delete).await {
        tried(ctx, || ctx.cluster.delete_all(POD, OPERATOR_NAMESPACE)).await;
    }
}

/// A few tries, with a pause between two of them. What is gone already is deleted.
async fn tried<F: Future<Output = Result<(), crate::cluster::CallError>>>(
    ctx: &Context,
    mut act: impl FnMut() -> F,
) -> bool {
    for attempt in 0..TRIES {
        if attempt > 0 {
            tokio::select! {
                () = ctx.clock.sleep(DELETION_INTERVAL) => {}
                () = ctx.end.wait() => return false,
            }
        }
        match act().await {
            Err(error) if !error.is_not_found() => {
                tracing::warn!(error = &error as &dyn std::error::Error, "not deleted");
            }
            _ => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_byte_is_ten() {
        assert_eq!(address("10.56.20.0/24").unwrap().to_string(), "10.56.20.10");
        assert_eq!(address("2002:db8::/64").unwrap().to_string(), "2002:db8::a");
        assert_eq!(address("172.30.0.0/16").unwrap().to_string(), "172.30.0.10");
        assert!(address("").is_none() && address("x/16").is_none());
    }

    #[test]
    fn a_service_has_an_address_whatever_its_notation() {
        let service = |ip: &str| DynamicObject {
            types: None,
            metadata: Default::default(),
            data: json!({"spec": {"clusterIP": ip}}),
        };
        let wanted = address("2002:db8::/64").unwrap();
        assert!(has_address(&service("2002:db8::a"), wanted) && has_address(&service("2002:DB8:0:0::A"), wanted));
        assert!(!["2002:db8::10", "None", ""].iter().any(|other| has_address(&service(other), wanted)));
    }
}
