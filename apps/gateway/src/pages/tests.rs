use axum::http::HeaderValue;

use super::*;

fn text(path: &str) -> String {
    String::from_utf8(Files::get(path).unwrap().data.into_owned()).unwrap()
}

fn scripts() -> Vec<(String, String)> {
    let names =
        Files::iter().filter(|path| path.rsplit_once('.').is_some_and(|(_, end)| end == "js"));
    names.map(|path| (path.to_string(), text(&path))).collect()
}

#[test]
fn a_file_is_served_once_and_then_only_asked_about() {
    let first = file(START, &HeaderMap::new());
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(first.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
    let tag = first.headers()[header::ETAG].clone();
    let again = HeaderMap::from_iter([(header::IF_NONE_MATCH, tag)]);
    assert_eq!(file(START, &again).status(), StatusCode::NOT_MODIFIED);
    let other = HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static("\"x\""))]);
    assert_eq!(file(START, &other).status(), StatusCode::OK);
    for none in ["", "js", "js/none.js", "../Cargo.toml"] {
        assert_eq!(file(none, &HeaderMap::new()).status(), StatusCode::NOT_FOUND, "{none}");
    }
}

#[test]
fn every_file_has_a_kind() {
    for path in Files::iter() {
        assert!(kind_of(&path).is_some(), "{path}");
    }
}

#[test]
fn every_module_that_is_asked_for_is_there() {
    let mut imports = 0;
    for (path, script) in scripts() {
        let folder = path.rsplit_once('/').unwrap().0;
        let named = script.lines().filter(|line| line.starts_with("import "));
        for line in named {
            let target = line.split('\'').nth(1).unwrap();
            let mut parts: Vec<_> = folder.split('/').collect();
            for part in target.split('/') {
                match part {
                    "." => {}
                    ".." => drop(parts.pop()),
                    name => parts.push(name),
                }
            }
            imports += 1;
            let wanted = parts.join("/");
            assert!(Files::get(&wanted).is_some(), "{path} asks for {wanted}");
        }
    }
    assert!(imports > 50, "{imports}");
}

/// What is said of workloads becomes text; and nothing comes from elsewhere.
#[test]
fn no_script_makes_markup_of_text_or_loads_from_elsewhere() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "https://",
        "setAttribute('style'",
        "import(",
    ];
    for (path, script) in scripts() {
        for word in forbidden {
            assert!(!script.contains(word), "{path} uses {word}");
        }
    }
    let page = text(START);
    for word in ["https:", "http:", " style=", "<style", " onclick"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn files_are_small_enough_to_be_read() {
    for path in Files::iter() {
        let text = text(&path);
        assert!(text.lines().count() <= 500, "{path}");
        let opens = text.starts_with("// ") || text.starts_with("/* ") || !path.ends_with("js");
        assert!(opens, "{path} opens with its purpose");
    }
}
