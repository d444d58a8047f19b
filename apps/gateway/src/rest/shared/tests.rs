use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::*;

/// How long something may take that does not hang.
const PATIENCE: Duration = Duration::from_secs(20);

fn key(caller: &str, message: Option<&'static str>) -> Key {
    Key {
        cluster: "c".to_owned(),
        caller: caller.into(),
        way: String::new(),
        rpc: "/x",
        message: message.map(Bytes::from),
    }
}

/// A server whose answer repeats the question and says how often it was asked, given when somebody
/// says so.
#[derive(Clone)]
struct Server {
    asked: Arc<AtomicU64>,
    together: Arc<Mutex<Vec<usize>>>,
    answers: Arc<Semaphore>,
}

impl Server {
    fn new() -> Self {
        let (asked, together) = (Arc::default(), Arc::default());
        Self { asked, together, answers: Arc::new(Semaphore::new(0)) }
    }

    fn count(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Asker for Server {
    async fn ask(self, messages: Vec<Bytes>) -> Vec<Given> {
        let nth = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.together.lock().unwrap().push(messages.len());
        assert!(!messages.contains(&Bytes::from("panic")), "as the test wants it");
        self.answers.acquire().await.unwrap().forget();
        let answer = |message: Bytes| match &*message {
            b"nobody" => Err(Status::not_found("nobody")),
            _ => Ok(Answer { message, age: Some(nth) }),
        };
        messages.into_iter().map(answer).collect()
    }
}

type Tasks = JoinSet<(Bytes, Given)>;

struct Bench {
    shared: Arc<Shared<Server>>,
    server: Server,
}

impl Bench {
    fn new() -> Self {
        Self { shared: Arc::default(), server: Server::new() }
    }

    fn asks(&self, key: Key, message: &'static str) -> impl Future<Output = Given> + use<> {
        let (shared, server) = (Arc::clone(&self.shared), self.server.clone());
        async move { shared.ask(key, Bytes::from(message), server).await }
    }

    /// Somebody asks what only the same goes together with.
    async fn come(&self, tasks: &mut Tasks, caller: &str) {
        self.comes(tasks, key(caller, Some("same")), "same").await;
    }

    /// Somebody asks what goes together with anything.
    async fn come_with(&self, tasks: &mut Tasks, message: &'static str) {
        self.comes(tasks, key("a", None), message).await;
    }

    async fn comes(&self, tasks: &mut Tasks, key: Key, message: &'static str) {
        let asks = self.asks(key, message);
        tasks.spawn(async move { (Bytes::from(message), asks.await) });
        settled().await;
    }

    fn is_empty(&self) -> bool {
        locked(&self.shared.0).is_empty()
    }
}

/// Everybody is where they wait: there is one thread, and each has had its turns.
async fn settled() {
    for _ in 0..16 {
        yield_now().await;
    }
}

async fn next(tasks: &mut Tasks) -> Option<(Bytes, Given)> {
    timeout(PATIENCE, tasks.join_next()).await.expect("somebody hangs").map(Result::unwrap)
}

async fn ages(tasks: &mut Tasks) -> Vec<u64> {
    let mut all = Vec::new();
    while let Some((_, given)) = next(tasks).await {
        all.push(given.unwrap().age.unwrap());
    }
    all
}

#[tokio::test]
async fn nobody_gets_an_answer_to_a_question_that_was_sent_before_theirs() {
    let (bench, mut tasks) = (Bench::new(), JoinSet::new());
    for _ in 0..10 {
        bench.come(&mut tasks, "a").await;
    }
    bench.server.answers.add_permits(1);
    let (_, first) = next(&mut tasks).await.unwrap();
    assert_eq!(first.unwrap().age, Some(1), "the first has its own");
    settled().await;
    bench.come(&mut tasks, "a").await;
    bench.server.answers.add_permits(5);
    let all = ages(&mut tasks).await;
    assert_eq!(all.iter().filter(|nth| **nth == 2).count(), 9, "{all:?}");
    assert_eq!(all.iter().filter(|nth| **nth == 3).count(), 1, "who came later: {all:?}");
    assert_eq!(bench.server.count(), 3);
    settled().await;
    assert!(bench.is_empty(), "nothing is kept");
}

#[tokio::test]
async fn callers_do_not_share_with_each_other() {
    let (bench, mut tasks) = (Bench::new(), JoinSet::new());
    bench.come(&mut tasks, "a").await;
    bench.come(&mut tasks, "b").await;
    assert_eq!(bench.server.count(), 2);
}

#[tokio::test]
async fn who_goes_away_in_the_middle_keeps_nobody_waiting() {
    let bench = Bench::new();
    let (mut first, mut second, mut rest) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    bench.come(&mut first, "a").await;
    bench.come(&mut second, "a").await;
    for _ in 0..3 {
        bench.come(&mut rest, "a").await;
    }
    second.shutdown().await;
    first.shutdown().await;
    settled().await;
    assert_eq!(bench.server.count(), 2, "what nobody wants to know any more is left");
    bench.server.answers.add_permits(9);
    assert_eq!(ages(&mut rest).await, [2, 2, 2]);
    settled().await;
    assert!(bench.is_empty());
}

#[tokio::test]
async fn who_goes_away_the_moment_it_is_their_turn_takes_nothing_with_them() {
    let (bench, mut tasks) = (Bench::new(), JoinSet::new());
    bench.come(&mut tasks, "a").await;
    let mut second = Box::pin(bench.asks(key("a", Some("same")), "same"));
    assert!(futures::poll!(&mut second).is_pending(), "waits");
    bench.server.answers.add_permits(9);
    next(&mut tasks).await.unwrap().1.unwrap();
    settled().await;
    // The first is answered; the second goes away without having looked.
    drop(second);
    bench.come(&mut tasks, "a").await;
    assert_eq!(ages(&mut tasks).await.len(), 1, "the third is answered");
    settled().await;
    assert!(bench.is_empty());
}

#[tokio::test]
async fn different_questions_that_wait_are_asked_together_and_each_gets_its_own_answer() {
    let (bench, mut tasks) = (Bench::new(), JoinSet::new());
    for message in ["a", "b", "c", "nobody", "d", "c"] {
        bench.come_with(&mut tasks, message).await;
    }
    assert_eq!(*bench.server.together.lock().unwrap(), [1, 1, 1], "enough waited, twice");
    bench.server.answers.add_permits(2);
    settled().await;
    let together = bench.server.together.lock().unwrap().clone();
    assert_eq!(together, [1, 1, 1, 3], "those who wait are asked once");
    bench.server.answers.add_permits(2);
    let mut count = 0;
    while let Some((asked, given)) = next(&mut tasks).await {
        count += 1;
        match given {
            Ok(answer) => assert_eq!(answer.message, asked),
            Err(refusal) => assert_eq!((&*asked, refusal.message()), (&b"nobody"[..], "nobody")),
        }
    }
    assert_eq!(count, 6);
    settled().await;
    assert!(bench.is_empty());
}

#[tokio::test]
async fn those_who_come_at_the_same_time_are_asked_together() {
    let (bench, mut tasks) = (Bench::new(), JoinSet::new());
    for message in ["a", "b", "c"] {
        let asks = bench.asks(key("a", None), message);
        tasks.spawn(async move { (Bytes::from(message), asks.await) });
    }
    bench.server.answers.add_permits(1);
    assert_eq!(ages(&mut tasks).await, [1, 1, 1]);
    assert_eq!(*bench.server.together.lock().unwrap(), [3]);
}

#[tokio::test]
async fn another_question_goes_out_beside_the_first_once_half_as_many_wait() {
    let (bench, mut tasks) = (Bench::new(), JoinSet::new());
    let together = || bench.server.together.lock().unwrap().clone();
    for message in ["a", "b", "c"] {
        let asks = bench.asks(key("a", None), message);
        tasks.spawn(async move { (Bytes::from(message), asks.await) });
    }
    settled().await;
    bench.come_with(&mut tasks, "d").await;
    assert_eq!(together(), [3], "one is fewer than half of three");
    bench.come_with(&mut tasks, "e").await;
    assert_eq!(together(), [3, 2]);
    for message in ["f", "g"] {
        bench.come_with(&mut tasks, message).await;
    }
    assert_eq!(together(), [3, 2], "two are fewer than half of five");
    bench.come_with(&mut tasks, "h").await;
    assert_eq!(together(), [3, 2, 3]);
    for message in ["i", "j", "k", "l", "m"] {
        bench.come_with(&mut tasks, message).await;
    }
    assert_eq!(together(), [3, 2, 3], "there are three at most");
    bench.server.answers.add_permits(1);
    settled().await;
    assert_eq!(together(), [3, 2, 3, 5]);
    // The second finds nobody left and ends, the third finds too few; the last one takes whoever comes.
    bench.server.answers.add_permits(1);
    bench.come_with(&mut tasks, "n").await;
    assert_eq!(together(), [3, 2, 3, 5], "one is fewer than half of eight");
    bench.server.answers.add_permits(1);
    settled().await;
    assert_eq!(together(), [3, 2, 3, 5], "and of five");
    bench.server.answers.add_permits(1);
    settled().await;
    assert_eq!(together(), [3, 2, 3, 5, 1]);
    bench.server.answers.add_permits(1);
    while next(&mut tasks).await.is_some() {}
    settled().await;
    assert!(bench.is_empty());
}

#[tokio::test]
async fn no_more_are_asked_together_than_go_together() {
    let (bench, mut tasks) = (Bench::new(), JoinSet::<Given>::new());
    for nth in 0..MOST * 2 + 10 {
        let (shared, server) = (Arc::clone(&bench.shared), bench.server.clone());
        let message = Bytes::from(nth.to_string());
        tasks.spawn(async move {
            let given = shared.ask(key("a", None), message.clone(), server).await;
            assert_eq!(given.as_ref().unwrap().message, message);
            given
        });
    }
    settled().await;
    bench.server.answers.add_permits(99);
    while let Some(one) = timeout(PATIENCE, tasks.join_next()).await.expect("somebody hangs") {
        one.unwrap().unwrap();
    }
    let together = bench.server.together.lock().unwrap().clone();
    assert_eq!(together.iter().sum::<usize>(), MOST * 2 + 10, "{together:?}");
    assert!(together.iter().all(|count| *count <= MOST), "{together:?}");
    assert!(together.len() <= 5, "{together:?}");
}

#[tokio::test]
async fn a_task_that_dies_leaves_nobody_waiting() {
    let (bench, mut tasks) = (Bench::new(), JoinSet::new());
    bench.comes(&mut tasks, key("a", Some("panic")), "panic").await;
    let (_, given) = next(&mut tasks).await.unwrap();
    assert_eq!(given.unwrap_err().code(), tonic::Code::Unavailable);
    settled().await;
    assert!(bench.is_empty(), "the next one begins anew");
}

/// Numbers that look like chance, and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Answers at once or a little later.
struct Quick(Arc<AtomicU64>);

impl Asker for Quick {
    async fn ask(self, messages: Vec<Bytes>) -> Vec<Given> {
        let nth = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        for _ in 0..nth % 7 {
            yield_now().await;
        }
        let answer = |message| Ok(Answer { message, age: Some(nth) });
        messages.into_iter().map(answer).collect()
    }
}

/// Asks again and again, and goes away in the middle of two of three.
async fn fickle(shared: Arc<Shared<Quick>>, asked: Arc<AtomicU64>, seed: u64) -> u64 {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (seed << 32) ^ seed);
    let mut answered = 0;
    for _ in 0..400 {
        let message = Bytes::from(chance.below(5).to_string());
        let same = chance.below(2) == 0;
        let key = Key { message: same.then(|| message.clone()), ..key("a", None) };
        let before = asked.load(Ordering::SeqCst);
        let question = shared.ask(key, message.clone(), Quick(Arc::clone(&asked)));
        let patience = chance.below(12);
        let given = if chance.below(3) == 0 {
            Some(timeout(PATIENCE, question).await.expect("a question hangs"))
        } else {
            tokio::select! {
                given = question => Some(given),
                () = async { for _ in 0..patience { yield_now().await } } => None,
            }
        };
        if let Some(given) = given {
            let given = given.unwrap();
            assert_eq!(given.message, message);
            assert!(given.age.unwrap() > before, "an answer to an earlier question");
            answered += 1;
        }
    }
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_goes_away_whenever_everybody_else_is_answered() {
    let (shared, asked) = (Arc::<Shared<Quick>>::default(), Arc::<AtomicU64>::default());
    let mut tasks = JoinSet::new();
    for seed in 1..=32 {
        tasks.spawn(fickle(Arc::clone(&shared), Arc::clone(&asked), seed));
    }
    let mut answered = 0;
    while let Some(one) = tasks.join_next().await {
        answered += one.unwrap();
    }
    assert!(answered > 32 * 400 / 3, "{answered}");
    let empty = async {
        while !locked(&shared.0).is_empty() {
            yield_now().await;
        }
    };
    timeout(PATIENCE, empty).await.expect("something is kept");
}
