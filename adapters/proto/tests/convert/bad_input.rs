//! Bytes nobody would send: whatever comes, reading gives a value or faults, and never panics.
//!
//! Valid messages are cut, flipped, spliced and inflated, then read as what they were and as what
//! they were not. Every seed is a case of its own; a failure names it.

use std::collections::BTreeMap;

use persys_model::time::WallMillis;
use persys_model::token::Epoch;
use persys_proto::convert::command::Call;
use persys_proto::convert::{answer, beat, command, draft, register, report, spec};
use persys_proto::{agent::v1 as agent, control::v1 as control};
use prost::Message;

use crate::random::Random;
use crate::samples;

/// What came of one case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    NotAMessage,
    Faults,
    Value,
}

type Reader = fn(&[u8]) -> Outcome;

fn read<M: Message + Default, T, E>(bytes: &[u8], convert: fn(M) -> Result<T, E>) -> Outcome {
    match M::decode(bytes) {
        Err(_) => Outcome::NotAMessage,
        Ok(message) => match convert(message) {
            Ok(_) => Outcome::Value,
            Err(_) => Outcome::Faults,
        },
    }
}

const READERS: &[Reader] = &[
    |bytes| read(bytes, draft::apply),
    |bytes| read(bytes, spec::from_wire),
    |bytes| read(bytes, command::from_apply),
    |bytes| read(bytes, |m: agent::DeleteWorkloadRequest| command::from_delete(&m)),
    |bytes| read(bytes, command::from_stream),
    |bytes| read(bytes, |m: control::AgentReply| answer::from_stream(&m)),
    |bytes| read(bytes, |m: agent::ApplyWorkloadResponse| answer::from_apply(&m)),
    |bytes| read(bytes, |m: agent::DeleteWorkloadResponse| answer::from_delete(&m)),
    |bytes| read(bytes, register::from_wire),
    |bytes| read(bytes, |m: control::RegisterNodeResponse| register::answer_from_wire(&m)),
    |bytes| read(bytes, beat::from_wire),
    |bytes| read(bytes, |m: control::HeartbeatResponse| beat::answer_from_wire(&m)),
    |bytes| read(bytes, |m: control::WorkloadReport| report::from_wire(&m)),
    |bytes| read(bytes, |m: agent::WorkloadStatus| report::from_agent_status(&m)),
];

/// Valid messages, each beside the reader it is for.
fn messages(seed: u64) -> Vec<(usize, Vec<u8>)> {
    let r = &mut Random(seed);
    let now = WallMillis(1);
    let spec = spec::to_wire(&samples::spec(r));
    let mut said = spec.clone();
    if let Some(control::workload_spec::Workload::Compose(body)) = &mut said.workload {
        // What the scheduler finds out is no client's to say, so it gives the file itself.
        let file = if body.git_file.is_empty() { &body.inline_yaml } else { &body.git_file };
        *body = control::ComposeSpec {
            inline_yaml: file.clone(),
            env: body.env.clone(),
            project_name: body.project_name.clone(),
            ..Default::default()
        };
    }
    let apply = control::ApplyWorkloadRequest {
        workload_id: "w".into(),
        spec: Some(said),
        ..Default::default()
    };
    let order = samples::command(r);
    let mut messages = vec![
        (0, apply.encode_to_vec()),
        (1, spec.encode_to_vec()),
        (4, command::to_stream(&order, 1).encode_to_vec()),
        (8, register::to_wire(&samples::registration(r), now).encode_to_vec()),
        (10, beat::to_wire(&samples::beat(r), now).encode_to_vec()),
        (12, report::to_wire(&samples::report(r, 0)).encode_to_vec()),
    ];
    messages.push(match command::to_call(&order) {
        Call::Apply(request) => (2, request.encode_to_vec()),
        Call::Delete(request) => (3, request.encode_to_vec()),
    });
    let reply = r.pick(&samples::answers());
    messages.push((5, answer::to_stream(&reply, Epoch(1), 1).encode_to_vec()));
    messages.push((6, answer::to_apply(&reply, Epoch(1)).encode_to_vec()));
    messages.push((7, answer::to_delete(&reply, Epoch(1)).encode_to_vec()));
    messages
}

