//! What is answered, to bytes and over sockets; how records look in etcd; when they are written.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name as WireName, RData, RecordType};
use persys_cluster::discovery::{Change, Directory, Host, News, Served, Zones};
use persys_dns::answer::{Over, answer};
use persys_dns::{Book, MemorySink, Publisher, Rights, Server};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::{HostPort, Protocol};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

fn zones() -> Zones {
    Zones::new("persys.local", "agents.persys.cloud", "default").unwrap()
}

fn node(text: &str) -> NodeId {
    NodeId::new(text).unwrap()
}

fn workload(text: &str) -> WorkloadId {
    WorkloadId::new(text).unwrap()
}

fn served(on: &str, ports: &[u16]) -> Served {
    let ports = ports.iter().map(|port| HostPort { port: *port, protocol: Protocol::Tcp });
    Served { node: node(on), ports: ports.collect() }
}

fn host(text: &str) -> Option<Host> {
    Host::of_endpoint(&format!("{text}:50051"))
}

/// A cluster with one node of each kind, and something on each.
fn directory() -> Directory {
    let mut directory = Directory::new(zones(), Some("192.0.2.7:8085".parse().unwrap()));
    directory.take(News {
        whole: true,
        nodes: vec![
            (node("n1"), host("10.0.0.1")),
            (node("n_2.east"), host("[2001:db8::2]")),
            (node("n3"), host("n3.example.com")),
        ],
        workloads: vec![
            (workload("web"), Some(served("n1", &[8081, 8443]))),
            (workload("db.main"), Some(served("n_2.east", &[5432]))),
            (workload("far"), Some(served("n3", &[80]))),
            (workload("quiet"), Some(served("n1", &[]))),
            (workload("many"), Some(served("n1", &(1..200).collect::<Vec<_>>()))),
        ],
    });
    directory
}

fn book() -> Book {
    let book = Book::new(zones());
    book.apply(&directory().all_as_changes());
    book
}

fn question(name: &str, kind: RecordType) -> Message {
    let mut question = Message::query();
    let labels = name.split('.').filter(|label| !label.is_empty()).map(str::as_bytes);
    question.add_query(Query::query(WireName::from_labels(labels).unwrap(), kind));
    question
}

fn ask_over(book: &Book, question: &Message, over: Over) -> Message {
    let bytes = answer(book, &question.to_vec().unwrap(), over).unwrap();
    let reply = Message::from_vec(&bytes).unwrap();
    assert_eq!(reply.metadata.id, question.metadata.id);
    assert_eq!(reply.queries, question.queries);
    reply
}

fn ask(book: &Book, name: &str, kind: RecordType) -> Message {
    ask_over(book, &question(name, kind), Over::Udp)
}

fn data(message: &Message) -> Vec<String> {
    message.answers.iter().map(|record| format!("{} {}", record.ttl, record.data)).collect()
}

fn addresses(message: &Message) -> Vec<String> {
    message.additionals.iter().map(|record| format!("{} {}", record.name, record.data)).collect()
}

