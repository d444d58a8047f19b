//! Whether somebody who follows something still may.
//!
//! A request is judged when it comes; a stream lasts. While one is open, the scheduler is asked every
//! two seconds who its caller is and what they hold, once for all streams of one caller, and what was
//! taken away ends there.
//!
//! ```text
//!   Unknown ──▶ Held ──▶ Held (something else) ──▶ Gone (the end)
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tonic::{Code, Status};

use crate::caller::{Caller, CallerAt};
use crate::clusters::order::Keys;
use crate::clusters::{Call, Cluster};

/// How often the scheduler is asked. What was taken away is to end within five seconds.
const LOOK: Duration = Duration::from_secs(2);
const WHO: &str = "/persys.compute.v1.Access/WhoAmI";

/// What is known of one caller.
#[derive(Debug, Clone)]
enum Right {
    /// Nobody was asked yet, or nobody answered.
    Unknown,
    /// What they hold, as the scheduler says it.
    Held(Bytes),
    /// Nothing any more.
    Gone(Box<Status>),
}

/// All callers whose rights are watched.
#[derive(Debug, Default)]
pub struct Rights(Mutex<BTreeMap<CallerAt, Weak<Watched>>>);

/// One caller in one cluster, watched for as long as somebody holds this.
#[derive(Debug)]
pub struct Watched {
    right: watch::Receiver<Right>,
    task: Option<JoinHandle<()>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Something about a caller's rights is not as it was.
#[derive(Debug)]
pub enum Changed {
    /// They hold something else.
    Otherwise,
    /// They are nobody any more, or may nothing.
    Gone(Status),
}

impl Rights {
    /// Watches a caller.
    pub fn watch(&self, cluster: &Arc<Cluster>, caller: &Caller) -> Arc<Watched> {
        let key = (cluster.id.clone(), Arc::clone(caller.key()));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody who held nothing a moment ago may have been given something since.
        if let Some(known) = all.get(&key).and_then(Weak::upgrade)
            && !matches!(*known.right.borrow(), Right::Gone(_))
        {
            return known;
        }
        all.retain(|_, known| known.strong_count() > 0);
        let (to, right) = watch::channel(Right::Unknown);
        // Where there are no certificates, there is nothing to take away.
        let watched = (!caller.is_anonymous())
            .then(|| tokio::spawn(look(Arc::clone(cluster), caller.clone(), to)));
        let watched = Arc::new(Watched { right, task: watched });
        all.insert(key, Arc::downgrade(&watched));
        watched
    }
}

impl Watched {
    /// Comes back when the caller holds something else than now.
    pub async fn changed(&self) -> Changed {
        let mut right = self.right.clone();
        let mut before = match &*right.borrow_and_update() {
            Right::Held(held) => Some(held.clone()),
            Right::Unknown => None,
            Right::Gone(why) => return Changed::Gone(Status::clone(why)),
        };
        loop {
            if right.changed().await.is_err() {
                // Nobody looks any more: there is nothing to take away.
                std::future::pending::<()>().await;
            }
            match &*right.borrow_and_update() {
                Right::Unknown => {}
                Right::Held(held) if before.is_none() => before = Some(held.clone()),
                Right::Held(held) if before.as_ref() == Some(held) => {}
                Right::Held(_) => return Changed::Otherwise,
                Right::Gone(why) => return Changed::Gone(Status::clone(why)),
            }
        }
    }

    /// Comes back when the caller is nobody any more, or may nothing.
    pub async fn gone(&self) -> Status {
        loop {
            if let Changed::Gone(why) = self.changed().await {
                return why;
            }
        }
    }
}

async fn look(cluster: Arc<Cluster>, caller: Caller, to: watch::Sender<Right>) {
    loop {
        let call = Call {
            path: WHO,
            message: Bytes::new(),
            caller: &caller,
            source: None,
            reason: None,
            keys: &Keys { session: caller.key().to_string(), workload: String::new() },
            is_safe: true,
        };
        match cluster.call(&call).await {
            Ok(answer) => {
                let held = answer.into_inner();
                to.send_if_modified(|right| {
                    let same = matches!(right, Right::Held(before) if *before == held);
                    *right = Right::Held(held);
                    !same
                });
            }
            Err(why) if matches!(why.code(), Code::Unauthenticated | Code::PermissionDenied) => {
                to.send_replace(Right::Gone(Box::new(why)));
                return;
            }
            // No answer takes nothing away.
            Err(why) => tracing::debug!(cluster = cluster.id, %why, "rights are not known"),
        }
        sleep(LOOK).await;
    }
}
