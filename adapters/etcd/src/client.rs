//! What can be asked of etcd.

use std::sync::Arc;
use std::time::Duration;

use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status as Refusal, Streaming};

use crate::call::{Line, Lines, Nature};
use crate::error::{Error, Kind};
use crate::generated::kv_client::KvClient;
use crate::generated::lease_client::LeaseClient;
use crate::generated::maintenance_client::MaintenanceClient;
use crate::generated::watch_client::WatchClient;
use crate::generated::{self as wire, KeyValue, alarm_request, watch_request};
use crate::request::{Range, Txn, TxnDone};
use crate::settings::Settings;

/// Largest answer that is taken. Pages are made to stay far below it.
pub(crate) const LARGEST_ANSWER: usize = 32 * 1024 * 1024;
/// How long a member may take to rewrite its file.
const DEFRAGMENT_PATIENCE: Duration = Duration::from_mins(1);

/// The number of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId(pub i64);

/// How one member is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Its release.
    pub version: String,
    /// The size of its file.
    pub size_bytes: i64,
    /// How much of that is in use.
    pub used_bytes: i64,
    /// The revision of the store.
    pub revision: i64,
    /// What it complains about.
    pub complaints: Vec<String>,
}

/// A client. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    lines: Arc<Lines>,
}

fn kv(line: &Line) -> KvClient<tonic::transport::Channel> {
    KvClient::new(line.channel.clone()).max_decoding_message_size(LARGEST_ANSWER)
}