#[test]
fn what_is_there_is_answered_with_what_it_needs() {
    let book = book();
    let of = |name: &str, kind| data(&ask(&book, name, kind));
    assert_eq!(of("persys-scheduler.persys.local.", RecordType::A), ["300 192.0.2.7"]);
    assert_eq!(of("n1.default.agents.persys.cloud.", RecordType::A), ["300 10.0.0.1"]);
    assert_eq!(
        of("x--n-u2-deast.default.agents.persys.cloud.", RecordType::AAAA),
        ["300 2001:db8::2"]
    );
    assert_eq!(of("web.workloads.persys.local.", RecordType::A), ["30 10.0.0.1"]);
    assert_eq!(of("x--db-dmain.workloads.persys.local.", RecordType::AAAA), ["30 2001:db8::2"]);
    // A node that is known by its name alone.
    assert_eq!(of("far.workloads.persys.local.", RecordType::A), ["30 n3.example.com."]);
    assert_eq!(
        of("far.workloads.persys.local.", RecordType::SRV),
        ["30 10 100 80 n3.example.com."]
    );

    for service in ["_persys-scheduler.persys.local.", "_persys-scheduler._tcp.persys.local."] {
        let reply = ask(&book, service, RecordType::SRV);
        assert_eq!(data(&reply), ["300 10 100 8085 persys-scheduler.persys.local."]);
        assert_eq!(addresses(&reply), ["persys-scheduler.persys.local. 192.0.2.7"]);
        assert!(reply.metadata.authoritative && !reply.metadata.recursion_available);
    }
    let reply = ask(&book, "web.workloads.persys.local.", RecordType::SRV);
    assert_eq!(
        data(&reply),
        [
            "30 10 100 8081 web.workloads.persys.local.",
            "30 10 100 8443 web.workloads.persys.local."
        ]
    );
    assert_eq!(addresses(&reply), ["web.workloads.persys.local. 10.0.0.1"]);
    // Whoever asks for everything gets little.
    assert_eq!(of("many.workloads.persys.local.", RecordType::ANY), ["30 10.0.0.1"]);
}

#[test]
fn a_question_may_be_spelled_in_any_case_and_gets_its_spelling_back() {
    let reply = ask(&book(), "WeB.Workloads.PERSYS.local.", RecordType::A);
    assert_eq!(data(&reply), ["30 10.0.0.1"]);
    assert_eq!(reply.answers[0].name.to_ascii(), "WeB.Workloads.PERSYS.local.");
}

#[test]
fn what_is_not_there_is_denied_in_the_right_way() {
    let book = book();
    let denial = |name: &str, kind| {
        let reply = ask(&book, name, kind);
        assert!(reply.answers.is_empty() && reply.metadata.authoritative, "{name}");
        let zone = reply.authorities.iter().map(|record| {
            assert!(matches!(&record.data, RData::SOA(soa) if soa.minimum == 5), "{record}");
            record.name.to_ascii()
        });
        (reply.metadata.response_code, zone.collect::<Vec<_>>().concat())
    };
    let (nothing, empty) = (ResponseCode::NXDomain, ResponseCode::NoError);
    let local = || "persys.local.".to_owned();
    // Not there at all.
    assert_eq!(denial("gone.workloads.persys.local.", RecordType::A), (nothing, local()));
    assert_eq!(denial("a.web.workloads.persys.local.", RecordType::A), (nothing, local()));
    assert_eq!(denial("we.workloads.persys.local.", RecordType::A), (nothing, local()));
    assert_eq!(denial("db.main.workloads.persys.local.", RecordType::A), (nothing, local()));
    assert_eq!(denial("web/tcp-8081.workloads.persys.local.", RecordType::A), (nothing, local()));
    let agents = "agents.persys.cloud.".to_owned();
    assert_eq!(denial("n9.default.agents.persys.cloud.", RecordType::A), (nothing, agents.clone()));
    // There, but not with this.
    assert_eq!(denial("web.workloads.persys.local.", RecordType::AAAA), (empty, local()));
    assert_eq!(denial("web.workloads.persys.local.", RecordType::TXT), (empty, local()));
    assert_eq!(denial("quiet.workloads.persys.local.", RecordType::SRV), (empty, local()));
    assert_eq!(denial("_persys-scheduler.persys.local.", RecordType::A), (empty, local()));
    // There only because something is below.
    assert_eq!(denial("workloads.persys.local.", RecordType::A), (empty, local()));
    assert_eq!(denial("_tcp.persys.local.", RecordType::SRV), (empty, local()));
    assert_eq!(denial("default.agents.persys.cloud.", RecordType::A), (empty, agents));
    assert_eq!(denial("persys.local.", RecordType::A), (empty, local()));
    assert_eq!(data(&ask(&book, "persys.local.", RecordType::SOA)).len(), 1);
    assert_eq!(
        data(&ask(&book, "persys.local.", RecordType::NS)),
        ["300 persys-scheduler.persys.local."]
    );
}

