//! `/bindings/<name>`

use std::sync::Arc;

use persys_model::entry::{Binding, Subject};
use persys_model::id::{EntryName, SubjectName};
use serde::{Deserialize, Serialize};

use super::scope::{RoleShape, ScopeShape};
use crate::record::{Record, VERSION, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BindingShape {
    v: u32,
    name: Arc<str>,
    subject: SubjectShape,
    role: RoleShape,
    scope: ScopeShape,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SubjectShape {
    User(Arc<str>),
    Group(Arc<str>),
}

impl Record for Binding {
    type Shape = BindingShape;

    fn shape(&self) -> BindingShape {
        let Self { name, subject, role, scope } = self;
        BindingShape {
            v: VERSION,
            name: Arc::from(name.as_str()),
            subject: match subject {
                Subject::User(user) => SubjectShape::User(Arc::from(user.as_str())),
                Subject::Group(group) => SubjectShape::Group(Arc::from(group.as_str())),
            },
            role: (*role).into(),
            scope: scope.into(),
        }
    }

    fn version(shape: &BindingShape) -> u32 {
        shape.v
    }

    fn read(shape: BindingShape) -> Result<Self, String> {
        Ok(Self {
            name: name("name", &shape.name, EntryName::new)?,
            subject: match shape.subject {
                SubjectShape::User(text) => Subject::User(name("user", &text, SubjectName::new)?),
                SubjectShape::Group(text) => {
                    Subject::Group(name("group", &text, SubjectName::new)?)
                }
            },
            role: shape.role.into(),
            scope: shape.scope.read()?,
        })
    }
}
