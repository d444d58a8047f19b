//! Families of series: made once, described as they are made.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::page::Page;

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goes up, and begins anew with the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by classes.
    Histogram,
}

impl Kind {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What a family is, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its whole name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// By what it is told apart.
    pub labels: Vec<&'static str>,
    /// What it says.
    pub help: &'static str,
}

type Set<const N: usize> = [(&'static str, &'static str); N];

/// Series of one family, told apart by words of the program.
struct Labelled<const N: usize, M, C = fn() -> M> {
    names: [&'static str; N],
    family: Family<Set<N>, M, C>,
}

impl<const N: usize, M, C: MetricConstructor<M>> Labelled<N, M, C> {
    fn with<T>(&self, values: [&'static str; N], act: impl FnOnce(&M) -> T) -> T {
        let mut set = self.names.map(|name| (name, ""));
        for ((_, place), value) in set.iter_mut().zip(values) {
            *place = value;
        }
        act(&self.family.get_or_create(&set))
    }
}

impl<const N: usize, M, C> fmt::Debug for Labelled<N, M, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Labelled").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Counters, by labels.
#[derive(Debug)]
pub struct Counters<const N: usize>(Labelled<N, Counter>);

impl<const N: usize> Counters<N> {
    /// Counts one more.
    pub fn inc(&self, values: [&'static str; N]) {
        self.add(values, 1);
    }

    /// Counts so many more.
    pub fn add(&self, values: [&'static str; N], more: u64) {
        self.0.with(values, |counter| counter.inc_by(more));
    }

    /// Shows these from the beginning, with nothing counted.
    #[must_use]
    pub fn preset(self, all: impl IntoIterator<Item = [&'static str; N]>) -> Self {
        all.into_iter().for_each(|values| self.add(values, 0));
        self
    }
}

/// Whole amounts, by labels.
#[derive(Debug)]
pub struct Gauges<const N: usize>(Labelled<N, Gauge>);

impl<const N: usize> Gauges<N> {
    /// So many there are.
    pub fn set(&self, values: [&'static str; N], count: u64) {
        self.0.with(values, |gauge| gauge.set(i64::try_from(count).unwrap_or(i64::MAX)));
    }

    /// Shows these from the beginning, as none.
    #[must_use]
    pub fn preset(self, all: impl IntoIterator<Item = [&'static str; N]>) -> Self {
        all.into_iter().for_each(|values| self.set(values, 0));
        self
    }
}

/// An amount that is not whole.
pub type Amount = Gauge<f64, AtomicU64>;

/// Amounts that are not whole, by labels.
#[derive(Debug)]
pub struct Amounts<const N: usize>(Labelled<N, Amount>);

impl<const N: usize> Amounts<N> {
    /// So much it is.
    pub fn set(&self, values: [&'static str; N], amount: f64) {
        self.0.with(values, |gauge| gauge.set(amount));
    }
}

/// Upper ends of the classes of a histogram.
#[derive(Debug, Clone, Copy)]
struct Classes(&'static [f64]);

impl MetricConstructor<Histogram> for Classes {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Histograms, by labels.
#[derive(Debug)]
pub struct Histograms<const N: usize>(Labelled<N, Histogram, Classes>);

impl<const N: usize> Histograms<N> {
    /// Something took so long.
    pub fn took(&self, values: [&'static str; N], took: Duration) {
        self.0.with(values, |histogram| histogram.observe(took.as_secs_f64()));
    }

    /// Shows these from the beginning, with nothing counted.
    #[must_use]
    pub fn preset(self, all: impl IntoIterator<Item = [&'static str; N]>) -> Self {
        all.into_iter().for_each(|values| self.0.with(values, |_| ()));
        self
    }
}

/// All families of one component, as they are made.
#[derive(Debug)]
pub struct Families {
    prefix: &'static str,
    registry: Registry,
    described: Vec<Described>,
}

impl Families {
    /// None yet; their names begin with the prefix.
    #[must_use]
    pub fn new(prefix: &'static str) -> Self {
        Self { prefix, registry: Registry::default(), described: Vec::new() }
    }

    /// What shows them.
    #[must_use]
    pub fn page(self) -> Page {
        Page::new(self.registry, self.described)
    }

    /// Writes down what a family is; gives its name as the library wants it.
    fn describe(
        &mut self,
        name: &str,
        help: &'static str,
        kind: Kind,
        labels: &[&'static str],
    ) -> String {
        let name = format!("{}_{name}", self.prefix);
        self.describe_as(name, help, kind, labels)
    }

    /// The same under a name that has no prefix.
    pub(crate) fn describe_as(
        &mut self,
        name: String,
        help: &'static str,
        kind: Kind,
        labels: &[&'static str],
    ) -> String {
        let bare = name.strip_suffix("_total").unwrap_or(&name).to_owned();
        debug_assert_eq!(kind == Kind::Counter, bare != name, "{name}: counters end in _total");
        let labels = labels.to_vec();
        self.described.push(Described { name, kind, labels, help });
        bare
    }

    pub(crate) fn collector(&mut self, collector: impl Collector) {
        self.registry.register_collector(Box::new(collector));
    }

    fn single<M: Metric + Clone>(
        &mut self,
        (name, kind): (&str, Kind),
        help: &'static str,
        metric: M,
    ) -> M {
        let name = self.describe(name, help, kind, &[]);
        self.registry.register(name, help, metric.clone());
        metric
    }

    fn labelled<const N: usize, M, C>(
        &mut self,
        (name, kind): (&str, Kind),
        help: &'static str,
        names: [&'static str; N],
        family: Family<Set<N>, M, C>,
    ) -> Labelled<N, M, C>
    where
        C: Clone,
        Family<Set<N>, M, C>: Metric,
    {
        let name = self.describe(name, help, kind, &names);
        self.registry.register(name, help, family.clone());
        Labelled { names, family }
    }

    /// One counter; its name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &'static str) -> Counter {
        self.single((name, Kind::Counter), help, Counter::default())
    }

    /// Counters by labels; their name ends in `_total`.
    pub fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Counters<N> {
        Counters(self.labelled((name, Kind::Counter), help, labels, Family::default()))
    }

    /// One whole amount.
    pub fn gauge(&mut self, name: &str, help: &'static str) -> Gauge {
        self.single((name, Kind::Gauge), help, Gauge::default())
    }

    /// Whole amounts by labels.
    pub fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Gauges<N> {
        Gauges(self.labelled((name, Kind::Gauge), help, labels, Family::default()))
    }

    /// One amount that is not whole.
    pub fn amount(&mut self, name: &str, help: &'static str) -> Amount {
        self.single((name, Kind::Gauge), help, Gauge::default())
    }

    /// Amounts that are not whole, by labels.
    pub fn amounts<const N: usize>(
        &mut self,
        name: &str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Amounts<N> {
        Amounts(self.labelled((name, Kind::Gauge), help, labels, Family::default()))
    }

    /// One histogram.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &'static str,
        classes: &'static [f64],
    ) -> Histogram {
        self.single((name, Kind::Histogram), help, Classes(classes).new_metric())
    }

    /// Histograms by labels.
    pub fn histograms<const N: usize>(
        &mut self,
        name: &str,
        help: &'static str,
        labels: [&'static str; N],
        classes: &'static [f64],
    ) -> Histograms<N> {
        let family = Family::new_with_constructor(Classes(classes));
        Histograms(self.labelled((name, Kind::Histogram), help, labels, family))
    }

    /// Series that are read from what the component holds whenever somebody looks. What is not there
    /// is not shown.
    pub fn seen<const N: usize>(
        &mut self,
        name: &str,
        help: &'static str,
        labels: [&'static str; N],
        look: impl Fn() -> Vec<([String; N], f64)> + Send + Sync + 'static,
    ) {
        let kind = if name.ends_with("_total") { Kind::Counter } else { Kind::Gauge };
        let name = self.describe(name, help, kind, &labels);
        self.collector(Seen { name, help, kind, labels, look: Box::new(look) });
    }
}

type Look<const N: usize> = Box<dyn Fn() -> Vec<([String; N], f64)> + Send + Sync>;

struct Seen<const N: usize> {
    name: String,
    help: &'static str,
    kind: Kind,
    labels: [&'static str; N],
    look: Look<N>,
}

impl<const N: usize> fmt::Debug for Seen<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<const N: usize> Collector for Seen<N> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let found = (self.look)();
        if found.is_empty() {
            return Ok(());
        }
        let kind = match self.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge | Kind::Histogram => MetricType::Gauge,
        };
        let mut family = encoder.encode_descriptor(&self.name, self.help, None, kind)?;
        for (values, amount) in found {
            let labels: Vec<_> = self.labels.iter().copied().zip(values).collect();
            if labels.is_empty() {
                one(&mut family, self.kind, amount)?;
            } else {
                one(&mut family.encode_family(&labels)?, self.kind, amount)?;
            }
        }
        Ok(())
    }
}

fn one(
    encoder: &mut prometheus_client::encoding::MetricEncoder<'_>,
    kind: Kind,
    amount: f64,
) -> fmt::Result {
    match kind {
        Kind::Counter => encoder.encode_counter::<[(&str, &str); 0], _, f64>(&amount, None),
        Kind::Gauge | Kind::Histogram => encoder.encode_gauge(&amount),
    }
}

/// One number of a collector.
pub(crate) fn encode_one(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, kind): (&str, &str, Kind),
    amount: f64,
) -> fmt::Result {
    let (counter, gauge) = (ConstCounter::new(amount), ConstGauge::new(amount));
    match kind {
        Kind::Counter => {
            let of = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(of)
        }
        Kind::Gauge | Kind::Histogram => {
            let of = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(of)
        }
    }
}