#[test]
fn others_are_refused_and_nonsense_is_named() {
    let book = book();
    let code = |question: &Message| ask_over(&book, question, Over::Udp).metadata.response_code;
    for name in ["example.com.", "local.", ".", "xpersys.local.", "persys.cloud."] {
        assert_eq!(code(&question(name, RecordType::A)), ResponseCode::Refused, "{name}");
    }
    let mut chaos = question("web.workloads.persys.local.", RecordType::A);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(code(&chaos), ResponseCode::Refused);
    let mut update = question("persys.local.", RecordType::SOA);
    update.metadata.op_code = OpCode::Notify;
    assert_eq!(code(&update), ResponseCode::NotImp);
    let mut future = question("web.workloads.persys.local.", RecordType::A);
    future.set_edns(Edns::new());
    future.edns.as_mut().unwrap().set_version(1);
    // The library has another word for the same number.
    assert_eq!(u16::from(code(&future)), u16::from(ResponseCode::BADVERS));

    let whole = question("web.workloads.persys.local.", RecordType::A).to_vec().unwrap();
    for length in 0..whole.len() {
        let reply = answer(&book, &whole[..length], Over::Udp);
        match reply {
            None => assert!(length < 12),
            Some(bytes) => {
                let reply = Message::from_vec(&bytes).unwrap();
                assert_eq!(reply.metadata.response_code, ResponseCode::FormErr);
                assert!(bytes.len() <= 12, "no larger than what came");
            }
        }
    }
    // It claims to ask 65535 things.
    let mut many = whole.clone();
    many[4..6].copy_from_slice(&[0xff, 0xff]);
    let reply = Message::from_vec(&answer(&book, &many, Over::Udp).unwrap()).unwrap();
    assert_eq!(reply.metadata.response_code, ResponseCode::FormErr);
    // An answer is not answered: two servers would talk for ever.
    let mut echo = whole;
    echo[2] |= 0x80;
    assert_eq!(answer(&book, &echo, Over::Udp), None);
}

#[test]
fn before_the_cluster_is_known_nothing_is_denied() {
    let book = Book::new(zones());
    let reply = ask(&book, "web.workloads.persys.local.", RecordType::A);
    assert_eq!(reply.metadata.response_code, ResponseCode::ServFail);
    book.apply(&[]);
    let reply = ask(&book, "web.workloads.persys.local.", RecordType::A);
    assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain);
    book.forget();
    let reply = ask(&book, "web.workloads.persys.local.", RecordType::A);
    assert_eq!(reply.metadata.response_code, ResponseCode::ServFail);
}

#[test]
fn what_does_not_fit_says_so() {
    let book = book();
    let mut asked = question("many.workloads.persys.local.", RecordType::SRV);
    let size = |over, asked: &Message| {
        let bytes = answer(&book, &asked.to_vec().unwrap(), over).unwrap();
        let reply = Message::from_vec(&bytes).unwrap();
        (bytes.len(), reply.metadata.truncation, reply.answers.len())
    };
    let (length, cut, answers) = size(Over::Udp, &asked);
    assert!(length <= 512 && cut && answers == 0);
    let (length, cut, answers) = size(Over::Tcp, &asked);
    assert!(length > 1_232 && !cut && answers == 199);
    let mut edns = Edns::new();
    edns.set_max_payload(65_000);
    asked.set_edns(edns);
    let (length, cut, answers) = size(Over::Udp, &asked);
    assert!(length <= 1_232 && cut && answers == 0, "nobody gets a fragmented datagram");
    // Too much is asked: only the way to TCP is told, in no more bytes than came.
    let (length, cut, _) = size(Over::UdpShort, &asked);
    assert!(cut && length <= asked.to_vec().unwrap().len());
}

