//! What is shown and how it was asked for; keys change it.

use std::cmp::Ordering;
use std::time::SystemTime;

use persys_proto::control::v1::{NodeView, WorkloadView};

use super::heard::{Asked, Heard};

/// Letters of a filter.
const LONGEST_FILTER: usize = 64;

/// A key that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Tab,
    Enter,
    Escape,
    Rubout,
    /// Ends it, whatever is on the screen.
    Interrupt,
    Letter(char),
}

/// What a key leads to beyond what is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Do {
    Nothing,
    Quit,
    /// Ask why this is as it is.
    Explain(Subject),
}

/// What something is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Node(String),
    Workload(String),
}

impl Subject {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Node(id) | Self::Workload(id) => id,
        }
    }
}

/// Which list the keys move in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Focus {
    Nodes,
    Workloads,
}

/// What the lists are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Name,
    Cpu,
    Memory,
}

impl Sort {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Cpu => "CPU",
            Self::Memory => "memory",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Name => Self::Cpu,
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Name,
        }
    }
}

/// What lies over the lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Over {
    Nothing,
    Help,
    /// An explanation, and how far it is scrolled; `None` while it is asked for.
    Why {
        of: Subject,
        lines: Option<Vec<String>>,
        from: u16,
    },
}

/// Everything that is on the screen.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// The last answer and when it came.
    pub(super) heard: Option<(SystemTime, Heard)>,
    /// Why the last question had no answer; nothing when it had one.
    pub(super) missed: Option<String>,
    pub(super) focus: Focus,
    /// The chosen ones by name, so that they stay chosen when the order changes.
    pub(super) node: Option<String>,
    pub(super) workload: Option<String>,
    pub(super) sort: Sort,
    /// Only what has this in it; each list has its own.
    pub(super) node_filter: String,
    pub(super) workload_filter: String,
    pub(super) typing: bool,
    pub(super) over: Over,
    pub(super) color: bool,
    /// Since when there is anything to wait for.
    pub(super) begun: Option<SystemTime>,
}

impl State {
    pub(super) fn new(color: bool) -> Self {
        Self {
            heard: None,
            missed: None,
            focus: Focus::Workloads,
            node: None,
            workload: None,
            sort: Sort::Name,
            node_filter: String::new(),
            workload_filter: String::new(),
            typing: false,
            over: Over::Nothing,
            color,
            begun: None,
        }
    }

    /// Takes in what became of asking.
    pub(super) fn hear(&mut self, asked: Asked, now: SystemTime) {
        match asked {
            Asked::Heard(heard) => {
                self.heard = Some((now, *heard));
                self.missed = None;
            }
            Asked::Missed(problem) => {
                let why = problem.why.into_iter().next().unwrap_or(problem.what);
                self.missed = Some(why);
            }
        }
    }

    /// Takes in an explanation, unless nobody waits for it any more.
    pub(super) fn explained(&mut self, subject: &Subject, told: Vec<String>) {
        if let Over::Why { of, lines, .. } = &mut self.over
            && of == subject
        {
            *lines = Some(told);
        }
    }

    /// Does what a key means.
    pub(super) fn on(&mut self, key: Key) -> Do {
        if key == Key::Interrupt {
            return Do::Quit;
        }
        if self.typing {
            self.type_filter(key);
            return Do::Nothing;
        }
        if self.over != Over::Nothing {
            return self.on_over(key);
        }
        match key {
            Key::Up | Key::Letter('k') => self.step(-1),
            Key::Down | Key::Letter('j') => self.step(1),
            Key::PageUp => self.step(-10),
            Key::PageDown => self.step(10),
            Key::First | Key::Letter('g') => self.step(isize::MIN),
            Key::Last | Key::Letter('G') => self.step(isize::MAX),
            Key::Tab => {
                self.focus = match self.focus {
                    Focus::Nodes => Focus::Workloads,
                    Focus::Workloads => Focus::Nodes,
                };
            }
            Key::Letter('s') => self.sort = self.sort.next(),
            Key::Letter('/') => self.typing = true,
            Key::Letter('?' | 'h') => self.over = Over::Help,
            Key::Letter('q') => return Do::Quit,
            Key::Escape => self.filter().clear(),
            Key::Enter => return self.ask_why(),
            Key::Rubout | Key::Interrupt | Key::Letter(_) => {}
        }
        Do::Nothing
    }

