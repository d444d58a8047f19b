//! Paths of whoever types: of the folder of the project, of their home, or absolute.
//!
//! One way to write each: `./a/b`, `../a`, `~/a`, `/a`, and `.` for the folder itself.

/// `path` as it is seen from `folder`.
pub(super) fn join(folder: &str, path: &str) -> String {
    if path.starts_with(['/', '~']) {
        return cleaned(path);
    }
    cleaned(&format!("{folder}/{path}"))
}

/// The folder a file is in.
pub(super) fn folder_of(file: &str) -> String {
    match file.rsplit_once('/') {
        Some(("", _)) => "/".to_owned(),
        Some((folder, _)) => cleaned(folder),
        None => ".".to_owned(),
    }
}

fn cleaned(path: &str) -> String {
    let (start, rest) = if let Some(rest) = path.strip_prefix('/') {
        ("/", rest)
    } else if let Some(rest) = path.strip_prefix('~') {
        ("~", rest)
    } else {
        (".", path)
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if start == "/" => {}
            part => parts.push(part),
        }
    }
    let inner = parts.join("/");
    match (start, inner.as_str()) {
        (start, "") => start.to_owned(),
        ("/", inner) => format!("/{inner}"),
        (".", inner) if inner.starts_with("..") && parts.first() == Some(&"..") => inner.to_owned(),
        (start, inner) => format!("{start}/{inner}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_in_one_way() {
        for (folder, path, expected) in [
            (".", "a", "./a"),
            (".", "./a//b/", "./a/b"),
            (".", ".", "."),
            (".", "", "."),
            (".", "..", ".."),
            (".", "../a/../b", "../b"),
            (".", "..a", "./..a"),
            ("./sub", "../x", "./x"),
            ("./sub", "../../x", "../x"),
            ("../other", "x", "../other/x"),
            ("./sub", "/abs/../x", "/x"),
            ("./sub", "/../x", "/x"),
            ("./sub", "~/x", "~/x"),
            ("~/a", "b", "~/a/b"),
            ("/a", "b", "/a/b"),
            ("/", "b", "/b"),
        ] {
            assert_eq!(join(folder, path), expected, "{folder} {path}");
        }
        for (file, folder) in
            [("./a/b.yaml", "./a"), ("./b.yaml", "."), ("/b.yaml", "/"), ("../b.yaml", "..")]
        {
            assert_eq!(folder_of(file), folder);
        }
    }
}
