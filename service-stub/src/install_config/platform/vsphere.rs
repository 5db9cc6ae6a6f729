//! vSphere. Nothing is known of the place: users replace the placeholders once the cluster is up.

use crate::install_config::facts::Facts;
use crate::install_config::platform::vips;
use serde_json::{Map, Value, json};

/// Since when there may be several places.
const PLACES_SINCE: &str = "4.13";
const CLUSTER: &str = "clusterplaceholder";
const DATACENTER: &str = "datacenterplaceholder";
const DATASTORE: &str = "defaultdatastoreplaceholder";
const FOLDER: &str = "folderplaceholder";
const NETWORK: &str = "networkplaceholder";
const PASSWORD: &str = "passwordplaceholder";
const SERVER: &str = "vcenterplaceholder";
const USER: &str = "usernameplaceholder";

pub(crate) fn fields(facts: &Facts) -> Result<Value, String> {
    let mut fields = match facts.record.cluster.user_managed_networking {
        true => Map::new(),
        false => vips::required(facts)?,
    };
    let place = if facts.is_older(PLACES_SINCE) { one_place() } else { places() };
    if let Value::Object(place) = place {
        fields.extend(place);
    }
    if facts.record.user_balanced() {
        fields.insert("loadBalancer".to_owned(), json!({"type": "UserManaged"}));
    }
    Ok(fields.into())
}

fn one_place() -> Value {
    json!({
        "cluster": CLUSTER,
        "vCenter": SERVER,
        "network": NETWORK,
        "defaultDatastore": DATASTORE,
        "username": USER,
        "password": PASSWORD,
        "datacenter": DATACENTER,
    })
}

fn places() -> Value {
    json!({
        "vcenters": [{"server": SERVER, "user": USER, "password": PASSWORD, "datacenters": [DATACENTER]}],
        "failureDomains": [{
            "name": "assisted-generated-failure-domain",
            "region": "assisted-generated-region",
            "zone": "assisted-generated-zone",
            "server": SERVER,
            "topology": {
                "computeCluster": format!("/{DATACENTER}/host/{CLUSTER}"),
                "datacenter": DATACENTER,
                "datastore": format!("/{DATACENTER}/datastore/{DATASTORE}"),
                "folder": format!("/{DATACENTER}/vm/{FOLDER}"),
                "networks": [NETWORK],
            },
        }],
    })
}