impl Client {
    /// A client; it connects with its first call.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { lines: Arc::new(Lines::new(settings)) }
    }

    /// Refuses every later call.
    pub fn close(&self) {
        self.lines.close();
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lines.is_closed()
    }

    /// Carries out a transaction. It is sent once.
    pub async fn txn(&self, txn: Txn) -> Result<TxnDone, Error> {
        let request = wire::TxnRequest::from(txn);
        let done = self.lines.call(Nature::Once, |line| {
            let request = line.request(request.clone());
            async move { kv(&line).txn(request).await }
        });
        Ok(done.await?.into_inner().into())
    }

    /// Carries out a transaction that only reads.
    pub async fn look(&self, txn: Txn) -> Result<TxnDone, Error> {
        let request = wire::TxnRequest::from(txn);
        let done = self.lines.call(Nature::Repeatable, |line| {
            let request = line.request(request.clone());
            async move { kv(&line).txn(request).await }
        });
        Ok(done.await?.into_inner().into())
    }

    /// Reads keys, and says at which revision. Rather than this, [`crate::Pages`] reads many.
    pub async fn range(&self, range: Range) -> Result<(Vec<KeyValue>, bool, i64), Error> {
        let request = wire::RangeRequest::from(range);
        let read = self.lines.call(Nature::Repeatable, |line| {
            let request = line.request(request.clone());
            async move { kv(&line).range(request).await }
        });
        let answer = read.await?.into_inner();
        Ok((answer.kvs, answer.more, answer.header.map_or(0, |header| header.revision)))
    }

    /// Reads one key.
    pub async fn get(&self, key: &str) -> Result<Option<KeyValue>, Error> {
        let range = Range::between(key.to_owned(), Bytes::new());
        Ok(self.range(range).await?.0.into_iter().next())
    }

    /// Forgets all revisions before this one, and waits until their space is free if asked to.
    pub async fn compact(&self, revision: i64, physical: bool) -> Result<(), Error> {
        let message = wire::CompactionRequest { revision, physical };
        let done = self.lines.call(Nature::Repeatable, |line| {
            let request = line.request(message);
            async move { kv(&line).compact(request).await }
        });
        match done.await {
            Ok(_) => Ok(()),
            // Somebody else did.
            Err(error) if error.kind() == Kind::Compacted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes a lease that lives for so many seconds; etcd may make it longer.
    pub async fn grant(&self, seconds: i64) -> Result<LeaseId, Error> {
        let message = wire::LeaseGrantRequest { ttl: seconds, id: 0 };
        let granted = self.lines.call(Nature::Once, |line| {
            let request = line.request(message);
            async move { LeaseClient::new(line.channel).lease_grant(request).await }
        });
        Ok(LeaseId(granted.await?.into_inner().id))
    }

    /// Ends a lease, and with it all keys that live by it.
    pub async fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        let message = wire::LeaseRevokeRequest { id: lease.0 };
        let revoked = self.lines.call(Nature::Repeatable, |line| {
            let request = line.request(message);
            async move { LeaseClient::new(line.channel).lease_revoke(request).await }
        });
        revoked.await.map(drop)
    }

    /// Keeps a lease alive. Says whether there is one.
    pub async fn keep_alive(&self, lease: LeaseId) -> Result<bool, Error> {
        let kept = self.lines.call(Nature::Repeatable, |line| {
            let message = wire::LeaseKeepAliveRequest { id: lease.0 };
            let request = line.request(tokio_stream::once(message));
            async move {
                let mut client = LeaseClient::new(line.channel);
                let mut answers = client.lease_keep_alive(request).await?.into_inner();
                let answer = answers.message().await?;
                answer.ok_or_else(|| Refusal::new(Code::Unknown, "no answer to a keep-alive"))
            }
        });
        Ok(kept.await?.ttl > 0)
    }

    /// For how many seconds a lease lives on; `None` if there is none.
    pub async fn time_to_live(&self, lease: LeaseId) -> Result<Option<i64>, Error> {
        let message = wire::LeaseTimeToLiveRequest { id: lease.0, keys: false };
        let told = self.lines.call(Nature::Repeatable, |line| {
            let request = line.request(message);
            async move { LeaseClient::new(line.channel).lease_time_to_live(request).await }
        });
        match told.await {
            Ok(answer) => Ok(Some(answer.into_inner().ttl).filter(|ttl| *ttl > 0)),
            Err(error) if error.kind() == Kind::NoLease => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How the member in use is.
    pub async fn status(&self) -> Result<Status, Error> {
        let told = self.lines.call(Nature::Repeatable, |line| {
            let request = line.request(wire::StatusRequest {});
            async move { MaintenanceClient::new(line.channel).status(request).await }
        });
        let answer = told.await?.into_inner();
        Ok(Status {
            version: answer.version,
            size_bytes: answer.db_size,
            used_bytes: answer.db_size_in_use,
            revision: answer.header.map_or(0, |header| header.revision),
            complaints: answer.errors,
        })
    }

    /// The alarms that members have raised: the member, and what it is about.
    pub async fn alarms(&self) -> Result<Vec<(u64, &'static str)>, Error> {
        let get = alarm_request::AlarmAction::Get.into();
        let message = wire::AlarmRequest { action: get, ..wire::AlarmRequest::default() };
        let raised = self.alarm(message).await?.alarms;
        let told = raised.into_iter().map(|raised| match wire::AlarmType::try_from(raised.alarm) {
            Ok(wire::AlarmType::Nospace) => (raised.member_id, "it is full"),
            Ok(wire::AlarmType::Corrupt) => (raised.member_id, "its data differs from the others'"),
            Ok(wire::AlarmType::None) | Err(_) => (raised.member_id, "it does not say what about"),
        });
        Ok(told.collect())
    }

    /// Takes back the alarm that etcd is full, at every member that raised it. Says at how many.
    pub async fn disarm(&self) -> Result<usize, Error> {
        let alarm = |action: alarm_request::AlarmAction, member_id, alarm: wire::AlarmType| {
            wire::AlarmRequest { action: action.into(), member_id, alarm: alarm.into() }
        };
        let get = alarm(alarm_request::AlarmAction::Get, 0, wire::AlarmType::None);
        let raised = self.alarm(get).await?.alarms;
        let full = i32::from(wire::AlarmType::Nospace);
        let mut count = 0;
        for member in raised.iter().filter(|raised| raised.alarm == full) {
            let action = alarm_request::AlarmAction::Deactivate;
            self.alarm(alarm(action, member.member_id, wire::AlarmType::Nospace)).await?;
            count += 1;
        }
        Ok(count)
    }

    async fn alarm(&self, message: wire::AlarmRequest) -> Result<wire::AlarmResponse, Error> {
        let told = self.lines.call(Nature::Repeatable, |line| {
            let request = line.request(message);
            async move { MaintenanceClient::new(line.channel).alarm(request).await }
        });
        Ok(told.await?.into_inner())
    }

    /// Gives unused space back to the disk, member by member. A member answers nothing meanwhile.
    pub async fn defragment(&self) -> Result<(), Error> {
        for member in 0..self.lines.count() {
            let done = self.lines.call_at(member, DEFRAGMENT_PATIENCE, |line| {
                let request = line.request(wire::DefragmentRequest {});
                async move { MaintenanceClient::new(line.channel).defragment(request).await }
            });
            done.await?;
        }
        Ok(())
    }

    /// Watches one key from now on. What is seen is a hint: it may be late, or missing.
    pub async fn watch(&self, key: &str) -> Result<Watching, Error> {
        let create = wire::WatchCreateRequest {
            key: key.to_owned().into(),
            range_end: Bytes::new(),
            start_revision: 0,
            progress_notify: false,
        };
        let asked = wire::WatchRequest {
            request_union: Some(watch_request::RequestUnion::CreateRequest(create)),
        };
        let opened = self.lines.call(Nature::Repeatable, |line| {
            let asked = asked.clone();
            async move {
                // etcd ends the watch when our side of the stream ends.
                let (asking, asks) = mpsc::channel(1);
                drop(asking.try_send(asked));
                let request = line.request(ReceiverStream::new(asks));
                let answers = WatchClient::new(line.channel).watch(request).await?.into_inner();
                Ok(Watching { answers, _asking: asking })
            }
        });
        opened.await
    }
}

/// A watch on one key.
#[derive(Debug)]
pub struct Watching {
    answers: Streaming<wire::WatchResponse>,
    _asking: mpsc::Sender<wire::WatchRequest>,
}

impl Watching {
    /// The next value of the key; `None` when it was deleted. An error ends the watch.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let answer = self.answers.message().await;
            let answer = answer.map_err(|status| Error::of(&status, "watch"))?;
            let Some(answer) = answer else { return Err(Error::unknown("the watch ended")) };
            if answer.canceled {
                return Err(Error::unknown(format!("the watch ended: {}", answer.cancel_reason)));
            }
            if let Some(event) = answer.events.last() {
                let put = i32::from(wire::event::EventType::Put);
                let value = event.kv.as_ref().filter(|_| event.r#type == put);
                return Ok(value.map(|kv| kv.value.clone()));
            }
        }
    }
}
