//! XML as a tree: written for libvirt, read from libvirt.
//!
//! Nothing here joins texts. A tree is built from names that are fixed in the program and values that
//! come from anywhere, and a library writes it with every value escaped; reading what was written
//! gives the same tree. A value with a character that XML cannot carry is refused, because libvirt
//! would either refuse the whole or read something else.

use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer, XmlVersion};

/// Deepest tree that is read. libvirt's own stay under twenty.
const DEPTH: usize = 64;
/// Longest text that is read.
const BYTES: usize = 16 << 20;

/// One element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Element {
    /// Its name, with its prefix if it has one.
    pub name: String,
    /// Its attributes, in order.
    pub attributes: Vec<(String, String)>,
    /// What is in it, in order.
    pub children: Vec<Element>,
    /// All text directly in it; without the white space around it where it has children.
    pub text: String,
}

/// Why there is no tree, or no text for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// A value has a character that XML cannot carry.
    #[error("{place} has the character {found:?} in it, which a description of a VM cannot hold")]
    Character {
        /// The element, and the attribute if it is one.
        place: String,
        /// The first such character.
        found: char,
    },
    /// It is not XML, or more of it than we read.
    #[error("not readable as XML: {detail}")]
    Unreadable {
        /// Where it ended.
        detail: String,
    },
}

impl Element {
    /// An empty element.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// With an attribute.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "texts and numbers read alike where they stand"
    )]
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push((name.to_owned(), value.to_string()));
        self
    }

    /// With an element in it.
    #[must_use]
    pub fn holding(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    /// With elements in it.
    #[must_use]
    pub fn holding_all(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }

    /// With text in it.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "texts and numbers read alike where they stand"
    )]
    pub fn saying(mut self, text: impl ToString) -> Self {
        self.text = text.to_string();
        self
    }

    /// The first element of that name in it.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// All elements of that name in it.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The element at the end of a path of names, first of each.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |element, name| element.child(name))
    }

    /// The value of an attribute.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// As text.
    pub fn write(&self) -> Result<String, XmlError> {
        let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
        self.write_into(&mut writer)?;
        String::from_utf8(writer.into_inner()).map_err(unreadable)
    }

    fn write_into(&self, writer: &mut Writer<Vec<u8>>) -> Result<(), XmlError> {
        let mut start = BytesStart::new(self.name.as_str());
        for (key, value) in &self.attributes {
            carried(value, false, || format!("{key} of <{}>", self.name))?;
            start.push_attribute((key.as_str(), value.as_str()));
        }
        carried(&self.text, true, || format!("<{}>", self.name))?;
        if self.children.is_empty() && self.text.is_empty() {
            return writer.write_event(Event::Empty(start)).map_err(unreadable);
        }
        writer.write_event(Event::Start(start)).map_err(unreadable)?;
        if !self.text.is_empty() {
            writer.write_event(Event::Text(BytesText::new(&self.text))).map_err(unreadable)?;
        }
        for child in &self.children {
            child.write_into(writer)?;
        }
        let end = BytesEnd::new(self.name.as_str());
        writer.write_event(Event::End(end)).map_err(unreadable)
    }

    /// From text. Comments and instructions are passed over; a document type is refused, as the
    /// entities it could define are.
    pub fn read(text: &str) -> Result<Self, XmlError> {
        if text.len() > BYTES {
            return Err(unreadable(format!("more than {BYTES} bytes")));
        }
        let mut reader = Reader::from_str(text);
        let mut open: Vec<Self> = Vec::new();
        loop {
            let done = match reader.read_event().map_err(unreadable)? {
                Event::Start(start) => {
                    if open.len() >= DEPTH {
                        return Err(unreadable(format!("more than {DEPTH} elements deep")));
                    }
                    open.push(opened(&start)?);
                    None
                }
                Event::Empty(start) => Some(opened(&start)?),
                // The reader has seen to it that the names match.
                Event::End(_) => open.pop().map(Self::tidied),
                Event::Text(text) => {
                    add_text(&mut open, &text.xml10_content())?;
                    None
                }
                Event::CData(text) => {
                    add_text(&mut open, &text.xml10_content())?;
                    None
                }
                Event::GeneralRef(name) => {
                    let known = match name.resolve_char_ref().map_err(unreadable)? {
                        Some(found) => Some(found.to_string()),
                        None => resolve_xml_entity(&name.xml10_content()).map(str::to_owned),
                    };
                    let text = known.ok_or_else(|| unreadable("an entity nobody defined"))?;
                    add_text(&mut open, &text)?;
                    None
                }
                Event::DocType(_) => return Err(unreadable("it has a document type")),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => None,
                Event::Eof => return Err(unreadable("it ends too early")),
            };
            let Some(done) = done else { continue };
            match open.last_mut() {
                Some(parent) => parent.children.push(done),
                None => return Ok(done),
            }
        }
    }

    /// Without the indentation between its children.
    fn tidied(mut self) -> Self {
        if !self.children.is_empty() {
            self.text = self.text.trim().to_owned();
        }
        self
    }
}

