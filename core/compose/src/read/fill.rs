//! Variables filled in wherever a value stands, before any value is looked at.
//!
//! Keys are taken as they are, and so is what only holds anchors (`x-…` of the file itself): its
//! copies are filled in where they are used.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Place;
use crate::interpolate;
use crate::limits::TOTAL_BYTES;
use crate::yaml::{Node, Scalar, Value};

/// Fills in all of the file, and says which variables were missing; notes in `asked` which it names.
pub(crate) fn fill(
    at: &Place<'_>,
    node: &mut Node,
    variables: &BTreeMap<String, String>,
    asked: &mut BTreeSet<String>,
) {
    let mut filler = Filler { variables, asked, bytes: 0, is_full: false };
    let Value::Map(entries) = &mut node.value else { return };
    for entry in entries.iter_mut().filter(|entry| !entry.key.starts_with("x-")) {
        let here = at.key(&entry.key, entry.line);
        filler.node(&here, &mut entry.value);
    }
}

struct Filler<'a> {
    variables: &'a BTreeMap<String, String>,
    asked: &'a mut BTreeSet<String>,
    /// Bytes that came from variables.
    bytes: usize,
    is_full: bool,
}

impl Filler<'_> {
    fn node(&mut self, at: &Place<'_>, node: &mut Node) {
        match &mut node.value {
            Value::Null => {}
            Value::Scalar(scalar) => self.scalar(at, scalar),
            Value::List(items) => {
                for (nth, item) in items.iter_mut().enumerate() {
                    let here = at.item(nth, item.line);
                    self.node(&here, item);
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    let here = at.key(&entry.key, entry.line);
                    self.node(&here, &mut entry.value);
                }
            }
        }
    }

    fn scalar(&mut self, at: &Place<'_>, scalar: &mut Scalar) {
        if self.is_full || !scalar.text.contains('$') {
            return;
        }
        let filled = match interpolate::fill(&scalar.text, self.variables) {
            Ok(filled) => filled,
            Err(why) => {
                at.refused(why);
                return;
            }
        };
        self.asked.extend(filled.asked);
        for name in &filled.missing {
            at.changed(format!("the variable {name} is not given; it is taken as empty"));
        }
        self.bytes = self.bytes.saturating_add(filled.text.len());
        if self.bytes > TOTAL_BYTES {
            self.is_full = true;
            let why = format!("the file grows by more than {TOTAL_BYTES} bytes by its variables");
            at.refused(why);
            return;
        }
        *scalar = Scalar { text: filled.text, filled_in: filled.used };
    }
}
