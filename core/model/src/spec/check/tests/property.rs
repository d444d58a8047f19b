//! Properties of single texts, over anything proptest comes up with.

use std::path::{Component, Path};

use proptest::prelude::*;

use super::*;
use crate::spec::draft::{BindDraft, VolumeDraft};

proptest! {
    /// A path that is accepted, joined to a root as a relative one, stays under the root.
    #[test]
    fn an_accepted_path_stays_where_it_is_put(text in "/?[a.:,/\\PC\0]{0,24}") {
        let mut draft = container_draft();
        container(&mut draft).volumes = vec![BindDraft {
            host_path: text.clone(),
            container_path: format!("/in{text}"),
            read_only: true,
        }];
        if let Ok(spec) = check(&draft) {
            let Kind::Container(container) = spec.kind else { panic!("not a container") };
            for path in [&container.binds[0].host_path, &container.binds[0].container_path] {
                prop_assert!(path.starts_with('/') && !path.contains('\0'));
                let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
                prop_assert!(Path::new(&**path).components().all(plain));
            }
        }
    }

    /// A name that is accepted is one plain component of a path and no option.
    #[test]
    fn an_accepted_name_is_one_component(text in "[-a-zA-Z0-9._/\\PC\0]{0,12}") {
        let mut draft = container_draft();
        container(&mut draft).managed_volumes = vec![VolumeDraft {
            name: text.clone(),
            size_gb: 1,
            mount_path: "/x".into(),
            ..VolumeDraft::default()
        }];
        if check(&draft).is_ok() {
            let joined = Path::new("/root").join(&text);
            prop_assert_eq!(joined.parent(), Some(Path::new("/root")));
            prop_assert!(!text.starts_with('-') && !text.contains('\0'));
        }
    }

    /// An image that is accepted is no option and has nothing a shell or terminal would act on.
    #[test]
    fn an_accepted_image_is_harmless(text in "[-a-zA-Z0-9._/:@\\PC\0]{0,40}") {
        let mut draft = container_draft();
        container(&mut draft).image = text.clone();
        if check(&draft).is_ok() {
            let known = |b: u8| b.is_ascii_alphanumeric() || b"._-/:@[]".contains(&b);
            prop_assert!(text.bytes().all(known) && !text.starts_with('-'));
        }
    }
}
