//! Nutanix, with placeholders as on vSphere.

use crate::install_config::facts::Facts;
use crate::install_config::platform::vips;
use serde_json::{Map, Value, json};

const PORT: u16 = 9440;

pub(crate) fn fields(facts: &Facts) -> Result<Value, String> {
    let mut fields = match facts.record.cluster.user_managed_networking {
        true => Map::new(),
        false => vips::required(facts)?,
    };
    let endpoint = |address: &str| json!({"address": address, "port": PORT});
    let central = json!({
        "endpoint": endpoint("prism.central.placeholder.address"),
        "username": "username_placeholder",
        "password": "password_placeholder",
    });
    let element = json!({
        "endpoint": endpoint("prism.element.placeholder.address"),
        "uuid": "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
        "name": "prism_endpoint_name_placeholder",
    });
    fields.insert("prismCentral".to_owned(), central);
    fields.insert("prismElements".to_owned(), json!([element]));
    fields.insert("subnetUUIDs".to_owned(), json!(["yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy"]));
    Ok(fields.into())
}
