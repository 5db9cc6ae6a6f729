//! Records as they are stored: encrypted documents.

use super::Store;
use super::error::StoreError;
use super::layout::{CLUSTERS, HOSTS, INFRA_ENVS, Id, unpair};
use super::seal::Seal;
use redb::{ReadableTable, WriteTransaction};
use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

/// The rows of a table: key, name for sealing, bytes.
type Rows<K> = Vec<(K, String, Vec<u8>)>;

impl Store {
    pub(super) fn encode<T: Serialize>(
        &self,
        kind: &'static str,
        key: &impl ToString,
        record: &T,
    ) -> Result<Vec<u8>, StoreError> {
        let key = key.to_string();
        match serde_json::to_vec(record) {
            Ok(document) => Ok(self.seal.seal(kind, &key, document)?),
            Err(source) => Err(StoreError::Record { kind, key, source }),
        }
    }

    pub(super) fn decode<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        key: &impl ToString,
        bytes: &[u8],
    ) -> Result<T, StoreError> {
        let key = key.to_string();
        let document = self.seal.open(kind, &key, bytes)?;
        serde_json::from_slice(&document).map_err(|source| StoreError::Record { kind, key, source })
    }

    /// Encrypts what an earlier version wrote. Old pages may hold the plain text until they are reused.
    pub(super) fn seal_all(&self, transaction: &WriteTransaction) -> Result<(), StoreError> {
        for (kind, table) in [("cluster", CLUSTERS), ("infra-env", INFRA_ENVS)] {
            let mut table = transaction.open_table(table)?;
            let rows: Result<Rows<Id>, StoreError> = table
                .iter()?
                .map(|row| {
                    let (id, value) = row?;
                    Ok((id.value(), Uuid::from_u128(id.value()).to_string(), value.value().to_vec()))
                })
                .collect();
            for (id, name, document) in rows?.into_iter().filter(|(_, _, document)| !Seal::is_sealed(document)) {
                table.insert(id, &*self.seal.seal(kind, &name, document)?)?;
            }
        }
        let mut table = transaction.open_table(HOSTS)?;
        let rows: Result<Rows<(Id, Id)>, StoreError> = table
            .iter()?
            .map(|row| {
                let (id, value) = row?;
                Ok((id.value(), unpair(id.value()).host.to_string(), value.value().to_vec()))
            })
            .collect();
        for (id, name, document) in rows?.into_iter().filter(|(_, _, document)| !Seal::is_sealed(document)) {
            table.insert(id, &*self.seal.seal("host", &name, document)?)?;
        }
        Ok(())
    }
}