#[tokio::test]
async fn questions_are_answered_over_udp_and_tcp_on_one_port() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let at = server.address;
    let serving = tokio::spawn(server.serve(Arc::new(book())));
    let asked = question("many.workloads.persys.local.", RecordType::SRV);
    let bytes = asked.to_vec().unwrap();

    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    // Garbage before does no harm.
    socket.send_to(b"\0", at).await.unwrap();
    socket.send_to(&bytes, at).await.unwrap();
    let mut buffer = [0; 2_048];
    let length = timeout(PATIENCE, socket.recv(&mut buffer)).await.unwrap().unwrap();
    assert!(Message::from_vec(&buffer[..length]).unwrap().metadata.truncation);

    let mut stream = TcpStream::connect(at).await.unwrap();
    for _ in 0..2 {
        stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let length = timeout(PATIENCE, stream.read_u16()).await.unwrap().unwrap();
        let mut reply = vec![0; length.into()];
        timeout(PATIENCE, stream.read_exact(&mut reply)).await.unwrap().unwrap();
        assert_eq!(Message::from_vec(&reply).unwrap().answers.len(), 199);
    }
    // The port is taken.
    assert!(Server::bind(at).await.is_err());
    serving.abort();
}

/// As the etcd plugin of `CoreDNS` documents it, and as clients of the earlier system know it.
#[test]
fn records_look_in_etcd_as_documented() {
    let directory = directory();
    let entries: BTreeMap<_, _> = directory
        .records()
        .iter()
        .filter(|(name, _)| !name.path().ends_with("many"))
        .flat_map(|(name, record)| persys_dns::skydns::entries(name, record))
        .collect();
    let text: Vec<_> = entries.iter().map(|(key, value)| format!("{key} {value}")).collect();
    let golden = r#"
/skydns/cloud/persys/agents/default/n1 {"host":"10.0.0.1","ttl":300}
/skydns/cloud/persys/agents/default/n3 {"host":"n3.example.com","ttl":300}
/skydns/cloud/persys/agents/default/x--n-u2-deast {"host":"2001:db8::2","ttl":300}
/skydns/local/persys/_persys-scheduler {"host":"192.0.2.7","port":8085,"ttl":300}
/skydns/local/persys/_tcp/_persys-scheduler {"host":"192.0.2.7","port":8085,"ttl":300}
/skydns/local/persys/persys-scheduler {"host":"192.0.2.7","ttl":300}
/skydns/local/persys/workloads/far/tcp-80 {"host":"n3.example.com","port":80,"ttl":30}
/skydns/local/persys/workloads/quiet {"host":"10.0.0.1","ttl":30}
/skydns/local/persys/workloads/web/tcp-8081 {"host":"10.0.0.1","port":8081,"ttl":30}
/skydns/local/persys/workloads/web/tcp-8443 {"host":"10.0.0.1","port":8443,"ttl":30}
/skydns/local/persys/workloads/x--db-dmain/tcp-5432 {"host":"2001:db8::2","port":5432,"ttl":30}"#;
    assert_eq!(text.join("\n"), golden.trim());
}

/// A publisher at work, and a cluster that changes.
struct Publishing {
    sink: Arc<MemorySink>,
    directory: Directory,
    changes: mpsc::Sender<Vec<Change>>,
    rights: watch::Sender<Rights>,
    task: JoinHandle<()>,
}

impl Publishing {
    async fn start(sink: Arc<MemorySink>, rights: Rights) -> Self {
        let (changes, received) = mpsc::channel(8);
        let (say, rights) = watch::channel(rights);
        let publisher = Publisher::new(Arc::<MemorySink>::clone(&sink), &zones());
        let task = tokio::spawn(publisher.run(received, rights));
        let directory = directory();
        changes.send(directory.all_as_changes()).await.unwrap();
        Self { sink, directory, changes, rights: say, task }
    }

    async fn change(&mut self, nodes: Vec<(NodeId, Option<Host>)>, gone: &[&str]) {
        let workloads = gone.iter().map(|id| (workload(id), None)).collect();
        let changes = self.directory.take(News { whole: false, nodes, workloads });
        self.changes.send(changes).await.unwrap();
    }

    fn wanted(&self) -> BTreeMap<String, String> {
        let records = self.directory.records().iter();
        records.flat_map(|(name, record)| persys_dns::skydns::entries(name, record)).collect()
    }

