//! What fuzzers call: each function takes hostile bytes and does all that is done with them. No part of the API.

use super::{
    merge::{Journal, Range},
    query::Query,
    short::{SHORT_FIELDS, Short},
};

/// Reads the bytes as two journal files that are merged, for everything and for some. Gives the number of entries.
pub fn fuzz_journal(bytes: &[u8]) -> u64 {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let mut total = 0;
    for query in [Query::everything(), Query::field("TAG", "agent"), Query::unit("a.service")] {
        let mut journal = Journal::empty(Range::default(), SHORT_FIELDS);
        for part in [bytes, first, second] {
            journal.add("fuzz".into(), part.to_vec(), &query);
        }
        total += Short::write_all(&mut journal, &mut std::io::sink()).unwrap_or(0);
    }
    total
}
