//! Paths of members (`$.credential.access_token`), all that kube needs of JSONPath: where a kubeconfig names a program that prints a token, such
//! a path says where in its output. The library of this name brings a parser generator and a library of regular expressions.

use serde_json::Value;

/// Something else than members.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not a path of members, such as $.credential.access_token")]
pub struct NotMembers(String);

/// Queries of a document.
pub trait JsonPath {
    /// The value at `path`; none if there is none.
    ///
    /// # Errors
    ///
    /// `path` has anything but names of members.
    fn query(&self, path: &str) -> Result<Vec<&Self>, NotMembers>;
}

impl JsonPath for Value {
    fn query(&self, path: &str) -> Result<Vec<&Self>, NotMembers> {
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        let names: Vec<&str> = match path.strip_prefix("$.") {
            Some(names) => names.split('.').collect(),
            None => Vec::new(),
        };
        if names.is_empty() || !names.iter().all(|name| is_name(name)) {
            return Err(NotMembers(path.to_owned()));
        }
        Ok(names.into_iter().try_fold(self, |value, name| value.get(name)).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;

    #[test]
    fn members_are_found_and_nothing_else_is_understood() {
        let document = serde_json::json!({"credential": {"access_token": "t"}});
        assert_eq!(document.query("$.credential.access_token").unwrap(), [&Value::from("t")]);
        assert!(document.query("$.credential.expiry").unwrap().is_empty());
        for path in ["$", "$.", "$..a", "$.a[0]", "credential", "$.a[?(@.b)]"] {
            assert!(document.query(path).is_err(), "{path}");
        }
    }
}
