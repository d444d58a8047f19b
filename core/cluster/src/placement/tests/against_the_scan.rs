//! Random histories. A plain model keeps its own accounts, and judges every node anew each time.

use proptest::strategy::Strategy as Generate;

use super::*;

const PORTS: [HostPort; 2] = [HTTP, HTTP_UDP];
const POOLS: [&str; 2] = ["slow", "fast"];

#[derive(Debug, Clone)]
enum Op {
    Set(u32, u8),
    Remove(u32),
    Open(u32, bool),
    Take(u32, Ask),
    Give(usize),
    Place(Ask),
}

/// A request as plain numbers.
#[derive(Debug, Clone)]
struct Ask {
    cpu: u64,
    mem: u64,
    gib: u64,
    pool: Option<usize>,
    port: Option<usize>,
    constraint: u8,
    tolerates: bool,
    packs: bool,
    driver: bool,
    avoid: Vec<u32>,
}

fn ask() -> impl Generate<Value = Ask> {
    let amounts = (0..4500_u64, 0..9000_u64, 0..30_u64);
    let places = (proptest::option::of(0..2_usize), proptest::option::weighted(0.2, 0..2_usize));
    let filters = (0..8_u8, any::<bool>(), any::<bool>(), proptest::bool::weighted(0.1));
    let avoid = proptest::collection::vec(0..40_u32, 0..3);
    (amounts, places, filters, avoid).prop_map(|(amounts, places, filters, avoid)| Ask {
        cpu: amounts.0,
        mem: amounts.1,
        gib: amounts.2.saturating_sub(15),
        pool: places.0,
        port: places.1,
        constraint: filters.0,
        tolerates: filters.1,
        packs: filters.2,
        driver: filters.3,
        avoid,
    })
}

fn ops(nodes: u32) -> impl Generate<Value = Vec<Op>> {
    let op = prop_oneof![
        1 => (0..nodes, any::<u8>()).prop_map(|(at, kind)| Op::Set(at, kind)),
        1 => (0..nodes).prop_map(Op::Remove),
        2 => (0..nodes, any::<bool>()).prop_map(|(at, open)| Op::Open(at, open)),
        3 => (0..nodes, ask()).prop_map(|(at, ask)| Op::Take(at, ask)),
        5 => any::<usize>().prop_map(Op::Give),
        8 => ask().prop_map(Op::Place),
    ];
    proptest::collection::vec(op, 1..250)
}

/// The model's own account of a node.
#[derive(Debug, Clone)]
struct Account {
    capacity: Compute,
    pools: Vec<Pool>,
    traits: Traits,
    open: bool,
}

#[derive(Default)]
struct Model {
    nodes: BTreeMap<u32, Account>,
    /// What is taken on each node; a node with nothing taken is not listed.
    taken: BTreeMap<u32, Vec<(Resources, Vec<HostPort>)>>,
}

fn account(kind: u8, at: u32) -> Account {
    let mut traits = match kind % 8 {
        0 => labelled("disk", "ssd"),
        1 => labelled("disk", "hdd"),
        2 => labelled("host", &format!("h{at}")),
        3 => tainted(TaintEffect::NoSchedule),
        4 => tainted(TaintEffect::PreferNoSchedule),
        _ => traits(),
    };
    if kind.is_multiple_of(5) {
        traits.drivers.insert(DriverName::fixed("ceph-rbd"));
    }
    let pools = match kind % 3 {
        0 => vec![],
        1 => vec![pool("slow", 40)],
        _ => vec![pool("fast", 20), pool("slow", 10)],
    };
    let capacity = match kind % 4 {
        0 => Compute::new(2000, 16_000),
        1 => Compute::new(8000, 4000),
        _ => Compute::new(4000, 8192),
    };
    Account { capacity, pools, traits, open: true }
}

impl Ask {
    fn resources(&self) -> Resources {
        let disk = disk(self.pool.map(|pool| POOLS[pool]), self.gib);
        Resources { compute: Compute::new(self.cpu, self.mem), disk }
    }

