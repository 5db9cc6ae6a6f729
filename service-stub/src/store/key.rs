//! The keys of records, for every table.

use super::error::StoreError;
use super::layout::{CLUSTERS, EVENTS, HOSTS, INFRA_ENVS};
use redb::{ReadTransaction, ReadableTable, WriteTransaction};
use uuid::Uuid;

/// A record's place: its table, and its key there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowKey {
    Cluster(u128),
    InfraEnv(u128),
    Host(u128, u128),
    Event(u64),
}

/// A record as it is stored.
pub(super) type Row = (RowKey, Vec<u8>);

impl RowKey {
    /// The kind it is encrypted under.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Cluster(_) => "cluster",
            Self::InfraEnv(_) => "infra-env",
            Self::Host(..) => "host",
            Self::Event(_) => "event",
        }
    }

    /// The name it is encrypted under and shown by.
    pub(super) fn name(self) -> String {
        match self {
            Self::Cluster(id) | Self::InfraEnv(id) | Self::Host(_, id) => Uuid::from_u128(id).to_string(),
            Self::Event(sequence) => sequence.to_string(),
        }
    }

    /// As bytes: a letter, then big-endian numbers.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Cluster(id) => [b"c".as_slice(), &id.to_be_bytes()].concat(),
            Self::InfraEnv(id) => [b"i".as_slice(), &id.to_be_bytes()].concat(),
            Self::Host(infra_env, id) => [b"h".as_slice(), &infra_env.to_be_bytes(), &id.to_be_bytes()].concat(),
            Self::Event(sequence) => [b"e".as_slice(), &sequence.to_be_bytes()].concat(),
        }
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        Some(match kind {
            b'c' => Self::Cluster(u128::from_be_bytes(rest.try_into().ok()?)),
            b'i' => Self::InfraEnv(u128::from_be_bytes(rest.try_into().ok()?)),
            b'h' => {
                let (infra_env, id) = rest.split_first_chunk()?;
                Self::Host(u128::from_be_bytes(*infra_env), u128::from_be_bytes(id.try_into().ok()?))
            }
            b'e' => Self::Event(u64::from_be_bytes(rest.try_into().ok()?)),
            _ => return None,
        })
    }

    /// Creates missing tables.
    pub(super) fn make_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
        transaction.open_table(CLUSTERS)?;
        transaction.open_table(INFRA_ENVS)?;
        transaction.open_table(HOSTS)?;
        transaction.open_table(EVENTS)?;
        Ok(())
    }

    pub(super) fn insert(self, transaction: &WriteTransaction, value: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Cluster(id) => drop(transaction.open_table(CLUSTERS)?.insert(id, value)?),
            Self::InfraEnv(id) => drop(transaction.open_table(INFRA_ENVS)?.insert(id, value)?),
            Self::Host(infra_env, id) => drop(transaction.open_table(HOSTS)?.insert((infra_env, id), value)?),
            Self::Event(sequence) => drop(transaction.open_table(EVENTS)?.insert(sequence, value)?),
        }
        Ok(())
    }
}

/// A function applied to each record.
pub(super) type Visit<'a> = dyn FnMut(RowKey, &[u8]) -> Result<(), StoreError> + 'a;

/// The kind of each table's records.
pub(super) const KINDS: [&str; 4] = ["cluster", "infra-env", "host", "event"];

/// Every record, table by table. `broken` lists tables that can't be read to the end or are missing: each store has all tables, and
/// a name may be damaged.
pub(super) fn walk(
    transaction: &ReadTransaction,
    each: &mut Visit,
    broken: &mut dyn FnMut(&'static str, StoreError) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for kind in KINDS {
        if let Err(error) = walk_table(transaction, kind, each) {
            broken(kind, error)?;
        }
    }
    Ok(())
}

/// Every record of one table.
pub(super) fn walk_table(
    transaction: &ReadTransaction,
    kind: &'static str,
    each: &mut Visit,
) -> Result<(), StoreError> {
    macro_rules! table {
        ($table:expr, $key:expr) => {{
            let table = transaction.open_table($table)?;
            let (count, mut seen) = (redb::ReadableTableMetadata::len(&table)?, 0_u64);
            let mut last = None;
            for row in table.iter()? {
                let (key, value) = row?;
                let key = $key(key.value());
                // A damaged table may contain a loop.
                if last.is_some_and(|last| last >= key) || seen >= count {
                    return Err(StoreError::Order(kind));
                }
                (last, seen) = (Some(key), seen + 1);
                each(key, value.value())?;
            }
            if seen == count { Ok(()) } else { Err(StoreError::Order(kind)) }
        }};
    }
    match kind {
        "cluster" => table!(CLUSTERS, RowKey::Cluster),
        "infra-env" => table!(INFRA_ENVS, RowKey::InfraEnv),
        "host" => table!(HOSTS, |(infra_env, id)| RowKey::Host(infra_env, id)),
        _ => table!(EVENTS, RowKey::Event),
    }
}
