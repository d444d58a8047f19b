//! From text to nodes with lines, within a budget.
//!
//! The parser gives events; here they become a tree. Aliases are copied and merge keys resolved on
//! the way, and every copy is paid for before it is made: a small file that unfolds to millions of
//! nodes is refused after as much work as a plain file of the largest size takes.
//!
//! Scalars stay texts. What a text means, a number, a truth or a name, is decided by the key it
//! stands under; YAML's own guesses (`22:22` as a number in base 60, `no` as false) never apply.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle, Tag};

use crate::finding::{Spot, shown};
use crate::limits::{DEPTH, KEY_BYTES, NODES, SCALAR_BYTES, TOTAL_BYTES};

/// A value and the line it starts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) line: Spot,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Whether variables were filled in: what is then in it may be secret and is not quoted.
    pub(crate) filled_in: bool,
}

/// One key of a mapping and what stands under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: Spot,
    pub(crate) value: Node,
}

/// A whole file.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Node,
    /// Keys that stand twice in one mapping, where the later one stands: it is the one that counts.
    pub(crate) twice: Vec<(Spot, String)>,
    /// Keys that an earlier file of the project loses, by their way from the root: those with the tag
    /// `!reset`, which are not in this file either, and those with `!override`, which are.
    pub(crate) cuts: Vec<Vec<String>>,
}

/// Why there is no tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) line: Spot,
    pub(crate) why: String,
}

impl Unreadable {
    fn at(line: Spot, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }
}

/// The one document in `text`, which is this file of its project.
pub(crate) fn parse(text: &str, file: u16) -> Result<Parsed, Unreadable> {
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_comments: false,
        flow_nesting_limit: DEPTH.saturating_add(2),
        block_nesting_limit: DEPTH.saturating_add(2),
    };
    let line_of = |line: usize| Spot { file, line: u32::try_from(line).unwrap_or(u32::MAX) };
    let mut tree = Tree::default();
    let mut parser = Parser::new_from_str_with_options(text, options);
    while let Some(next) = parser.next_event() {
        match next {
            Ok((event, span)) => tree.take(event, line_of(span.start.line()))?,
            Err(error) => {
                let line = line_of(error.marker().line());
                return Err(Unreadable::at(line, format!("is not YAML: {}", error.info())));
            }
        }
    }
    let twice = std::mem::take(&mut tree.twice);
    let mut root = tree.done.ok_or_else(|| Unreadable::at(line_of(0), "is empty"))?;
    let mut cuts = Vec::new();
    for (cut, way) in tree.cuts {
        if cut == Cut::Reset {
            remove(&mut root, &way);
        }
        cuts.push(way);
    }
    Ok(Parsed { root, twice, cuts })
}

/// Takes the key at the end of `way` out of a tree, if it is there.
pub(crate) fn remove(root: &mut Node, way: &[String]) {
    let Value::Map(entries) = &mut root.value else { return };
    match way {
        [] => {}
        [key] => entries.retain(|entry| entry.key != *key),
        [key, rest @ ..] => {
            if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
                remove(&mut entry.value, rest);
            }
        }
    }
}

/// Tags of the Compose program about the files before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// `!reset`: the key is gone, here and there.
    Reset,
    /// `!override`: the key is not merged but replaced.
    Override,
}

/// What a node costs once everything in it is written out.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    nodes: usize,
    bytes: usize,
    depth: usize,
}

#[derive(Default)]
struct Tree {
    open: Vec<Frame>,
    anchors: BTreeMap<usize, (Node, Weight)>,
    spent: Weight,
    twice: Vec<(Spot, String)>,
    cuts: Vec<(Cut, Vec<String>)>,
    done: Option<Node>,
}

/// A list or mapping whose end has not come yet.
struct Frame {
    line: Spot,
    anchor: usize,
    weight: Weight,
    holds: Holds,
}

enum Holds {
    List(Vec<Node>),
    Map(Mapping),
}

#[derive(Default)]
struct Mapping {
    entries: Vec<Entry>,
    /// Where the entry of each key stands.
    keys: BTreeMap<String, usize>,
    key: Option<Key>,
    merge: Option<Node>,
}

struct Key {
    text: String,
    line: Spot,
    is_merge: bool,
}

