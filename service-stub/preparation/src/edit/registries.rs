//! The bootstrap host's `registries.conf`, where the cluster runs a registry itself: each mirror also stands for the one of the same path
//! in that registry.

use super::error::{EditError, shown};
use toml::{Table, Value};

pub(super) const PATH: &str = "/etc/containers/registries.conf";
/// Port of the registry.
const PORT: u16 = 22625;

/// The file with the mirrors added that the registry has at the name `api`, and at the host itself.
pub(super) fn with_internal(text: &[u8], api: &str) -> Result<String, EditError> {
    let refused = |reason: &str| EditError::Registries { path: PATH, reason: shown(reason) };
    let text = std::str::from_utf8(text).map_err(|error| refused(&error.to_string()))?;
    let mut conf: Table = toml::from_str(text).map_err(|error| refused(error.message()))?;
    let registries = conf.get_mut("registry").and_then(Value::as_array_mut);
    let registries = registries.ok_or_else(|| refused("it lists no registry"))?;
    for mirrors in registries.iter_mut().filter_map(|registry| registry.get_mut("mirror")?.as_array_mut()) {
        let location = |mirror: &Value| mirror.get("location").and_then(Value::as_str).map(str::to_owned);
        let known: Option<Vec<String>> = mirrors.iter().map(location).collect();
        let known = known.ok_or_else(|| refused("a mirror has no location"))?;
        let internal = known.iter().flat_map(|known| [api, "localhost"].map(|host| mirrored(known, host)));
        for location in internal {
            if !mirrors.iter().any(|mirror| mirror.get("location").and_then(Value::as_str) == Some(&location)) {
                let mirror = [("location", Value::from(location)), ("insecure", Value::from(false))];
                mirrors.push(Value::Table(mirror.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()));
            }
        }
    }
    toml::to_string(&conf).map_err(|error| refused(&error.to_string()))
}

/// The same path in the registry at `host`.
fn mirrored(location: &str, host: &str) -> String {
    let path = location.find('/').and_then(|at| location.get(at..)).unwrap_or_default();
    format!("{host}:{PORT}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "unqualified-search-registries = [\"registry.example\"]\n\n[[registry]]\nprefix = \"\"\nlocation = \
                        \"quay.io/a\"\n\n[[registry.mirror]]\nlocation = \"mirror:5000/x/y\"\ninsecure = true\n\n[[registry]]\nlocation = \"quay.io/b\"\n";

    fn locations(text: &str) -> Vec<String> {
        let conf: Table = toml::from_str(text).unwrap();
        let mirrors = conf["registry"][0]["mirror"].as_array().unwrap();
        mirrors.iter().map(|mirror| mirror["location"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn each_mirror_is_joined_by_two() {
        let made = with_internal(CONF.as_bytes(), "api-int.c.example").unwrap();
        let expected = ["mirror:5000/x/y", "api-int.c.example:22625/x/y", "localhost:22625/x/y"];
        assert_eq!(locations(&made), expected);
        let conf: Table = toml::from_str(&made).unwrap();
        assert_eq!(conf["unqualified-search-registries"][0].as_str(), Some("registry.example"));
        assert_eq!(conf["registry"][0]["mirror"][2]["insecure"].as_bool(), Some(false));
        assert!(conf["registry"][1].get("mirror").is_none());
        assert_eq!(with_internal(made.as_bytes(), "api-int.c.example").unwrap(), made);
        assert_eq!(mirrored("quay.io", "h"), "h:22625");
    }

    #[test]
    fn a_file_of_another_shape_is_refused() {
        for (text, expected) in [
            (&b"\xff"[..], "invalid utf-8"),
            (b"", "it lists no registry"),
            (b"registry = 1", "it lists no registry"),
            (b"[[registry]]\n[[registry.mirror]]\ninsecure = true", "a mirror has no location"),
            (b"[[registry]]\nmirror = [1]", "a mirror has no location"),
            (b"[", "/etc/containers/registries.conf in bootstrap.ign can't be read: "),
        ] {
            let error = with_internal(text, "api").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let deep = format!("registry = {}", "[".repeat(100_000));
        assert!(with_internal(deep.as_bytes(), "api").is_err());
    }
}
