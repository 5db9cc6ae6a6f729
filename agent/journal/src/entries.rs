//! The entries of one file that answer a query, in the order they were written.

use super::{
    file::{Bytes, Chain, Entry, Fault, JournalFile},
    query::Query,
};
use kernel::order;

/// Walks a chain of arrays of offsets. Offsets only grow; one that doesn't is passed over, so that no entry comes twice and
/// no chain is endless.
#[derive(Debug)]
struct Walk {
    first: u64,
    array: u64,
    /// Next array and number of items of this one, once looked at.
    current: Option<(u64, u64)>,
    index: u64,
    remaining: u64,
    last: u64,
}

impl Walk {
    fn new(chain: Chain) -> Self {
        Self { first: chain.first, array: chain.array, current: None, index: 0, remaining: chain.count, last: 0 }
    }

    fn next<B: Bytes>(&mut self, file: &mut JournalFile<B>) -> Result<Option<u64>, Fault> {
        loop {
            if self.remaining == 0 {
                return Ok(None);
            }
            let offset = match std::mem::take(&mut self.first) {
                0 => match self.next_item(file)? {
                    Some(offset) => offset,
                    None => return Ok(None),
                },
                first => first,
            };
            self.remaining -= 1;
            if offset > self.last {
                self.last = offset;
                return Ok(Some(offset));
            }
        }
    }

    fn next_item<B: Bytes>(&mut self, file: &mut JournalFile<B>) -> Result<Option<u64>, Fault> {
        loop {
            if self.array == 0 {
                return Ok(None);
            }
            let (next, items) = match self.current {
                Some(current) => current,
                None => {
                    let array = file.array(self.array)?;
                    (self.current, self.index) = (Some((array.next, array.items)), 0);
                    (array.next, array.items)
                }
            };
            if self.index < items {
                let offset = file.array_item(self.array, self.index)?;
                self.index += 1;
                // The unused end of the last array.
                return Ok((offset != 0).then_some(offset));
            }
            (self.array, self.current) = (next, None);
        }
    }
}

/// One conjunction: the entries of its rarest field, which must have the others too.
#[derive(Debug)]
struct Alternative {
    walk: Walk,
    also: Vec<u64>,
    next: Option<u64>,
}

/// What of a file answers a query.
#[derive(Debug)]
pub(super) struct Entries {
    alternatives: Vec<Alternative>,
}

impl Entries {
    /// `faults` gets what can't be looked up.
    pub(crate) fn new<B: Bytes>(file: &mut JournalFile<B>, query: &Query, faults: &mut Vec<Fault>) -> Self {
        if query.is_everything() {
            let alternative = Alternative { walk: Walk::new(file.entries), also: Vec::new(), next: None };
            return Self::started(vec![alternative], file, faults);
        }
        let mut alternatives = Vec::new();
        'alternatives: for terms in query.alternatives() {
            let mut found = Vec::with_capacity(terms.len());
            for term in terms {
                match file.find(term) {
                    Ok(Some(data)) => found.push(data),
                    Ok(None) => continue 'alternatives,
                    Err(fault) => {
                        faults.push(fault);
                        continue 'alternatives;
                    }
                }
            }
            order::sort_by_key(&mut found, |(_, chain)| chain.count);
            let mut found = found.into_iter();
            let Some((_, chain)) = found.next() else { continue };
            let also = found.map(|(offset, _)| offset).collect();
            alternatives.push(Alternative { walk: Walk::new(chain), also, next: None });
        }
        Self::started(alternatives, file, faults)
    }

    fn started<B: Bytes>(alternatives: Vec<Alternative>, file: &mut JournalFile<B>, faults: &mut Vec<Fault>) -> Self {
        let mut entries = Self { alternatives };
        for alternative in &mut entries.alternatives {
            alternative.advance(file, faults);
        }
        entries
    }

    pub(crate) fn next<B: Bytes>(&mut self, file: &mut JournalFile<B>, faults: &mut Vec<Fault>) -> Option<Entry> {
        loop {
            let offset = self.alternatives.iter().filter_map(|alternative| alternative.next).min()?;
            let entry = file.entry(offset);
            let mut answers = false;
            for alternative in self.alternatives.iter_mut().filter(|alternative| alternative.next == Some(offset)) {
                answers |= entry.as_ref().is_ok_and(|entry| alternative.also.iter().all(|at| entry.items.contains(at)));
                alternative.advance(file, faults);
            }
            match entry {
                Ok(entry) if answers => return Some(entry),
                Ok(_) => {}
                Err(fault) => faults.push(fault),
            }
        }
    }
}

impl Alternative {
    /// A chain that breaks ends.
    fn advance<B: Bytes>(&mut self, file: &mut JournalFile<B>, faults: &mut Vec<Fault>) {
        self.next = self.walk.next(file).unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
    }
}
