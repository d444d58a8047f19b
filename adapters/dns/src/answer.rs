//! From a question to its answer. No sockets here: bytes in, bytes out.
//!
//! We answer for our zones and refuse all others; we never ask anybody else. Answers are minimal: the
//! records asked for, and the address a service leads to.

use std::net::IpAddr;

use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, SOA, SRV};
use hickory_proto::rr::{DNSClass, Name as WireName, RData, Record as WireRecord, RecordType};
use persys_cluster::discovery::{Host, Name, Record, Shape};

use crate::book::{Book, Found};

/// Largest answer over UDP: what passes every network in one piece.
pub const LARGEST_DATAGRAM: u16 = 1_232;
/// Largest answer over UDP to a client that does not say what it takes.
const PLAIN_DATAGRAM: u16 = 512;
/// How long others may keep that something is not there: it may start any moment.
const DENIAL_TTL_S: u32 = 5;
/// How long others may keep what is known of the zones themselves.
const ZONE_TTL_S: u32 = 300;
/// Of a service with one place all of it goes there.
const PRIORITY: u16 = 10;
const WEIGHT: u16 = 100;

/// How the question came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// In a datagram, and the answer must fit in one.
    Udp,
    /// The same, from somebody who asks too much: the answer only points to TCP.
    UdpShort,
    /// On a connection.
    Tcp,
}

/// The answer to `question`; `None` where there is nobody to answer.
#[must_use]
pub fn answer(book: &Book, question: &[u8], over: Over) -> Option<Vec<u8>> {
    let head = Head::of(question)?;
    if head.is_answer {
        return None;
    }
    // What a question says of its own length is believed only once it asks one thing.
    let asked = if head.questions == 1 { Message::from_vec(question).ok() } else { None };
    let Some(asked) = asked else {
        return encode(
            &Message::error_msg(head.id, OpCode::Query, ResponseCode::FormErr),
            over,
            None,
        );
    };
    let reply = reply(book, &asked, over);
    encode(&reply, over, asked.edns.as_ref())
}

/// The few bytes that are read before anything is believed.
struct Head {
    id: u16,
    is_answer: bool,
    questions: u16,
}

impl Head {
    fn of(bytes: &[u8]) -> Option<Self> {
        let [a, b, flags, _, c, d, _, _, _, _, _, _] = bytes.first_chunk::<12>()?;
        Some(Self {
            id: u16::from_be_bytes([*a, *b]),
            is_answer: flags & 0x80 != 0,
            questions: u16::from_be_bytes([*c, *d]),
        })
    }
}

fn encode(reply: &Message, over: Over, edns: Option<&Edns>) -> Option<Vec<u8>> {
    let bytes = reply.to_vec().ok()?;
    let limit = match over {
        Over::Udp | Over::UdpShort => {
            let says = edns.map_or(PLAIN_DATAGRAM, Edns::max_payload);
            usize::from(says.clamp(PLAIN_DATAGRAM, LARGEST_DATAGRAM))
        }
        Over::Tcp => usize::from(u16::MAX),
    };
    if bytes.len() <= limit { Some(bytes) } else { reply.truncate().to_vec().ok() }
}

fn reply(book: &Book, asked: &Message, over: Over) -> Message {
    let mut reply = Message::response(asked.metadata.id, asked.metadata.op_code);
    reply.metadata = Metadata::response_from_request(&asked.metadata);
    debug_assert_eq!(reply.metadata.message_type, MessageType::Response, "an answer");
    reply.metadata.recursion_available = false;
    reply.metadata.checking_disabled = false;
    reply.add_queries(asked.queries.iter().cloned());
    if let Some(edns) = &asked.edns {
        let mut ours = Edns::new();
        ours.set_max_payload(LARGEST_DATAGRAM).set_version(0);
        reply.set_edns(ours);
        if edns.version() > 0 {
            reply.metadata.response_code = ResponseCode::BADVERS;
            return reply;
        }
    }
    if over == Over::UdpShort {
        reply.metadata.truncation = true;
        return reply;
    }
    if asked.metadata.op_code != OpCode::Query {
        reply.metadata.response_code = ResponseCode::NotImp;
        return reply;
    }
    match asked.queries.first() {
        Some(query) => fill(book, query, &mut reply),
        None => reply.metadata.response_code = ResponseCode::FormErr,
    }
    reply
}