fn opened(start: &BytesStart<'_>) -> Result<Element, XmlError> {
    let mut element = Element { name: start.name().as_ref().to_owned(), ..Element::default() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(unreadable)?;
        let value = attribute.normalized_value(XmlVersion::Explicit1_0).map_err(unreadable)?;
        element.attributes.push((attribute.key.as_ref().to_owned(), value.into_owned()));
    }
    Ok(element)
}

fn add_text(open: &mut [Element], text: &str) -> Result<(), XmlError> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(unreadable("text outside of every element")),
    }
    Ok(())
}

/// Refuses what XML 1.0 has no way to write, or would hand on changed. In text a line may end; in an
/// attribute a reader makes a space of that.
fn carried(value: &str, is_text: bool, place: impl Fn() -> String) -> Result<(), XmlError> {
    let bad = |c: char| {
        let kept = is_text && matches!(c, '\n' | '\t');
        (c.is_control() && !kept) || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    match value.chars().find(|c| bad(*c)) {
        Some(found) => Err(XmlError::Character { place: place(), found }),
        None => Ok(()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn unreadable(detail: impl ToString) -> XmlError {
    XmlError::Unreadable { detail: detail.to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_stay_values() {
        let hostile = "a<b>&\"'</name>]]><!--<?x?>&lt;\u{e9}";
        let tree = Element::new("domain")
            .with("type", hostile)
            .holding(Element::new("name").saying(hostile))
            .holding(Element::new("empty"));
        let text = tree.write().unwrap();
        assert_eq!(Element::read(&text).unwrap(), tree, "{text}");
        assert_eq!(text.matches("<name>").count(), 1, "{text}");
    }

    #[test]
    fn what_xml_cannot_carry_is_refused_by_its_place() {
        for found in ['\0', '\u{1b}', '\u{7f}', '\u{85}', '\r', '\u{ffff}'] {
            let tree = Element::new("disk").holding(Element::new("serial").saying(found));
            let error = tree.write().unwrap_err();
            assert_eq!(error, XmlError::Character { place: "<serial>".to_owned(), found });
        }
        let error = Element::new("disk").with("type", "a\nb").write().unwrap_err();
        assert_eq!(error.to_string().split(" has ").next(), Some("type of <disk>"));
        assert!(Element::new("a").saying("one\n\ttwo").write().is_ok());
    }

    #[test]
    fn what_is_not_a_tree_is_an_error() {
        let deep = format!("{}{}", "<a>".repeat(DEPTH + 1), "</a>".repeat(DEPTH + 1));
        for text in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "<a b='1' b='2'/>",
            "<a>&x;</a>",
            "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
            "</a>",
            &deep,
        ] {
            assert!(Element::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn libvirts_own_way_of_writing_is_read() {
        let text = "<?xml version='1.0'?>\n<!-- by hand -->\n<domain id='3'>\n  <name>x &amp; y</name>\n\
                    <os>\n<type arch='x86_64'>hvm</type>\n</os></domain>\n";
        let tree = Element::read(text).unwrap();
        assert_eq!(tree.child("name").unwrap().text, "x & y");
        assert_eq!(tree.at(&["os", "type"]).unwrap().attribute("arch"), Some("x86_64"));
        assert_eq!((tree.text.as_str(), tree.at(&["os", "no"])), ("", None));
    }

    proptest! {
        /// Whatever the values are, reading what was written gives the tree that was written, so no
        /// value became an element, an attribute or another value.
        #[test]
        fn reading_what_was_written_gives_the_same(
            values in prop::collection::vec("\\PC{0,12}|[<>&'\"\\]!\\[/= -]{0,12}", 1..12)
        ) {
            let mut tree = Element::new("domain");
            for (nth, value) in values.iter().enumerate() {
                tree = match nth % 3 {
                    0 => tree.holding(Element::new("name").with("a", value).with("b", "1")),
                    1 => tree.holding(Element::new("title").saying(value)),
                    _ => Element::new("outer").with("v", value).holding(tree),
                };
            }
            match tree.write() {
                Ok(text) => prop_assert_eq!(Element::read(&text).unwrap(), tree),
                Err(XmlError::Character { found, .. }) => {
                    prop_assert!(values.iter().any(|value| value.contains(found)));
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }
}