/// Changes that leave lengths alone as a rule, so that most of these are messages still.
fn nudge(r: &mut Random, bytes: &mut [u8]) {
    for _ in 0..=r.below(4) {
        let at = r.below(bytes.len().max(1));
        if let Some(byte) = bytes.get_mut(at).filter(|byte| **byte > 31) {
            *byte = r.pick(b"/.-_:=Aa0 \n\0$'\"\x7f");
        }
    }
}

fn mutate(r: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=r.below(3) {
        let at = r.below(bytes.len() + 1);
        match r.below(7) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << r.below(8),
            2 if at < bytes.len() => bytes[at] = r.pick(&[0, 0x7f, 0x80, 0xff, b'/', b'A', 9]),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            // A varint of ten bytes: a huge number, or a length beyond everything.
            4 => drop(bytes.splice(at..at, [0xff; 9].into_iter().chain([1]))),
            5 => {
                let from = r.below(bytes.len() + 1);
                let part: Vec<u8> = bytes[from.min(at)..from.max(at)].to_vec();
                drop(bytes.splice(at..at, part.into_iter().take(64)));
            }
            _ => bytes.insert(at, u8::try_from(r.next() & 0xff).unwrap()),
        }
    }
}

#[test]
fn messages_mutated() {
    let corpus: Vec<_> = (0..60).flat_map(messages).filter(|(_, m)| m.len() < 700).collect();
    let mut outcomes = BTreeMap::new();
    for seed in 0..200_000 {
        let r = &mut Random(seed);
        let (reader, valid) = &corpus[r.below(corpus.len())];
        let mut bytes = valid.clone();
        if r.one_in(3) {
            mutate(r, &mut bytes);
        } else {
            nudge(r, &mut bytes);
        }
        // Now and then as a message of another type.
        let reader = if r.one_in(8) { r.pick(READERS) } else { READERS[*reader] };
        *outcomes.entry(reader(&bytes)).or_insert(0) += 1;
    }
    // A mutation that never decodes, or never harms, tests nothing.
    for outcome in [Outcome::NotAMessage, Outcome::Faults, Outcome::Value] {
        assert!(outcomes.get(&outcome).is_some_and(|count| *count > 10_000), "{outcomes:?}");
    }
}

#[test]
fn arbitrary_bytes() {
    for seed in 0..20_000 {
        let r = &mut Random(seed);
        let bytes: Vec<u8> =
            (0..r.below(64)).map(|_| u8::try_from(r.next() & 0xff).unwrap()).collect();
        for reader in READERS {
            reader(&bytes);
        }
    }
}

#[test]
fn valid_messages_are_read() {
    for seed in 0..100 {
        for (reader, bytes) in messages(seed) {
            // What the scheduler writes for agents is no client's request where it says more.
            let outcome = READERS[reader](&bytes);
            assert_eq!(outcome, Outcome::Value, "seed {seed}, reader {reader}");
        }
    }
}

#[test]
fn texts_that_are_no_text_and_lengths_without_end() {
    let rows: &[&[u8]] = &[
        // Field 1, two bytes that are not UTF-8.
        &[0x0a, 2, 0xc3, 0x28],
        // Field 1, a length of 2^63.
        &[0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
        // Field 1, a length beyond the end.
        &[0x0a, 0x7f, b'a'],
        // Field 0, which there is not.
        &[2, 1, b'a'],
        // A group that never ends.
        &[0x0b, 0x0b, 0x0b],
        // A varint of eleven bytes.
        &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
    ];
    for bytes in rows {
        assert_eq!(READERS[0](bytes), Outcome::NotAMessage, "{bytes:x?}");
        assert_eq!(READERS[8](bytes), Outcome::NotAMessage, "{bytes:x?}");
    }
    // Messages within messages within messages: the decoder has an end to that, not the stack.
    let mut nested = vec![0x0b_u8; 100_000];
    nested.extend(vec![0x0c; 100_000]);
    assert_eq!(READERS[0](&nested), Outcome::NotAMessage);
}
