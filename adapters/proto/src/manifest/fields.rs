//! An object that is read key by key until nothing is left.

use std::cell::RefCell;
use std::collections::BTreeMap;

use persys_model::fault::Faults;
use serde_json::{Map, Value};

/// An object and where it stands. What is not taken out of it is an unknown key.
pub(super) struct Fields<'a> {
    faults: &'a RefCell<Faults>,
    path: String,
    left: Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        faults: &'a RefCell<Faults>,
        path: impl Into<String>,
        object: Map<String, Value>,
    ) -> Self {
        Self { faults, path: path.into(), left: object }
    }

    fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn fault(&self, key: &str, problem: impl Into<String>) {
        self.faults.borrow_mut().push(self.at(key), problem);
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.left.remove(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => {
                self.fault(key, "must be a text");
                None
            }
        }
    }

    pub(super) fn number(&mut self, key: &str) -> Option<i64> {
        let number = self.take(key)?.as_i64();
        if number.is_none() {
            self.fault(key, "must be a whole number");
        }
        number
    }

    pub(super) fn flag(&mut self, key: &str) -> bool {
        let Some(value) = self.take(key) else { return false };
        value.as_bool().unwrap_or_else(|| {
            self.fault(key, "must be true or false");
            false
        })
    }

    pub(super) fn texts(&mut self, key: &str) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        match self.take(key) {
            None => {}
            Some(Value::Object(object)) => {
                for (name, value) in object {
                    if let Value::String(text) = value {
                        texts.insert(name, text);
                    } else {
                        self.fault(&format!("{key}.{name}"), "must be a text; put it in quotes");
                    }
                }
            }
            Some(_) => self.fault(key, "must be an object of texts"),
        }
        texts
    }

    pub(super) fn object(&mut self, key: &str) -> Option<Fields<'a>> {
        match self.take(key)? {
            Value::Object(object) => Some(Fields::new(self.faults, self.at(key), object)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::String(_) => {
                self.fault(key, "must be an object");
                None
            }
        }
    }

    pub(super) fn list(&mut self, key: &str) -> Vec<Fields<'a>> {
        let given = match self.take(key) {
            None => return Vec::new(),
            Some(Value::Array(given)) => given,
            Some(_) => {
                self.fault(key, "must be a list");
                return Vec::new();
            }
        };
        let mut list = Vec::new();
        for (nth, value) in given.into_iter().enumerate() {
            let here = format!("{key}[{nth}]");
            if let Value::Object(object) = value {
                list.push(Fields::new(self.faults, self.at(&here), object));
            } else {
                self.fault(&here, "must be an object");
            }
        }
        list
    }

    /// Names what was not taken.
    pub(super) fn finish(self) {
        for key in self.left.keys() {
            self.fault(key, "is not a known key here");
        }
    }
}
