//! Unit tests of a connection against a peer that does what a script says.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex, split};

use crate::client::{Session, Settings};
use crate::connection::{Connection, Procedure};
use crate::error::{Code, Error};
use crate::frame::{self, Frame, Kind, Status};
use crate::xdr::{Reader, Writer};

const ASK: Procedure = Procedure::new(212, "the state");
const STREAM: Procedure = Procedure::new(201, "a console");
const LIMIT: Duration = Duration::from_secs(5);

/// The other side.
struct Peer(DuplexStream);

impl Peer {
    async fn heard(&mut self) -> Frame {
        frame::next(&mut self.0).await.unwrap()
    }

    async fn say(&mut self, frame: Frame) {
        self.0.write_all(&frame.bytes().unwrap()).await.unwrap();
    }

    async fn reply(&mut self, to: &Frame, status: Status, body: impl Into<Bytes>) {
        let frame = Frame { kind: Kind::Reply, status, body: body.into(), ..to.clone() };
        self.say(frame).await;
    }

    async fn piece(&mut self, to: &Frame, status: Status, body: &'static [u8]) {
        let body = Bytes::from_static(body);
        self.say(Frame { kind: Kind::Stream, status, body, ..to.clone() }).await;
    }
}

fn pair() -> (Connection, Peer) {
    let (ours, theirs) = duplex(64 * 1024);
    let (reading, writing) = split(ours);
    (Connection::over(reading, writing), Peer(theirs))
}

async fn ask(connection: &Connection) -> Result<u32, Error> {
    connection.call(ASK, Writer::new().u32(9).done(), LIMIT, Reader::u32).await
}

fn word(word: u32) -> Vec<u8> {
    Writer::new().u32(word).done()
}

#[tokio::test]
async fn answers_find_who_asked_in_whatever_order_they_come() {
    let (connection, mut peer) = pair();
    let (first, second, ()) = tokio::join!(ask(&connection), ask(&connection), async {
        let (one, two) = (peer.heard().await, peer.heard().await);
        assert_ne!(one.serial, two.serial);
        assert_eq!((one.procedure, &*one.body), (212, &*word(9)));
        peer.reply(&two, Status::Ok, word(2)).await;
        peer.reply(&one, Status::Ok, word(1)).await;
    });
    assert_eq!((first.unwrap(), second.unwrap()), (1, 2));
}

