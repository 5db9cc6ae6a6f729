//! The CycloneDX 1.5 document (ECMA-424, <https://cyclonedx.org/docs/1.5/json/>). `serialNumber` and `metadata.timestamp`, both
//! optional there, are left out: they would make each document another.

use crate::{
    cargo::{Id, Linked, Package},
    native::Native,
};
use anyhow::Context;
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: Metadata,
    components: Vec<Component>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Serialize)]
struct Metadata {
    component: Component,
}

#[derive(Debug, Serialize)]
struct Component {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "bom-ref")]
    reference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'static str>,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    scope: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Hash>,
    licenses: Vec<License>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
    #[serde(rename = "externalReferences", skip_serializing_if = "Vec::is_empty")]
    references: Vec<Reference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<Property>,
}

#[derive(Debug, Serialize)]
struct Hash {
    alg: &'static str,
    content: String,
}

#[derive(Debug, Serialize)]
struct License {
    expression: String,
}

#[derive(Debug, Serialize)]
struct Reference {
    #[serde(rename = "type")]
    kind: &'static str,
    url: String,
}

#[derive(Debug, Serialize)]
struct Property {
    name: &'static str,
    value: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    #[serde(rename = "ref")]
    reference: String,
    depends_on: BTreeSet<String>,
}

/// What is described.
#[derive(Clone, Debug)]
pub(crate) struct Program<'a> {
    /// File name.
    pub name: &'a str,
    /// The package it is built of.
    pub package: &'a str,
    pub target: &'a str,
    /// Of the file, in hexadecimal.
    pub sha256: Option<String>,
}

/// The document of a program of this workspace.
///
/// Fails where a crate states no licence: whoever reads the document relies on that.
pub(crate) fn document(linked: &Linked, native: &[Native], program: Program<'_>) -> anyhow::Result<Document> {
    let Program { name, package, target, sha256 } = program;
    let (top, what) = linked.iter().find(|(id, _)| id.name == package).context("the package itself is not linked")?;
    let mut own = of_crate(top, what)?;
    own.kind = "application";
    own.name = name.to_owned();
    own.purl = Some(format!("pkg:generic/landfall/{name}@{}", encoded(&top.version)));
    own.hashes = sha256.into_iter().map(sha256_of).collect();
    own.properties = vec![Property { name: "landfall:target", value: target.to_owned() }];

    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for (id, package) in linked {
        if id != top {
            components.push(of_crate(id, package)?);
        }
        let mut depends_on: BTreeSet<_> = package.needs.iter().map(reference).collect();
        // What comes with the compiler is linked with the program as such.
        let with = native.iter().filter(|native| native.within.as_ref() == if id == top { None } else { Some(id) });
        depends_on.extend(with.map(native_reference));
        dependencies.push(Dependency { reference: reference(id), depends_on });
    }
    for native in native {
        components.push(of_native(native));
        dependencies.push(Dependency { reference: native_reference(native), depends_on: BTreeSet::new() });
    }
    components.sort_by(|a, b| a.reference.cmp(&b.reference));
    dependencies.sort_by(|a, b| a.reference.cmp(&b.reference));
    let metadata = Metadata { component: own };
    Ok(Document { bom_format: "CycloneDX", spec_version: "1.5", version: 1, metadata, components, dependencies })
}

fn of_crate(id: &Id, package: &Package) -> anyhow::Result<Component> {
    let license =
        package.license.as_deref().with_context(|| format!("{} {} states no licence", id.name, id.version))?;
    // Only what a registry vouches for has a checksum; what has none is in this workspace, and known nowhere by its name alone.
    let published = package.sha256.is_some();
    let kind = if published { "cargo" } else { "generic/landfall" };
    Ok(Component {
        kind: "library",
        reference: reference(id),
        group: (!published).then_some("landfall"),
        name: id.name.clone(),
        version: Some(id.version.clone()),
        description: package.description.as_deref().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")),
        scope: "required",
        hashes: package.sha256.clone().into_iter().map(sha256_of).collect(),
        licenses: vec![License { expression: expression(license) }],
        purl: Some(format!("pkg:{kind}/{}@{}", id.name, encoded(&id.version))),
        references: package.repository.iter().map(|url| Reference { kind: "vcs", url: url.clone() }).collect(),
        properties: Vec::new(),
    })
}

fn of_native(native: &Native) -> Component {
    let version = native.version.as_deref().map(|version| format!("@{}", encoded(version))).unwrap_or_default();
    Component {
        kind: "library",
        reference: native_reference(native),
        group: None,
        name: native.name.to_owned(),
        version: native.version.clone(),
        description: None,
        scope: "required",
        hashes: Vec::new(),
        licenses: vec![License { expression: native.license.to_owned() }],
        purl: Some(format!("pkg:generic/{}{version}", native.name)),
        references: Vec::new(),
        properties: Vec::new(),
    }
}

fn sha256_of(content: String) -> Hash {
    Hash { alg: "SHA-256", content }
}

fn reference(id: &Id) -> String {
    format!("{}@{}", id.name, id.version)
}

/// Not the name of any crate.
fn native_reference(native: &Native) -> String {
    match &native.within {
        Some(id) => format!("{}#{}", reference(id), native.name),
        None => format!("toolchain#{}", native.name),
    }
}

/// Older manifests have `MIT/Apache-2.0` for what SPDX calls `MIT OR Apache-2.0`.
fn expression(license: &str) -> String {
    license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// A version in a package URL: `+` would be a space.
fn encoded(version: &str) -> String {
    version.replace('+', "%2B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_become_spdx_expressions() {
        for (said, expected) in [
            ("MIT OR Apache-2.0", "MIT OR Apache-2.0"),
            ("MIT/Apache-2.0", "MIT OR Apache-2.0"),
            ("Apache-2.0 / MIT", "Apache-2.0 OR MIT"),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", "(MIT OR Apache-2.0) AND Unicode-3.0"),
        ] {
            assert_eq!(expression(said), expected);
        }
    }

    #[test]
    fn a_crate_without_licence_is_refused() {
        let id = Id { name: "a".into(), version: "1.0.0".into() };
        let package = Package {
            license: None,
            description: None,
            repository: None,
            sha256: None,
            manifest: "/c/Cargo.toml".into(),
            needs: BTreeSet::new(),
        };
        let program = Program { name: "a", package: "a", target: "t", sha256: None };
        let error = document(&[(id, package)].into(), &[], program).unwrap_err();
        assert_eq!(error.to_string(), "a 1.0.0 states no licence");
    }
}
