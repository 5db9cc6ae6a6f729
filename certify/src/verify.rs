//! Is an archive as it was signed, and does what it says follow from what is in it?

use crate::{
    archive::{self, ArchiveError},
    manifest::{self, Manifest},
    plan::Comparison,
    result::{ATTESTATION, HostResult, Run},
    sign::{PublicKey, Signature},
};
use attestation::Evidence;
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
};

/// Most bytes of documents that are looked into: results, reports, evidence. Other files are only hashed.
const MAX_DOCUMENTS: u64 = 1 << 30;
/// What reports are named.
const REPORT: &str = "report.json";

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// archive, signature, key, files, result, attachments, SKU or TPM.
    pub name: &'static str,
    pub state: State,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Good,
    NotChecked,
    Bad,
}

/// What an archive holds, and what is known of it.
#[derive(Debug, Default)]
pub struct Verified {
    /// In their order; the first that is bad is the last.
    pub checks: Vec<Check>,
    /// The result, if all before it is good.
    pub run: Option<Run>,
    /// The key that signed, if it did.
    pub key: Option<PublicKey>,
    /// Reports of the hosts, by the host's place in the result.
    pub reports: BTreeMap<usize, Value>,
}

/// Members: length, SHA-256, and the content of those that are looked into.
#[derive(Default)]
struct Members(BTreeMap<String, (u64, String, Option<Vec<u8>>)>);

impl Verified {
    pub fn is_bad(&self) -> bool {
        self.checks.iter().any(|check| check.state == State::Bad)
    }

    fn push(&mut self, name: &'static str, state: State, detail: impl Into<String>) {
        self.checks.push(Check { name, state, detail: detail.into() });
    }

    /// Ends at the first bad check.
    fn check(&mut self, input: &mut dyn Read, trusted: Option<&PublicKey>) -> Result<(), (&'static str, String)> {
        let (count, members) = Members::read(input).map_err(|error| ("archive", error.to_string()))?;
        self.push("archive", State::Good, format!("{count} members, every byte in canonical form"));

        let bad = |error: String| ("signature", error);
        let text = members.document(manifest::SIGNATURE).map_err(bad)?;
        let name = manifest::SIGNATURE;
        let signature = std::str::from_utf8(text).map_err(|_| bad(format!("{name} is not text")))?;
        let signature: Signature = signature.parse().map_err(|error| bad(format!("{name} is {error}")))?;
        let signed = members.document(manifest::NAME).map_err(bad)?;
        // Whose key this is, is looked at before anything of the manifest counts.
        let manifest: Manifest = serde_json::from_slice(signed)
            .map_err(|error| bad(format!("{} is not what {name} signs: {error}", manifest::NAME)))?;
        let key: PublicKey =
            manifest.key.parse().map_err(|error| bad(format!("key in {}: {error}", manifest::NAME)))?;
        let altered = |error| bad(format!("{name} and {} do not belong together: {error}", manifest::NAME));
        key.verify(signed, &signature).map_err(altered)?;
        self.push("signature", State::Good, format!("by key {}: {}", key.id(), signature.comment.replace('\t', " ")));
        match trusted {
            Some(trusted) if *trusted == key => {
                self.push("key", State::Good, format!("{} is the expected one", key.id()))
            }
            Some(trusted) => {
                return Err(("key", format!("it is signed by {}, not by the expected {}", key.id(), trusted.id())));
            }
            None => self.push("key", State::NotChecked, "no key was given to compare it with (--key, --key-file)"),
        }
        self.key = Some(key);

        if manifest.schema_version != manifest::SCHEMA_VERSION {
            let known = manifest::SCHEMA_VERSION;
            let found = manifest.schema_version;
            return Err((
                "files",
                format!("{} has schema_version {found}, this landfall knows {known}", manifest::NAME),
            ));
        }
        members.compare(&manifest).map_err(|error| ("files", error))?;
        self.push(
            "files",
            State::Good,
            format!("{} files with the size and SHA-256 that are signed", manifest.files.len()),
        );

        let bad = |error: String| ("result", error);
        let result = members.document(manifest::RESULT).map_err(bad)?;
        let run: Run = serde_json::from_slice(result).map_err(|error| bad(format!("{}: {error}", manifest::RESULT)))?;
        run.fault().map_or(Ok(()), |fault| Err(bad(format!("{}: {fault}", manifest::RESULT))))?;
        self.push("result", State::Good, format!("{}: every verdict follows from its steps", run.verdict.name()));
        members.attachments(&run).map_err(|error| ("attachments", error))?;
        let count = run.hosts.iter().flat_map(HostResult::files).count();
        self.push("attachments", State::Good, format!("{count}, all that the steps name and no others"));
        for (place, host) in run.hosts.iter().enumerate() {
            self.compare(&members, &run, place, host)?;
            self.evidence(&members, &manifest, host)?;
        }
        self.run = Some(run);
        Ok(())
    }