impl Tree {
    fn take(&mut self, event: Event<'_>, line: Spot) -> Result<(), Unreadable> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain
                    && tag.as_ref().is_none_or(|tag| cut(tag).is_some());
                self.tagged(tag.as_deref(), line)?;
                self.scalar(text, plain, anchor, line)
            }
            Event::Alias(anchor) => self.alias(anchor, line),
            Event::SequenceStart(_, anchor, tag) => {
                self.tagged(tag.as_deref(), line)?;
                self.begin(Holds::List(Vec::new()), anchor, line)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.tagged(tag.as_deref(), line)?;
                self.begin(Holds::Map(Mapping::default()), anchor, line)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::DocumentStart(..) if self.done.is_some() => {
                Err(Unreadable::at(line, "has a second document; give each stack its own file"))
            }
            Event::UnresolvedAlias(_) => Err(Unreadable::at(line, "refers to an unknown anchor")),
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::Anchor(..)
            | _ => Ok(()),
        }
    }

    /// Takes note of a tag. Those about earlier files stand on keys of mappings.
    fn tagged(&mut self, tag: Option<&Tag>, line: Spot) -> Result<(), Unreadable> {
        let Some(cut) = tag.and_then(cut) else { return known_tag(tag, line) };
        let way: Option<Vec<String>> = self
            .open
            .iter()
            .map(|frame| match &frame.holds {
                Holds::Map(Mapping { key: Some(key), .. }) if !key.is_merge => {
                    Some(key.text.clone())
                }
                Holds::Map(_) | Holds::List(_) => None,
            })
            .collect();
        let Some(way) = way.filter(|way| !way.is_empty()) else {
            let why = "has the tag !reset or !override on what is not the value of a key";
            return Err(Unreadable::at(line, why));
        };
        self.cuts.push((cut, way));
        Ok(())
    }

    /// Pays for `weight` more before anything is made of it.
    fn pay(&mut self, weight: Weight, line: Spot) -> Result<(), Unreadable> {
        self.spent.nodes = self.spent.nodes.saturating_add(weight.nodes);
        self.spent.bytes = self.spent.bytes.saturating_add(weight.bytes);
        if self.spent.nodes > NODES {
            let why = format!("unfolds to more than {NODES} values; a stack needs far fewer");
            return Err(Unreadable::at(line, why));
        }
        if self.spent.bytes > TOTAL_BYTES {
            let why = format!("unfolds to more than {TOTAL_BYTES} bytes of text");
            return Err(Unreadable::at(line, why));
        }
        if self.open.len().saturating_add(weight.depth) > DEPTH {
            return Err(Unreadable::at(line, format!("is nested more than {DEPTH} levels deep")));
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        plain: bool,
        anchor: usize,
        line: Spot,
    ) -> Result<(), Unreadable> {
        if text.len() > SCALAR_BYTES {
            let why = format!("has a text of more than {SCALAR_BYTES} bytes");
            return Err(Unreadable::at(line, why));
        }
        if let Some(found) =
            text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
        {
            return Err(Unreadable::at(line, format!("has the control character {found:?} in it")));
        }
        let weight = Weight { nodes: 1, bytes: text.len(), depth: 0 };
        self.pay(weight, line)?;
        let is_null = plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
        if anchor == 0
            && let Some(Frame { holds: Holds::Map(map), .. }) = self.open.last_mut()
            && map.key.is_none()
            && plain
            && text == "<<"
        {
            map.key = Some(Key { text: text.into_owned(), line, is_merge: true });
            return Ok(());
        }
        let value = if is_null {
            Value::Null
        } else {
            Value::Scalar(Scalar { text: text.into_owned(), filled_in: false })
        };
        self.finish(Node { line, value }, anchor, weight)
    }

    fn alias(&mut self, anchor: usize, line: Spot) -> Result<(), Unreadable> {
        let Some((_, weight)) = self.anchors.get(&anchor) else {
            return Err(Unreadable::at(line, "refers to something it is itself a part of"));
        };
        let weight = *weight;
        self.pay(weight, line)?;
        let copy = self.anchors.get(&anchor).map(|(node, _)| node.clone());
        match copy {
            Some(node) => self.finish(node, 0, weight),
            None => Err(Unreadable::at(line, "refers to an unknown anchor")),
        }
    }

    fn begin(&mut self, holds: Holds, anchor: usize, line: Spot) -> Result<(), Unreadable> {
        let weight = Weight { nodes: 1, bytes: 0, depth: 1 };
        self.pay(weight, line)?;
        self.open.push(Frame { line, anchor, weight, holds });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Unreadable> {
        let Some(frame) = self.open.pop() else {
            return Err(Unreadable::at(Spot::default(), "ends more than it began"));
        };
        let value = match frame.holds {
            Holds::List(items) => Value::List(items),
            Holds::Map(map) => Value::Map(map.resolved()?),
        };
        self.finish(Node { line: frame.line, value }, frame.anchor, frame.weight)
    }

    /// Puts a whole node where it belongs.
    fn finish(&mut self, node: Node, anchor: usize, weight: Weight) -> Result<(), Unreadable> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), weight));
        }
        let Some(frame) = self.open.last_mut() else {
            self.done = Some(node);
            return Ok(());
        };
        frame.weight.nodes = frame.weight.nodes.saturating_add(weight.nodes);
        frame.weight.bytes = frame.weight.bytes.saturating_add(weight.bytes);
        frame.weight.depth = frame.weight.depth.max(weight.depth.saturating_add(1));
        match &mut frame.holds {
            Holds::List(items) => items.push(node),
            Holds::Map(map) => self.twice.extend(map.put(node)?),
        }
        Ok(())
    }
}