    fn filter(&mut self) -> &mut String {
        match self.focus {
            Focus::Nodes => &mut self.node_filter,
            Focus::Workloads => &mut self.workload_filter,
        }
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Enter | Key::Tab | Key::Up | Key::Down => self.typing = false,
            Key::Escape => {
                self.filter().clear();
                self.typing = false;
            }
            Key::Rubout => drop(self.filter().pop()),
            Key::Letter(letter) if self.filter().chars().count() < LONGEST_FILTER => {
                self.filter().push(letter);
            }
            Key::Letter(_) | Key::Interrupt => {}
            Key::PageUp | Key::PageDown | Key::First | Key::Last => {}
        }
    }

    fn on_over(&mut self, key: Key) -> Do {
        let by: i32 = match key {
            Key::Up | Key::Letter('k') => -1,
            Key::Down | Key::Letter('j') => 1,
            Key::PageUp => -10,
            Key::PageDown => 10,
            Key::First | Key::Letter('g') => i32::MIN,
            Key::Escape | Key::Enter | Key::Letter('q' | '?' | 'h') => {
                self.over = Over::Nothing;
                return Do::Nothing;
            }
            Key::Last | Key::Tab | Key::Rubout | Key::Interrupt | Key::Letter(_) => 0,
        };
        if let Over::Why { lines: Some(lines), from, .. } = &mut self.over {
            let last = u16::try_from(lines.len().saturating_sub(1)).unwrap_or(u16::MAX);
            let moved = i32::from(*from).saturating_add(by).clamp(0, i32::from(last));
            *from = u16::try_from(moved).unwrap_or_default();
        }
        Do::Nothing
    }

    fn ask_why(&mut self) -> Do {
        let chosen = match self.focus {
            Focus::Nodes => self.chosen_node().map(|at| Subject::Node(at.node_id.clone())),
            Focus::Workloads => {
                self.chosen_workload().map(|at| Subject::Workload(at.workload_id.clone()))
            }
        };
        let Some(of) = chosen else { return Do::Nothing };
        self.over = Over::Why { of: of.clone(), lines: None, from: 0 };
        Do::Explain(of)
    }

    /// Chooses another one of the list, `by` steps further down.
    fn step(&mut self, by: isize) {
        let (ids, chosen): (Vec<String>, _) = match self.focus {
            Focus::Nodes => {
                (self.nodes().iter().map(|one| one.node_id.clone()).collect(), &mut self.node)
            }
            Focus::Workloads => (
                self.workloads().iter().map(|one| one.workload_id.clone()).collect(),
                &mut self.workload,
            ),
        };
        let at = chosen.as_ref().and_then(|id| ids.iter().position(|one| one == id)).unwrap_or(0);
        let last = ids.len().saturating_sub(1);
        let to = at.saturating_add_signed(by).min(last);
        *chosen = ids.into_iter().nth(to);
    }

    /// The nodes that are shown, in their order.
    pub(super) fn nodes(&self) -> Vec<&NodeView> {
        let all = self.heard.as_ref().and_then(|(_, heard)| heard.nodes.as_ref().ok());
        let mut shown: Vec<&NodeView> =
            all.into_iter().flatten().filter(|node| self.wants_node(node)).collect();
        shown.sort_by(|one, two| {
            let by = match self.sort {
                Sort::Name => Ordering::Equal,
                Sort::Cpu => two.used_cpu_cores.total_cmp(&one.used_cpu_cores),
                Sort::Memory => two.used_memory_mb.cmp(&one.used_memory_mb),
            };
            by.then_with(|| one.node_id.cmp(&two.node_id))
        });
        shown
    }

    /// The workloads that are shown, in their order.
    pub(super) fn workloads(&self) -> Vec<&WorkloadView> {
        let all = self.heard.as_ref().and_then(|(_, heard)| heard.workloads.as_ref().ok());
        let mut shown: Vec<&WorkloadView> =
            all.into_iter().flatten().filter(|one| self.wants_workload(one)).collect();
        let cpu = |one: &WorkloadView| one.usage.as_ref().map_or(-1.0, |usage| usage.cpu_percent);
        let memory = |one: &WorkloadView| one.usage.as_ref().map_or(-1, |usage| usage.memory_bytes);
        shown.sort_by(|one, two| {
            let by = match self.sort {
                Sort::Name => Ordering::Equal,
                Sort::Cpu => cpu(two).total_cmp(&cpu(one)),
                Sort::Memory => memory(two).cmp(&memory(one)),
            };
            by.then_with(|| one.workload_id.cmp(&two.workload_id))
        });
        shown
    }

    pub(super) fn chosen_node(&self) -> Option<&NodeView> {
        let shown = self.nodes();
        let chosen = shown.iter().find(|one| Some(&one.node_id) == self.node.as_ref());
        chosen.or(shown.first()).copied()
    }

    pub(super) fn chosen_workload(&self) -> Option<&WorkloadView> {
        let shown = self.workloads();
        let chosen = shown.iter().find(|one| Some(&one.workload_id) == self.workload.as_ref());
        chosen.or(shown.first()).copied()
    }

    fn wants_node(&self, node: &NodeView) -> bool {
        has(&self.node_filter, &[&node.node_id, &node.status, &node.condition])
    }

    fn wants_workload(&self, one: &WorkloadView) -> bool {
        let words = [&one.workload_id, &one.status, &one.assigned_node_id, &one.r#type];
        has(&self.workload_filter, &words)
    }
}

/// Whether any of the words has it in it, in small letters or large ones.
fn has(wanted: &str, words: &[&String]) -> bool {
    let wanted = wanted.to_lowercase();
    words.iter().any(|word| word.to_lowercase().contains(&wanted))
}