    /// Compares a host's report with its SKU once more.
    fn compare(
        &mut self,
        members: &Members,
        run: &Run,
        place: usize,
        host: &HostResult,
    ) -> Result<(), (&'static str, String)> {
        let path = format!("{}/{REPORT}", host.folder());
        let Ok(report) = members.document(&path) else {
            self.push("SKU", State::NotChecked, format!("{}: there is no {REPORT}", host.serial));
            return Ok(());
        };
        let report: Value = serde_json::from_slice(report).map_err(|error| ("SKU", format!("{path}: {error}")))?;
        let expected = run.plan.compare(&report);
        let found = Comparison { sku: host.sku.clone(), differences: host.differences.clone() };
        if found != expected {
            let sku = |sku: &Option<String>| sku.clone().unwrap_or_else(|| "no SKU".to_owned());
            return Err((
                "SKU",
                format!(
                    "{}: its {REPORT} gives {} with {} differences, the result has {} with {}",
                    host.serial,
                    sku(&expected.sku),
                    expected.differences.len(),
                    sku(&found.sku),
                    found.differences.len()
                ),
            ));
        }
        let detail = match (&host.sku, host.differences.len()) {
            (None, 0) => "the plan expects nothing".to_owned(),
            (None, _) => "no SKU".to_owned(),
            (Some(sku), count) => format!("{sku}, {count} differences, compared once more"),
        };
        self.push("SKU", State::Good, format!("{}: {detail}", host.serial));
        self.reports.insert(place, report);
        Ok(())
    }

    /// What a host's TPM says of its files.
    fn evidence(
        &mut self,
        members: &Members,
        manifest: &Manifest,
        host: &HostResult,
    ) -> Result<(), (&'static str, String)> {
        let path = format!("{}/{ATTESTATION}", host.folder());
        let Ok(evidence) = members.document(&path) else {
            self.push("TPM", State::NotChecked, format!("{}: no evidence", host.serial));
            return Ok(());
        };
        let bad = |error: String| ("TPM", format!("{path}: {error}"));
        let evidence: Evidence = serde_json::from_slice(evidence).map_err(|error| bad(error.to_string()))?;
        let nonce = manifest::nonce(&manifest.files, &host.folder());
        let facts = evidence.check(&nonce).map_err(|fault| bad(fault.to_string()))?;
        let log = if facts.events.is_empty() { "no event log" } else { "an event log that leads to its registers" };
        let detail = format!("{}: quoted over the host's files, {log}; endorsement key {}", host.serial, facts.ek);
        self.push("TPM", State::Good, detail);
        Ok(())
    }
}

/// Checks an archive, and the key if one is trusted.
pub fn verify(input: &mut dyn Read, trusted: Option<&PublicKey>) -> Verified {
    let mut verified = Verified::default();
    if let Err((name, detail)) = verified.check(input, trusted) {
        verified.push(name, State::Bad, detail);
    }
    verified
}

impl Members {
    fn read(input: &mut dyn Read) -> Result<(usize, Self), ArchiveError> {
        let (mut members, mut documents) = (Self::default(), 0);
        let count = archive::read(input, &mut |path, bytes, content| {
            let is_document = !path.starts_with("hosts/")
                || path.rsplit('/').next().is_some_and(|name| [REPORT, ATTESTATION].contains(&name));
            if is_document {
                documents += bytes;
            }
            if documents > MAX_DOCUMENTS {
                return Err(io::Error::other(format!("documents of more than {MAX_DOCUMENTS} bytes")));
            }
            let mut document = is_document.then(Vec::new);
            let (bytes, sha256) = archive::hashed(content, &mut |piece| {
                document.iter_mut().for_each(|document| document.extend_from_slice(piece));
                Ok(())
            })?;
            members.0.insert(path.to_owned(), (bytes, sha256, document));
            Ok(())
        })?;
        Ok((count, members))
    }

    fn document(&self, path: &str) -> Result<&[u8], String> {
        let document = self.0.get(path).and_then(|(_, _, document)| document.as_deref());
        document.ok_or_else(|| format!("{path} is missing"))
    }

    /// All files are those of the manifest.
    fn compare(&self, manifest: &Manifest) -> Result<(), String> {
        let mut unnamed: BTreeSet<&str> = self.0.keys().map(String::as_str).collect();
        for file in [manifest::NAME, manifest::SIGNATURE] {
            unnamed.remove(file);
        }
        for entry in &manifest.files {
            let path = &entry.path;
            let (bytes, sha256, _) = self.0.get(path).ok_or_else(|| format!("{path} is missing"))?;
            if (bytes, sha256) != (&entry.bytes, &entry.sha256) {
                let [is, was] = [(bytes, sha256), (&entry.bytes, &entry.sha256)]
                    .map(|(b, s)| format!("{b} bytes with SHA-256 {s}"));
                return Err(format!("{path} was altered: it has {is}; {was} were signed"));
            }
            if !unnamed.remove(path.as_str()) {
                return Err(format!("{path} is in {} twice", manifest::NAME));
            }
        }
        unnamed.first().map_or(Ok(()), |path| Err(format!("{path} is not in {}", manifest::NAME)))
    }

    /// All files of hosts are those that the steps name.
    fn attachments(&self, run: &Run) -> Result<(), String> {
        let named: BTreeSet<String> = run.hosts.iter().flat_map(HostResult::files).collect();
        if let Some(path) = named.iter().find(|path| !self.0.contains_key(*path)) {
            return Err(format!("{path} is named by a step, and missing"));
        }
        let known = [manifest::NAME, manifest::SIGNATURE, manifest::RESULT];
        let other = self.0.keys().find(|path| !known.contains(&path.as_str()) && !named.contains(*path));
        other.map_or(Ok(()), |path| Err(format!("{path} is named by no step")))
    }
}

#[cfg(test)]
mod tests;