    fn ports(&self) -> Vec<HostPort> {
        self.port.map(|port| PORTS[port]).into_iter().collect()
    }

    /// Calls `with` with the request this stands for.
    fn with<T>(&self, with: impl FnOnce(&Request<'_>) -> T) -> T {
        let key = |key: &str, rule| vec![Constraint { key: Arc::from(key), rule }];
        let constraints = match self.constraint {
            0 => vec![is("disk", "ssd")],
            1 => key("disk", Rule::Exists),
            2 => key("disk", Rule::Absent),
            3 => key("disk", Rule::NotIn(BTreeSet::from([Arc::from("ssd")]))),
            4 => vec![is("host", &format!("h{}", self.cpu % 40))],
            _ => vec![],
        };
        let tolerations = [Toleration { key: Arc::from("gpu"), value: None }];
        let drivers = [DriverName::fixed("ceph-rbd")];
        let avoid: Vec<NodeIndex> = self.avoid.iter().copied().map(NodeIndex).collect();
        let resources = self.resources();
        with(&Request {
            compute: resources.compute,
            disk: &resources.disk,
            ports: &self.ports(),
            constraints: &constraints,
            tolerations: if self.tolerates { &tolerations } else { &[] },
            workload_type: WorkloadType::Container,
            drivers: if self.driver { &drivers } else { &[] },
            strategy: if self.packs { Strategy::BinPack } else { Strategy::Spread },
            avoid: &avoid,
        })
    }
}

impl Model {
    fn on(&self, at: u32) -> impl Iterator<Item = &(Resources, Vec<HostPort>)> {
        self.taken.get(&at).into_iter().flatten()
    }

    fn taken(&self, at: u32) -> Compute {
        self.on(at).fold(Compute::ZERO, |sum, (what, _)| sum.plus(what.compute))
    }

    fn disk_fits(&self, at: u32, account: &Account, request: &Request<'_>) -> bool {
        let key = |pool: Option<&PoolName>| {
            pool.or(account.pools.first().map(|pool| &pool.name)).cloned()
        };
        request.disk.iter().all(|(pool, gib)| {
            if account.pools.is_empty() {
                return pool.is_none();
            }
            let name = key(pool);
            let Some(found) = account.pools.iter().find(|pool| Some(&pool.name) == name.as_ref())
            else {
                return false;
            };
            let used: u64 = self
                .on(at)
                .flat_map(|(what, _)| what.disk.iter().collect::<Vec<_>>())
                .filter(|(pool, _)| key(*pool) == name)
                .map(|(_, gib)| gib)
                .sum();
            used + gib <= found.total_gib
        })
    }

    fn fits(&self, at: u32, request: &Request<'_>) -> bool {
        let Some(account) = self.nodes.get(&at) else { return false };
        let traits = &account.traits;
        let tolerated = |taint: &Taint| {
            taint.effect == TaintEffect::PreferNoSchedule
                || request.tolerations.iter().any(|toleration| toleration.covers(taint))
        };
        let mut taken = self.on(at).flat_map(|(_, ports)| ports);
        let ports_free = !taken.any(|port| request.ports.contains(port));
        account.open
            && traits.types.contains(&request.workload_type)
            && request.drivers.iter().all(|driver| traits.drivers.contains(driver))
            && request.constraints.iter().all(|constraint| constraint.admits(&traits.labels))
            && traits.taints.iter().all(tolerated)
            && ports_free
            && account.capacity.minus(self.taken(at)).covers(request.compute)
            && self.disk_fits(at, account, request)
    }
}

/// Both sides of a history.
#[derive(Default)]
struct Pair {
    index: Index,
    model: Model,
    picks: Vec<Option<NodeIndex>>,
}

impl Pair {
    fn set(&mut self, at: u32, kind: u8) {
        let mut account = account(kind, at);
        self.index.set_node(
            NodeIndex(at),
            account.capacity,
            &account.pools,
            account.traits.clone(),
        );
        account.open = self.model.nodes.get(&at).is_none_or(|old| old.open);
        self.model.nodes.insert(at, account);
    }

