//! Where something stands in a document: RFC 6901 pointers, and the paths that people read.

use super::shown;

/// The place of a field inside the place `parent`.
pub(crate) fn field(parent: &str, name: &str) -> String {
    let name = shown(name).replace('~', "~0").replace('/', "~1");
    format!("{parent}/{name}")
}

/// The place of an item inside the place `parent`.
pub(crate) fn item(parent: &str, index: usize) -> String {
    format!("{parent}/{index}")
}

/// `/waivers/0/expires` as people write it: `waivers[0].expires`.
pub(crate) fn as_path(pointer: &str) -> String {
    let mut path = String::new();
    for token in pointer.split('/').skip(1) {
        if !path.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit()) && !token.is_empty()
        {
            path.push('[');
            path.push_str(token);
            path.push(']');
            continue;
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&token.replace("~1", "/").replace("~0", "~"));
    }
    if path.is_empty() {
        path.push_str("the document");
    }
    path
}

/// `waivers[0].expires`, as policies name their fields, as a pointer.
pub(crate) fn of_path(path: &str) -> String {
    let mut pointer = String::new();
    for part in path.split('.') {
        let (name, indices) = match part.find('[').map(|at| part.split_at(at)) {
            Some((name, indices)) if is_indices(indices) => (name, indices),
            _ => (part, ""),
        };
        pointer = field(&pointer, if name == "\"\"" { "" } else { name });
        for index in indices.split(['[', ']']).filter(|index| !index.is_empty()) {
            pointer.push('/');
            pointer.push_str(index);
        }
    }
    pointer
}

fn is_indices(text: &str) -> bool {
    text.ends_with(']') && text.bytes().all(|byte| matches!(byte, b'[' | b']' | b'0'..=b'9'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_pointers_and_pointers_paths() {
        let cases = [
            ("maxAttempts", "/maxAttempts"),
            ("budget.ratio", "/budget/ratio"),
            ("waivers[0].expires", "/waivers/0/expires"),
            ("scheduleMs[12]", "/scheduleMs/12"),
            ("a/b~c", "/a~1b~0c"),
        ];
        for (path, pointer) in cases {
            assert_eq!(of_path(path), pointer);
            assert_eq!(as_path(pointer), path);
        }
        assert_eq!(of_path("odd[name"), "/odd[name");
        assert_eq!(as_path(""), "the document");
        assert_eq!(as_path("/3/targetUrl"), "3.targetUrl");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(field("", &"n".repeat(1_000)).chars().count(), 62);
    }
}
