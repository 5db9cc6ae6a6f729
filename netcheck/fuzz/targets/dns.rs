#![no_main]

use resolve::{Question, Record};

// As the answer to each kind of question; the first two bytes are made those of the question.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    if let Some(id) = bytes.get_mut(..2) {
        id.copy_from_slice(&7u16.to_be_bytes());
    }
    for record in [Record::A, Record::Aaaa, Record::Ptr] {
        let question = Question::new(7, "api.example.org", record).expect("a name");
        if let Some(reply) = question.answer(&bytes) {
            assert!(reply.addresses.len() + reply.names.len() <= bytes.len());
            assert!(reply.canonical.is_none_or(|name| name.ends_with('.')));
        }
    }
});