    fn take(&mut self, at: u32, ask: &Ask) {
        self.index.take(NodeIndex(at), &ask.resources(), &ask.ports());
        self.model.taken.entry(at).or_default().push((ask.resources(), ask.ports()));
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Set(at, kind) => self.set(*at, *kind),
            Op::Remove(at) => {
                self.index.remove_node(NodeIndex(*at));
                self.model.nodes.remove(at);
                self.model.taken.remove(at);
            }
            Op::Open(at, open) => {
                self.index.set_open(NodeIndex(*at), *open);
                if let Some(account) = self.model.nodes.get_mut(at) {
                    account.open = *open;
                }
            }
            Op::Take(at, ask) => self.take(*at, ask),
            Op::Give(which) => {
                let count = self.model.taken.len().max(1);
                if let Some((at, list)) = self.model.taken.iter_mut().nth(which % count)
                    && let Some((what, ports)) = list.pop()
                {
                    self.index.give(NodeIndex(*at), &what, &ports);
                }
                self.model.taken.retain(|_, list| !list.is_empty());
            }
            Op::Place(ask) => self.place(ask),
        }
    }

    fn place(&mut self, ask: &Ask) {
        let picked = ask.with(|request| {
            let fitting: Vec<u32> = self
                .model
                .nodes
                .keys()
                .copied()
                .filter(|at| self.model.fits(*at, request))
                .collect();
            let nodes = self.model.nodes.keys().copied();
            let index_says: Vec<u32> =
                nodes.filter(|at| self.index.fits(NodeIndex(*at), request)).collect();
            assert_eq!(index_says, fitting, "both judge every node alike");
            let exact = self.index.scan(request);
            let picked = self.index.pick(request);
            assert_eq!(picked.is_some(), !fitting.is_empty(), "a node is picked iff one fits");
            assert!(picked.is_none_or(|at| fitting.contains(&at.0)), "{picked:?} does not fit");
            if self.model.nodes.len() <= 256 {
                assert_eq!(picked, exact, "few nodes are all looked at");
            }
            let explanation = self.index.explain(request);
            let refused: usize = explanation.refusals.iter().map(|refusal| refusal.nodes).sum();
            assert_eq!(explanation.total, self.model.nodes.len());
            assert_eq!(explanation.fitting, fitting.len());
            assert_eq!(explanation.fitting + refused, explanation.total);
            picked
        });
        self.picks.push(picked);
        if let Some(at) = picked {
            self.take(at.0, ask);
        }
    }

    fn assert_accounts(&self) {
        for (at, account) in &self.model.nodes {
            let taken = self.model.taken(*at);
            assert_eq!(self.index.taken(NodeIndex(*at)), taken);
            assert_eq!(self.index.free(NodeIndex(*at)), account.capacity.minus(taken));
        }
    }
}

/// A fleet of `nodes`, filled unevenly, then `ops`.
fn run(nodes: u32, ops: &[Op]) -> Vec<Option<NodeIndex>> {
    let mut pair = Pair::default();
    for at in 0..nodes {
        pair.set(at, u8::try_from(at * 37 % 251).unwrap());
        let (cpu, mem) = (u64::from(at * 7919 % 4200), u64::from(at * 104_729 % 8400));
        pair.take(
            at,
            &Ask {
                cpu,
                mem,
                gib: 0,
                pool: None,
                port: at.is_multiple_of(3).then_some(0),
                constraint: 9,
                tolerates: false,
                packs: false,
                driver: false,
                avoid: Vec::new(),
            },
        );
    }
    for op in ops {
        pair.apply(op);
    }
    pair.assert_accounts();
    pair.picks
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn few_nodes_are_judged_exactly(ops in ops(40)) {
        run(40, &ops);
    }

    #[test]
    fn from_nothing(ops in ops(8)) {
        run(0, &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn many_nodes_are_never_missed(ops in ops(1500)) {
        run(1500, &ops);
    }

    #[test]
    fn the_same_calls_give_the_same_answers(ops in ops(600)) {
        prop_assert_eq!(run(600, &ops), run(600, &ops));
    }
}
