//! Data in the store and on the wire: records, envelopes, and the answers to `begin`.

use std::hint::black_box;

use bytes::Bytes;
use redis::Value;

use super::round::record_of;
use super::{BATCH, Case, MANY, Meter, Repeated, job_name, sure};
use tenure_pool::store::decode_begin;
use tenure_protocol::model::id::{DispatchId, JobKey, NodeName, Token, WorkerId};
use tenure_protocol::model::record::Record;
use tenure_protocol::model::wire::{self, Envelope};
use tenure_protocol::step::WorkerBegins;

const BODY: [u8; 100] = [b'x'; 100];

fn records(many: usize) -> Vec<Record> {
    let node = sure(NodeName::new(super::node::NAME));
    let record = |number| {
        let id = sure(DispatchId::of_node(&node, &format!("01JD8Z6W3K{number:016}")));
        record_of(&id, Token(1_700_000_000_000 + number))
    };
    (0..many as u64).map(record).collect()
}

/// Applies `make` to each of `items`. Drops the results outside the measurement.
fn for_each<T, U>(items: Vec<T>, make: impl Fn(&T) -> U) -> impl Case {
    let mut made = Vec::with_capacity(items.len());
    Repeated(move |meter: &mut dyn Meter| {
        meter.measure(&mut || made.extend(items.iter().map(|item| make(black_box(item)))));
        made.clear();
    })
}

pub(super) fn parse_records() -> impl Case {
    let texts: Vec<String> = records(MANY).iter().map(Record::to_string).collect();
    for_each(texts, |text| Record::parse(text.as_bytes()))
}

pub(super) fn format_records() -> impl Case {
    for_each(records(MANY), Record::to_string)
}

pub(super) fn seal() -> impl Case {
    for_each(vec![BODY; MANY], |body| Envelope::new(body).seal())
}

pub(super) fn open() -> impl Case {
    let sealed = sure(Envelope::new(&BODY).seal());
    // Each has a buffer of its own, like data from the store.
    let sealed: Vec<_> = (0..MANY).map(|_| Bytes::copy_from_slice(&sealed)).collect();
    for_each(sealed, wire::open)
}

/// The digest of a key, compared where the caller has given the id.
pub(super) fn digest() -> impl Case {
    let keys: Vec<JobKey> = (0..MANY as u64).map(|number| sure(JobKey::new(job_name(number)))).collect();
    for_each(keys, |key| Envelope::new(&BODY).digest(key))
}

/// The answer to `begin` for a batch.
fn answer() -> Value {
    let payload = sure(Envelope::new(&BODY).seal());
    let mut values = vec![
        Value::BulkString(b"OK".to_vec()),
        Value::BulkString(b"O".to_vec()),
        Value::BulkString(vec![b'B'; BATCH]),
    ];
    for record in records(BATCH) {
        let record = Value::BulkString(record.to_string().into_bytes());
        values.extend([record, Value::BulkString(payload.to_vec())]);
    }
    Value::Array(values)
}

pub(super) fn begin_replies() -> impl Case {
    let answer = answer();
    let records = records(BATCH);
    let jobs =
        records.iter().map(|record| (sure(JobKey::new(job_name(record.token.0))), record.token)).collect();
    let worker = records.first().and_then(|record| record.owner).unwrap_or(WorkerId(0));
    let begins = [WorkerBegins { worker, finished: Vec::new(), jobs }];
    Repeated(move |meter: &mut dyn Meter| {
        let (mut value, mut replies) = (Some(answer.clone()), None);
        meter.measure(&mut || replies = value.take().map(|value| decode_begin(value, &begins)));
        assert!(replies.is_some_and(|replies| replies.is_ok()), "an answer that can be read");
    })
}