fn fill(book: &Book, query: &Query, reply: &mut Message) {
    let labels: Vec<_> = query.name().iter().collect();
    let (name, complete) = Name::asked(labels.into_iter().rev());
    let apex = book.zones().apexes().into_iter().find(|apex| name.is_within(apex));
    let Some(apex) = apex.filter(|_| query.query_class() == DNSClass::IN) else {
        reply.metadata.response_code = ResponseCode::Refused;
        return;
    };
    let found = if complete { book.find(&name) } else { Found::Nothing };
    if found == Found::Unknown {
        reply.metadata.response_code = ResponseCode::ServFail;
        return;
    }
    reply.metadata.authoritative = true;
    let is_apex = complete && name == *apex;
    // The name in an answer is spelled as it was asked for.
    let owner = query.name();
    match &found {
        Found::Record(record) => of_record(&name, record, query, reply),
        Found::Branch | Found::Nothing if is_apex => of_apex(book, apex, query, reply),
        Found::Nothing => reply.metadata.response_code = ResponseCode::NXDomain,
        Found::Branch | Found::Unknown => {}
    }
    debug_assert!(
        reply.answers.iter().all(|record| record.name == *owner),
        "answers what was asked"
    );
    if reply.answers.is_empty() {
        reply.authorities.extend(soa(book, apex, DENIAL_TTL_S));
    }
}

/// What a record says to the question.
fn of_record(name: &Name, record: &Record, query: &Query, reply: &mut Message) {
    let owner = query.name();
    let wants = |kind| query.query_type() == kind || query.query_type() == RecordType::ANY;
    match &record.shape {
        Shape::Address => {
            reply.answers.extend(addresses(owner, record, query.query_type()));
        }
        Shape::Service { target, port } => {
            if wants(RecordType::SRV)
                && let Some(target) = wire(&target.dotted())
            {
                reply.answers.push(service(owner, record, *port, target.clone()));
                reply.additionals.extend(addresses(&target, record, RecordType::ANY));
            }
        }
        Shape::Workload { ports } => {
            reply.answers.extend(addresses(owner, record, query.query_type()));
            if query.query_type() == RecordType::SRV {
                // Where the node is known by name, that name is the target: ours would only lead there.
                let target = match &record.host {
                    Host::Ip(_) => wire(&name.dotted()),
                    Host::Name(host) => wire(host),
                };
                let mut numbers: Vec<_> = ports.iter().map(|port| port.port).collect();
                numbers.dedup();
                for port in numbers {
                    let target = target.clone();
                    reply.answers.extend(target.map(|target| service(owner, record, port, target)));
                }
                if let (Host::Ip(_), Some(target), false) =
                    (&record.host, target, reply.answers.is_empty())
                {
                    reply.additionals.extend(addresses(&target, record, RecordType::ANY));
                }
            }
        }
    }
}

/// The address, if it is of the kind that is wanted.
fn addresses(owner: &WireName, record: &Record, wanted: RecordType) -> Option<WireRecord> {
    let data = match &record.host {
        Host::Ip(IpAddr::V4(ip)) => RData::A(A(*ip)),
        Host::Ip(IpAddr::V6(ip)) => RData::AAAA(AAAA(*ip)),
        Host::Name(host) => RData::CNAME(CNAME(wire(host)?)),
    };
    let kind = data.record_type();
    let follows = kind == RecordType::CNAME && matches!(wanted, RecordType::A | RecordType::AAAA);
    let fits = wanted == kind || wanted == RecordType::ANY || follows;
    fits.then(|| WireRecord::from_rdata(owner.clone(), record.ttl_s, data))
}

fn service(owner: &WireName, record: &Record, port: u16, target: WireName) -> WireRecord {
    let data = RData::SRV(SRV::new(PRIORITY, WEIGHT, port, target));
    WireRecord::from_rdata(owner.clone(), record.ttl_s, data)
}

/// What a zone says of itself.
fn of_apex(book: &Book, apex: &Name, query: &Query, reply: &mut Message) {
    let wanted = query.query_type();
    if wanted == RecordType::SOA || wanted == RecordType::ANY {
        reply.answers.extend(soa(book, apex, ZONE_TTL_S));
    } else if wanted == RecordType::NS
        && let Some(server) = wire(&book.zones().scheduler().dotted())
    {
        let data = RData::NS(NS(server));
        reply.answers.push(WireRecord::from_rdata(query.name().clone(), ZONE_TTL_S, data));
    }
}

fn soa(book: &Book, apex: &Name, ttl_s: u32) -> Option<WireRecord> {
    let (refresh_s, retry_s, expire_s) = (60, 10, 600);
    let server = wire(&book.zones().scheduler().dotted())?;
    let contact = wire(&format!("hostmaster.{}", apex.dotted()))?;
    let serial = book.serial();
    let soa = SOA::new(server, contact, serial, refresh_s, retry_s, expire_s, DENIAL_TTL_S);
    Some(WireRecord::from_rdata(wire(&apex.dotted())?, ttl_s, RData::SOA(soa)))
}

/// Our names are checked, so this never fails; if it did, there would be no such record.
fn wire(dotted: &str) -> Option<WireName> {
    WireName::from_ascii(dotted).ok()
}