    /// Waits until the sink holds what it should, and `others`.
    async fn settled(&self, others: &[&str]) {
        let ours = |sink: &MemorySink| {
            let mut records = sink.records();
            assert!(others.iter().all(|key| records.remove(*key).is_some()), "{records:?}");
            records
        };
        timeout(PATIENCE, async {
            while ours(&self.sink) != self.wanted() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
    }
}

const FOREIGN: &str = "/skydns/local/persys/persys-forgery";

#[tokio::test(start_paused = true)]
async fn records_follow_the_cluster_and_nothing_is_written_while_nothing_changes() {
    let sink = Arc::new(MemorySink::default());
    // Left by a process that ended without a word; and what is not ours.
    sink.put("/skydns/local/persys/workloads/ghost/tcp-1", "{}");
    sink.put("/skydns/cloud/persys/agents/default/n9", "{}");
    sink.put(FOREIGN, "{}");
    let mut publishing = Publishing::start(Arc::clone(&sink), Rights::Write).await;
    publishing.settled(&[FOREIGN]).await;

    // An hour goes by: the lease is kept, nothing is written.
    let (writes, keeps) = (sink.writes(), sink.keeps());
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(sink.writes(), writes);
    assert!((200..300).contains(&(sink.keeps() - keeps)), "{}", sink.keeps() - keeps);

    // One workload ends: its two keys go, and nothing else is touched.
    publishing.change(vec![], &["web"]).await;
    publishing.settled(&[FOREIGN]).await;
    assert_eq!(sink.writes(), writes + 2);
    // A node is lost: it goes, with what ran there.
    publishing.change(vec![(node("n3"), None)], &[]).await;
    publishing.settled(&[FOREIGN]).await;
    assert_eq!(sink.writes(), writes + 4);

    // A clean end leaves nothing of ours.
    let Publishing { changes, task, rights, .. } = publishing;
    drop(changes);
    timeout(PATIENCE, task).await.unwrap().unwrap();
    drop(rights);
    assert_eq!(sink.records().into_keys().collect::<Vec<_>>(), [FOREIGN]);
}

#[tokio::test(start_paused = true)]
async fn trouble_is_overcome() {
    let sink = Arc::new(MemorySink::default());
    sink.set_broken(true);
    let mut publishing = Publishing::start(Arc::clone(&sink), Rights::Write).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(sink.records().is_empty());
    sink.set_broken(false);
    publishing.settled(&[]).await;

    // Broken while something ends: it goes once all works again.
    sink.set_broken(true);
    publishing.change(vec![], &["web", "quiet"]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    sink.set_broken(false);
    publishing.settled(&[]).await;

    // The lease ran out, as after a long pause of this process: all is put again.
    sink.expire();
    assert!(sink.records().is_empty());
    publishing.settled(&[]).await;
    publishing.task.abort();
}

#[tokio::test(start_paused = true)]
async fn only_a_leader_in_its_normal_mode_writes() {
    let sink = Arc::new(MemorySink::default());
    let mut publishing = Publishing::start(Arc::clone(&sink), Rights::None).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!((sink.writes(), sink.keeps()), (0, 0));
    publishing.rights.send_replace(Rights::Write);
    publishing.settled(&[]).await;

    // Frozen: kept, and not written.
    publishing.rights.send_replace(Rights::Keep);
    let (writes, keeps) = (sink.writes(), sink.keeps());
    publishing.change(vec![], &["web"]).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(sink.writes(), writes);
    assert!(sink.keeps() > keeps);
    publishing.rights.send_replace(Rights::Write);
    publishing.settled(&[]).await;
    assert_eq!(sink.writes(), writes + 2);

    // Another leads and puts the same records; the end of this one takes nothing of that away.
    publishing.rights.send_replace(Rights::None);
    let successor = Publishing::start(Arc::clone(&sink), Rights::Write).await;
    successor.settled(&[]).await;
    drop(publishing.changes);
    timeout(PATIENCE, publishing.task).await.unwrap().unwrap();
    successor.settled(&[]).await;
    assert_eq!(sink.records(), successor.wanted());
    successor.task.abort();
}