impl Mapping {
    /// A key, or what stands under the key that came last; says which key that was if it had come
    /// before.
    fn put(&mut self, node: Node) -> Result<Option<(Spot, String)>, Unreadable> {
        let Some(key) = self.key.take() else {
            let Value::Scalar(Scalar { text, .. }) = node.value else {
                return Err(Unreadable::at(node.line, "has a key that is not a text"));
            };
            if text.len() > KEY_BYTES {
                let why = format!("has a key of more than {KEY_BYTES} bytes");
                return Err(Unreadable::at(node.line, why));
            }
            self.key = Some(Key { text, line: node.line, is_merge: false });
            return Ok(None);
        };
        if key.is_merge {
            if self.merge.replace(node).is_some() {
                return Err(Unreadable::at(key.line, "has '<<' twice in one mapping"));
            }
            return Ok(None);
        }
        let entry = Entry { key: key.text.clone(), line: key.line, value: node };
        let earlier = self.keys.get(&key.text).and_then(|at| self.entries.get_mut(*at));
        if let Some(earlier) = earlier {
            *earlier = entry;
            return Ok(Some((key.line, key.text)));
        }
        self.keys.insert(key.text, self.entries.len());
        self.entries.push(entry);
        Ok(None)
    }

    /// Its entries with those it merges: its own win, then those of the earlier source.
    fn resolved(mut self) -> Result<Vec<Entry>, Unreadable> {
        let Some(merge) = self.merge.take() else {
            return Ok(self.entries);
        };
        let line = merge.line;
        let sources = match merge.value {
            Value::Map(_) => vec![merge],
            Value::List(sources) => sources,
            Value::Null | Value::Scalar(_) => Vec::new(),
        };
        let maps: Option<Vec<_>> = sources
            .into_iter()
            .map(|source| match source.value {
                Value::Map(entries) => Some(entries),
                Value::Null | Value::Scalar(_) | Value::List(_) => None,
            })
            .collect();
        let Some(maps) = maps.filter(|maps| !maps.is_empty()) else {
            return Err(Unreadable::at(line, "merges with '<<' what is not a mapping"));
        };
        for entry in maps.into_iter().flatten() {
            if !self.keys.contains_key(&entry.key) {
                self.keys.insert(entry.key.clone(), self.entries.len());
                self.entries.push(entry);
            }
        }
        Ok(self.entries)
    }
}

fn cut(tag: &Tag) -> Option<Cut> {
    match &*tag.original() {
        "!reset" => Some(Cut::Reset),
        "!override" => Some(Cut::Override),
        _ => None,
    }
}

/// Tags change what a value is, some to anything at all. Those that only name what is there anyway
/// are let through.
fn known_tag(tag: Option<&Tag>, line: Spot) -> Result<(), Unreadable> {
    let Some(tag) = tag else {
        return Ok(());
    };
    if matches!(tag.core_suffix(), Some("str" | "map" | "seq" | "int" | "float" | "bool")) {
        return Ok(());
    }
    let why = format!("has the tag \"{}\", which is not read", shown(&tag.original()));
    Err(Unreadable::at(line, why))
}