#[tokio::test]
async fn a_no_keeps_its_code_and_the_connection_goes_on() {
    let (connection, mut peer) = pair();
    let no = Writer::new().i32(42).i32(10).optional_text(Some("no such domain")).done();
    let (refused, ()) = tokio::join!(ask(&connection), async {
        let call = peer.heard().await;
        peer.reply(&call, Status::Error, no).await;
    });
    assert_eq!(refused.unwrap_err().refusal().unwrap().code, Code::NO_DOMAIN);
    let (fine, ()) = tokio::join!(ask(&connection), async {
        let call = peer.heard().await;
        peer.reply(&call, Status::Ok, word(1)).await;
    });
    assert_eq!(fine, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn silence_ends_at_the_deadline_and_a_late_answer_is_nobodys() {
    let (connection, mut peer) = pair();
    let error = ask(&connection).await.unwrap_err();
    assert_eq!(error, Error::NoAnswer { asked: "the state", within_ms: 5000 });
    let late = peer.heard().await;
    peer.reply(&late, Status::Ok, word(1)).await;
    let never = Frame { serial: 4_000_000, ..late };
    peer.reply(&never, Status::Ok, word(7)).await;
    let (answer, ()) = tokio::join!(ask(&connection), async {
        let call = peer.heard().await;
        peer.reply(&call, Status::Ok, word(2)).await;
    });
    assert_eq!(answer, Ok(2), "each gets its own");
}

#[tokio::test]
async fn answers_too_short_or_too_long_are_unreadable() {
    for body in [vec![], vec![0; 3], vec![0; 8]] {
        let (connection, mut peer) = pair();
        let (answer, ()) = tokio::join!(ask(&connection), async {
            let call = peer.heard().await;
            peer.reply(&call, Status::Ok, body).await;
        });
        assert!(matches!(answer, Err(Error::Unreadable { .. })), "{answer:?}");
        assert!(connection.broken().is_none(), "the next call is not harmed");
    }
}

#[tokio::test]
async fn garbage_and_an_end_in_the_middle_break_the_connection_for_all_who_wait() {
    let garbage: [&[u8]; 4] = [b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0xff; 64], &[0; 64], &[0, 0]];
    for bytes in garbage {
        let (connection, mut peer) = pair();
        let (first, second, ()) = tokio::join!(ask(&connection), ask(&connection), async {
            peer.heard().await;
            peer.0.write_all(bytes).await.unwrap();
            drop(peer);
        });
        for answer in [first, second] {
            assert!(matches!(answer, Err(Error::Unreachable { .. })), "{answer:?}");
        }
        connection.ended().await;
        assert!(matches!(ask(&connection).await, Err(Error::Unreachable { .. })));
    }
}

#[tokio::test]
async fn a_ping_gets_a_pong() {
    let (_connection, mut peer) = pair();
    let ping = Frame {
        program: frame::KEEPALIVE,
        procedure: frame::PING,
        kind: Kind::Event,
        serial: 0,
        status: Status::Ok,
        body: Bytes::new(),
    };
    peer.say(ping.clone()).await;
    assert_eq!(peer.heard().await, Frame { procedure: frame::PONG, ..ping });
}

#[tokio::test]
async fn a_stream_comes_in_pieces_and_ends_by_our_word() {
    let (connection, mut peer) = pair();
    let opening = connection.open(STREAM, vec![], LIMIT, Reader::end);
    let (opened, call) = tokio::join!(opening, async {
        let call = peer.heard().await;
        // Data may be on its way before anybody took the stream.
        peer.reply(&call, Status::Ok, Bytes::new()).await;
        peer.piece(&call, Status::Continue, b"hel").await;
        call
    });
    let ((), stream) = opened.unwrap();
    stream.send(b"typed").await.unwrap();
    let typed = peer.heard().await;
    assert_eq!(
        (typed.kind, typed.serial, &*typed.body),
        (Kind::Stream, call.serial, &b"typed"[..])
    );
    peer.piece(&call, Status::Continue, b"lo").await;
    peer.piece(&call, Status::Continue, b"").await;
    assert_eq!(stream.rest(100, LIMIT).await.unwrap(), b"hello");
    let finish = peer.heard().await;
    assert_eq!((finish.kind, finish.status), (Kind::Stream, Status::Ok));
}

#[tokio::test]
async fn a_stream_that_nobody_reads_holds_up_no_call() {
    let (connection, mut peer) = pair();
    let opening = connection.open(STREAM, vec![], LIMIT, Reader::end);
    let (opened, call) = tokio::join!(opening, async {
        let call = peer.heard().await;
        peer.reply(&call, Status::Ok, Bytes::new()).await;
        call
    });
    let ((), mut stream) = opened.unwrap();
    let flood = async {
        for _ in 0..1000 {
            peer.piece(&call, Status::Continue, b"x").await;
        }
        let call = peer.heard().await;
        peer.reply(&call, Status::Ok, word(1)).await;
    };
    let (answer, ()) = tokio::join!(ask(&connection), flood);
    assert_eq!(answer, Ok(1));
    let mut read = 0;
    while let Ok(Some(_)) = stream.next().await {
        read += 1;
    }
    assert!(read < 1000, "the slow reader lost its stream, after {read} pieces");
}

#[tokio::test]
async fn a_session_logs_in_and_opens_its_driver() {
    let (connection, mut peer) = pair();
    let script = async {
        let auth = peer.heard().await;
        assert_eq!(auth.procedure, 66);
        peer.reply(&auth, Status::Ok, Writer::new().u32(1).u32(2).done()).await;
        let polkit = peer.heard().await;
        assert_eq!(polkit.procedure, 70);
        peer.reply(&polkit, Status::Ok, word(1)).await;
        let open = peer.heard().await;
        assert_eq!(open.procedure, 1);
        let mut reader = Reader::new(open.body.clone());
        assert_eq!(reader.optional(Reader::text).unwrap().unwrap(), "qemu:///system");
        peer.reply(&open, Status::Ok, Bytes::new()).await;
    };
    let settings = Arc::new(Settings::default());
    let (session, ()) = tokio::join!(Session::over(connection, settings), script);
    assert!(session.unwrap().works());
}

#[tokio::test]
async fn a_password_is_not_guessed() {
    let (connection, mut peer) = pair();
    let script = async {
        let auth = peer.heard().await;
        peer.reply(&auth, Status::Ok, Writer::new().u32(1).u32(1).done()).await;
    };
    let settings = Arc::new(Settings::default());
    let (session, ()) = tokio::join!(Session::over(connection, settings), script);
    let error = session.unwrap_err().to_string();
    assert!(error.contains("password"), "{error}");
}
